"""What DuckDB is to make of a file of triples: one row a line, of head, relation and tail, or of what is wrong.

A reading gives the columns problem, head, relation, tail, iri. ``problem`` is empty for a triple; 'name' for a
statement that names an IRI, its relation then being 0 or 1 (for a name that is neither English nor untagged); 'skipped'
for a literal or blank node that was not to be kept; 'comment'; else a reason, and ``head`` then has the line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from capse.errors import DataError, SettingsError
from capse.graph.readers.columnar import is_label_type
from capse.graph.readers.files import LONGEST_LINE, READ_ERRORS, check_compressed, lines, name_parts, read_error
from capse.graph.readers.rows import LONGEST_LABEL, column_order
from capse.graph.readers.weights import weight_place

_RDFS_LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
_IRI = r'<(?:[^<>"{}|^`\\\x00-\x20]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*>'
_BLANK = r'_:[^\s<>"]*[^\s<>".]'
_LITERAL = r'"(?:[^"\\\n\r]|\\.)*"(?:@[A-Za-z]+(?:-[A-Za-z0-9]+)*|\^\^' + _IRI + ")?"
_STATEMENT = rf"^\s*({_IRI}|{_BLANK})\s*({_IRI})\s*({_IRI}|{_BLANK}|{_LITERAL})\s*\.\s*(?:#.*)?$"
_ABSOLUTE = r"^<[A-Za-z][A-Za-z0-9+.\-]*:"
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_SHORT = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}
_COMPRESSIONS = ("", ".gz", ".zst")
SUFFIXES = (".nt", ".tsv", ".txt", ".parquet")


@dataclass(frozen=True)
class Keep:
    """What is kept of statements that are not between two IRIs."""

    literals: bool = False  # as entities, written as in N-Triples: "879"^^<...integer>
    languages: Sequence[str] = field(default_factory=tuple)  # of literals with a tag, these; all if none is named
    blank_nodes: bool = False  # as entities of their file: _:0.b1 is b1 of the first file

    def __post_init__(self) -> None:
        for tag in self.languages:
            if not re.fullmatch("[A-Za-z]+(-[A-Za-z0-9]+)*", tag):
                raise SettingsError(f"{tag!r} is no language tag", "write tags such as en,de")
        if self.languages and not self.literals:
            raise SettingsError("languages are named, and literals are not kept", "keep literals too")

    @classmethod
    def parsed(cls, text: str) -> Keep:
        """What a person writes.

        >>> Keep.parsed("literals:en,de+blank-nodes")
        Keep(literals=True, languages=('en', 'de'), blank_nodes=True)
        """
        literals, blank_nodes = False, False
        languages: Sequence[str] = ()
        for part in filter(None, text.split("+")):
            what, _, tags = part.partition(":")
            if what == "literals":
                literals, languages = True, tuple(filter(None, tags.split(",")))
            elif part == "blank-nodes":
                blank_nodes = True
            else:
                raise SettingsError(f"{part!r} cannot be kept", "choose literals, literals:en,de or blank-nodes")
        return cls(literals, languages, blank_nodes)


def reading_of(path: Path, number: int, keep: Keep) -> str:
    """A query for all of a file, which is the so-many-th of an import."""
    _, suffix, compression = name_parts(path)
    if suffix not in SUFFIXES or compression not in _COMPRESSIONS:
        known = f"{' '.join(SUFFIXES)}, plain or with {' '.join(_COMPRESSIONS[1:])}"
        raise DataError(f"{path}: not read out of core", f"use one of {known}, or import it in memory")
    try:
        with path.open("rb"):
            pass
        check_compressed(path)  # DuckDB reads a damaged one as far as it goes
        if suffix == ".parquet":
            return _of_parquet(path)
        return _of_statements(path, number, keep) if suffix == ".nt" else _of_fields(path)
    except READ_ERRORS as error:
        raise read_error(path, error) from error


def unescaped(text: str) -> str:
    """A text of N-Triples without its escapes.

    >>> unescaped(r"S\\u00e3o\\tPaulo")
    'São\\tPaulo'
    """

    def char(found: re.Match[str]) -> str:
        short, long, other = found.groups()
        return chr(int(short or long, 16)) if short or long else _SHORT.get(other, other)

    return _ESCAPE.sub(char, text)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _lines(path: Path, skip: int = 0) -> str:
    """The lines of a text; those that are not UTF-8 or too long go to DuckDB's own table of rejects."""
    return (
        f"read_csv([{_text(str(path))}], columns={{'line': 'VARCHAR'}}, delim='\\x1f', quote='', escape='', "
        f"header=false, auto_detect=false, ignore_errors=true, store_rejects=true, strict_mode=false, skip={skip}, "
        f"max_line_size={LONGEST_LINE})"
    )


def _of_statements(path: Path, number: int, keep: Keep) -> str:
    parts = f"regexp_extract(line, {_text(_STATEMENT)}, ['s', 'p', 'o'])"
    english = "(NOT regexp_matches(o, '\"@[A-Za-z0-9\\-]+$') OR regexp_matches(o, '\"@en(-[A-Za-z0-9\\-]+)?$'))"
    wanted = "true"
    if keep.languages:
        tags = "|".join(keep.languages)
        wanted = f"(NOT regexp_matches(o, '\"@[A-Za-z0-9\\-]+$') OR regexp_matches(o, '\"@({tags})$'))"
    literal, blank = "starts_with(o, '\"')", "(starts_with(s, '_:') OR starts_with(o, '_:'))"
    dropped = [f"({blank})"] * (not keep.blank_nodes) + [
        literal if not keep.literals else f"({literal} AND NOT {wanted})"
    ]
    absolute = " AND ".join(
        f"(NOT starts_with({part}, '<') OR regexp_matches({part}, {_text(_ABSOLUTE)}))" for part in "spo"
    )
    problem = (
        f"CASE WHEN line IS NULL OR regexp_matches(line, '^\\s*(#.*)?$') THEN 'comment' "
        f"WHEN s = '' THEN 'not a statement of N-Triples' "
        f"WHEN NOT ({absolute}) THEN 'a relative IRI' "
        f"WHEN p = {_text(_RDFS_LABEL)} AND starts_with(s, '<') AND {literal} THEN 'name' "
        f"WHEN {' OR '.join(dropped)} THEN 'skipped' "
        f"WHEN greatest(length(s), length(p), length(o)) > {LONGEST_LABEL} THEN 'too long a label' END"
    )
    told = "problem IS NULL OR problem = 'name'"
    return (
        f"SELECT problem, CASE WHEN {told} THEN {_label('s', number)} WHEN problem IN ('skipped', 'comment') THEN NULL "
        f"ELSE line END AS head, CASE WHEN problem IS NULL THEN {_label('p', number)} "
        f"WHEN problem = 'name' THEN CASE WHEN {english} THEN '0' ELSE '1' END END AS relation, "
        f"CASE WHEN problem IS NULL THEN {_label('o', number)} WHEN problem = 'name' THEN {_name('o')} END AS tail, "
        f"problem IS NULL AS iri FROM (SELECT *, {problem} AS problem FROM (SELECT line, x.s, x.p, x.o "
        f"FROM (SELECT line, {parts} AS x FROM {_lines(path)})))"
    )


def _label(part: str, number: int) -> str:
    """An IRI without its brackets, a blank node with its file's number, a literal as it is written."""
    iri = f"substr({part}, 2, length({part}) - 2)"
    return (
        f"CASE WHEN starts_with({part}, '<') THEN "
        f"CASE WHEN contains({part}, '\\') THEN unescaped({iri}) ELSE {iri} END "
        f"WHEN starts_with({part}, '_:') THEN '_:{number}.' || substr({part}, 3) ELSE {part} END"
    )


def _name(part: str) -> str:
    text = f"regexp_extract({part}, '^\"(.*)\"(@[A-Za-z0-9\\-]+|\\^\\^<.*>)?$', 1)"
    plain = f"CASE WHEN contains({text}, '\\') THEN unescaped({text}) ELSE {text} END"
    return f"trim(regexp_replace({plain}, '\\s+', ' ', 'g'))"


def _of_fields(path: Path) -> str:
    first = next((line.rstrip("\r\n").split("\t") for _, line in lines(path)), [])
    order = column_order(first)
    if order is not None and None in order:
        raise DataError(f"{path}: its header names {', '.join(first)}", "name head, relation and tail")
    if order is not None:
        _check_unweighted(path, first)
    head, relation, tail = order or (0, 1, 2)
    width = len(first) if order else 3
    fields = [f"x[{place + 1}]" for place in (head, relation, tail) if place is not None]
    problem = (
        "CASE WHEN line IS NULL THEN 'a blank line' "
        f"WHEN len(x) <> {width} THEN 'not {width} columns' WHEN {_odd(fields)} END"
    )
    return (
        f"SELECT problem, CASE WHEN problem IS NULL THEN {fields[0]} ELSE line END AS head, {fields[1]} AS relation, "
        f"{fields[2]} AS tail, false AS iri FROM (SELECT *, {problem} AS problem FROM (SELECT line, "
        f"string_split(line, chr(9)) AS x FROM {_lines(path, skip=int(order is not None))}))"
    )


def _check_unweighted(path: Path, names: Sequence[str]) -> None:
    if weight_place(names) is not None:
        raise DataError(f"{path}: weights are not read out of core", "leave their column out, or import it in memory")


def _odd(fields: Sequence[str]) -> str:
    """Arms of a CASE: what is the matter with labels."""
    empty = " OR ".join(f"{name} IS NULL OR {name} = ''" for name in fields)
    long = " OR ".join(f"length({name}) > {LONGEST_LABEL}" for name in fields)
    breaks = " OR ".join(f"regexp_matches({name}, '[\\t\\r\\n]')" for name in fields)
    return (
        f"{empty} THEN 'an empty field' WHEN {long} THEN 'too long a label' "
        f"WHEN {breaks} THEN 'a label with a tab or a line break in it'"
    )


def _of_parquet(path: Path) -> str:
    try:
        schema = pq.read_schema(path)
    except pa.ArrowException as error:
        raise DataError(f"{path}: not a readable Parquet file of triples", "give it text columns") from error
    names = list(schema.names)
    _check_unweighted(path, names)
    order = column_order(names) or (0, 1, 2)
    if None in order or len(names) < 3:
        order = (0, 1, 2)
    if len(names) < 3:
        raise DataError(f"{path}: {len(names)} columns instead of 3", "give it text columns head, relation and tail")
    chosen = [names[place] for place in order if place is not None]
    for name in chosen:
        if [other.lower() for other in names].count(name.lower()) > 1:
            raise DataError(f"{path}: several columns are called {name!r}", "give columns head, relation and tail")
        if not is_label_type(schema.field(name).type):
            raise DataError(
                f"{path}: column {name!r} holds {schema.field(name).type}, not labels", "give it text columns"
            )
    h, r, t = ('"' + name.replace('"', '""') + '"::VARCHAR' for name in chosen)
    problem = f"CASE WHEN {_odd(['h', 'r', 't'])} END"
    return (
        f"SELECT problem, CASE WHEN problem IS NULL THEN h ELSE concat_ws(chr(9), h, r, t) END, r, t, false FROM "
        f"(SELECT *, {problem} AS problem FROM (SELECT {h} AS h, {r} AS r, {t} AS t FROM "
        f"read_parquet([{_text(str(path))}])))"
    )
