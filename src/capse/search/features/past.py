"""Features of earlier clicks, for three scopes: this session, this user, everyone.

Bennett et al. (2012) call them session, historic and aggregate features. What a `Past` is found in, a whole log
(`capse.search.features.log_past`) or what is remembered (`remembered_past`), is of no account here: the same arithmetic
makes features of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from capse.arrays import Float64s, Int64s
from capse.search.features.earlier import Pairs
from capse.search.features.query_pairs import QueryPairs
from capse.search.features.text_match import DocumentFields
from capse.search.features.word_rows import paired_in_runs
from capse.search.logs.titles import extension, folder, leaf, site

Columns = dict[str, Float64s]
PLACES = {"site": site, "folder": folder, "leaf": leaf, "extension": extension}
MOST_PAIRS = 100  # earlier clicks on one document that are looked at, the latest
MOST_LIKENESSES = 20  # earlier clicks of one user that a document is compared with, the latest


@dataclass(frozen=True)
class Scope:
    """Whose clicks count, and how fast they fade: by ``decay`` for every later click of the scope."""

    name: str
    decay: float
    window: int  # how many of the scope's clicks are 'lately'

    def faded(self, back: Int64s) -> Float64s:
        """The weight of clicks by how many came after each."""
        return np.asarray(self.decay**back, np.float64)


SESSION = Scope("session", 0.95, 10)
USER = Scope("user", 0.95, 20)
EVERYONE = Scope("everyone", 0.999, 1000)


@dataclass(frozen=True)
class Clicked:
    """Earlier clicks (p,) beside the results that they are looked at for."""

    pairs: Pairs  # asked: results, found: clicks
    back: Int64s  # (p,) clicks of the scope that came after each
    age: Float64s  # (p,) seconds
    query: Int64s  # (p,) that was clicked for, a place in the queries that are compared
    document: Int64s  # (p,) that was clicked, a place in the documents that are compared


class Past(Protocol):
    """The earlier clicks of a scope, as some results (r,) see them."""

    @property
    def scope(self) -> Scope:
        """Whose they are."""

    @property
    def total(self) -> Int64s:
        """(r,) clicks."""

    def on_document(self) -> Clicked:
        """The `MOST_PAIRS` latest on each result's document."""

    def latest(self) -> Clicked:
        """The `MOST_LIKENESSES` latest of all."""

    def in_place(self, kind: str) -> tuple[Int64s, Int64s]:
        """(r,) clicks on documents in the same place as each result's, ever and lately."""


class PublicPast(Past, Protocol):
    """Everyone's, which also knows what was shown."""

    def shown(self) -> Int64s:
        """(r,) results shown to anyone."""

    def rate(self, kind: str) -> tuple[Int64s, Int64s]:
        """(r,) clicks on, and showings of, what is in the same place; of the same document for 'document'."""


def on_document(past: Past) -> Columns:
    """How often and how lately this document was clicked."""
    found = past.on_document()
    pairs, back = found.pairs, found.back
    return {
        "clicks": pairs.total(np.ones(len(back))),
        "decayed_clicks": pairs.total(past.scope.faded(back)),
        "steps_back": -pairs.highest(-back),
        "age": np.log1p(-pairs.highest(-found.age)),
    }


def for_query(past: Past, queries: QueryPairs, asked: Int64s) -> Columns:
    """How often this document was clicked for the same query, a part of it, more than it, one like it.

    ``asked`` (r,) is what is asked now.
    """
    found = past.on_document()
    pairs, now, then = found.pairs, asked[found.pairs.asked], found.query
    same, alike = queries.same(now, then), queries.alike(now, then)
    return {
        "same_query": pairs.total(same),
        "sub_query": pairs.total(queries.within(then, now) & ~same),
        "super_query": pairs.total(queries.within(now, then) & ~same),
        "most_alike_query": pairs.highest(alike, 0.0),
        "alike_queries": pairs.total(alike),
        "very_alike_queries": pairs.total(alike * alike * alike),
    }


def in_places(past: Past) -> Columns:
    """The share of clicks, ever and lately, on documents of the same site, folder, name and kind."""
    columns: Columns = {}
    for name in PLACES:
        ever, lately = past.in_place(name)
        columns[f"{name}_share"] = ever / (past.total + 1)
        columns[f"{name}_lately"] = lately / (np.minimum(past.total, past.scope.window) + 1)
    return columns


def likeness(
    past: Past, queries: QueryPairs, asked: Int64s, fields: DocumentFields, document: Int64s, compared: Int64s
) -> Columns:
    """How like this document the latest clicked ones are, in title and text, and so for queries like this one.

    ``document`` (r,) and ``compared`` are places in the fields, of the results and of the documents that are compared.
    """
    found = past.latest()
    pairs = found.pairs
    weight = past.scope.faded(found.back)
    weights = np.maximum(pairs.total(weight), 1e-9)
    here, there = document[pairs.asked], compared[found.document]
    alike = queries.alike(asked[pairs.asked], found.query)
    columns: Columns = {}
    for name, vectors in (("title", fields.title_vectors), ("text", fields.text_vectors)):
        like = paired_in_runs(vectors, here, there)
        columns[f"{name}_likeness"] = pairs.total(weight * like) / weights
        columns[f"{name}_most_alike"] = pairs.highest(like, 0.0)
        columns[f"{name}_for_alike_queries"] = pairs.total(alike * like)
    return columns


def rates(past: PublicPast) -> Columns:
    """How often documents were clicked when shown, each rate smoothed by five showings at the rate of all.

    Where nobody tells what was shown, every click is at least one showing.
    """
    overall = (past.total + 1) / (np.maximum(past.shown(), past.total) + 10)
    columns: Columns = {}
    for name in ("document", *PLACES):
        clicked, shown = past.rate(name)
        columns[f"{name}_rate"] = (clicked + 5 * overall) / (np.maximum(shown, clicked) + 5)
    return columns
