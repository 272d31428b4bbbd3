"""What is remembered of a user equals what the whole log says, and survives being stored."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capse.errors import RunError, SettingsError
from capse.search.logs.history import Replay, cutoffs
from capse.search.logs.search_log import SearchLog
from capse.search.users.profiles import Scale, user_vectors
from capse.search.users.user_state import KEPT, REMEMBERED, ProfileSettings, UserState

DAY = 86_400
VECTORS = np.random.default_rng(0).random((5, 3)).astype(np.float32)


@st.composite
def logs(draw: st.DrawFn) -> SearchLog:
    """Two users; sessions follow one another, as many as are kept at once; nights fall in between."""
    time, sessions = 0, {"ada": 0, "bob": 0}
    records = []
    for _ in range(draw(st.integers(1, 25))):
        time += draw(st.sampled_from([0, 1, 600, DAY]))
        user = draw(st.sampled_from(["ada", "bob"]))
        sessions[user] += draw(st.booleans())
        shown = draw(st.permutations(["d0", "d1", "d2", "d3", "d4"]))[:3]
        clicks = draw(st.lists(st.sampled_from(shown), max_size=2, unique=True))
        session = f"{user}-{sessions[user]}"
        records.append(
            {"time": time, "user": user, "session": session, "query": "q", "results": shown, "clicks": clicks}
        )
    return SearchLog.from_records(records)


@settings(max_examples=60, deadline=None)
@given(logs(), st.sampled_from(["session", "daily", "long", "nearest"]))
def test_a_replayed_log_gives_the_vectors_of_the_whole_log(log: SearchLog, scale: Scale) -> None:
    places = [int(label[1:]) for label in log.documents.ids]
    expected, known = user_vectors(log, VECTORS[places], cutoffs(log), scale)
    states = {user: UserState.empty(3) for user in log.users}
    for event in Replay(log, cutoffs(log)):
        if event.kind == "click":
            impression, document = int(log.impression[event.number]), int(log.document[event.number])
            state = states[log.users[log.user[impression]]]
            session, at = log.sessions[log.session[impression]], int(log.clicked_at[event.number])
            state.click(log.documents.ids[document], VECTORS[places[document]], session, at)
        else:
            user = log.users[log.user[event.number]]
            session, at = log.sessions[log.session[event.number]], int(log.time[event.number])
            states[user] = UserState.from_mapping(json.loads(json.dumps(states[user].to_mapping(), sort_keys=True)))
            vector, found = states[user].profile(session, at, scale)
            assert found == known[event.number]
            np.testing.assert_array_equal(vector, expected[event.number])


def test_old_sessions_days_and_documents_are_forgotten() -> None:
    state = UserState.empty(3)
    for number in range(60):
        state.click(f"d{number}", VECTORS[number % 5], f"s{number}", number * DAY * 10**6)
    assert {scale: len(profiles) for scale, profiles in state.profiles.items()} == KEPT
    assert len(state.recent) == REMEMBERED
    assert state.recent[-1].id == "d59"
    assert not state.profile("s1", 0, "session")[1]
    assert state.profile("s1", 0, "nearest")[1]  # by the long-term profile


def test_what_was_left_open_lately_is_still_there() -> None:
    """Four sessions and two days, the latest; what lies before them is gone."""
    state = UserState.empty(3)
    for number in range(5):
        state.click("d0", VECTORS[0], f"s{number}", number * DAY * 10**6)
    assert [state.profile(f"s{n}", 0, "session")[1] for n in range(5)] == [False, True, True, True, True]
    assert [state.profile("", n * DAY * 10**6, "daily")[1] for n in range(5)] == [False, False, False, True, True]


def test_days_are_those_of_the_clicks() -> None:
    day = DAY * 10**6
    state = UserState.empty(3)
    state.click("d0", VECTORS[0], "s", day - 1)
    state.click("d1", VECTORS[1], "s", day)
    np.testing.assert_array_equal(state.profile("t", day - 1, "daily")[0], VECTORS[0])
    np.testing.assert_array_equal(state.profile("t", 2 * day - 1, "daily")[0], VECTORS[1])
    assert not state.profile("t", 2 * day, "daily")[1]


def test_a_document_without_a_vector_is_remembered_by_its_id_alone() -> None:
    state = UserState.empty(3)
    state.click("lost", None, "s", 1)
    assert [document.id for document in state.recent] == ["lost"]
    assert not state.profile("s", 2, "nearest")[1]


@pytest.mark.parametrize(
    "change",
    [{"width": 4}, {"decay": "slow"}, {"profiles": {}}, {"recent": [{"id": "d"}]}, {"profiles": {"session": 3}}],
)
def test_a_damaged_state_is_refused(change: dict[str, object]) -> None:
    state = UserState.empty(3)
    state.click("d0", VECTORS[0], "s", 1)
    with pytest.raises(RunError, match="damaged: remove it"):
        UserState.from_mapping({**state.to_mapping(), **change})


def test_a_vector_of_another_width_is_refused() -> None:
    with pytest.raises(SettingsError, match="learn with the run"):
        UserState.empty(3).click("d0", np.zeros(4, np.float32), "s", 1)


@pytest.mark.parametrize("decay", [0, 1.1])
def test_a_decay_is_above_zero_and_at_most_one(decay: float) -> None:
    with pytest.raises(SettingsError, match=r"profile\.decay"):
        ProfileSettings(decay=decay)
