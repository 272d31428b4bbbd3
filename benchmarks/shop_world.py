"""A simulated shop: items with fields, people with tastes that show in what they click, put into carts and buy.

What somebody wants is a sum of planted effects, one for each type of field and each kind of event:

    price       a person has a price point; items far from it are worth less  (number of items)
    brand       a person has two brands  (category)
    tags        a person has three of twelve tags  (list)
    in_stock    what is sold out is worth less to everybody  (boolean)
    released    what is new is worth more to everybody  (time)
    age         older people want the quiet version (a boolean of items)  (number of users)
    country     goods from one's own country are worth more  (category, matched)
    device      on the phone small items are worth more  (category of requests)
    relevance   what the engine alone knows of an item in this list  (number of results)
    fashion     every four days other items are in fashion  (windows)

A click needs a glance and tells little of it: many are idle. What somebody puts into the cart tells more, what somebody
buys still more; a dislike tells what somebody will not have; a like comes from those who do not click, and a view too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from capse.search.logs.actions import KINDS, Actions
from capse.search.logs.documents import Documents
from capse.search.logs.field_schema import FieldSchema
from capse.search.logs.field_values import TextSets
from capse.search.logs.log_fields import LogFields
from capse.search.logs.search_log import SearchLog
from capse.search.times import DAY, SECOND

EPOCH = 1_704_067_200 * SECOND
SCHEMA = FieldSchema.of(
    {
        "item": {
            "price": "number",
            "brand": "category",
            "tags": "list",
            "in_stock": "boolean",
            "released": "time",
            "quiet": "boolean",
            "origin": "category",
            "small": "boolean",
        },
        "user": {"age": "number", "country": "category"},
        "request": {"device": "category"},
        "result": {"relevance": "number"},
        "match": [["item.origin", "user.country"]],
        "windows": [1, 3],
    }
)
BRANDS, TAGS, COUNTRIES, FASHION_DAYS = 12, 12, 4, 4


@dataclass(frozen=True)
class Shop:
    log: SearchLog
    wanted: Any  # (m,) what each result is worth to its user: what was planted


def make_shop(
    seed: int, *, users: int = 150, items: int = 200, lists: int = 5_000, results: int = 12, days: int = 40
) -> Shop:
    """Lists of items drawn at random, ranked by the engine by its relevance with noise."""
    draw = np.random.default_rng(seed)
    of_items: dict[str, Any] = {
        "price": draw.normal(size=items),
        "brand": draw.integers(0, BRANDS, items),
        "tags": draw.random((items, TAGS)) < 0.2,
        "in_stock": draw.random(items) < 0.8,
        "released": EPOCH - draw.integers(0, 400, items) * DAY,
        "quiet": draw.random(items) < 0.5,
        "origin": draw.integers(0, COUNTRIES, items),
        "small": draw.random(items) < 0.5,
    }
    point, brands = draw.normal(size=users), np.argsort(draw.random((users, BRANDS)), axis=1)[:, :2]
    tags, hated = (np.argsort(draw.random((users, TAGS)), axis=1)[:, part] for part in (slice(0, 3), slice(3, 5)))
    age, country = draw.integers(18, 80, users), draw.integers(0, COUNTRIES, users)
    quality = draw.normal(size=items)  # which only those who have bought an item know

    time = np.sort(EPOCH + draw.integers(0, days * DAY // SECOND, lists) * SECOND)
    user, phone = draw.integers(0, users, lists), draw.random(lists) < 0.5
    shown = np.argsort(draw.random((lists, items)), axis=1)[:, :results]  # (lists, results)
    relevance = draw.normal(size=shown.shape)
    order = np.argsort(-(relevance + draw.normal(0, 1.5, shown.shape)), axis=1)
    shown, relevance = np.take_along_axis(shown, order, 1), np.take_along_axis(relevance, order, 1)
    fashion = draw.random((days // FASHION_DAYS + 1, items)) < 0.1
    period = (time - EPOCH) // (FASHION_DAYS * DAY)

    who = user[:, None]
    has_tag = of_items["tags"][shown]
    liked = np.take_along_axis(has_tag, np.broadcast_to(tags[user][:, None, :], (*shown.shape, 3)), 2).sum(2)
    loathed = np.take_along_axis(has_tag, np.broadcast_to(hated[user][:, None, :], (*shown.shape, 2)), 2).sum(2)
    wanted = (
        -0.9 * np.abs(of_items["price"][shown] - point[who])
        + 1.5 * (of_items["brand"][shown][:, :, None] == brands[user][:, None, :]).any(2)
        + 0.8 * liked
        - 1.2 * loathed
        - 1.5 * ~of_items["in_stock"][shown]
        - 1.0 * np.log1p((time[:, None] - of_items["released"][shown]) / DAY / 30)
        + 1.5 * ((age[who] > 50) & of_items["quiet"][shown])
        + 1.2 * (of_items["origin"][shown] == country[who])
        + 1.5 * (phone[:, None] & of_items["small"][shown])
        + 0.8 * relevance
        + 1.5 * fashion[period[:, None], shown]
        + 0.7 * quality[shown]
    )
    chance = 1 / (1 + np.exp(-(wanted - np.quantile(wanted, 0.8))))
    looked = draw.random(shown.shape) < (np.arange(results) + 1.0) ** -0.3
    clicked = looked & (draw.random(shown.shape) < 0.15 + 0.5 * chance)
    drawn = {kind: draw.random(shown.shape) for kind in KINDS}
    seen = looked & ~clicked
    acted = {
        "cart": clicked & (drawn["cart"] < chance**2),
        "view": seen & (drawn["view"] < 0.5 * chance),
        "like": seen & (drawn["like"] < 0.5 * chance**2),
        "dislike": looked & (loathed > 0) & (drawn["dislike"] < 0.4),
    }
    acted["purchase"] = acted["cart"] & (drawn["purchase"] < 0.3 + 0.6 * (quality[shown] > 0))

    log = _log(time, user, shown, clicked)
    sets: dict[str, list[tuple[str, ...]]] = {
        name: [(f"{name}{value}",) for value in of_items[name]] for name in ("brand", "origin")
    }
    sets["tags"] = [tuple(f"tag{place:02}" for place in np.flatnonzero(row)) for row in of_items["tags"]]
    item = {
        name: TextSets.of(sets[name]) if name in sets else np.asarray(of_items[name], float) for name in SCHEMA.item
    }
    fields = LogFields(
        SCHEMA,
        item=item,
        user={"age": age[user].astype(float), "country": TextSets.of([(f"origin{one}",) for one in country[user]])},
        request={"device": TextSets.of([("phone",) if one else ("desk",) for one in phone])},
        result={"relevance": relevance.ravel()},
    )
    return Shop(replace(log, fields=fields, actions=_actions(log, acted)), wanted.ravel())


def _log(time: Any, user: Any, shown: Any, clicked: Any) -> SearchLog:
    lists, results = shown.shape
    items = int(shown.max()) + 1
    at = np.where(clicked, time[:, None] + 10 * SECOND, np.iinfo(np.int64).max).ravel()
    split = np.repeat([0, 1, 2], [int(lists * 0.7), int(lists * 0.15), lists - int(lists * 0.7) - int(lists * 0.15)])
    words = [{f"word{place % 7}": 2, f"term{place % 11}": 1} for place in range(items)]
    ids = [f"i{place}" for place in range(items)]
    return SearchLog(
        name="shop",
        time=time,
        user=user.astype(np.int32),
        session=np.arange(lists, dtype=np.int32),
        query=np.zeros(lists, np.int32),
        split=split.astype(np.int8),
        offsets=np.arange(lists + 1, dtype=np.int64) * results,
        document=shown.ravel().astype(np.int32),
        position=np.tile(np.arange(1, results + 1, dtype=np.int32), lists),
        clicked=clicked.ravel(),
        clicked_at=at,
        satisfied=clicked.ravel(),
        users=[f"user {number}" for number in range(int(user.max()) + 1)],
        sessions=[f"s{number}" for number in range(lists)],
        queries=["shop"],
        documents=Documents(ids, [""] * items, [None] * items, words),
    )


def _actions(log: SearchLog, acted: Mapping[str, Any]) -> Actions:
    rows = {kind: np.flatnonzero(done.ravel()) for kind, done in acted.items()}
    row = np.concatenate(list(rows.values()))
    kind = np.concatenate([np.full(len(of), KINDS.index(name)) for name, of in rows.items()])
    lists = log.impression[row]
    time = log.time[lists] + (20 + kind) * SECOND
    order = np.argsort(time, kind="stable")
    of = log.user[lists].astype(np.int64), log.document[row].astype(np.int64)
    return Actions(kind[order], of[0][order], of[1][order], row[order], time[order])
