"""Triples from N-Triples and Turtle.

Only statements between two IRIs are triples of a graph. A statement with a literal or a blank node (which has no
identity outside its file) is counted and left out; an `rdfs:label` becomes the name of its subject, an English or
untagged one before others. IRIs are kept in full as labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capse.errors import DataError, MissingExtraError
from capse.graph.files import READ_ERRORS, open_binary, read_error
from capse.graph.rows import Source, table_of

_RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_REMEDY = "write statements between IRIs, as in <http://a> <http://r> <http://b> ."


def read_ntriples(path: Path) -> Source:
    """Triples of an N-Triples file."""
    return _Statements(path, "N_TRIPLES").read()


def read_turtle(path: Path) -> Source:
    """Triples of a Turtle file."""
    return _Statements(path, "TURTLE").read()


class _Statements:
    def __init__(self, path: Path, format_name: str) -> None:
        try:
            import pyoxigraph
        except ImportError as error:
            raise MissingExtraError(f"reading {path}", "rdf") from error
        self._rdf = pyoxigraph
        self._format = getattr(pyoxigraph.RdfFormat, format_name)
        self._path = path
        self._names: dict[str, str] = {}  # English or untagged
        self._foreign_names: dict[str, str] = {}
        self._skipped = 0

    def read(self) -> Source:
        table = table_of(self._path, self._triples(), _REMEDY, unit="statement")
        return Source(table, self._foreign_names | self._names, self._skipped)

    def _triples(self) -> Iterator[tuple[int, list[str]]]:
        named_node = self._rdf.NamedNode
        for number, statement in enumerate(self._parse(), start=1):
            subject, predicate, object_ = statement.subject, statement.predicate.value, statement.object
            if not isinstance(subject, named_node):
                self._skipped += 1
            elif isinstance(object_, named_node):
                yield number, [subject.value, predicate, object_.value]
            elif predicate == _RDFS_LABEL and isinstance(object_, self._rdf.Literal):
                self._keep_name(subject.value, object_)
            else:
                self._skipped += 1

    def _parse(self) -> Iterator[Any]:
        try:
            with open_binary(self._path) as stream:
                yield from self._rdf.parse(input=stream, format=self._format)
        except SyntaxError as error:
            problem = str(error.msg).partition(": ")[2] or error.msg
            raise DataError(f"{self._path}, line {error.lineno}: {problem}", "correct the statement") from error
        except READ_ERRORS as error:
            raise read_error(self._path, error) from error

    def _keep_name(self, label: str, literal: Any) -> None:
        english = literal.language is None or literal.language.split("-")[0] == "en"
        names = self._names if english else self._foreign_names
        if name := " ".join(literal.value.split()):
            names.setdefault(label, name)
