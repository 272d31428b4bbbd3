"""The weights of triples: a column of their own beside head, relation and tail."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from capse.arrays import Float32s
from capse.errors import DataError
from capse.graph.readers.rows import Row, Source, table_of

_NAMES = {"weight", "confidence"}
_REMEDY = "give a number from 0 up, or leave the column out with --weight none"
NONE = "none"  # where a column's name is asked for: that no column holds weights


def weight_place(names: Sequence[str], chosen: str | None = None) -> int | None:
    """Which column holds weights: the chosen one, a name or a number from 1; else one that is called so.

    >>> weight_place(["head", "relation", "tail", "Confidence"])
    3
    >>> weight_place(["head", "relation", "tail", "since"], "since"), weight_place(["weight"], "none")
    (3, None)
    """
    if chosen == NONE:
        return None
    if chosen is None:
        return next((place for place, name in enumerate(names) if name.strip().lower() in _NAMES), None)
    if chosen in names:
        return names.index(chosen)
    if chosen.isascii() and chosen.isdigit() and int(chosen) > 0:
        return int(chosen) - 1
    raise DataError(f"there is no column {chosen!r} for weights", f"choose from {', '.join(names)}, or give its number")


def as_weight(where: str, value: object) -> float:
    """A field as a weight: finite, and not below 0.

    >>> as_weight("line 2", "0.5")
    0.5
    """
    try:
        weight = float(str(value))
    except ValueError:
        weight = math.nan
    if not (math.isfinite(weight) and weight >= 0):
        shown = "no weight" if value in (None, "") else f"{str(value)[:40]!r} is no weight"
        raise DataError(f"{where}: {shown}", _REMEDY)
    return weight


def checked_weights(where: str, weights: object, triples: int) -> Float32s:
    """Weights given as numbers, one for each of so many triples.

    >>> checked_weights("train", [1, 0.5], 2)
    array([1. , 0.5], dtype=float32)
    """
    try:
        values = np.asarray(weights, np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{where}: its weights are not numbers", _REMEDY) from None
    if values.shape != (triples,):
        raise DataError(f"{where}: {values.size:,} weights of {triples:,} triples", "give one for each")
    wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(wrong):
        raise DataError(f"{where}, triple {wrong[0] + 1}: {values[wrong[0]]} is no weight", _REMEDY)
    return values.astype(np.float32)


def weighted_source(
    where: object, rows: Iterable[Row], remedy: str, unit: str, header: Sequence[str] = (), required: bool = True
) -> Source:
    """The source of numbered rows of head, relation, tail and weight."""
    weights = array("f")

    def triples() -> Iterator[Row]:
        for number, fields in rows:
            if len(fields) == 4:
                weights.append(as_weight(f"{where}, {unit} {number}", fields[3]))
            yield number, fields[:3]

    table = table_of(where, triples(), remedy, unit, required, keep_repeats=True)
    return Source(table, header=header, weights=np.array(weights, np.float32))
