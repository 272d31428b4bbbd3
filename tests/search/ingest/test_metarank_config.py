"""Metarank's configuration: every feature becomes what it should, and what has no counterpart is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from capse.cli import main
from capse.errors import SettingsError
from capse.search.ingest.metarank_config import translate
from capse.search.logs.field_schema import FieldSchema

ITEM = {"scope": "item"}
CLICKED = {"type": "interacted_with", "interaction": "click", "scope": "session", "count": 10, "duration": "24h"}
# The features of the demo on RankLens, as Metarank's tutorial lists them.
DEMO = {
    "models": {
        "xgboost": {
            "type": "lambdamart",
            "backend": {"type": "xgboost", "iterations": 10, "seed": 0},
            "weights": {"click": 1},
        }
    },
    "features": [
        *(
            {"name": name, "type": "number", "source": f"item.{name}"} | ITEM
            for name in ("popularity", "vote_avg", "vote_cnt", "budget", "release_date", "runtime")
        ),
        {"name": "title_length", "type": "word_count", "source": "item.title"} | ITEM,
        {"name": "genre", "type": "string", "source": "item.genres", "values": ["drama", "comedy"]} | ITEM,
        {"name": "ctr", "type": "rate", "top": "click", "bottom": "impression", "bucket": "24h", "periods": [7, 30]},
        {"name": "liked_genre", "field": "item.genres"} | CLICKED,
        {"name": "liked_actors", "field": "item.actors"} | CLICKED,
        {"name": "liked_tags", "field": "item.tags"} | CLICKED,
        {"name": "liked_director", "field": "item.director"} | CLICKED,
        {"name": "visitor_click_count", "type": "interaction_count", "interaction": "click", "scope": "session"},
        {"name": "global_item_click_count", "type": "interaction_count", "interaction": "click"} | ITEM,
        {"name": "day_item_click_count", "type": "window_count", "interaction": "click", "periods": [7, 30]} | ITEM,
    ],
}


def test_the_demo_has_a_counterpart_for_every_feature() -> None:
    found = translate(DEMO)
    assert found.missing == []
    assert found.schema == FieldSchema.of(
        {
            "item": dict.fromkeys(("popularity", "vote_avg", "vote_cnt", "budget", "release_date", "runtime"), "number")
            | dict.fromkeys(("genres", "actors", "tags", "director"), "list"),
            "windows": [7, 30],
        }
    )
    assert found.settings == {"events.click": "1"}
    assert len(found.rows) == len(DEMO["features"]) + 2, "each feature, the model and its weight have a line"


@pytest.mark.parametrize(
    ("feature", "becomes", "schema"),
    [
        ({"type": "boolean", "field": "metadata.new"}, "item.new: boolean", {"item": {"new": "boolean"}}),
        ({"type": "number", "field": "user.age", "scope": "user"}, "user.age: number", {"user": {"age": "number"}}),
        ({"type": "string", "field": "ranking.device"}, "request.device: list", {"request": {"device": "list"}}),
        (
            {"type": "number", "field": "ranking.bm25"} | ITEM,
            "result.bm25: number",
            {"result": {"bm25": "number"}},
        ),
        ({"type": "relevancy"}, "result.relevancy: number", {"result": {"relevancy": "number"}}),
        ({"type": "item_age", "source": "item.created_at"}, "item.created_at: time", {"item": {"created_at": "time"}}),
        (
            {
                "type": "field_match",
                "itemField": "item.brand",
                "rankingField": "ranking.brands",
                "method": {"type": "term", "language": "en"},
            },
            "match: [item.brand, request.brands]",
            {"item": {"brand": "list"}, "request": {"brands": "list"}, "match": [["item.brand", "request.brands"]]},
        ),
        (
            {"type": "interacted_with", "interaction": "add_to_cart", "field": ["item.color", "item.brand"]},
            "item.color: list, item.brand: list",
            {"item": {"color": "list", "brand": "list"}},
        ),
        (
            {"type": "rate", "top": "click", "bottom": "impression", "bucket": "12h", "periods": [2, 14]},
            "windows: [1, 7]",
            {"windows": [1, 7]},
        ),
    ],
)
def test_features_become_fields(feature: dict[str, Any], becomes: str, schema: dict[str, Any]) -> None:
    found = translate({"features": [{"name": "one"} | feature]})
    assert [row.becomes for row in found.rows] == [becomes]
    assert found.schema == FieldSchema.of(schema)


@pytest.mark.parametrize(
    ("feature", "becomes"),
    [
        ({"type": "rate", "top": "purchase", "bottom": "impression"}, "built in"),
        ({"type": "position", "position": 5}, "bias.model=position"),
        (
            {
                "type": "field_match",
                "itemField": "item.title",
                "rankingField": "ranking.query",
                "method": {"type": "bm25"},
            },
            "built in",
        ),
        (
            {
                "type": "field_match",
                "itemField": "item.title",
                "rankingField": "ranking.query",
                "method": {"type": "transformer"},
            },
            "vectors.source=encoder",
        ),
    ],
)
def test_features_that_need_no_field(feature: dict[str, Any], becomes: str) -> None:
    found = translate({"features": [{"name": "one"} | feature]})
    assert [row.becomes for row in found.rows] == [becomes]
    assert not found.schema


@pytest.mark.parametrize(
    ("feature", "why"),
    [
        ({"type": "ua", "source": "ranking.ua", "field": "platform"}, "send what the user agent says"),
        ({"type": "local_time", "parse": "time_of_day"}, "send the hour"),
        ({"type": "diversity"}, "one by one"),
        ({"type": "horoscope"}, "a type that is not known"),
        ({"type": "number", "field": "interaction.price"}, "only fields of items, users and rankings"),
        ({"type": "item_age", "source": "item.timestamp"}, "the time of an event is no field"),
        ({"type": "rate", "top": "click", "bottom": "view"}, "rates are per showing, not per view"),
        ({"type": "rate", "top": "share", "bottom": "impression"}, "events of kind 'share' are not known"),
        ({"type": "window_count", "interaction": "click", "scope": "user"}, "windows count clicks on documents"),
        ({"type": "rate", "top": "click", "bottom": "impression", "bucket": "1h", "periods": [2]}, "no whole days"),
        ({"type": "rate", "top": "click", "bottom": "impression", "bucket": "soon", "periods": [2]}, "no duration"),
        ({"type": "rate", "top": "click", "bottom": "impression", "periods": "7"}, "no whole days"),
        ({"type": "field_match", "method": "ngram"}, "matching by None is not there"),
        ({"type": "word_count", "source": "item.plot"}, "only words of titles and of texts"),
    ],
)
def test_what_has_no_counterpart_says_why(feature: dict[str, Any], why: str) -> None:
    found = translate({"features": [{"name": "one"} | feature]})
    assert len(found.missing) == 1
    assert why in found.missing[0].note
    assert not found.schema


def test_a_field_has_one_type() -> None:
    both = [{"name": name, "type": kind, "field": "item.size"} for name, kind in (("one", "number"), ("two", "string"))]
    found = translate({"features": both})
    assert [row.name for row in found.missing] == ["two"]
    assert "item.size is a number already" in found.missing[0].note


def test_models_and_weights() -> None:
    models = {
        "main": {"type": "lambdamart", "weights": {"click": 1, "purchase": 10, "share": 2, "like": "much"}},
        "random": {"type": "shuffle"},
        "plain": {"type": "noop"},
    }
    found = translate({"features": [], "models": models, "interactions": [{"name": "cart", "weight": 2.5}]})
    assert found.settings == {"events.click": "1", "events.purchase": "10", "events.cart": "2.5"}
    assert [row.name for row in found.missing] == ["share", "like", "random"]


@pytest.mark.parametrize(
    "content", [None, [], {"models": {}}, {"features": {}}, {"features": ["x"]}, {"features": [{"name": "x"}]}]
)
def test_what_is_no_configuration_is_refused(content: Any) -> None:
    with pytest.raises(SettingsError, match=r"give Metarank's config\.yml"):
        translate(content)


def test_the_command_writes_a_schema(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    config, out = tmp_path / "config.yml", tmp_path / "fields.yaml"
    config.write_text(yaml.safe_dump(DEMO))
    with pytest.raises(SystemExit) as exit:
        main(["search", "translate", str(config), "--out", str(out)])
    said = capsys.readouterr().out
    assert exit.value.code in (None, 0)
    assert FieldSchema.load(out) == translate(DEMO).schema
    assert "ctr (rate): windows: [7, 30]" in said
    assert "18 of 18 have a counterpart" in said
    with pytest.raises(SystemExit):
        main(["search", "translate", str(config), "--json"])
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 18
    config.write_text("features: [")
    with pytest.raises(SystemExit) as exit:
        main(["search", "translate", str(config)])
    assert exit.value.code == 2
    assert "cannot be read" in capsys.readouterr().err
    config.write_text("features: [{name: x, type: random}]")
    with pytest.raises(SystemExit):
        main(["search", "translate", str(config), "--out", str(tmp_path / "none.yaml")])
    assert "was not written" in capsys.readouterr().err
    assert not (tmp_path / "none.yaml").exists()
