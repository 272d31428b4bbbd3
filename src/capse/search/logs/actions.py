"""Events that are no clicks on a list: what else people did with a document, bound to the list they found it in.

In a log's folder they are `actions.parquet`: impression (the source's id; null: bound to none), user, document, kind,
time. Those bound to a list grade its results; all of them say what users and everybody like. A click is among them only
where no list is known that it came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from math import isfinite
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from capse.arrays import Bools, Float64s, Int64s
from capse.errors import DataError, SettingsError
from capse.runs.settings import Section

ActionKind = Literal["click", "view", "cart", "purchase", "like", "dislike"]
KINDS: tuple[ActionKind, ...] = get_args(ActionKind)
FILE = "actions.parquet"
SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("impression", "user", "document", "kind")] + [("time", pa.int64())]
)


@dataclass(frozen=True)
class EventWeights(Section):
    """What a result is worth to its list by what its user did with it: the highest weight counts, a dislike against."""

    click: float = 1.0  # a satisfied one
    view: float = 0.5  # seen at length, without a click
    like: float = 2.0  # said to be liked
    cart: float = 3.0  # put into the cart
    purchase: float = 5.0  # bought
    dislike: float = 1.0  # counts against the result, whatever else was done

    def __post_init__(self) -> None:
        for one in fields(self):
            weight = getattr(self, one.name)
            if not isfinite(weight) or weight < 0:
                raise SettingsError(f"events.{one.name} is {weight}", "write a weight that is a number, 0 or more")
        if not self.click:
            raise SettingsError("events.click is 0", "write a weight above 0: lists are judged by their clicks")


def _none() -> Int64s:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class Actions:
    """The events of a log (a,), ascending in time."""

    kind: Int64s = field(default_factory=_none)  # place in KINDS
    user: Int64s = field(default_factory=_none)  # -1: one who never asked
    document: Int64s = field(default_factory=_none)
    row: Int64s = field(default_factory=_none)  # the result; -1: bound to none
    time: Int64s = field(default_factory=_none)  # microseconds since 1970

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def kinds(self) -> tuple[ActionKind, ...]:
        """Those that there are."""
        return tuple(kind for place, kind in enumerate(KINDS) if (self.kind == place).any())

    def where(self, chosen: Bools) -> Actions:
        return Actions(*(getattr(self, one.name)[chosen] for one in fields(self)))

    def with_rows(self, places: Int64s) -> Actions:
        """With the results renumbered; those of a result that is gone (-1) and those of none are left out."""
        rows = np.where(self.row >= 0, places[self.row], -1)
        return replace(self, row=rows).where(rows >= 0)

    def gains(self, satisfied: Bools, weights: EventWeights) -> Float64s:
        """(m,) what each result is worth, given which have a satisfied click."""
        gains = np.where(satisfied, weights.click, 0.0)
        bound = self.row >= 0
        worth = np.array([0.0 if kind == "dislike" else getattr(weights, kind) for kind in KINDS])
        np.maximum.at(gains, self.row[bound], worth[self.kind[bound]])
        gains[self.row[bound & (self.kind == KINDS.index("dislike"))]] = -weights.dislike
        return gains

    @classmethod
    def load(
        cls,
        log: Path,
        impressions: pa.ChunkedArray,
        users: Sequence[str],
        documents: Sequence[str],
        owner: Int64s,
        document: Int64s,
    ) -> Actions:
        """Those of a log's folder; ``owner`` and ``document`` (m,) are of its results."""
        if not (log / FILE).is_file():
            return cls()
        try:
            table = pq.read_table(log / FILE).cast(SCHEMA)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{log / FILE} is damaged", "ingest the log again") from error
        lists = _places(table["impression"], impressions)
        shown = _places(table["document"], pa.chunked_array([pa.array(documents, pa.string())]))
        found = cls(
            _places(table["kind"], pa.chunked_array([pa.array(KINDS)])),
            _places(table["user"], pa.chunked_array([pa.array(users, pa.string())])),
            shown,
            result_rows(lists, shown, owner, document, len(documents)),
            table["time"].to_numpy().astype(np.int64),
        )
        return found.where(found.document >= 0)


def result_rows(lists: Int64s, shown: Int64s, owner: Int64s, document: Int64s, documents: int) -> Int64s:
    """The result row of each pair of a list and a document; -1 where there is none."""
    span = documents + 1
    keys = owner * span + document
    order = np.argsort(keys, kind="stable")
    wanted = np.where((lists >= 0) & (shown >= 0), lists * span + shown, -1)
    places = np.searchsorted(keys[order], wanted)
    found = np.append(keys[order], -2)[places] == wanted
    return np.where(found, np.append(order, -1)[places], -1).astype(np.int64)


def _places(column: pa.ChunkedArray, of: pa.ChunkedArray) -> Int64s:
    found = pc.index_in(column.combine_chunks(), value_set=of.combine_chunks(), skip_nulls=True)
    return np.asarray(found.fill_null(-1), np.int64)
