"""Triples from N-Triples, Turtle, N-Quads, RDF/XML and JSON-LD.

Only statements between two IRIs are triples of a graph. A number or a date is kept as a value of its subject (see
`capse.graph.values`), and an `rdfs:label` becomes the name of its subject, an English or untagged one before others. A
statement with another literal or a blank node (which has no identity outside its file) is counted and left out. IRIs
are kept in full as labels. Which named graph a statement is in is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from capse.errors import DataError, MissingExtraError
from capse.graph.readers.files import READ_ERRORS, open_binary, read_error
from capse.graph.readers.formats import GraphFormat
from capse.graph.readers.rdf_limits import check_depth, check_entities
from capse.graph.readers.rows import Row, Source, table_of
from capse.graph.values import Value, as_date, as_number

_RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_NUMBERS = {
    *("integer", "decimal", "float", "double", "long", "int", "short", "byte", "unsignedLong", "unsignedInt"),
    *(
        "unsignedShort",
        "unsignedByte",
        "nonNegativeInteger",
        "positiveInteger",
        "nonPositiveInteger",
        "negativeInteger",
    ),
}
_DATES = {"date", "dateTime", "dateTimeStamp", "gYear", "gYearMonth"}
_NO_BASE = "capse-no-base:"  # what a relative IRI is resolved against where the file says nothing, to be met here


class Rdf(GraphFormat):
    """A format that pyoxigraph parses, by the name that it has there."""

    unit = "statement"
    remedy = "write statements between IRIs, as in <http://a> <http://r> <http://b> ."

    def __init__(self, name: str, check: Callable[[Path], None] | None = None) -> None:
        self.name = name
        self.check = check  # refuses what would bring the parser down

    def rows(self, path: Path) -> Iterator[Row]:
        return _Statements(path, self).triples()

    def read(self, path: Path) -> Source:
        statements = _Statements(path, self)
        table = table_of(path, statements.triples(), self.remedy, self.unit)
        return Source(
            table,
            statements.foreign_names | statements.names,
            statements.skipped,
            iris=True,
            in_named_graphs=statements.in_named_graphs,
            values=statements.values,
        )


class _Statements:
    def __init__(self, path: Path, form: Rdf) -> None:
        try:
            import pyoxigraph
        except ImportError as error:
            raise MissingExtraError(f"reading {path}", "rdf") from error
        self._rdf = pyoxigraph
        self._format = getattr(pyoxigraph.RdfFormat, form.name)
        self._check = form.check
        self._path = path
        self.names: dict[str, str] = {}  # English or untagged
        self.foreign_names: dict[str, str] = {}
        self.values: list[Value] = []
        self.skipped = 0
        self.in_named_graphs = 0

    def triples(self) -> Iterator[Row]:
        named_node, default_graph = self._rdf.NamedNode, self._rdf.DefaultGraph()
        for number, statement in enumerate(self._parse(), start=1):
            subject, predicate, object_ = statement.subject, statement.predicate.value, statement.object
            self._refuse_relative(number, subject, statement.predicate, object_)
            self.in_named_graphs += getattr(statement, "graph_name", default_graph) != default_graph
            if not isinstance(subject, named_node):
                self.skipped += 1
            elif isinstance(object_, named_node):
                yield number, [subject.value, predicate, object_.value]
            elif predicate == _RDFS_LABEL and isinstance(object_, self._rdf.Literal):
                self._keep_name(subject.value, object_)
            else:
                self._keep_value(subject.value, predicate, object_)

    def _parse(self) -> Iterator[Any]:
        try:
            if self._check is not None:
                self._check(self._path)
            with open_binary(self._path) as stream:
                yield from self._rdf.parse(input=stream, format=self._format, base_iri=f"{_NO_BASE}/")
        except SyntaxError as error:
            raise self._syntax_error(error) from error
        except READ_ERRORS as error:
            raise read_error(self._path, error) from error

    def _syntax_error(self, error: SyntaxError) -> DataError:
        problem = str(error.msg)
        if "LoadDocumentCallback" in problem:
            return DataError(f"{self._path}: its @context is elsewhere", "write the context itself into the file")
        if error.lineno is None:  # as with RDF/XML, where the parser does not know
            return DataError(f"{self._path}: {problem}", "correct the statement")
        problem = problem.partition(": ")[2] or problem
        return DataError(f"{self._path}, line {error.lineno}: {problem}", "correct the statement")

    def _refuse_relative(self, number: int, *nodes: Any) -> None:
        for node in nodes:
            if isinstance(node, self._rdf.NamedNode) and node.value.startswith(_NO_BASE):
                iri = node.value.removeprefix(_NO_BASE).removeprefix("/")
                raise DataError(
                    f"{self._path}, statement {number}: {iri!r} is a relative IRI",
                    "write IRIs in full, or name their base in the file",
                )

    def _keep_value(self, subject: str, predicate: str, object_: Any) -> None:
        number = None
        if isinstance(object_, self._rdf.Literal):
            kind = object_.datatype.value.removeprefix(_XSD)
            number = (
                as_date(object_.value) if kind in _DATES else as_number(object_.value) if kind in _NUMBERS else None
            )
        if number is None:
            self.skipped += 1
        else:
            self.values.append((subject, predicate, number))

    def _keep_name(self, label: str, literal: Any) -> None:
        english = literal.language is None or literal.language.split("-")[0] == "en"
        names = self.names if english else self.foreign_names
        if name := " ".join(literal.value.split()):
            names.setdefault(label, name)


N_TRIPLES = Rdf("N_TRIPLES")
TURTLE = Rdf("TURTLE")
N_QUADS = Rdf("N_QUADS")
RDF_XML = Rdf("RDF_XML", check_entities)
JSON_LD = Rdf("JSON_LD", check_depth)
