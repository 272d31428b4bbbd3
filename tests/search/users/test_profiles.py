"""User vectors against the formula written out, and never a click at or after the cutoff."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capse.errors import SettingsError
from capse.search.logs.history import Clicks, Replay, cutoffs
from capse.search.logs.search_log import SearchLog
from capse.search.users.profiles import DECAY, REMEMBERED, profile_key, profile_vector, user_vectors

DAY = 86_400
DOCUMENTS = [f"d{number}" for number in range(6)]
SCALES = ("session", "daily", "long", "nearest")

records = st.lists(
    st.fixed_dictionaries(
        {
            "time": st.sampled_from([0, 1, 2, DAY - 1, DAY, DAY + 1, 3 * DAY]),
            "user": st.sampled_from(["ada", "bob"]),
            "session": st.sampled_from(["s", "t"]),
            "query": st.just("q"),
            "results": st.permutations(DOCUMENTS[:4]),
            "clicks": st.sets(st.sampled_from(DOCUMENTS[:4]), max_size=2),
        }
    ),
    min_size=1,
    max_size=12,
)


def log_of(records):
    return SearchLog.from_records(sorted(records, key=lambda record: record["time"]))


def brute_force(log, vectors, cutoff, impression, scale):
    """Σ α^(t−1) v_t / Σ α^(t−1) over the clicks that count, the most recent first; None where there is none."""
    clicks = []
    for row in np.flatnonzero(log.satisfied):
        owner = log.impression[row]
        same = {
            "session": log.session[owner] == log.session[impression],
            "daily": log.clicked_at[row] // (DAY * 10**6) == log.time[impression] // (DAY * 10**6),
            "long": True,
        }[scale]
        if log.user[owner] == log.user[impression] and same and log.clicked_at[row] < cutoff:
            clicks.append((log.clicked_at[row], owner, log.position[row], log.document[row]))
    if not clicks:
        return None
    weights = [0.9**place for place in range(len(clicks))]
    recent_first = [document for *_, document in sorted(clicks, reverse=True)]
    return sum(w * vectors[d] for w, d in zip(weights, recent_first, strict=True)) / sum(weights)


@settings(max_examples=60, deadline=None)
@given(records, st.integers(0, 3 * DAY * 10**6), st.sampled_from(SCALES))
def test_a_profile_is_the_formula_over_what_came_before_its_cutoff(records, latest, scale):
    """Documents are unit vectors, so that a profile tells which clicks are in it."""
    log = log_of(records)
    vectors = np.eye(len(log.documents), 6, dtype=np.float32)
    at = np.minimum(log.time, latest)
    found, known = user_vectors(log, vectors, at, scale)
    for impression in range(len(log)):
        scales = SCALES[:3] if scale == "nearest" else (scale,)
        candidates = (brute_force(log, vectors, at[impression], impression, one) for one in scales)
        expected = next((vector for vector in candidates if vector is not None), None)
        assert known[impression] == (expected is not None)
        assert found[impression] == pytest.approx(np.zeros(6) if expected is None else expected, abs=1e-6)
        later = log.document[log.satisfied & (log.clicked_at >= at[impression])]
        earlier = log.document[log.satisfied & (log.clicked_at < at[impression])]
        assert not found[impression][np.setdiff1d(later, earlier)].any()


def test_the_papers_weights():
    """Two documents: 0.9 / 1.9 for the older, as every two-document session of SEARCH17 has it."""
    log = log_of(
        [
            {"time": 1, "user": "u", "query": "q", "results": ["a", "b"], "clicks": ["a"]},
            {"time": 2, "user": "u", "query": "q", "results": ["a", "b"], "clicks": ["b"]},
            {"time": 3, "user": "u", "query": "q", "results": ["a", "b"], "clicks": []},
        ]
    )
    found, known = user_vectors(log, np.eye(2, dtype=np.float32), cutoffs(log))
    assert found[2] == pytest.approx([0.9 / 1.9, 1 / 1.9])
    assert known.tolist() == [False, True, True]
    assert DECAY == 0.9


def test_another_decay():
    clicks = ((1, "a"), (2, "b"), (3, "a"))
    log = log_of(
        [{"time": at, "user": "u", "query": "q", "results": ["a", "b"], "clicks": [label]} for at, label in clicks]
    )
    found, _ = user_vectors(log, np.eye(2, dtype=np.float32), cutoffs(log), decay=0.5)
    assert found[2] == pytest.approx([1 / 3, 2 / 3])


def test_a_click_belongs_to_the_day_on_which_it_was_made():
    """Shown before midnight, clicked after it: the new day's profile has it, the old day's has not."""
    asked = {"user": "u", "query": "q", "results": ["a", "b"]}
    times = (DAY - 20, DAY - 1, DAY + 9)
    log = log_of([{"time": at, "clicks": ["a"] if at == DAY - 20 else [], **asked} for at in times])
    log = replace(log, clicked_at=np.where(log.satisfied, (DAY + 5) * 10**6, log.clicked_at))
    late = np.full(len(log), (DAY + 10) * 10**6)  # the click is known to all three; only its day differs
    found, known = user_vectors(log, np.eye(2, dtype=np.float32), late, "daily")
    assert known.tolist() == [False, False, True]
    assert found.tolist() == [[0, 0], [0, 0], [1, 0]]


def test_an_unknown_scale_is_refused():
    log = log_of([{"time": 1, "user": "u", "query": "q", "results": ["a"], "clicks": []}])
    with pytest.raises(SettingsError, match=r"scale.sesion.*did you mean 'scale.session'"):
        user_vectors(log, np.eye(1, dtype=np.float32), cutoffs(log), "sesion")  # type: ignore[arg-type] # that is the mistake


def test_the_vector_of_some_clicks_is_the_formula() -> None:
    rows = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    weights = 0.9 ** np.arange(7)[::-1]
    assert profile_vector(rows) == pytest.approx(weights @ rows / weights.sum(), rel=1e-6)


def test_keys_of_profiles() -> None:
    noon, midnight = DAY * 10**6 // 2, DAY * 10**6
    assert profile_key("session", "u", "s", noon) == ("session", "u", "s")
    assert profile_key("daily", "u", "s", noon) == profile_key("daily", "u", "t", midnight - 1)
    assert profile_key("daily", "u", "s", noon) != profile_key("daily", "u", "s", midnight)
    assert profile_key("long", "u", "s", noon) == ("long", "u")


def test_what_is_older_than_the_latest_clicks_is_forgotten() -> None:
    """One user with two sessions and more clicks than are remembered, with a decay that would show them."""
    asked = {"user": "u", "query": "q", "results": ["a", "b"]}
    many = REMEMBERED + 5
    log = log_of(
        [
            {"time": at, "session": "s" if at < 3 else "t", "clicks": ["a" if at < 10 else "b"], **asked}
            for at in range(many)
        ]
        + [{"time": many, "session": one, "clicks": [], **asked} for one in ("s", "t")]
    )
    vectors, at = np.eye(2, dtype=np.float32), cutoffs(log)
    long, _ = user_vectors(log, vectors, at, "long", decay=1.0)
    for forgotten in (1, 5):  # of ten clicks on a, as many as are one too many
        assert long[REMEMBERED + forgotten] == pytest.approx(
            [(10 - forgotten) / REMEMBERED, (190 + forgotten) / REMEMBERED]
        )
    session, known = user_vectors(log, vectors, at, "session", decay=1.0)
    assert known[-2:].tolist() == [False, True]
    assert session[-1].tolist() == long[-1].tolist()


class TestHistory:
    @settings(max_examples=40, deadline=None)
    @given(records, st.sampled_from(["prequential", "frozen"]))
    def test_a_replay_tells_each_impression_the_clicks_before_its_cutoff(self, records, kind):
        split = {record["time"]: "test" if record["time"] > 1 else "train" for record in records}
        log = log_of([{**record, "split": split[record["time"]]} for record in records])
        if not len(log.of_split("test")):
            return
        at = cutoffs(log, kind)
        told, asked = [], 0
        for event in Replay(log, at):
            if event.kind == "click":
                told.append(event.number)
                continue
            asked += 1
            assert set(told) == set(np.flatnonzero(log.satisfied & (log.clicked_at < at[event.number])))
        assert asked == len(log)
        assert sorted(told) == np.flatnonzero(log.satisfied).tolist()

    def test_frozen_history_ends_where_the_split_begins(self):
        log = log_of(
            [
                {"time": time, "user": "u", "query": "q", "results": ["a"], "clicks": ["a"], "split": split}
                for time, split in ((1, "train"), (5, "valid"), (9, "test"), (11, "test"))
            ]
        )
        assert (cutoffs(log) == log.time).all()
        assert (cutoffs(log, "frozen") / 10**6).tolist() == [1, 5, 9, 9]
        assert (cutoffs(log, "frozen", "valid") / 10**6).tolist() == [1, 5, 5, 5]

    def test_clicks_are_in_time_order_and_by_position_within_a_moment(self):
        log = log_of([{"time": 1, "user": "u", "query": "q", "results": ["a", "b", "c"], "clicks": ["c", "a"]}])
        assert Clicks.of(log).rows.tolist() == [0, 2]
