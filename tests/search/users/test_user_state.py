"""What is remembered of a user equals what the whole log says, and survives being stored."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capse.arrays import Float32s
from capse.errors import RunError, SettingsError
from capse.search.logs.history import Replay, cutoffs
from capse.search.logs.search_log import SearchLog
from capse.search.users.profiles import REMEMBERED, Scale, user_vectors
from capse.search.users.user_state import DocumentText, PastClick, ProfileSettings, UserState

DAY = 86_400
VECTORS: Float32s = np.random.default_rng(0).random((5, 3)).astype(np.float32)
TABLE = {f"d{number}": vector for number, vector in enumerate(VECTORS)}


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
    states = {user: UserState() for user in log.users}
    for event in Replay(log, cutoffs(log)):
        if event.kind == "click":
            impression, document = int(log.impression[event.number]), int(log.document[event.number])
            state = states[log.users[log.user[impression]]]
            session, at = log.sessions[log.session[impression]], int(log.clicked_at[event.number])
            state.click(PastClick(log.documents.ids[document], session, at, "q"))
        else:
            user = log.users[log.user[event.number]]
            session, at = log.sessions[log.session[event.number]], int(log.time[event.number])
            states[user] = UserState.from_bytes(states[user].to_bytes())
            vector = states[user].profile(TABLE.get, session, at, scale)
            assert (vector is not None) == known[event.number]
            np.testing.assert_array_equal(np.zeros(3) if vector is None else vector, expected[event.number])


def test_the_latest_clicks_are_remembered_and_texts_as_long_as_a_click_on_them() -> None:
    state = UserState()
    state.click(PastClick("new", "s", 0), DocumentText("A title"))
    for number in range(REMEMBERED - 1):
        state.click(PastClick(f"d{number}", f"s{number}", number * DAY * 10**6))
    assert set(state.texts) == {"new"}
    state.click(PastClick("last", "s", REMEMBERED * DAY * 10**6))
    assert len(state.clicks) == REMEMBERED
    assert [state.clicks[0].document, state.clicks[-1].document, state.texts] == ["d0", "last", {}]
    assert state.profile(TABLE.get, "s9", 0, "session") is None
    assert state.profile(TABLE.get, "s9", 0, "nearest") is not None  # by the long-term profile


def test_days_are_those_of_the_clicks() -> None:
    day = DAY * 10**6
    state = UserState([PastClick("d0", "s", day - 1), PastClick("d1", "s", day)])
    np.testing.assert_array_equal(state.profile(TABLE.get, "t", day - 1, "daily"), VECTORS[0])
    np.testing.assert_array_equal(state.profile(TABLE.get, "t", 2 * day - 1, "daily"), VECTORS[1])
    assert state.profile(TABLE.get, "t", 2 * day, "daily") is None


def test_clicks_on_documents_without_a_vector_make_no_profile() -> None:
    state = UserState([PastClick("d0", "s", 1), PastClick("lost", "t", 2)])
    np.testing.assert_array_equal(state.profile(TABLE.get, "t", 3, "nearest"), VECTORS[0])
    assert UserState([PastClick("lost", "s", 1)]).profile(TABLE.get, "s", 2) is None


words = st.text(st.characters(codec="utf-8"), max_size=5)
clicks = st.builds(PastClick, words, words, st.integers(0, 2**53), words)
texts = st.builds(DocumentText, words, st.none() | words)


@settings(max_examples=60, deadline=None)
@given(st.lists(clicks, max_size=8), st.dictionaries(words, texts, max_size=3))
def test_a_stored_state_is_the_same_state(past: list[PastClick], known: dict[str, DocumentText]) -> None:
    state = UserState(past, known)
    assert UserState.from_bytes(state.to_bytes()) == state
    assert UserState.from_mapping(json.loads(json.dumps(state.to_mapping()))) == state


def test_a_full_state_is_a_few_kilobytes() -> None:
    """As clicks are in gitsearch: ids of twenty letters, queries of fifty, a new session every third click."""
    random = np.random.default_rng(0)
    vocabulary = ["".join(random.choice(list("etaoinshrdlu"), 6)) for _ in range(500)]
    state = UserState()
    for number in range(REMEMBERED):
        words = [str(word) for word in random.choice(vocabulary, 10)]
        state.click(PastClick("/".join(words[:3]), f"s{number // 3}", number * 10**9, " ".join(words[3:])))
    assert len(state.to_bytes()) < 10_000


def test_states_from_before_are_read_as_their_clicks() -> None:
    old = {"width": 3, "decay": 0.9, "profiles": {}, "recent": [{"id": "d1", "session": "s", "time": 7}]}
    assert UserState.from_mapping(old) == UserState([PastClick("d1", "s", 7)])


@pytest.mark.parametrize(
    "change", [{"clicks": [{"document": "d"}]}, {"clicks": 3}, {"texts": {"d": 3}}, {"recent": [1]}]
)
def test_a_damaged_state_is_refused(change: dict[str, object]) -> None:
    state = UserState([PastClick("d0", "s", 1)])
    with pytest.raises(RunError, match="damaged: remove it"):
        UserState.from_mapping({**state.to_mapping(), **change})


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\x01no", UserState().to_bytes()[:-3], b"\x02" + UserState().to_bytes()[1:]]
)
def test_damaged_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(RunError, match="damaged: remove it"):
        UserState.from_bytes(content)


@pytest.mark.parametrize("decay", [0, 1.1])
def test_a_decay_is_above_zero_and_at_most_one(decay: float) -> None:
    with pytest.raises(SettingsError, match=r"profile\.decay"):
        ProfileSettings(decay=decay)
