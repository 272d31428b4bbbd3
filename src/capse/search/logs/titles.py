"""Titles that are paths or addresses, taken apart."""

from __future__ import annotations


def path_parts(title: str) -> list[str]:
    """The parts of a title that is a path or an address; any other title is one part.

    >>> path_parts("https://host/docs/api.html"), path_parts("The Analytical Engine")
    (['host', 'docs', 'api.html'], ['The Analytical Engine'])
    """
    if any(space in title for space in " \t\n") and "://" not in title:
        return [title]
    return [part for part in title.split("://")[-1].split("/") if part] or [title]


def site(title: str) -> str:
    """What a document belongs to: the host of its address, the first part of its path; '' for a plain title."""
    parts = path_parts(title)
    return parts[0].lower() if len(parts) > 1 else ""


def folder(title: str) -> str:
    """The path without its last part; '' for a plain title."""
    return "/".join(path_parts(title)[:-1]).lower()


def leaf(title: str) -> str:
    """The last part of the path, without its extension; the whole of a plain title.

    >>> leaf("kge/tests/test_model.py"), leaf("kge/.codecov.yml"), leaf("kge/.gitignore"), leaf("Mr. Babbage")
    ('test_model', '.codecov', '.gitignore', 'Mr. Babbage')
    """
    last = path_parts(title)[-1]
    return last[: len(last) - len(extension(title))]


def extension(title: str) -> str:
    """The ending of the path's last part, dot included; '' where it has none.

    >>> extension("kge/tests/test_model.py"), extension("kge/.gitignore"), extension("Mr. Babbage")
    ('.py', '', '')
    """
    last = path_parts(title)[-1]
    stem, dot, ending = last.rpartition(".")
    return dot + ending if stem and ending.isalnum() and " " not in last else ""
