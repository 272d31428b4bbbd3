"""Fields of users and requests crossed with those of items: counts, and what is told from them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from math import log as ln
from typing import Any

import numpy as np
import pytest

from capse.search.features import log_features
from capse.search.features.crossed_fields import Crossing, Labels, crossings_of
from capse.search.features.item_fields import KnownFields
from capse.search.logs.field_schema import FieldSchema
from capse.search.logs.field_values import TextSets, columns_of
from capse.search.logs.log_fields import LogFields
from capse.search.logs.search_log import SearchLog

SCHEMA = FieldSchema.of(
    {"item": {"small": "boolean", "tags": "list", "price": "number"}, "request": {"device": "category"}}
)


@pytest.fixture(params=range(3))
def log(request: pytest.FixtureRequest, busy_log) -> SearchLog:
    found: SearchLog = busy_log(request.param)
    draw = np.random.default_rng(request.param)
    items: list[dict[str, Any]] = [
        {"small": float(draw.random() < 0.5), "tags": tuple(draw.choice(list("abc"), draw.integers(0, 3), False))}
        | ({"price": float(draw.normal())} if draw.random() < 0.8 else {})
        for _ in found.documents.ids
    ]
    devices = [{"device": (str(draw.choice(["phone", "desk"])),)} if draw.random() < 0.9 else {} for _ in found.time]
    fields = LogFields(SCHEMA, item=columns_of(SCHEMA.item, items), request=columns_of(SCHEMA.request, devices))
    split = np.searchsorted([0.6, 0.8], np.arange(len(found)) / len(found), side="right")
    return replace(found, fields=fields, split=split.astype(np.int8))


def plain(log: SearchLog, name: str, row: int, before: int) -> float:
    """The equation written out, from the lists and the clicks before a moment."""
    asked, tags = log.fields.request["device"], log.fields.item[name]
    assert isinstance(asked, TextSets)
    device = asked.rows()

    def pairs(other: int) -> list[tuple[str, str]]:
        says = tags.rows()[log.document[other]] if isinstance(tags, TextSets) else (str(tags[log.document[other]]),)
        return [(c, i) for c in device[log.impression[other]] for i in says]

    results = range(len(log.document))
    shown = Counter(p for one in results if log.time[log.impression[one]] < before for p in pairs(one))
    clicked = Counter(p for one in results if log.satisfied[one] and log.clicked_at[one] < before for p in pairs(one))

    def rate(chosen) -> float:
        counts = [sum(n for pair, n in of.items() if chosen(pair)) for of in (clicked, shown)]
        return (counts[0] + 5 * overall) / (counts[1] + 5)

    overall = (clicked.total() + 1) / (shown.total() + 10)
    found = []
    for c, i in pairs(row):
        expected = shown[c, i] * rate(lambda pair, c=c: pair[0] == c) * rate(lambda pair, i=i: pair[1] == i) / overall
        found.append(ln((clicked[c, i] + 5) / (expected + 5)))
    return float(np.mean(found)) if found else float("nan")


@pytest.mark.parametrize("name", ["small", "tags"])
def test_each_list_is_told_what_came_before_it(log: SearchLog, name: str) -> None:
    table = log_features(log, np.arange(len(log)), log.time, known=KnownFields.of(log), learning=True)
    found = table.column(f"fields.request.device x item.{name}")
    rows = range(0, len(log.document), 7)
    expected = [plain(log, name, row, int(log.time[log.impression[row]])) for row in rows]
    np.testing.assert_allclose(found[list(rows)], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["small", "tags"])
def test_a_run_tells_what_came_before_its_test_period(log: SearchLog, name: str) -> None:
    test = log.of_split("test")
    found = log_features(log, test, log.time, known=KnownFields.of(log)).column(f"fields.request.device x item.{name}")
    expected = [plain(log, name, row, int(log.time[test[0]])) for row in log.rows(test)]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_they_can_be_saved(log: SearchLog) -> None:
    for crossing in crossings_of(log).values():
        again = Crossing.from_mapping(json.loads(json.dumps(crossing.to_mapping())))
        assert (again.asker, again.item) == (crossing.asker, crossing.item)
        np.testing.assert_array_equal(again.surprise, crossing.surprise)


def test_numbers_count_by_quarters_truths_as_they_are_and_rare_texts_not_at_all() -> None:
    numbers = np.array([1.0, 2, 3, 4, np.nan, 5])
    assert Labels.of(numbers, 9).edges == (2, 3, 4)
    assert Labels.of(numbers, 9).coded(numbers).lengths.tolist() == [1, 1, 1, 1, 0, 1]
    assert Labels.of(numbers, 9).coded(numbers).codes.tolist() == [0, 1, 2, 3, 3]
    assert Labels.of(np.array([0.0, 1.0, np.nan]), 9).edges == (0.5,)
    assert len(Labels.of(np.full(2, np.nan), 9)) == 2
    texts = TextSets.of([("a", "b"), ("b",), ("c", "b"), ("a",)])
    kept = Labels.of(texts, 2)
    assert kept.texts == ("b", "a")
    assert kept.coded(texts).codes.tolist() == [1, 0, 0, 0, 1]


@pytest.mark.parametrize("silent", ["item", "request"])
def test_a_field_that_nobody_says_is_crossed_with_nothing(log: SearchLog, silent: str) -> None:
    name = {"item": "tags", "request": "device"}[silent]
    nothing = TextSets.of([()] * len(log.fields.of(silent)[name]))  # type: ignore[arg-type] # a scope
    fields = replace(log.fields, **{silent: {**log.fields.of(silent), name: nothing}})  # type: ignore[arg-type]
    quiet = replace(log, fields=fields)
    known = KnownFields.of(quiet)
    for learning in (True, False):
        found = log_features(quiet, np.arange(len(log)), log.time, known=known, learning=learning)
        assert np.isnan(found.column("fields.request.device x item.tags")).all()
    again = KnownFields.from_mapping(json.loads(json.dumps(known.to_mapping())))
    shapes = [{key: one.shown.shape for key, one in of.crossings.items()} for of in (known, again)]
    assert shapes[0] == shapes[1]
