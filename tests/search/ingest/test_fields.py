"""Fields of a log: typed by a schema, every value accounted for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capse.errors import DataError
from capse.search.ingest import IngestReport, ingest
from capse.search.logs.field_schema import FieldSchema
from capse.search.logs.field_values import TextSets
from capse.search.logs.forgetting import forget_in_log
from capse.search.logs.search_log import SearchLog

TIME = 1_700_000_000
SCHEMA = {
    "item": {"price": "number", "tags": "list", "released": "time"},
    "user": {"age": "number"},
    "request": {"device": "category"},
    "result": {"relevance": "number"},
}
ITEMS: list[dict[str, Any]] = [
    {"document": "a", "time": TIME, "fields": {"price": 3, "tags": ["x", "y"], "released": "2023-01-01"}},
    {"document": "a", "time": TIME + 5, "fields": {"price": 4}},
    {"document": "b", "fields": {"price": "cheap", "tags": "x", "colour": "red"}},
    {"document": "c", "fields": {"price": 9.5}},
]
LISTS: list[dict[str, Any]] = [
    {
        "impression": f"i{number}",
        "time": TIME + number,
        "user": ("ada", "bob")[number % 2],
        "query": "q",
        "results": [{"id": "a", "fields": {"relevance": 1.5 + number}}, "b", "c"],
        "clicks": ["b"],
        "user_fields": {"age": 30 + number},
        "fields": {"device": ("phone", "desk")[number % 2]},
    }
    for number in range(6)
]


def written(folder: Path, lines: list[dict[str, Any]], schema: Any = SCHEMA) -> tuple[IngestReport, SearchLog]:
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = ingest(folder / "log.jsonl", folder / "log", fields=None if schema is None else FieldSchema.of(schema))
    return report, SearchLog.load(folder / "log")


def test_every_value_is_kept_or_set_aside_with_its_reason(tmp_path: Path) -> None:
    report, log = written(tmp_path, LISTS + ITEMS)
    fields = log.fields
    price, tags, device = fields.item["price"], fields.item["tags"], fields.request["device"]
    assert isinstance(tags, TextSets)
    assert isinstance(device, TextSets)
    np.testing.assert_array_equal(price, [4, np.nan, 9.5], "of an item the latest stands")
    assert tags.rows() == [("x", "y"), ("x",), ()]
    assert device.rows() == [("phone",), ("desk",)] * 3
    np.testing.assert_array_equal(fields.user["age"], np.arange(30.0, 36))
    np.testing.assert_array_equal(np.asarray(fields.result["relevance"]).reshape(6, 3)[:, 0], np.arange(1.5, 7))
    assert np.isnan(np.asarray(fields.result["relevance"]).reshape(6, 3)[:, 1:]).all()
    assert report.quarantined == {"item.price is no number": 1}
    (row,) = map(json.loads, (tmp_path / "log" / "quarantine.jsonl").read_text().splitlines())
    assert row == {"reason": "item.price is no number", "table": "fields", "value": "cheap", "document": "b"}
    assert report.counts["fields"] == {"staged": 25, "kept": 24, "collapsed": 0, "quarantined": 1}
    assert any("item.colour" in note for note in report.notes)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"item": {"price": "boolean"}}, r"4 of 4 values of item.price are no boolean \(the first is 3\)"),
        ({"item": {"prize": "number"}}, "the log has no field item.prize"),
    ],
)
def test_a_schema_that_does_not_fit_writes_nothing(tmp_path: Path, schema: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        written(tmp_path, LISTS + ITEMS, schema)
    assert not (tmp_path / "log").exists()


def test_without_a_schema_fields_are_named_and_left_alone(tmp_path: Path) -> None:
    report, log = written(tmp_path, LISTS + ITEMS, None)
    assert not log.fields.schema
    assert not (tmp_path / "log" / "fields").exists()
    assert any("item.price" in note and "--fields" in note for note in report.notes)


def test_fields_that_are_no_object_are_rejected(tmp_path: Path) -> None:
    report, _ = written(tmp_path, [*LISTS, *ITEMS, {"document": "c", "fields": ["price"]}])
    assert report.quarantined["item fields that are not an object"] == 1


def test_a_forgotten_user_takes_the_fields_along(tmp_path: Path) -> None:
    _, log = written(tmp_path, LISTS + ITEMS)
    assert forget_in_log(tmp_path / "log", ["bob"]) == 3
    left = SearchLog.load(tmp_path / "log")
    np.testing.assert_array_equal(left.fields.user["age"], [30, 32, 34])
    assert "31.0" not in str(__import__("pyarrow.parquet").parquet.read_table(tmp_path / "log/fields/user.parquet"))
    assert len(left.fields.result["relevance"]) == 9 < len(log.document)
