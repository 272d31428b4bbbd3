"""Rows of three labels: the rule for a label, the names of the columns, and tables of rows.

Every reader ends in the same table: columns head, relation, tail, each dictionary-encoded text in chunks, so that a
triple costs twelve bytes and a label is kept once a chunk.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from capse.arrays import Float32s
from capse.errors import DataError

COLUMNS = ("head", "relation", "tail")
LABEL_TYPE = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema([(column, LABEL_TYPE) for column in COLUMNS])
LONGEST_LABEL = 1 << 16  # characters

Row = tuple[int, Sequence[object]]  # its number, and its fields: text or whole numbers; None where there is nothing
Order = tuple[int | None, int | None, int | None]  # where head, relation and tail stand

_PROPER_NAMES = ({"head", "subject"}, {"relation", "predicate"}, {"tail", "object"})
_OTHER_NAMES = (
    {"h", "s", "source", "src", "from", "start", "node1", "entity1"},
    {"r", "p", "edge", "rel", "relationship", "property", "type"},
    {"t", "o", "target", "dst", "destination", "to", "end", "node2", "entity2"},
)
_BREAKS = "[\t\r\n]"
_CHUNK = 1 << 16  # rows
_FEW = 1 << 15  # rows: so few are kept as they are
_REPEATED = b"repeated"


@dataclass(frozen=True)
class Source:
    """What a file holds: its triples, and what there is to know about them."""

    table: pa.Table
    names: Mapping[str, str] = field(default_factory=dict)  # those that the file gives to labels
    skipped: int = 0  # statements that are no triples
    header: Sequence[str] = ()
    unnamed: bool = False  # whether nobody has said of delimited text that its first line is a triple
    iris: bool = False  # whether its labels are IRIs
    in_named_graphs: int = 0  # statements whose graph's name was left out
    weights: Float32s | None = None  # of the table's rows, where there are any
    values: Sequence[tuple[str, str, float]] = ()  # entity, property and number, of statements with such a literal

    @property
    def repeated(self) -> int:
        """Rows that were left out while the table was made, since they say again what rows before them say."""
        return int((self.table.schema.metadata or {}).get(_REPEATED, 0))


def column_order(names: Sequence[str]) -> Order | None:
    """Where head, relation and tail stand among ``names``, or None if these are not the names of columns.

    All three may go by many names; a query's two columns only by those of triples.

    >>> column_order(["Target", "Source", "Edge", "since"])
    (1, 2, 0)
    >>> column_order(["relation", "head"])
    (1, 0, None)
    >>> column_order(["head", "tail"])
    (0, None, 1)
    >>> column_order(["berlin", "capital of", "germany"])
    """
    lowered = [name.strip().lower() for name in names]
    proper = _places(lowered, _PROPER_NAMES)
    other = _places(lowered, _OTHER_NAMES)
    order = [second if first is None else first for first, second in zip(proper, other, strict=True)]
    head, relation, tail = proper if None in order else order
    if (head is None) + (relation is None) + (tail is None) > 1 or (relation is None and len(names) > 2):
        return None  # without a relation, names of columns are too easily a triple's labels, unless there are but two
    return head, relation, tail


def _places(names: Sequence[str], known: Iterable[set[str]]) -> list[int | None]:
    return [next((index for index, name in enumerate(names) if name in words), None) for words in known]


def fields_of(row: object) -> list[object] | None:
    """The fields of a sequence, or of a mapping that names them; None if ``row`` is neither.

    >>> fields_of({"relation": "in", "head": "berlin"})
    ['berlin', 'in', None]
    >>> fields_of("abc")
    """
    if isinstance(row, Mapping):
        order = column_order([str(name) for name in row])
        values = list(row.values())
        return None if order is None else [None if place is None else values[place] for place in order]
    if isinstance(row, Iterable) and not isinstance(row, (str, bytes, Set)):
        return list(row)
    return None


def as_label(value: object) -> str | None:
    """A field as a label: text as it is, a whole number as its digits, None for nothing (None, NaN, NA).

    >>> as_label("a"), as_label(12), as_label(float("nan"))
    ('a', '12', None)
    """
    if isinstance(value, str):
        return value
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, float | np.floating) and math.isnan(value):
        return None
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(int(value))
    raise DataError(f"{str(value)[:40]} is not a label", "give text or whole numbers")


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


def table_of(
    where: object,
    rows: Iterable[Row],
    remedy: str,
    unit: str = "line",
    required: bool = True,
    *,
    keep_repeats: bool = False,
) -> pa.Table:
    """The plain way to a table: numbered rows of fields, each checked. It defines what the fast ways may accept."""
    batches = _batches(where, rows, remedy, unit)
    table = pa.Table.from_batches(batches, SCHEMA) if keep_repeats else gathered(batches)
    if required and not table.num_rows:
        raise DataError(f"{where}: no triples in it", remedy)
    return table


def _batches(where: object, rows: Iterable[Row], remedy: str, unit: str) -> Iterator[pa.RecordBatch]:
    for chunk in _chunks(rows):
        batch = _ordinary([fields for _, fields in chunk])
        if batch is None:  # the slow way, which says what is wrong or makes labels of numbers
            labels = [checked_labels(f"{where}, {unit} {number}", fields, remedy) for number, fields in chunk]
            batch = _batch(labels)
        yield batch


def gathered(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """A table of batches, each of them freed of what it says again: 3 MB of gzip can hold 80 million equal lines."""
    kept, repeated = [], 0
    for batch in batches:
        once = _without_repeats(batch)
        repeated += batch.num_rows - once.num_rows
        kept.append(once)
    return pa.Table.from_batches(kept, SCHEMA).replace_schema_metadata({_REPEATED: str(repeated)})


def _without_repeats(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The first row of each triple, where that is less than half of a large batch."""
    if batch.num_rows < _FEW:
        return batch
    keys = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        keys = keys * len(column.dictionary) + column.indices.to_numpy()
    ordered = np.sort(keys)
    if 2 * (1 + np.count_nonzero(np.diff(ordered))) > batch.num_rows:
        return batch
    return batch.take(pa.array(np.sort(np.unique(keys, return_index=True)[1])))


def _chunks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The rows in parts; those before an error too, so that the first thing that is wrong is what is said."""
    chunk: list[Row] = []
    try:
        for row in rows:
            chunk.append(row)
            if len(chunk) == _CHUNK:
                yield chunk
                chunk = []
    except DataError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def _ordinary(rows: Sequence[Sequence[object]]) -> pa.RecordBatch | None:
    """The batch of rows of three labels; None if there is anything odd about one."""
    try:
        batch = _batch(rows)
    except (ValueError, TypeError, pa.ArrowException):  # not three, not text, not Unicode
        return None
    return None if looks_odd(batch) else batch


def _batch(rows: Sequence[Sequence[object]]) -> pa.RecordBatch:
    columns = [pa.array(column, pa.string()).dictionary_encode() for column in zip(*rows, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def three_labels(where: str, fields: Sequence[object], remedy: str) -> list[str | None]:
    """Head, relation and tail of a row, None where there is nothing; ``where`` names the row in errors."""
    if not fields or list(fields) == [""]:
        raise DataError(f"{where}: a blank line", f"remove it; {remedy}")
    if len(fields) != 3:
        raise DataError(f"{where}: {len(fields)} column{'s' * (len(fields) > 1)} instead of 3", remedy)
    try:
        return [as_label(field) for field in fields]
    except DataError as error:
        raise DataError(f"{where}: {error.message}", remedy) from error


def checked_labels(where: str, fields: Sequence[object], remedy: str) -> list[str]:
    """Head, relation and tail of a row that must have all three."""
    labels = []
    for column, label in zip(COLUMNS, three_labels(where, fields, remedy), strict=True):
        problem = f"no {column}" if label is None else label_problem(label)
        if problem:
            raise DataError(f"{where}: {problem}", remedy)
        labels.append(str(label))
    return labels
