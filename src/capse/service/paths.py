"""Path parameters that hold any text: slashes, and line breaks, which Starlette's own `path` stops at."""

from __future__ import annotations

from starlette.convertors import Convertor, register_url_convertor


class _AnyText(Convertor[str]):
    regex = r"[\s\S]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


def any_text(name: str) -> str:
    """A parameter of a route's path.

    >>> "/v1/users/" + any_text("user")
    '/v1/users/{user:text}'
    """
    return f"{{{name}:text}}"


register_url_convertor("text", _AnyText())
