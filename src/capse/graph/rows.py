"""Rows of three labels: the rule for a label, the names of the columns, and tables of rows.

Every reader ends in the same table: columns head, relation, tail, each dictionary-encoded text in chunks, so that a
triple costs twelve bytes and a label is kept once a chunk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from capse.errors import DataError

COLUMNS = ("head", "relation", "tail")
LABEL_TYPE = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema([(column, LABEL_TYPE) for column in COLUMNS])
LONGEST_LABEL = 1 << 16  # characters

_PLACES = {"head": 0, "subject": 0, "relation": 1, "predicate": 1, "tail": 2, "object": 2}
_BREAKS = "[\t\r\n]"
_CHUNK = 1 << 16  # rows


@dataclass(frozen=True)
class Source:
    """What a file holds: its triples, the names it gives to labels, and how many statements are no triples."""

    table: pa.Table
    names: Mapping[str, str] = field(default_factory=dict)
    skipped: int = 0


def column_order(names: Sequence[str]) -> tuple[int, int, int] | None:
    """Where head, relation and tail stand among ``names``, or None if these are not the names of columns.

    >>> column_order(["Subject", "Predicate", "Object"])
    (0, 1, 2)
    >>> column_order(["relation", "head", "tail", "since"])
    (1, 0, 2)
    >>> column_order(["berlin", "capital of", "germany"])
    """
    found = {_PLACES[name.lower()]: index for index, name in enumerate(names) if name.lower() in _PLACES}
    return (found[0], found[1], found[2]) if len(found) == 3 else None


def label_problem(label: str) -> str | None:
    """Why ``label`` cannot stand for an entity or a relation, or None if it can.

    >>> label_problem("")
    'an empty field'
    >>> label_problem("New York")
    """
    if not label:
        return "an empty field"
    if len(label) > LONGEST_LABEL:
        return f"a label of more than {LONGEST_LABEL:,} characters"
    if re.search(_BREAKS, label):
        return "a label with a tab or a line break in it"
    if re.search("[\ud800-\udfff]", label):
        return "a label that is not valid Unicode"
    return None


def looks_odd(block: pa.Table | pa.RecordBatch) -> bool:
    """Whether some label of a block may break the rule: never False if one does."""
    return any(
        chunk.null_count > 0 or _has_odd_label(chunk.dictionary)
        for column in block.columns
        for chunk in (column.chunks if isinstance(column, pa.ChunkedArray) else [column])
    )


def _has_odd_label(labels: pa.Array) -> bool:
    if len(labels) == 0:
        return False
    if labels.null_count:
        return True
    lengths = pc.min_max(pc.utf8_length(labels)).as_py()
    if lengths["min"] == 0 or lengths["max"] > LONGEST_LABEL:
        return True
    return bool(pc.any(pc.match_substring_regex(labels, _BREAKS)).as_py())


def table_of(path: Path, rows: Iterable[tuple[int, Sequence[str]]], remedy: str, unit: str = "line") -> pa.Table:
    """The plain way to a table: numbered rows of fields, each checked. It defines what the fast ways may accept."""
    checked = (_checked(path, number, fields, remedy, unit) for number, fields in rows)
    batches = []
    while chunk := list(islice(checked, _CHUNK)):
        columns = [pa.array(column, pa.string()).dictionary_encode() for column in zip(*chunk, strict=True)]
        batches.append(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
    if not batches:
        raise DataError(f"{path}: no triples in it", remedy)
    return pa.Table.from_batches(batches)


def _checked(path: Path, number: int, fields: Sequence[str], remedy: str, unit: str) -> Sequence[str]:
    where = f"{path}, {unit} {number}"
    if not fields or list(fields) == [""]:
        raise DataError(f"{where}: a blank line", f"remove it; {remedy}")
    if len(fields) != 3:
        raise DataError(f"{where}: {len(fields)} column{'s' * (len(fields) > 1)} instead of 3", remedy)
    for label in fields:
        if problem := label_problem(label):
            raise DataError(f"{where}: {problem}", remedy)
    return fields
