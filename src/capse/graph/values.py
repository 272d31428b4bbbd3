"""Numbers and dates that entities have, such as a population or a birthday: kept beside the triples by label.

A graph's values are a table of entity, property and value, sorted, each row once. A date is seconds since 1970, as
times are everywhere. Training can begin with them: see `features` and the setting ``start.values``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from capse.arrays import Float64s
from capse.errors import DataError
from capse.graph.readers.files import READ_ERRORS, lines, name_parts, open_binary
from capse.graph.vocabulary import Vocabulary

COLUMNS = ("entity", "property", "value")
SCHEMA = pa.schema([("entity", pa.string()), ("property", pa.string()), ("value", pa.float64())])
_REMEDY = "begin with a header 'entity<TAB>property<TAB>value', then a number or a date such as 1969-07-20 a line"
_FAR = 3.0  # deviations, beyond which a feature does not go

Value = tuple[str, str, float]  # entity, property and number


def as_number(text: str) -> float | None:
    """A number as it is and a date as seconds since 1970; None for anything else.

    >>> as_number("-1.5"), as_number("1970-01-02"), as_number("1970-01-01T00:00:10Z"), as_number("1971-01")
    (-1.5, 86400.0, 10.0, 31536000.0)
    >>> as_number("nan"), as_number("tall")
    (None, None)
    """
    try:
        number = float(text)
    except ValueError:
        return as_date(text)
    return number if math.isfinite(number) else None


def as_date(text: str) -> float | None:
    """A year, month, day or moment as seconds since 1970; None for anything else. The zone of a day is left out.

    >>> as_date("1971"), as_date("1970-01-02+01:00"), as_date("-0044-03-15")
    (31536000.0, 86400.0, None)
    """
    stated = text.strip()
    if stated[10:11] in ("+", "-", "Z"):  # Python would take the zone for a time
        stated = stated[:10]
    stated += {4: "-01-01", 7: "-01"}.get(len(stated), "")
    try:
        moment = datetime.fromisoformat(stated)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def read_values(path: Path) -> Iterator[Value]:
    """The values of a tab-separated file with a header, or of a Parquet file with these columns."""
    if name_parts(path)[1] == ".parquet":
        try:
            with open_binary(path) as stream:
                table = pq.read_table(stream, columns=list(COLUMNS)).cast(SCHEMA)
        except (*READ_ERRORS, pa.ArrowException, ValueError) as error:
            raise DataError(
                f"{path}: not a readable table of values", "give it columns entity, property, value"
            ) from error
        yield from zip(*(table[name].to_pylist() for name in COLUMNS), strict=True)
        return
    number = 0
    for number, line in lines(path):
        cells = line.rstrip("\r\n").split("\t")
        if len(cells) != 3 or not all(cells):
            raise DataError(f"{path}, line {number}: not an entity, a property and a value", _REMEDY)
        if number == 1:
            if [cell.strip().lower() for cell in cells] != [*COLUMNS]:
                raise DataError(f"{path}, line 1: not the header of a file of values", _REMEDY)
            continue
        value = as_number(cells[2])
        if value is None:
            raise DataError(f"{path}, line {number}: {cells[2][:40]!r} is neither a number nor a date", _REMEDY)
        yield cells[0], cells[1], value
    if not number:
        raise DataError(f"{path}: empty", _REMEDY)


def placed(values: Iterable[Value], entities: Vocabulary) -> tuple[pa.Table | None, int]:
    """The table of values that entities of a graph have, and how many are of others; None where there are none."""
    rows = set(values)
    kept = sorted(row for row in rows if row[0] in entities)
    table = pa.table([list(column) for column in zip(*kept, strict=True)], schema=SCHEMA) if kept else None
    return table, len(rows) - len(kept)


def spread(values: pa.Table | None) -> dict[str, dict[str, float]]:
    """Of each property how many values it has, the least and the largest."""
    if values is None:
        return {}
    found = values.group_by("property").aggregate([("value", "count"), ("value", "min"), ("value", "max")])
    columns = (found[name].to_pylist() for name in ("property", "value_count", "value_min", "value_max"))
    rows = sorted(zip(*columns, strict=True))
    return {name: {"count": count, "least": least, "most": most} for name, count, least, most in rows}


def features(values: pa.Table | None, entities: Vocabulary) -> tuple[list[str], Float64s]:
    """Properties that tell entities apart, and a number (E, P) for each: in deviations from its mean, 0 where unknown.

    Several values of an entity count as their mean; nothing lies farther than 3 deviations from 0.

    >>> vocabulary = Vocabulary.of(["a", "b", "c"])
    >>> table, _ = placed([("a", "age", 1.0), ("c", "age", 3.0), ("a", "legs", 2.0)], vocabulary)
    >>> features(table, vocabulary)
    (['age'], array([[-1.],
           [ 0.],
           [ 1.]]))
    """
    names, columns = [], []
    for name in spread(values):
        assert values is not None
        own = values.filter(pc.equal(values["property"], name)).group_by("entity").aggregate([("value", "mean")])
        numbers = own["value_mean"].to_numpy()
        deviation = numbers.std()
        if deviation > 0:
            column = np.zeros(len(entities))
            places = [entities.id(label) for label in own["entity"].to_pylist()]
            column[places] = np.clip((numbers - numbers.mean()) / deviation, -_FAR, _FAR)
            names.append(name)
            columns.append(column)
    return names, np.stack(columns, axis=1) if columns else np.zeros((len(entities), 0))


def renamed(values: pa.Table | None, before: Sequence[str], after: Sequence[str]) -> pa.Table | None:
    """The same values of entities that have other labels now; ``after`` are these, in the order of ``before``."""
    if values is None:
        return None
    labels = dict(zip(before, after, strict=True))
    entities = [labels[label] for label in values["entity"].to_pylist()]
    return values.set_column(0, "entity", pa.array(entities, pa.string())).sort_by(
        [(name, "ascending") for name in COLUMNS]
    )
