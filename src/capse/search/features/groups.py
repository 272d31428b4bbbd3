"""The groups of features, each made of what is given of some lists, whoever found it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from capse.arrays import Float32s, Float64s, Int64s
from capse.errors import UnknownNameError
from capse.search.features.action_features import ActionPast, own_columns, public_columns
from capse.search.features.feature_table import FeatureTable, below_best
from capse.search.features.item_fields import FieldPast, GivenFields, PublicFieldPast, said_columns, taste_columns
from capse.search.features.past import Past, for_query, in_places, likeness, on_document, rates
from capse.search.features.profile_match import UserTopics, profile_columns
from capse.search.features.query_pairs import QueryPairs
from capse.search.features.text_match import DocumentFields, TextMatch
from capse.search.logs.actions import ActionKind

Columns = dict[str, Float64s]
GROUPS = ("rank", "text", "document", "aggregate", "history", "profile", "context", "fields", "taste", "events")
WITHOUT_USER = ("rank", "text", "document", "aggregate", "fields", "events")

# Columns that mean more beside the best of their list.
COMPARED = {
    "document": ("everyone.decayed_clicks", "everyone.folder_rate", "everyone.document_rate"),
    "aggregate": ("everyone.most_alike_query", "everyone.very_alike_queries"),
    "history": (
        "user.site_lately",
        "user.folder_lately",
        "user.decayed_clicks",
        "user.title_likeness",
        "user.text_likeness",
    ),
}


@dataclass(frozen=True)
class Given:
    """What is known of lists with r results, one after the other, when they are shown."""

    position: Float64s  # (r,) the engine's rank, from 1
    lengths: Int64s  # (lists,)
    text: TextMatch
    fields: DocumentFields
    document: Int64s  # (r,) places in the fields
    compared: Int64s  # places in the fields, of the documents that the results are compared with
    texts: Sequence[str]
    query: Int64s  # (r,) places in the texts
    queries: QueryPairs  # of now and then
    asked: Int64s  # (r,) places in these
    session: FieldPast
    user: FieldPast
    everyone: PublicFieldPast
    vectors: tuple[Float32s, UserTopics] | None = None  # (r, k) topics of the results, and those of their users
    said: GivenFields | None = None  # where a schema names fields
    kinds: Sequence[ActionKind] = ()  # of events that are no clicks, where there are any
    done: ActionPast | None = None


def check_groups(groups: Sequence[str]) -> None:
    for group in groups:
        if group not in GROUPS:
            raise UnknownNameError("group of features", group, GROUPS, f"choose from {', '.join(GROUPS)}")


def feature_table(given: Given, groups: Sequence[str]) -> FeatureTable:
    """The features of these groups (r, F)."""
    tables = []
    for group in groups:
        columns = _COLUMNS[group](given)
        for name in COMPARED.get(group, ()):
            columns[f"{name}.below_best"] = below_best(columns[name], given.lengths)
        named = {f"{group}.{name}": column for name, column in columns.items()}
        tables.append(FeatureTable.of(named, len(given.position)))
    return FeatureTable.beside(tables)


def _rank(given: Given) -> Columns:
    return {"position": given.position}


def _text(given: Given) -> Columns:
    return given.text.columns(given.fields, given.document, given.texts, given.query, given.lengths)


def _document(given: Given) -> Columns:
    past = given.everyone
    return given.text.shapes(given.fields, given.document) | _named(
        past, on_document(past) | in_places(past) | rates(past)
    )


def _aggregate(given: Given) -> Columns:
    return _named(given.everyone, for_query(given.everyone, given.queries, given.asked))


def _history(given: Given) -> Columns:
    columns: Columns = {}
    for past in (given.session, given.user):
        found = on_document(past) | for_query(past, given.queries, given.asked) | in_places(past)
        found |= likeness(past, given.queries, given.asked, given.fields, given.document, given.compared)
        columns |= _named(past, found)
    return columns


def _profile(given: Given) -> Columns:
    return profile_columns(*given.vectors) if given.vectors is not None else {}


def _context(given: Given) -> Columns:
    return {
        "results": np.repeat(given.lengths, given.lengths).astype(np.float64),
        "session_clicks": given.session.total.astype(np.float64),
        "user_clicks": given.user.total.astype(np.float64),
    }


def _fields(given: Given) -> Columns:
    return said_columns(given.said, given.lengths, given.everyone) if given.said is not None else {}


def _taste(given: Given) -> Columns:
    columns: Columns = {}
    if given.said is not None:
        columns |= taste_columns(given.said, given.lengths, (given.session, given.user))
    if given.done is not None:
        columns |= own_columns(given.kinds, given.done, given.said)
    return columns


def _events(given: Given) -> Columns:
    return public_columns(given.kinds, given.done, given.everyone) if given.done is not None else {}


_COLUMNS: dict[str, Callable[[Given], Columns]] = {
    "rank": _rank,
    "text": _text,
    "document": _document,
    "aggregate": _aggregate,
    "history": _history,
    "profile": _profile,
    "context": _context,
    "fields": _fields,
    "taste": _taste,
    "events": _events,
}


def _named(past: Past, columns: Columns) -> Columns:
    return {f"{past.scope.name}.{name}": column for name, column in columns.items()}
