"""Each event once, and the state that folding once gives, whatever is repeated, grouped or late."""

from __future__ import annotations

import itertools
import random
import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from capse.errors import EventConflictError, EventError
from capse.search.satisfaction import Satisfaction
from capse.search.users.profiles import REMEMBERED
from capse.search.users.user_state import DocumentText, PastClick, UserState
from capse.service.limits import MAX_EVENTS, REMEMBERED_TEXT
from capse.service.store import Event, Store, schema
from tests.service.store.states import seen


class TestRepeats:
    def test_an_event_sent_again_changes_nothing(self, store, make):
        events = [make("i", "impression"), make("c")]
        assert store.add(events) == ["accepted", "accepted"]
        assert store.add([*events, make("c2")]) == ["repeated", "repeated", "accepted"]
        assert seen(store.state("ada")) == ["c", "c2"]
        assert store.events("ada") == [*events, make("c2")]

    def test_within_one_request(self, store, make):
        assert store.add([make("c"), make("c")]) == ["accepted", "repeated"]
        assert seen(store.state("ada")) == ["c"]

    @pytest.mark.parametrize(
        "changed", [{"session": "s2"}, {"time": 10**15 + 2}, {"document": "d2"}, {"dwell": 31.0}, {"query": "other"}]
    )
    def test_the_same_id_with_another_content_is_an_error_that_names_it(self, store, make, changed):
        store.add([make("c")])
        with pytest.raises(EventConflictError, match="event 'c' was sent before with another content"):
            store.add([make("new"), make("c", **changed)])
        assert seen(store.state("ada")) == ["c"], "all or none"
        with pytest.raises(EventConflictError):
            store.add([make("x"), make("x", **changed)])
        assert store.add([make("x")]) == ["accepted"]

    def test_ids_are_a_users_own(self, store, make):
        """Nobody can take an id from somebody else, or learn that it was used."""
        store.add([make("c"), make("w", "dwell", dwell=50.0)])
        assert store.add([make("c", user="eve"), make("w", "dwell", user="eve", dwell=1.0)]) == ["accepted"] * 2
        assert store.add([make("c")]) == ["repeated"]
        assert (seen(store.state("ada")), seen(store.state("eve"))) == (["c"], ["c"])

    def test_after_a_restart_too(self, url, make):
        with Store.open(url) as store:
            store.add([make("c")])
        with Store.open(url) as store:
            assert store.add([make("c")]) == ["repeated"]
            assert seen(store.state("ada")) == ["c"]

    def test_whether_the_run_knew_the_document_by_then_makes_no_difference(self, store, make):
        assert store.add([make("c", title="A title", text="A text")]) == ["accepted"]
        assert store.add([make("c")]) == ["repeated"]
        assert store.add([make("titled", title="A title")]) == ["accepted"]
        assert store.add([make("titled")]) == ["repeated"]


class TestSatisfaction:
    """What counts is folded; what does not (yet) is kept."""

    def test_a_short_click_is_kept_and_not_folded_once_another_follows(self, store, make):
        store.add([make("short", dwell=3.0)])
        assert seen(store.state("ada")) == ["short"], "the last of its session, so far"
        store.add([make("i", "impression"), make("elsewhere", session="s2")])
        assert seen(store.state("ada")) == ["short", "elsewhere"]
        store.add([make("long", dwell=30.0)])
        assert seen(store.state("ada")) == ["elsewhere", "long"]
        assert (store.describe_user("ada").clicks, store.describe_user("ada").satisfied) == (3, 2)

    def test_a_click_that_comes_late_is_not_the_last(self, store, make):
        first, second, third = (make(id) for id in "abc")
        store.add([make("c", dwell=1.0), make("b", dwell=1.0)])
        assert seen(store.state("ada")) == ["c"]
        store.add([make("a", dwell=31.0)])
        assert seen(store.state("ada")) == ["c", "a"]
        assert first.time < second.time < third.time

    def test_clicks_at_the_same_last_moment_are_all_last(self, store, make):
        at = 1_700_000_050_000_000
        store.add([make("a", dwell=1.0, time=at), make("b", dwell=1.0, time=at)])
        assert seen(store.state("ada")) == ["a", "b"]
        store.add([make("c", time=at + 1)])
        assert seen(store.state("ada")) == ["c"]

    def test_the_last_click_can_be_a_click_like_others(self, url, make):
        with Store.open(url, rule=Satisfaction(last=False)) as store:
            store.add([make("short", dwell=3.0)])
            assert seen(store.state("ada")) == []

    def test_a_click_that_waits_counts_when_its_dwell_arrives(self, url, make):
        with Store.open(url, rule=Satisfaction(without_dwell="last")) as store:
            store.add([make("c"), make("next")])
            assert seen(store.state("ada")) == ["next"]
            store.add([make("w1", "dwell", dwell=10.0)])
            assert seen(store.state("ada")) == ["next"]
            store.add([make("w2", "dwell", dwell=30.0)])
            assert seen(store.state("ada")) == ["next", "c"]

    def test_a_click_that_turns_out_short_is_taken_back(self, store, make):
        store.add([make("a"), make("c"), make("b")])
        assert seen(store.state("ada")) == ["a", "c", "b"]
        store.add([make("w", "dwell", dwell=3.0)])
        assert seen(store.state("ada")) == ["a", "b"]
        store.add([make("w2", "dwell", dwell=33.0)])
        assert seen(store.state("ada")) == ["a", "b", "c"]

    @pytest.mark.parametrize("together", [True, False], ids=["in one request", "one after the other"])
    def test_a_later_shorter_dwell_does_not_undo_a_satisfied_click(self, store, make, together):
        events = [make("c"), *(make(f"w{seconds}", "dwell", dwell=seconds) for seconds in (40.0, 3.0, 5.0))]
        for request in [events] if together else [[event] for event in events]:
            store.add(request)
        store.add([make("next")])
        assert seen(store.state("ada")) == ["c", "next"]

    def test_nor_one_whose_dwell_came_with_the_click(self, store, make):
        store.add([make("c", dwell=40.0), make("next")])
        store.add([make("w", "dwell", dwell=3.0)])
        assert seen(store.state("ada")) == ["c", "next"]

    def test_a_click_that_is_taken_back_makes_room_for_an_older_one(self, store, make):
        """A state remembers so many clicks, and is at any time what folding all of them from the beginning gives."""
        store.add([make(f"e{number}") for number in range(REMEMBERED + 20)])
        store.add([make("c"), make("last")])
        assert seen(store.state("ada"))[0] == "e22"
        store.add([make("w", "dwell", dwell=3.0)])
        assert seen(store.state("ada")) == [f"e{n}" for n in range(21, REMEMBERED + 20)] + ["last"]

    def test_equal_clicks_are_taken_back_one_by_one(self, store, make):
        same = {"query": "q", "time": 1_700_000_000_000_000}
        store.add([make("a", **same), make("b", query="between"), make("c", **same), make("last")])
        assert seen(store.state("ada")) == ["q", "between", "q", "last"]
        store.add([make("w", "dwell", dwell=3.0)])
        assert seen(store.state("ada")) == ["q", "between", "last"]

    def test_a_dwell_may_come_before_its_click(self, store, make):
        store.add([make("w", "dwell", dwell=3.0)])
        store.add([make("c"), make("next")])
        assert seen(store.state("ada")) == ["next"]
        assert store.describe_user("ada").clicks == 2

    def test_a_dwell_says_nothing_of_another_users_click(self, store, make):
        store.add([make("c"), make("next")])
        store.add([make("w", "dwell", user="eve", dwell=1.0)])
        assert seen(store.state("ada")) == ["c", "next"]
        assert store.state("eve") is None

    def test_a_dwell_of_what_is_no_click_does_nothing(self, store, make):
        store.add([make("c", "impression"), make("w", "dwell", dwell=1.0)])
        assert store.state("ada") is None


class TestTexts:
    """Of documents that no run knew, as much as is needed to know them again."""

    def test_a_text_is_remembered_with_its_click(self, store, make):
        store.add([make("c", document="new", title="Title", text="t" * 3000), make("other", document="d1")])
        assert store.state("ada").texts == {"new": DocumentText("Title", "t" * REMEMBERED_TEXT)}

    def test_it_outlives_another_click_that_is_taken_back(self, store, make):
        store.add([make("new", document="new", text="a text"), make("c"), make("last")])
        store.add([make("w", "dwell", dwell=1.0)])
        state = store.state("ada")
        assert (seen(state), state.texts) == (["new", "last"], {"new": DocumentText("", "a text")})

    def test_and_the_click_that_told_it(self, store, make):
        store.add([make("c", document="new", text="a text"), make("again", document="new"), make("last")])
        store.add([make("w", "dwell", dwell=1.0)])
        state = store.state("ada")
        assert (seen(state), state.texts) == (["again", "last"], {"new": DocumentText("", "a text")})


def folded_from_the_beginning(store, user):
    """Over everything that is stored and counts."""
    with store._engine.connect() as connection:
        counted = select(schema.events).where(schema.events.c.folded.is_not(None)).order_by(schema.events.c.folded)
        owner = select(schema.users.c.number).where(schema.users.c.name == user).scalar_subquery()
        rows = connection.execute(counted.where(schema.events.c.user == owner)).all()
    state = UserState()
    for row in rows:
        text = DocumentText(row.title or "", row.text) if row.title or row.text else None
        state.click(PastClick(row.document, row.session, row.time, row.query), text)
    return state if rows else None


def expected(events, rule):
    """By brute force: after each event, judge every click by all that is known; keep the order of coming to count."""
    order: list[Any] = []
    for count in range(1, len(events) + 1):
        known = events[:count]
        clicks = [event for event in known if event.kind == "click"]
        for click in clicks:
            told = [event.dwell for event in known if event.kind == "dwell" and event.click == click.id]
            dwell = max([one for one in [click.dwell, *told] if one is not None], default=None)
            last = click.time == max(other.time for other in clicks if other.session == click.session)
            good = rule.counts(dwell, last=last)
            if good and click.id not in order:
                order.append(click.id)
            elif not good and click.id in order:
                order.remove(click.id)
    return order


@st.composite
def streams(draw):
    """Events of two users, then requests that send each at least once and many of them again."""
    events = []
    for number in range(draw(st.integers(1, 12))):
        user = draw(st.sampled_from(["ada", "bob"]))
        kind = draw(st.sampled_from(["impression", "click", "click", "dwell"]))
        dwell = draw(st.sampled_from([1.0, 29.0, 30.0, 90.0]))
        own = {
            "impression": {"query": "q", "documents": ("d",)},
            "click": {"document": "d", "query": f"{user}{number}", "dwell": draw(st.sampled_from([None, dwell]))},
            "dwell": {"click": f"{user}{draw(st.integers(0, 11))}", "dwell": dwell},
        }[kind]
        about = {"session": draw(st.sampled_from(["s1", "s2"])), "time": 10**15 + draw(st.integers(0, 20))}
        events.append(Event(id=f"{user}{number}", kind=kind, user=user, **about, **own))
    sent = []
    for event in events:
        sent.append(event)
        sent += draw(st.lists(st.sampled_from(events[: events.index(event) + 1]), max_size=2))
    cuts = sorted(draw(st.lists(st.integers(0, len(sent)), max_size=4)))
    requests = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    return events, requests


@pytest.fixture(
    scope="module",
    params=[("sqlite", "all"), ("sqlite", "last"), pytest.param(("postgresql", "all"), marks=pytest.mark.slow)],
    ids="-".join,
)
def shared(request, tmp_path_factory):
    """One store for many examples, each with names of its own."""
    backend, without_dwell = request.param
    rule = Satisfaction(without_dwell=without_dwell)
    own = tmp_path_factory.mktemp("shared") / "db"
    url = str(own) if backend == "sqlite" else request.getfixturevalue("postgres").new_database()
    with Store.open(url, rule=rule) as store:
        yield store, rule, itertools.count()


@settings(max_examples=40, deadline=None)
@given(stream=streams())
def test_any_interleaving_of_repeats_gives_the_state_of_folding_once(shared, stream):
    store, rule, examples = shared
    prefix = f"{next(examples)}:"

    def own(event):
        click = event.click and prefix + event.click
        names = {"id": prefix + event.id, "user": prefix + event.user, "click": click}
        return event.model_copy(update=names | ({"query": names["id"]} if event.kind == "click" else {}))

    events, requests = [own(event) for event in stream[0]], [[own(event) for event in part] for part in stream[1]]
    outcomes = [outcome for request in requests for outcome in store.add(request)]
    assert outcomes.count("accepted") == len(events)
    assert outcomes.count("repeated") == len(outcomes) - len(events)
    for user in (prefix + "ada", prefix + "bob"):
        sent = [event for event in events if event.user == user]
        assert store.events(user) == sent
        assert seen(store.state(user)) == expected(sent, rule)
        assert store.state(user) == folded_from_the_beginning(store, user) or not expected(sent, rule)


class TestGroups:
    """Threads that write at once share transactions and nothing else."""

    def test_no_update_of_a_state_is_lost(self, store, make):
        def send(thread):
            for number in range(20):
                store.add([make(f"{thread}.{number}"), make(f"{thread}.{number}.own", user=f"user {thread}")])

        threads = [threading.Thread(target=send, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(seen(store.state("ada"))) == sorted(f"{t}.{n}" for t in range(8) for n in range(20))
        for t in range(8):
            assert seen(store.state(f"user {t}")) == [f"{t}.{n}.own" for n in range(20)]

    def test_a_request_that_fails_does_not_take_others_along(self, store, make):
        store.add([make("taken")])
        outcomes = {}

        def send(name, events):
            try:
                outcomes[name] = store.add(events)
            except EventConflictError as error:
                outcomes[name] = error

        store._writer._occupied = True  # so that all three wait, and become one group
        threads = [
            threading.Thread(target=send, args=(name, events))
            for name, events in (
                ("good", [make("a")]),
                ("bad", [make("b"), make("taken", document="other")]),
                ("also good", [make("c"), make("taken")]),
            )
        ]
        for thread in threads:
            thread.start()
        while len(store._writer._waiting) < 3:
            time.sleep(0.001)
        store._writer.write_waiting()
        for thread in threads:
            thread.join()
        assert outcomes["good"] == ["accepted"]
        assert outcomes["also good"] == ["accepted", "repeated"]
        assert isinstance(outcomes["bad"], EventConflictError)
        assert sorted(seen(store.state("ada"))) == ["a", "c", "taken"]

    def test_one_who_stops_waiting_leaves_its_turn_to_the_next(self, store, make, monkeypatch):
        """Ctrl-C reaches one who was to write next, before that one could."""
        writer, original = store._writer, threading.Event.wait

        def interrupted(event, timeout=None):
            if threading.current_thread().name == "stops":
                while not event.is_set():
                    time.sleep(0.001)
                raise KeyboardInterrupt
            return original(event, timeout)

        stopped, outcomes = [], []

        def stops():
            try:
                store.add([make("never")])
            except KeyboardInterrupt:
                stopped.append(True)

        monkeypatch.setattr(threading.Event, "wait", interrupted)
        writer._occupied = True
        first = threading.Thread(target=stops, name="stops")
        second = threading.Thread(target=lambda: outcomes.extend(store.add([make("a")])))
        for number, thread in enumerate((first, second), start=1):
            thread.start()
            while len(writer._waiting) < number:
                time.sleep(0.001)
        with writer._lock:
            writer._appoint()
        first.join(10)
        second.join(10)
        assert (stopped, outcomes) == ([True], ["accepted"])
        assert seen(store.state("ada")) == ["a"]
        assert store.add([make("b")]) == ["accepted"]

    def test_large_requests(self, store, make):
        """More than fit into one group, and into one statement of SQLite."""
        events = [make(f"e{n}", "impression", user=f"u{n % 50}") for n in range(MAX_EVENTS)]
        random.Random(0).shuffle(events)
        assert set(store.add(events)) == {"accepted"}
        assert set(store.add(events)) == {"repeated"}
        with pytest.raises(EventError, match="1001 events at once: send at most 1000"):
            store.add([*events, make("one more")])

    def test_nothing_to_add(self, store):
        assert store.add([]) == []
