"""Features know only what was clicked before the cutoff, and nothing of how a list is stored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capse.errors import SettingsError, UnknownNameError
from capse.search.evaluation.judged_lists import shuffled
from capse.search.features import GROUPS, log_features
from capse.search.features.feature_table import FeatureTable, below_best, ranks_within, standardised
from capse.search.features.profile_match import cosine, negative_divergence
from capse.search.logs.history import cutoffs
from capse.search.logs.search_log import NO_TIME, SearchLog

TOPICS = np.random.default_rng(0).dirichlet(np.full(4, 0.5), 9).astype(np.float32)  # of a busy log's nine documents


def features(log, impressions, until):
    return log_features(log, impressions, until, vectors=TOPICS)


def relabelled(log, moment, seed):
    """Another future: every label at or after a moment drawn anew, never before the moment or its own impression."""
    draw = np.random.default_rng(seed)
    settled = log.satisfied & (log.clicked_at < moment)
    fresh = ~settled & (draw.random(len(log.document)) < 0.5)
    at = np.maximum(log.time[log.impression], moment) + draw.integers(0, 3, len(log.document))
    clicked_at = np.where(settled, log.clicked_at, np.where(fresh, at, NO_TIME))
    return replace(log, clicked=settled | fresh, satisfied=settled | fresh, clicked_at=clicked_at)


@settings(max_examples=25)
@given(st.integers(0, 30), st.integers(0, 39), st.integers(0, 5))
def test_nothing_at_or_after_the_cutoff_changes_a_feature(busy_log, seed, impression, other_seed):
    log = busy_log(seed)
    moment = int(log.time[impression])
    future = relabelled(log, moment, other_seed)
    now = np.flatnonzero(log.time <= moment)  # prequential: none of them knows more than what is before the moment
    for known in (log.time, np.minimum(log.time, moment - 3_000_000)):
        before, after = features(log, now, known), features(future, now, known)
        assert before.names == after.names
        np.testing.assert_array_equal(before.values, after.values)


def test_the_past_does_change_features(busy_log):
    log = busy_log(0)
    everything = np.arange(len(log))
    with_past, without = features(log, everything, log.time), features(log, everything, np.zeros_like(log.time))
    changed = {
        name
        for name in with_past.names
        if not np.array_equal(with_past.column(name), without.column(name), equal_nan=True)
    }
    groups = {name.split(".")[0] for name in changed}
    assert groups == {"document", "aggregate", "history", "profile", "context"}
    assert {"history.user.clicks", "history.session.same_query", "aggregate.everyone.same_query"} <= changed


@given(st.integers(0, 30))
def test_nothing_depends_on_how_a_list_is_stored(busy_log, seed):
    log = busy_log(seed)
    other = shuffled(log, seed + 1)
    everything = np.arange(len(log))
    back = np.lexsort((other.position, other.impression))
    for known in (cutoffs(log), cutoffs(log, "frozen")):
        here, there = features(log, everything, known), features(other, everything, known)
        np.testing.assert_allclose(here.values, there.values[back], rtol=1e-5, atol=1e-6)


@given(st.integers(0, 30))
def test_a_list_has_the_same_features_whatever_else_is_asked(busy_log, seed):
    log = busy_log(seed)
    some = np.flatnonzero(np.random.default_rng(seed).random(len(log)) < 0.3)
    whole = features(log, np.arange(len(log)), log.time)
    np.testing.assert_allclose(features(log, some, log.time).values, whole.values[log.rows(some)], rtol=1e-6)


def counted(log, row, owner, same_query=False):
    """Earlier satisfied clicks of an owner on a row's document."""
    here = log.impression[row]

    def said(impression):
        return log.queries[log.query[impression]].lower().split()

    return sum(
        log.satisfied[other]
        and log.clicked_at[other] < log.time[here]
        and log.document[other] == log.document[row]
        and owner[log.impression[other]] == owner[here]
        and (not same_query or said(log.impression[other]) == said(here))
        for other in range(len(log.document))
    )


@pytest.mark.parametrize("seed", range(3))
def test_counts_as_written_out(busy_log, seed):
    log = busy_log(seed)
    table = features(log, np.arange(len(log)), log.time)
    nobody = np.zeros(len(log), int)
    session = log.user.astype(int) * len(log.sessions) + log.session  # sessions of two users may have one name
    scopes = {"history.user": log.user, "history.session": session, "aggregate.everyone": nobody}
    for prefix, owner in scopes.items():
        expected = [counted(log, row, owner, same_query=True) for row in range(len(log.document))]
        assert list(table.column(f"{prefix}.same_query")) == expected
    for prefix, owner in {**scopes, "document.everyone": nobody}.items():
        if prefix != "aggregate.everyone":
            expected = [counted(log, row, owner) for row in range(len(log.document))]
            assert list(table.column(f"{prefix}.clicks")) == expected
    assert sum(table.column("history.user.clicks")) > 0


def test_queries_within_queries():
    asked = ["fix typo", "fix", "fix typo now", "fix typo", "add"]
    log = SearchLog.from_records(
        {"time": time, "user": "u", "query": query, "results": ["d", "e"], "clicks": ["d"]}
        for time, query in enumerate(asked)
    )
    table = log_features(log, np.array([3]), log.time)
    found = {name: table.column(f"history.user.{name}")[0] for name in ("same_query", "sub_query", "super_query")}
    assert found == {"same_query": 1, "sub_query": 1, "super_query": 1}


def test_decayed_clicks():
    """One click back counts 1, each further one 0.95 as much."""
    clicks = ["d", "e", "d", "d"]
    log = SearchLog.from_records(
        {"time": time, "user": "u", "query": "q", "results": ["d", "e"], "clicks": [click]}
        for time, click in enumerate(clicks)
    )
    table = log_features(log, np.array([3]), log.time)
    assert table.column("history.user.decayed_clicks") == pytest.approx([1 + 0.95**2, 0.95])
    assert table.column("history.user.steps_back") == pytest.approx([0, 1])


def test_groups_can_be_left_out(busy_log):
    log = busy_log(1)
    some = np.arange(5)
    for group in GROUPS:
        names = log_features(log, some, log.time, [group]).names
        assert all(name.startswith(f"{group}.") for name in names)
        assert (names == ()) == (group in ("profile", "fields", "taste", "events"))  # without vectors, without a schema
    with pytest.raises(UnknownNameError, match="history"):
        log_features(log, some, log.time, ["histroy"])


def test_a_log_without_clicks_has_features(busy_log):
    log = busy_log(2)
    nothing = np.zeros(len(log.document), bool)
    log = replace(log, satisfied=nothing, clicked=nothing, clicked_at=np.full(len(nothing), NO_TIME))
    table = log_features(log, np.arange(len(log)), log.time)
    assert (table.column("history.user.clicks") == 0).all()
    assert len(log_features(log, np.array([], np.int64), log.time)) == 0


def test_topics_beside_profiles():
    p, q = np.array([[1, 0], [0.5, 0.5]], np.float32), np.array([[0, 1], [0.5, 0.5]], np.float32)
    assert cosine(p, q) == pytest.approx([0, 1])
    assert negative_divergence(p, q) == pytest.approx([-np.log(2), 0])
    assert cosine(p, 0 * q) == pytest.approx([0, 0])


def test_values_within_their_list():
    lengths, values = np.array([2, 0, 3]), np.array([1.0, 4.0, 2.0, np.nan, 2.0])
    assert list(ranks_within(values, lengths)) == [1, 0, 0, 2, 0]
    assert list(below_best(np.array([1.0, 4.0, 2.0, 5.0, 2.0]), lengths)) == [-3, 0, -3, 0, -3]
    assert standardised(np.array([1.0, 3.0, 7.0, 7.0, 7.0]), lengths) == pytest.approx([-1, 1, 0, 0, 0])


def test_a_column_of_another_length_is_refused():
    with pytest.raises(SettingsError, match=r"'a' has shape \(3,\)"):
        FeatureTable.of({"a": np.zeros(3)}, 2)
