"""Features of all lists of a log at once.

Everything that depends on clicks goes through `KnownClicks`, so that no click at or after an impression's cutoff can
change its features; nothing depends on the order in which a list is stored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capse.arrays import Bools, Float32s, Int64s
from capse.search.features.action_features import LogActions
from capse.search.features.earlier import KnownClicks
from capse.search.features.feature_table import FeatureTable
from capse.search.features.groups import GROUPS, Given, check_groups, feature_table
from capse.search.features.item_fields import GivenFields, KnownFields
from capse.search.features.log_past import LogPast
from capse.search.features.past import EVERYONE, SESSION, USER
from capse.search.features.profile_match import UserTopics
from capse.search.features.query_pairs import Queries
from capse.search.features.text_match import TextMatch
from capse.search.logs.field_schema import SCOPES
from capse.search.logs.field_values import taken
from capse.search.logs.search_log import SearchLog
from capse.search.users.profiles import NEAREST, user_vectors


def log_features(
    log: SearchLog,
    impressions: Int64s,
    cutoffs: Int64s,
    groups: Sequence[str] = GROUPS,
    *,
    text: TextMatch | None = None,
    vectors: Float32s | None = None,
    known: KnownFields | None = None,
    learning: bool = False,
) -> FeatureTable:
    """The features of these groups, aligned with ``log.rows(impressions)``, from clicks before ``cutoffs`` (n,).

    ``text`` is the catalogue's text if it has been taken apart already; without the documents' ``vectors`` (D, k) the
    group 'profile' is empty, without ``known`` fields the groups 'fields' and 'taste'. While ``learning``, crossed
    fields have what was clicked before each list, not what the run has counted until its test period.
    """
    check_groups(groups)
    rows, text = log.rows(impressions), text or TextMatch(log.documents)
    clicks = KnownClicks.of(log, cutoffs)
    asked = log.query[log.impression[rows]].astype(np.int64)
    texts, query = np.unique(asked, return_inverse=True)
    topics = None
    if vectors is not None and "profile" in groups:
        topics = vectors[log.document[rows]], _user_topics(log, rows, cutoffs, vectors)
    given = Given(
        position=log.position[rows].astype(np.float64),
        lengths=log.lengths[impressions],
        text=text,
        fields=text.taken,
        document=log.document[rows].astype(np.int64),
        compared=np.arange(len(text.taken)),
        texts=[log.queries[number] for number in texts.tolist()],
        query=query,
        queries=Queries(text).pairs(log.queries),
        asked=asked,
        session=LogPast(SESSION, clicks, rows),
        user=LogPast(USER, clicks, rows),
        everyone=LogPast(EVERYONE, clicks, rows),
        vectors=topics,
        said=_said(log, rows, known, clicks if learning else None) if known is not None and known.schema else None,
        kinds=() if known is None else known.kinds,
        done=LogActions(log, rows, cutoffs) if known is not None and known.kinds else None,
    )
    return feature_table(given, groups)


def _said(log: SearchLog, rows: Int64s, known: KnownFields, clicks: KnownClicks | None) -> GivenFields:
    """``clicks``: what each list may use for crossed fields; None: what the run has counted."""
    impressions, fields = log.impression[rows], log.fields
    item, user, request, result = (
        {name: getattr(fields, scope)[name] for name in known.schema.types(scope)} for scope in SCOPES
    )
    crossed = None
    if clicks is not None:
        crossed = {
            (scope, own, name): crossing.before_each(fields.of(scope)[own], fields.item[name], clicks)[rows]
            for (scope, own, name), crossing in known.crossings.items()
        }
    return GivenFields(
        known,
        taken(item, log.document[rows].astype(np.int64)),
        taken(user, impressions),
        taken(request, impressions),
        taken(result, rows),
        log.time[impressions].astype(np.float64),
        crossed,
    )


def _user_topics(log: SearchLog, rows: Int64s, cutoffs: Int64s, vectors: Float32s) -> UserTopics:
    found: dict[str, tuple[Float32s, Bools]] = {}
    for scale in NEAREST:
        users, known = user_vectors(log, vectors, cutoffs, scale)
        found[scale] = users[log.impression[rows]], known[log.impression[rows]]
    return found
