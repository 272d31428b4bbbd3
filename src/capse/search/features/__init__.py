"""The features of SP (Bennett et al. 2012; Vu et al. 2015), in groups that can be left out.

    rank        the engine's rank
    text        how query and document match, words only (`capse.search.features.text_match`)
    document    the document alone: its shape, and how often and how lately anyone clicked it and its neighbours
    aggregate   everyone's clicks on the document for this query, parts of it, and queries like it
    history     this user's and this session's clicks on the document and on documents like it
    profile     topics of the document beside those of the user's profiles, where vectors are given
    context     how far user and session have come

A column's name begins with its group. Everything that depends on clicks goes through `KnownClicks`, so that no click at
or after an impression's cutoff can change its features; nothing depends on the order in which a list is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from capse.arrays import Float64s, Int64s
from capse.errors import UnknownNameError
from capse.search.features.context import context_columns
from capse.search.features.earlier import KnownClicks
from capse.search.features.feature_table import FeatureTable, below_best
from capse.search.features.profile_match import Profiles, profile_columns
from capse.search.features.query_pairs import QueryPairs
from capse.search.features.scopes import EVERYONE, SESSION, USER, ScopedClicks
from capse.search.features.text_match import TextMatch
from capse.search.logs.search_log import SearchLog

GROUPS = ("rank", "text", "document", "aggregate", "history", "profile", "context")
WITHOUT_USER = ("rank", "text", "document", "aggregate")

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


def build_features(
    log: SearchLog,
    impressions: Int64s,
    cutoffs: Int64s,
    groups: Sequence[str] = GROUPS,
    *,
    text: TextMatch | None = None,
    profiles: Profiles | None = None,
) -> FeatureTable:
    """The features of these groups, aligned with ``log.rows(impressions)``, from clicks before ``cutoffs`` (n,).

    ``text`` is the catalogue's text if it has been taken apart already; without ``profiles`` that group is empty.
    """
    for group in groups:
        if group not in GROUPS:
            raise UnknownNameError("group of features", group, GROUPS, f"choose from {', '.join(GROUPS)}")
    rows, lengths = log.rows(impressions), log.lengths[impressions]
    text = text or TextMatch(log.documents)
    clicks, queries = KnownClicks.of(log, cutoffs), QueryPairs(log.queries, text)
    session, user, everyone = (ScopedClicks(scope, clicks, rows, text) for scope in (SESSION, USER, EVERYONE))
    columns_of: dict[str, Callable[[], dict[str, Float64s]]] = {
        "rank": lambda: {"position": log.position[rows].astype(np.float64)},
        "text": lambda: _columns(text.features(log, impressions)),
        "document": lambda: (
            text.shapes(log.document[rows])
            | _named("everyone", everyone.on_document() | everyone.in_places() | everyone.rates())
        ),
        "aggregate": lambda: _named("everyone", everyone.for_query(queries)),
        "history": lambda: _history(session, queries) | _history(user, queries),
        "profile": lambda: profile_columns(log, rows, profiles) if profiles is not None else {},
        "context": lambda: context_columns(log, rows, session, user),
    }
    tables = []
    for group in groups:
        columns = columns_of[group]()
        for name in COMPARED.get(group, ()):
            columns[f"{name}.below_best"] = below_best(columns[name], lengths)
        tables.append(FeatureTable.of(_named(group, columns), len(rows)))
    return FeatureTable.beside(tables)


def _columns(table: FeatureTable) -> dict[str, Float64s]:
    return dict(zip(table.names, table.values.T.astype(np.float64), strict=True))


def _history(scoped: ScopedClicks, queries: QueryPairs) -> dict[str, Float64s]:
    found = scoped.on_document() | scoped.for_query(queries) | scoped.in_places() | scoped.likeness(queries)
    return _named(scoped.scope.name, found)


def _named(prefix: str, columns: dict[str, Float64s]) -> dict[str, Float64s]:
    return {f"{prefix}.{name}": column for name, column in columns.items()}
