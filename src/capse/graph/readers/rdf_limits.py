"""What is refused before pyoxigraph parses it, as it would end the process instead of raising an error."""

from __future__ import annotations

import re
from pathlib import Path

from capse.errors import DataError
from capse.graph.readers.files import open_binary

DEEPEST = 200  # levels; at some thousand pyoxigraph 0.5 overflows the stack

_BRACKETS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|([\[{])|([\]}])', re.DOTALL)  # or a string, which may hold some
_CHUNK = 1 << 20  # bytes
_LONGEST_ENTITY = 2000  # bytes
_WILD_ENTITY = re.compile(rb"<!ENTITY[^>]{0,%d}(?:&|[^>]{%d})" % (_LONGEST_ENTITY, _LONGEST_ENTITY))


def check_depth(path: Path) -> None:
    """Refuse JSON that is nested more than DEEPEST levels deep."""
    depth = 0
    with open_binary(path) as stream:
        for found in _BRACKETS.finditer(stream.read()):
            depth += (found.lastindex == 1) - (found.lastindex == 2)
            if depth > DEEPEST:
                raise DataError(f"{path}: nested more than {DEEPEST} levels deep", "write it flatter")


def check_entities(path: Path) -> None:
    """Refuse XML entities that refer to entities, or are long: a few lines of them can stand for gigabytes."""
    before = b""
    with open_binary(path) as stream:
        while chunk := stream.read(_CHUNK):
            if _WILD_ENTITY.search(before + chunk):
                raise DataError(f"{path}: an XML entity that is long or refers to others", "write its text instead")
            before = (before + chunk)[-3 * _LONGEST_ENTITY :]
