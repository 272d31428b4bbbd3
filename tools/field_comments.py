"""A griffe extension: how mkdocstrings reads our docstrings and dataclasses.

A field is explained by the comment at the end of its line, or by the text below it; these become a table of the fields.
Examples stand in docstrings as they are run, without a heading; they become blocks of code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from griffe import Class, Docstring, DocstringParameter, DocstringSectionParameters, Extension, Module, Object

_COMMENT = re.compile(r"  # (?!type:|noqa|fmt:)(.+)$")
_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class FieldComments(Extension):
    """Tables of fields, and examples as code."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = _EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", obj.docstring.value)

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        for found in _classes(pkg):
            if "dataclass" in found.labels:
                found.docstring = found.docstring or Docstring("", parent=found)
                found.docstring.parsed.append(DocstringSectionParameters(_fields(found), title="Fields"))


def _meaning(owner: Class, name: str) -> str:
    """What the code says about a field, in the class or in the nearest base that says something, or ''."""
    for place in (owner, *owner.mro()):
        field = place.members.get(name)
        if field and field.docstring:
            return " ".join(field.docstring.value.split())
        if (
            field
            and field.endlineno
            and (comment := _COMMENT.search(place.lines_collection[place.filepath][field.endlineno - 1]))
        ):
            return comment[1]
    return ""


def _fields(found: Class) -> list[DocstringParameter]:
    """The fields of a dataclass in their order, those of its bases included."""
    return [
        DocstringParameter(
            name=parameter.name,
            annotation=parameter.annotation,
            description=_meaning(found, parameter.name),
            value=None if parameter.default is None else str(parameter.default),
        )
        for parameter in found.parameters
        if parameter.name in found.all_members
    ]


def _classes(parent: Module | Class) -> Iterator[Class]:
    for member in parent.members.values():
        if member.is_alias or not isinstance(member, (Module, Class)):
            continue
        if isinstance(member, Class):
            yield member
        yield from _classes(member)
