"""Features of fields: what items, requests, users and results say of themselves, beside what was clicked.

A number is itself, and its place in the list; a time is an age. Of texts the most frequent have a column each. How
often anybody clicked what has them when it was shown is a rate, and so within windows of days. What this user and this
session clicked is beside that: the share of their clicks on items with the same texts, and how far a number is from
the mean of those clicked lately. What users and requests say is crossed with what items say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from capse.arrays import Float64s, Int64s
from capse.search.features.crossed_fields import Crossed, Crossing, crossings_of
from capse.search.features.feature_table import below_best, ranks_within
from capse.search.features.past import Clicked, Past, PublicPast
from capse.search.logs.actions import KINDS, ActionKind
from capse.search.logs.field_schema import SCOPES, SETS, FieldSchema, Scope
from capse.search.logs.field_values import Column, TextSets
from capse.search.logs.search_log import SearchLog
from capse.search.times import SECOND

Columns = dict[str, Float64s]
MOST_FREQUENT = 10  # texts of a field that have a column each


@dataclass(frozen=True)
class KnownFields:
    """What a run knows: a schema, which texts are frequent enough to have columns, and kinds of events."""

    schema: FieldSchema = field(default_factory=FieldSchema)
    frequent: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by scope and name
    kinds: tuple[ActionKind, ...] = ()  # of events that are no clicks
    crossings: Mapping[Crossed, Crossing] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.schema or self.kinds)

    @classmethod
    def of(cls, log: SearchLog) -> KnownFields:
        """Those of a log: of items all count, of users and requests those of the training split."""
        schema, train = log.fields.schema, log.of_split("train")
        frequent: dict[str, tuple[str, ...]] = {}
        for scope, name, kind in schema:
            if kind in SETS:
                sets = getattr(log.fields, scope)[name]
                frequent[f"{scope}.{name}"] = (sets if scope == "item" else sets.take(train)).frequent(MOST_FREQUENT)
        return cls(schema, frequent, log.actions.kinds, crossings_of(log))

    def to_mapping(self) -> dict[str, Any]:
        crossed = [[*fields, crossing.to_mapping()] for fields, crossing in self.crossings.items()]
        said = {"schema": self.schema.to_mapping(), "frequent": self.frequent, "events": list(self.kinds)}
        return said | {"crossed": crossed}

    @classmethod
    def from_mapping(cls, content: Mapping[str, Any]) -> KnownFields:
        schema = FieldSchema.of(content["schema"]) if content["schema"] else FieldSchema()
        frequent = {str(name): tuple(map(str, texts)) for name, texts in content["frequent"].items()}
        kinds = tuple(kind for kind in KINDS if kind in content["events"])
        crossed = content.get("crossed", ())  # a run from before there were any has none
        crossings = {(scope, str(own), str(item)): Crossing.from_mapping(of) for scope, own, item, of in crossed}
        return cls(schema, frequent, kinds, crossings)


class FieldPast(Past, Protocol):
    """The earlier clicks of a scope that knows what fields the clicked items have."""

    def with_texts(self, name: str, texts: TextSets) -> tuple[Int64s, Int64s]:
        """(z,) for each text of the results, clicks on items that have it, ever and lately."""

    def numbers_lately(self, name: str) -> tuple[Clicked, Float64s]:
        """The latest clicks beside the results, and (p,) what number each clicked item has."""


class PublicFieldPast(FieldPast, PublicPast, Protocol):
    """Everyone's, which also knows what was shown, and on which day."""

    def rate_of_texts(self, name: str, texts: TextSets, days: int | None = None) -> tuple[Int64s, Int64s]:
        """(z,) for each text of the results, clicks on and showings of items that have it, of all time or of days."""

    def within(self, days: int) -> tuple[Int64s, Int64s]:
        """(r,) clicks on and showings of each result's document on the latest days."""


@dataclass(frozen=True)
class GivenFields:
    """What is said in fields of r results that are shown."""

    known: KnownFields
    item: Mapping[str, Column]  # (r,)
    user: Mapping[str, Column]
    request: Mapping[str, Column]
    result: Mapping[str, Column]
    time: Float64s  # (r,) microseconds since 1970
    crossed: Mapping[Crossed, Float64s] | None = None  # (r,) as of each list; None: as the run has counted them

    def columns(self, scope: Scope) -> Mapping[str, Column]:
        of: Mapping[str, Column] = getattr(self, scope)
        return of


def said_columns(given: GivenFields, lengths: Int64s, everyone: PublicFieldPast) -> Columns:
    """All that does not know the user: group 'fields'."""
    columns: Columns = {}
    for scope in SCOPES:
        if scope != "user":
            columns |= _said(given, scope, lengths)
    columns |= _matches(given, "request") | _crossed(given, "request")
    overall = (everyone.total + 1) / (np.maximum(everyone.shown(), everyone.total) + 10)
    for name in given.known.schema.names("item", *SETS):
        texts = _sets(given.item[name])
        for days in (None, *given.known.schema.windows):
            clicked, shown = everyone.rate_of_texts(name, texts, days)
            columns[_window(f"everyone.{name}.rate", days)] = texts.mean(_rate(clicked, shown, overall[texts.owner]))
    for days in given.known.schema.windows:
        clicked, shown = everyone.within(days)
        columns[_window("everyone.clicks", days)] = clicked.astype(np.float64)
        columns[_window("everyone.shown", days)] = shown.astype(np.float64)
        columns[_window("everyone.rate", days)] = _rate(clicked, shown, overall)
    return columns


def taste_columns(given: GivenFields, lengths: Int64s, pasts: tuple[FieldPast, ...]) -> Columns:
    """What the user says, and what the user's and the session's clicks say of the user: group 'taste'."""
    schema = given.known.schema
    columns = _said(given, "user", lengths) | _matches(given, "user") | _crossed(given, "user")
    for past in pasts:
        of = past.scope.name
        for name in schema.names("item", *SETS):
            texts = _sets(given.item[name])
            ever, lately = past.with_texts(name, texts)
            columns[f"{of}.{name}.share"] = texts.mean(ever / (past.total + 1)[texts.owner])
            columns[f"{of}.{name}.lately"] = texts.mean(
                lately / (np.minimum(past.total, past.scope.window) + 1)[texts.owner]
            )
            if schema.item[name] == "list":
                columns[f"{of}.{name}.most"] = _highest(texts, ever)
        for name in schema.names("item", "number", "boolean"):
            clicked, values = past.numbers_lately(name)
            there = ~np.isnan(values)
            weight = past.scope.faded(clicked.back) * there
            weights = clicked.pairs.total(weight)
            mean = clicked.pairs.total(weight * np.where(there, values, 0.0)) / np.where(weights > 0, weights, np.nan)
            gap = np.asarray(given.item[name], np.float64) - mean
            columns[f"{of}.{name}.gap"] = gap
            columns[f"{of}.{name}.distance"] = np.abs(gap)
    return columns


def _said(given: GivenFields, scope: Scope, lengths: Int64s) -> Columns:
    """The fields of a scope as they are."""
    columns: Columns = {}
    varies = scope in ("item", "result")  # within a list
    for name, kind in given.known.schema.types(scope).items():
        column, label = given.columns(scope)[name], f"{scope}.{name}"
        if isinstance(column, TextSets):
            columns |= {f"{label}={text}": column.has(text) for text in given.known.frequent[label]}
            continue
        if kind == "time":
            age = (given.time - column) / SECOND
            column, label = np.sign(age) * np.log1p(np.abs(age)), f"{label}.age"
        columns[label] = column
        if varies and kind != "boolean":
            columns[f"{label}.rank"] = ranks_within(column, lengths)
            columns[f"{label}.below_best"] = below_best(column, lengths)
    return columns


def _matches(given: GivenFields, scope: Scope) -> Columns:
    """The share of an item's texts that the user or the request has too."""
    columns: Columns = {}
    for item, other in given.known.schema.match:
        of, _, name = other.partition(".")
        if of == scope:
            theirs = _sets(given.columns(scope)[name])
            columns[f"{item}~{other}"] = _sets(given.item[item.partition(".")[2]]).shared(theirs)
    return columns


def _crossed(given: GivenFields, scope: Scope) -> Columns:
    """How much more often than expected those who say the same click items that say the same."""
    crossings = {fields: one for fields, one in given.known.crossings.items() if fields[0] == scope}
    if given.crossed is not None:
        found = {fields: given.crossed[fields] for fields in crossings}
    else:
        askers = {own: one.asker for (_, own, _), one in crossings.items()}
        items = {name: one.item for (_, _, name), one in crossings.items()}
        of_askers = {own: labels.coded(given.columns(scope)[own]) for own, labels in askers.items()}
        of_items = {name: labels.coded(given.item[name]) for name, labels in items.items()}
        found = {fields: one.column(of_askers[fields[1]], of_items[fields[2]]) for fields, one in crossings.items()}
    return {f"{scope}.{own} x item.{item}": column for (_, own, item), column in found.items()}


def _rate(clicked: Int64s, shown: Int64s, overall: Float64s) -> Float64s:
    """Smoothed by five showings at the rate of all, as in `capse.search.features.past.rates`."""
    return np.asarray((clicked + 5 * overall) / (np.maximum(shown, clicked) + 5), np.float64)


def _highest(texts: TextSets, values: Int64s) -> Float64s:
    best = np.full(len(texts), np.nan)
    np.fmax.at(best, texts.owner, values.astype(np.float64))
    return best


def _window(name: str, days: int | None) -> str:
    return name if days is None else f"{name}_{days}d"


def _sets(column: Column) -> TextSets:
    assert isinstance(column, TextSets)
    return column
