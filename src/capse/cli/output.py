"""What commands print: no control character of a label or of a file's name reaches the terminal."""

from __future__ import annotations

import json
import re
from typing import Any

import typer

# All but tab and line feed; and what turns the direction of the text after it.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""The text with its control characters written out, in JSON's way: ESC is ``\u001b``.

    >>> print(printable("red \x1b[31m alert"))
    red \u001b[31m alert
    """
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def echo(text: object = "", err: bool = False) -> None:
    """Print a line, or lines, on standard output or standard error."""
    typer.echo(printable(str(text)), err=err)


def echo_json(value: Any, indent: int | None = None) -> None:
    """Print a value as JSON on standard output."""
    echo(json.dumps(value, indent=indent, ensure_ascii=False))
