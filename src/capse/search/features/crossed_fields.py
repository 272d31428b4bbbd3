"""Fields of users and requests crossed with fields of items: who clicks what more often than others do.

What a user or a request says is the same for a whole list, so by itself it puts nothing above anything, and trees that
choose one split after the other hardly find what depends on two. So for each pair of such a field and one of items it
is counted how often items that say i were shown to, and clicked by, those who say c. With k clicks on n showings and
smoothed rates r a result has

    log (k_ci + 5) / (e_ci + 5),    e_ci = n_ci r_c r_i / r

0 where i is clicked as often as i and c alone explain. Numbers count by quarters. Training has, of every list, what was
clicked before it; a run takes the counts until its test period along, and they stay until it is trained again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numba
import numpy as np

from capse.arrays import Float64s, Int64s
from capse.search.features.earlier import KnownClicks
from capse.search.logs.field_schema import Scope
from capse.search.logs.field_values import Column, TextSets, rows_of
from capse.search.logs.search_log import SPLITS, SearchLog

QUARTERS = (0.25, 0.5, 0.75)
MOST_OF_ASKERS, MOST_OF_ITEMS = 10, 200  # texts of a field that are counted, the most frequent

Crossed = tuple[Scope, str, str]  # user or request, a field of theirs, and one of items


@dataclass(frozen=True)
class Labels:
    """What the values of a field are counted under: some of its texts, or parts of a range of numbers."""

    texts: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()  # ascending; for numbers

    def __len__(self) -> int:
        return len(self.edges) + 1 if self.edges else len(self.texts)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {text: place for place, text in enumerate(self.texts)}

    @classmethod
    def of(cls, column: Column, most: int) -> Labels:
        """The most frequent texts, or quarters; truths are two parts."""
        if isinstance(column, TextSets):
            return cls(texts=column.frequent(most))
        known = column[~np.isnan(column)]
        edges = [0.5] if np.isin(known, (0, 1)).all() else np.unique(np.quantile(known, QUARTERS)).tolist()
        return cls(edges=tuple(edges))

    def coded(self, column: Column) -> TextSets:
        """Which of the labels each row has; what is none of them is left out."""
        if isinstance(column, TextSets):
            code = np.array([self._places.get(text, -1) for text in column.labels], np.int64)[column.codes]
            owner, count = column.owner, len(column)
        else:
            code = np.where(np.isnan(column), -1, np.searchsorted(self.edges, column, side="right"))
            owner, count = np.arange(len(column)), len(column)
        lengths = np.bincount(owner[code >= 0], minlength=count)
        return TextSets(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), code[code >= 0], self.texts)


@dataclass(frozen=True)
class Crossing:
    """Clicks and showings by what who asks says, and by what an item says."""

    asker: Labels
    item: Labels
    clicked: Int64s  # (labels of the asker, labels of the item)
    shown: Int64s

    @cached_property
    def surprise(self) -> Float64s:
        """How much more often than expected is clicked what was shown, by labels."""
        found, tables = np.empty(self.shown.shape), (self.clicked, self.shown)
        margins = tuple(of.sum(axis) for axis in (1, 0, None) for of in tables)
        for c, i in np.ndindex(*found.shape):
            found[c, i] = _surprise(self.clicked, self.shown, margins, c, i)
        return found

    def column(self, asker: TextSets, item: TextSets) -> Float64s:
        """(r,) of results whose labels these are, as counted until the run's test period; NaN where nothing is said."""
        owner, c, i = _pairs(asker, item)
        total = np.bincount(owner, self.surprise[c, i], len(item))
        count = np.bincount(owner, minlength=len(item))
        return np.asarray(total / np.where(count > 0, count, np.nan), np.float64)

    def before_each(self, asker: Column, item: Column, clicks: KnownClicks) -> Float64s:
        """(m,) of all results of a log, each from what was clicked before its list; columns as for `of`."""
        log = clicks.log
        owner, c, i = _of_results(log, asker, item, (self.asker, self.item))
        starts = np.searchsorted(owner, np.arange(len(log.document) + 1))
        order, found = np.lexsort((clicks.seen, clicks.known)), np.full(len(log.document), np.nan)
        clicked, shown = np.zeros((2, *self.shown.shape), np.int64)
        _count_on(order, log.offsets, clicks.known, clicks.seen, clicks.rows, (starts, c, i), clicked, shown, found)
        return found

    @classmethod
    def of(cls, log: SearchLog, asker: Column, item: Column, labels: tuple[Labels, Labels]) -> Crossing:
        """Counted over the lists of a log before its test period, given columns of its lists (n,) and items (D,)."""
        test = log.split == SPLITS.index("test")
        until = int(log.time[test].min()) if test.any() else int(log.time.max(initial=0)) + 1
        before = (~test & (log.time < until))[log.impression]
        done = before & log.satisfied & (log.clicked_at < until)
        owner, c, i = _of_results(log, asker, item, labels)
        size = len(labels[0]), len(labels[1])
        shown, clicked = (
            np.bincount((c * size[1] + i)[rows[owner]], minlength=size[0] * size[1]).reshape(size)
            for rows in (before, done)
        )
        return cls(*labels, clicked, shown)

    def to_mapping(self) -> dict[str, Any]:
        labels = {name: asdict(getattr(self, name)) for name in ("asker", "item")}
        return labels | {"clicked": self.clicked.tolist(), "shown": self.shown.tolist()}

    @classmethod
    def from_mapping(cls, content: Mapping[str, Any]) -> Crossing:
        asker, item = (
            Labels(tuple(map(str, content[name]["texts"])), tuple(map(float, content[name]["edges"])))
            for name in ("asker", "item")
        )
        counts = (np.array(content[name], np.int64).reshape(len(asker), len(item)) for name in ("clicked", "shown"))
        return cls(asker, item, *counts)


def crossings_of(log: SearchLog) -> dict[Crossed, Crossing]:
    """Of each field of users and requests with each of items, times left out, as counted until the test period."""
    schema, fields = log.fields.schema, log.fields
    train, found = log.of_split("train"), dict[Crossed, Crossing]()
    items = {name: fields.item[name] for name, kind in schema.item.items() if kind != "time"}
    for scope, own, kind in schema:
        if scope not in ("user", "request") or kind == "time":
            continue
        of_lists = fields.of(scope)[own]
        asker = Labels.of(rows_of(of_lists, train), MOST_OF_ASKERS)
        for name, column in items.items():
            labels = asker, Labels.of(column, MOST_OF_ITEMS)
            found[scope, own, name] = Crossing.of(log, of_lists, column, labels)
    return found


def _pairs(asker: TextSets, item: TextSets) -> tuple[Int64s, Int64s, Int64s]:
    """For every text of who asks and every text of the item in the same row: the row, and both numbers."""
    each = asker.lengths[item.owner]
    of_item = np.repeat(np.arange(len(item.codes)), each)
    owner, ends = item.owner[of_item], np.cumsum(each)
    place = asker.starts[owner] + np.arange(len(of_item)) - np.repeat(ends - each, each)
    return owner, asker.codes[place], item.codes[of_item]


def _of_results(
    log: SearchLog, asker: Column, item: Column, labels: tuple[Labels, Labels]
) -> tuple[Int64s, Int64s, Int64s]:
    """The same for all results of a log."""
    of_lists, of_items = labels[0].coded(asker), labels[1].coded(item)
    return _pairs(of_lists.take(log.impression), of_items.take(log.document.astype(np.int64)))


@numba.njit(cache=True)
def _surprise(clicked: Any, shown: Any, margins: Any, c: Any, i: Any) -> Any:
    """``margins``: clicks and showings by who asks, by item, and in all."""
    clicked_c, shown_c, clicked_i, shown_i, k, n = margins
    rate = (k + 1) / (n + 10)
    rate_c, rate_i = (clicked_c[c] + 5 * rate) / (shown_c[c] + 5), (clicked_i[i] + 5 * rate) / (shown_i[i] + 5)
    return np.log((clicked[c, i] + 5) / (shown[c, i] * rate_c * rate_i / rate + 5))


@numba.njit(cache=True)
def _count_on(
    order: Any, offsets: Any, known: Any, seen: Any, rows: Any, pairs: Any, clicked: Any, shown: Any, found: Any
) -> None:
    """List after list: first what has been clicked and shown by then is counted, then what is there is told."""
    starts, c, i = pairs
    size_c, size_i = clicked.shape
    clicked_c, shown_c = np.zeros(size_c, np.int64), np.zeros(size_c, np.int64)
    clicked_i, shown_i = np.zeros(size_i, np.int64), np.zeros(size_i, np.int64)
    k, n, clicks, lists = 0, 0, 0, 0
    for a in order:
        while clicks < known[a]:
            row = rows[clicks]
            for p in range(starts[row], starts[row + 1]):
                clicked[c[p], i[p]] += 1
                clicked_c[c[p]] += 1
                clicked_i[i[p]] += 1
                k += 1
            clicks += 1
        while lists < seen[a]:
            for p in range(starts[offsets[lists]], starts[offsets[lists + 1]]):
                shown[c[p], i[p]] += 1
                shown_c[c[p]] += 1
                shown_i[i[p]] += 1
                n += 1
            lists += 1
        margins = (clicked_c, shown_c, clicked_i, shown_i, k, n)
        for row in range(offsets[a], offsets[a + 1]):
            total = 0.0
            for p in range(starts[row], starts[row + 1]):
                total += _surprise(clicked, shown, margins, c[p], i[p])
            if starts[row + 1] > starts[row]:
                found[row] = total / (starts[row + 1] - starts[row])
