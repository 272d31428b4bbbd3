"""Fields become features: what is planted in them is found, and one list has the bits of the whole log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capse.errors import SettingsError
from capse.search.features import Catalogue, ShownList, list_features, log_features
from capse.search.features.feature_table import FeatureTable
from capse.search.features.item_fields import KnownFields
from capse.search.features.text_match import TextMatch
from capse.search.logs.actions import KINDS, Actions, EventWeights
from capse.search.logs.field_schema import FieldSchema, Value
from capse.search.logs.field_values import columns_of
from capse.search.logs.history import Clicks
from capse.search.logs.log_fields import LogFields
from capse.search.logs.search_log import SearchLog
from capse.search.rankers.training_past import TrainingPast
from capse.search.times import DAY
from capse.search.users.everyone import Everyone
from capse.search.users.user_state import PastAction, PastClick, UserState

SCHEMA = FieldSchema.of(
    {
        "item": {"price": "number", "brand": "category", "tags": "list", "new": "boolean", "released": "time"},
        "user": {"brands": "list", "age": "number"},
        "request": {"device": "category"},
        "result": {"relevance": "number"},
        "match": [["item.brand", "user.brands"], ["item.tags", "request.device"]],
        "windows": [1, 3],
    }
)
Rows = dict[str, list[dict[str, Value]]]


def draw_rows(log: SearchLog, seed: int) -> Rows:
    """Fields of everything, some of them missing."""
    draw = np.random.default_rng(seed)

    def value(kind: str) -> Value:
        if kind in ("category", "list"):
            names = draw.choice(list("abcd"), 1 if kind == "category" else int(draw.integers(1, 4)))
            return tuple(sorted(set(names.tolist())))
        return float(draw.integers(2)) if kind == "boolean" else float(draw.integers(1, 9) * 1_000_000)

    def row(types: dict[str, str]) -> dict[str, Value]:
        return {name: value(kind) for name, kind in types.items() if draw.random() < 0.8}

    sizes = {"item": len(log.documents), "user": len(log), "request": len(log), "result": len(log.document)}
    return {scope: [row(getattr(SCHEMA, scope)) for _ in range(size)] for scope, size in sizes.items()}


def with_fields(log: SearchLog, rows: Rows) -> SearchLog:
    columns = {scope: columns_of(getattr(SCHEMA, scope), of) for scope, of in rows.items()}
    return replace(log, fields=LogFields(SCHEMA, **columns))


def with_actions(log: SearchLog, seed: int) -> SearchLog:
    """Carts and the like at all times, of users and documents of the log."""
    draw, size = np.random.default_rng(seed), 60
    time = np.sort(draw.integers(int(log.time[0]), int(log.time[-1]) + 1, size))
    kind, user = draw.integers(0, len(KINDS), size), draw.integers(-1, len(log.users), size)
    document = draw.integers(0, len(log.documents), size)
    return replace(log, actions=Actions(kind, user, document, np.full(size, -1), time))


def spread_over_days(log: SearchLog) -> SearchLog:
    """The same log slower: a second of it lasts three hours."""
    slow = 10_800
    at = np.where(log.satisfied, log.clicked_at * slow, log.clicked_at)
    return replace(log, time=log.time * slow, clicked_at=at)


class Replayed:
    """A log's lists one after the other, each with what is remembered then."""

    def __init__(self, log: SearchLog, rows: Rows, known: KnownFields) -> None:
        self.log, self.rows = log, rows
        self.catalogue = Catalogue(TextMatch(log.documents), known, log.fields.item)
        self.everyone = Everyone(self.catalogue.places, self.catalogue.texts_of, SCHEMA.most_days)
        self.states = {user: UserState() for user in log.users}
        self.clicks, self.done, self.seen, self.acted = Clicks.of(log), 0, 0, 0

    def documents(self, impression: int) -> list[str]:
        return [self.log.documents.ids[number] for number in self.log.document[self.log.rows(np.array([impression]))]]

    def features(self, impression: int, **other: object) -> FeatureTable:
        log, time = self.log, int(self.log.time[impression])
        while self.done < len(self.clicks.rows) and self.clicks.time[self.done] < time:
            self.click(int(self.clicks.rows[self.done]))
            self.done += 1
        while self.seen < len(log) and log.time[self.seen] < time:
            self.everyone.show(self.documents(self.seen), int(log.time[self.seen]))
            self.seen += 1
        while self.acted < len(log.actions) and log.actions.time[self.acted] < time:
            self.act(self.acted)
            self.acted += 1
        rows, documents = log.rows(np.array([impression])), self.documents(impression)
        shown = ShownList(
            log.queries[log.query[impression]],
            documents,
            log.position[rows].tolist(),
            self.states[log.users[log.user[impression]]],
            log.sessions[log.session[impression]],
            time,
            results={one: self.rows["result"][row] for one, row in zip(documents, rows.tolist(), strict=True)},
            request=self.rows["request"][impression],
            user=self.rows["user"][impression],
        )
        return list_features(replace(shown, **other), self.catalogue, self.everyone)  # type: ignore[arg-type] # its own

    def act(self, number: int) -> None:
        actions = self.log.actions
        document, kind = self.log.documents.ids[actions.document[number]], KINDS[actions.kind[number]]
        self.everyone.act(kind, document)
        if actions.user[number] >= 0:
            user = self.log.users[actions.user[number]]
            self.states[user].act(PastAction(document, kind, int(actions.time[number])))

    def click(self, row: int) -> None:
        log, at = self.log, int(self.log.clicked_at[row])
        of, document = int(log.impression[row]), log.documents.ids[log.document[row]]
        query, session = log.queries[log.query[of]], log.sessions[log.session[of]]
        self.states[log.users[log.user[of]]].click(PastClick(document, session, at, query))
        self.everyone.click(document, at, query)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 100))
def test_fields_of_one_list_have_the_bits_of_the_log(busy_log: Callable[[int], SearchLog], seed: int) -> None:
    log = spread_over_days(busy_log(seed))
    rows = draw_rows(log, seed)
    log = with_actions(with_fields(log, rows), seed)
    known = KnownFields.of(log)
    whole = log_features(log, np.arange(len(log)), log.time, known=known)
    replayed = Replayed(log, rows, known)
    for impression in range(len(log)):
        found = replayed.features(impression)
        assert found.names == whole.names
        np.testing.assert_array_equal(found.values, whole.values[log.rows(np.array([impression]))])


@pytest.mark.parametrize("seed", range(3))
def test_windows_shares_and_gaps_as_written_out(busy_log: Callable[[int], SearchLog], seed: int) -> None:
    log = spread_over_days(busy_log(seed))
    rows = draw_rows(log, seed)
    log = with_fields(log, rows)
    table = log_features(log, np.arange(len(log)), log.time, known=KnownFields.of(log))
    brand = [of.get("brand") for of in rows["item"]]
    for row in range(len(log.document)):
        now, own = int(log.time[log.impression[row]]), int(log.user[log.impression[row]])
        earlier = [other for other in range(len(log.document)) if log.satisfied[other] and log.clicked_at[other] < now]
        on_days = [o for o in earlier if log.clicked_at[o] // DAY > now // DAY - 3]
        same = sum(log.document[other] == log.document[row] for other in on_days)
        assert table.column("fields.everyone.clicks_3d")[row] == same
        before = [o for o in range(len(log.document)) if log.time[log.impression[o]] < now]
        shown = [o for o in before if log.time[log.impression[o]] // DAY > now // DAY - 3]
        assert table.column("fields.everyone.shown_3d")[row] == sum(log.document[o] == log.document[row] for o in shown)
        mine = [o for o in earlier if log.user[log.impression[o]] == own]
        share = table.column("taste.user.brand.share")[row]
        here = brand[log.document[row]]
        if here is None:
            assert np.isnan(share)
        else:
            of_brand = sum(brand[log.document[other]] == here for other in mine)
            assert share == pytest.approx(of_brand / (len(mine) + 1), abs=1e-6)
    assert table.column("fields.everyone.clicks_3d").max() > 0


def test_a_list_says_what_an_item_is_now(busy_log: Callable[[int], SearchLog]) -> None:
    log = busy_log(0)
    rows = draw_rows(log, 0)
    replayed = Replayed(with_fields(log, rows), rows, KnownFields.of(with_fields(log, rows)))
    document = replayed.documents(39)[0]
    found = replayed.features(39, items={document: {"price": 77.0, "brand": ("z",)}})
    assert found.column("fields.item.price")[0] == 77
    frequent = replayed.catalogue.known.frequent["item.brand"][0]
    assert found.column(f"fields.item.brand={frequent}")[0] == 0
    assert found.column("taste.user.brand.share")[0] == 0


def test_the_days_of_the_past_go_along_with_a_run(busy_log: Callable[[int], SearchLog], tmp_path: Path) -> None:
    log = spread_over_days(busy_log(1))
    rows = draw_rows(log, 1)
    log = with_actions(with_fields(log, rows), 1)
    TrainingPast.of(log, SCHEMA.most_days).save(tmp_path)
    past = TrainingPast.load(tmp_path)
    known = KnownFields.of(log)
    replayed = Replayed(log, rows, known)
    first = int(np.flatnonzero(log.time >= past.until)[0])
    expected = replayed.features(first)
    replayed.everyone = past.everyone(replayed.catalogue.places, replayed.catalogue.texts_of, SCHEMA.most_days)
    kept = [n for n, name in enumerate(expected.names) if ".everyone." in name]
    assert any(name.startswith("events.everyone.cart") for name in expected.names)
    np.testing.assert_array_equal(replayed.features(first).values[:, kept], expected.values[:, kept])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"item": {"price": "numbers"}}, "the type of item.price is 'numbers'"),
        ({"items": {"price": "number"}}, "has a part 'items'"),
        ({"item": {}}, "names no field"),
        (["price"], "names no field"),
        ({"result": {"brand": "category"}}, "the type of result.brand is 'category'"),
        ({"item": {"price": "number"}, "match": [["item.price", "user.x"]]}, "which is no category or list of item"),
        ({"item": {"price": "number"}, "windows": [7, 1]}, r"windows is \[7, 1\]"),
        ({"item": {"price": "number"}, "windows": [0]}, r"windows is \[0\]"),
    ],
)
def test_a_schema_with_a_mistake_is_refused(content: object, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        FieldSchema.of(content)


def test_a_schema_is_what_its_mapping_says() -> None:
    assert FieldSchema.of(SCHEMA.to_mapping()) == SCHEMA
    other = FieldSchema.of({"item": {"price": "category"}})
    assert "item.price is category instead of number" in other.differences(SCHEMA)
    assert not SCHEMA.differences(SCHEMA)


@pytest.mark.parametrize("seed", range(2))
def test_events_as_written_out(busy_log: Callable[[int], SearchLog], seed: int) -> None:
    log = with_actions(busy_log(seed), seed)
    table = log_features(log, np.arange(len(log)), log.time, known=KnownFields.of(log))
    cart, actions = KINDS.index("cart"), log.actions
    for row in range(len(log.document)):
        now, user = log.time[log.impression[row]], log.user[log.impression[row]]
        carts = [n for n in range(len(actions)) if actions.kind[n] == cart and actions.time[n] < now]
        here = [n for n in carts if actions.document[n] == log.document[row]]
        assert table.column("taste.user.cart")[row] == sum(actions.user[n] == user for n in here)
        before = [o for o in range(len(log.document)) if log.time[log.impression[o]] < now]
        shown = sum(log.document[o] == log.document[row] for o in before)
        overall = (len(carts) + 1) / (max(len(before), len(carts)) + 10)
        rate = (len(here) + 5 * overall) / (max(shown, len(here)) + 5)
        assert table.column("events.everyone.cart.rate")[row] == pytest.approx(rate, rel=1e-6)
    assert table.column("taste.user.cart").max() > 0


def test_a_result_is_worth_what_its_user_did_most() -> None:
    kinds = [KINDS.index(kind) for kind in ("cart", "purchase", "view", "dislike", "purchase")]
    rows, zeros = np.array([0, 0, 1, 2, -1]), np.zeros(5, np.int64)
    actions = Actions(np.array(kinds), zeros, zeros, rows, zeros)
    satisfied = np.array([True, False, True, True])
    assert actions.gains(satisfied, EventWeights()).tolist() == [5, 0.5, -1, 1]
    assert actions.gains(satisfied, EventWeights(purchase=0.0)).tolist() == [3, 0.5, -1, 1]


@pytest.mark.parametrize(("name", "weight"), [("cart", -1.0), ("purchase", float("nan")), ("click", 0.0)])
def test_weights_that_make_no_sense_are_refused(name: str, weight: float) -> None:
    with pytest.raises(SettingsError, match=f"events.{name} is {weight:g}"):
        EventWeights(**{name: weight})
