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

from capse.errors import EventConflictError, EventError
from capse.service.limits import MAX_EVENTS
from capse.service.store import Event, Satisfaction, Store
from capse.service.store.writing import REFOLDED


def remember(state, event):
    return {"seen": [*(state or {"seen": []})["seen"], event.id]}


class TestRepeats:
    def test_an_event_sent_again_changes_nothing(self, store, make):
        events = [make("i", "impression"), make("c")]
        assert store.add(events) == ["accepted", "accepted"]
        assert store.add([*events, make("c2")]) == ["repeated", "repeated", "accepted"]
        assert store.state("ada") == {"seen": ["i", "c", "c2"]}
        assert store.events("ada") == [*events, make("c2")]

    def test_within_one_request(self, store, make):
        assert store.add([make("c"), make("c")]) == ["accepted", "repeated"]
        assert store.state("ada") == {"seen": ["c"]}

    @pytest.mark.parametrize(
        "changed", [{"user": "bob"}, {"time": 2}, {"document": "d2"}, {"dwell": 31.0}, {"query": "other"}]
    )
    def test_the_same_id_with_another_content_is_an_error_that_names_it(self, store, make, changed):
        store.add([make("c")])
        with pytest.raises(EventConflictError, match="event 'c' was sent before with another content"):
            store.add([make("new"), make("c", **changed)])
        assert store.state("ada") == {"seen": ["c"]}, "all or none"
        assert store.state("bob") is None
        with pytest.raises(EventConflictError):
            store.add([make("x"), make("x", **changed)])
        assert store.add([make("x")]) == ["accepted"]

    def test_after_a_restart_too(self, url, fold, make):
        with Store.open(url, fold) as store:
            store.add([make("c")])
        with Store.open(url, fold) as store:
            assert store.add([make("c")]) == ["repeated"]
            assert store.state("ada") == {"seen": ["c"]}


class TestSatisfaction:
    """What counts is folded; what does not (yet) is kept."""

    def test_a_short_click_is_kept_and_not_folded(self, store, make):
        store.add([make("short", dwell=3.0), make("long", dwell=30.0)])
        assert store.state("ada") == {"seen": ["long"]}
        assert store.describe_user("ada").clicks == 2
        assert store.describe_user("ada").satisfied == 1

    def test_a_click_that_waits_counts_when_its_dwell_arrives(self, url, fold, make):
        with Store.open(url, fold, rule=Satisfaction(without_dwell="wait")) as store:
            store.add([make("c"), make("i", "impression")])
            assert store.state("ada") == {"seen": ["i"]}
            store.add([make("w1", "dwell", dwell=10.0)])
            assert store.state("ada") == {"seen": ["i"]}
            store.add([make("w2", "dwell", dwell=30.0)])
            assert store.state("ada") == {"seen": ["i", "c"]}

    def test_a_click_that_turns_out_short_is_taken_back(self, store, make):
        store.add([make("a"), make("c"), make("b")])
        assert store.state("ada") == {"seen": ["a", "c", "b"]}
        store.add([make("w", "dwell", dwell=3.0)])
        assert store.state("ada") == {"seen": ["a", "b"]}
        store.add([make("w2", "dwell", dwell=33.0)])
        assert store.state("ada") == {"seen": ["a", "b", "c"]}

    @pytest.mark.parametrize("together", [True, False], ids=["in one request", "one after the other"])
    def test_a_later_shorter_dwell_does_not_undo_a_satisfied_click(self, store, make, together):
        events = [make("c"), *(make(f"w{seconds}", "dwell", dwell=seconds) for seconds in (40.0, 3.0, 5.0))]
        for request in [events] if together else [[event] for event in events]:
            store.add(request)
        assert store.state("ada") == {"seen": ["c"]}
        assert store.describe_user("ada").satisfied == 1

    def test_nor_one_whose_dwell_came_with_the_click(self, store, make):
        store.add([make("c", dwell=40.0)])
        store.add([make("w", "dwell", dwell=3.0)])
        assert store.state("ada") == {"seen": ["c"]}

    def test_of_very_many_events_the_latest_are_folded_again(self, store, make):
        store.add([make("c"), *(make(f"e{n}") for n in range(5))])
        store.add([make(f"e{n}") for n in range(5, REFOLDED + 5)])
        store.add([make("w", "dwell", dwell=3.0)])
        assert store.state("ada") == {"seen": [f"e{n}" for n in range(5, REFOLDED + 5)]}

    def test_a_dwell_may_come_before_its_click(self, store, make):
        store.add([make("w", "dwell", dwell=3.0)])
        store.add([make("c")])
        assert store.state("ada") is None
        assert store.describe_user("ada").clicks == 1

    def test_a_dwell_says_nothing_of_another_users_click(self, store, make):
        store.add([make("c")])
        store.add([make("w", "dwell", user="eve", dwell=1.0)])
        assert store.state("ada") == {"seen": ["c"]}
        assert store.state("eve") is None

    def test_a_dwell_of_what_is_no_click_does_nothing(self, store, make):
        store.add([make("c", "impression"), make("w", "dwell", dwell=1.0)])
        assert store.state("ada") == {"seen": ["c"]}


def expected(events, rule):
    """By brute force: walk through the events once; keep the order in which clicks come to count."""
    order: list[Any] = []
    dwells: dict[str, Any] = {}
    clicks: dict[str, Any] = {}
    for event in events:
        if event.kind == "impression":
            order.append(event.id)
            continue
        if event.kind == "click":
            clicks[event.id] = event
        about = event.id if event.kind == "click" else event.click
        if event.dwell is not None:
            dwells[about] = max(event.dwell, dwells.get(about, 0.0))
        if about in clicks:
            good = rule.counts(dwells.get(about))
            if good and about not in order:
                order.append(about)
            elif not good and about in order:
                order.remove(about)
    return {"seen": order} if order else None


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
            "click": {"document": "d", "dwell": draw(st.sampled_from([None, dwell]))},
            "dwell": {"click": f"{user}{draw(st.integers(0, 11))}", "dwell": dwell},
        }[kind]
        events.append(Event(id=f"{user}{number}", kind=kind, user=user, session="s", time=number, **own))
    sent = []
    for event in events:
        sent.append(event)
        sent += draw(st.lists(st.sampled_from(events[: events.index(event) + 1]), max_size=2))
    cuts = sorted(draw(st.lists(st.integers(0, len(sent)), max_size=4)))
    requests = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    return events, requests


@pytest.fixture(
    scope="module",
    params=[("sqlite", "count"), ("sqlite", "wait"), pytest.param(("postgresql", "count"), marks=pytest.mark.slow)],
    ids="-".join,
)
def shared(request, tmp_path_factory):
    """One store for many examples, each with names of its own."""
    backend, without_dwell = request.param
    rule = Satisfaction(without_dwell=without_dwell)
    own = tmp_path_factory.mktemp("shared") / "db"
    url = str(own) if backend == "sqlite" else request.getfixturevalue("postgres").new_database()
    with Store.open(url, remember, rule=rule) as store:
        yield store, rule, itertools.count()


@settings(max_examples=40, deadline=None)
@given(stream=streams())
def test_any_interleaving_of_repeats_gives_the_state_of_folding_once(shared, stream):
    store, rule, examples = shared
    prefix = f"{next(examples)}:"

    def own(event):
        click = event.click and prefix + event.click
        return event.model_copy(update={"id": prefix + event.id, "user": prefix + event.user, "click": click})

    events, requests = [own(event) for event in stream[0]], [[own(event) for event in part] for part in stream[1]]
    outcomes = [outcome for request in requests for outcome in store.add(request)]
    assert outcomes.count("accepted") == len(events)
    assert outcomes.count("repeated") == len(outcomes) - len(events)
    for user in (prefix + "ada", prefix + "bob"):
        sent = [event for event in events if event.user == user]
        assert store.events(user) == sent
        assert store.state(user) == expected(sent, rule)


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
        assert sorted(store.state("ada")["seen"]) == sorted(f"{t}.{n}" for t in range(8) for n in range(20))
        for t in range(8):
            assert store.state(f"user {t}") == {"seen": [f"{t}.{n}.own" for n in range(20)]}

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
                ("bad", [make("b"), make("taken", user="bob")]),
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
        assert sorted(store.state("ada")["seen"]) == ["a", "c", "taken"]

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
        assert store.state("ada") == {"seen": ["a"]}
        assert store.add([make("b")]) == ["accepted"]

    def test_a_fold_that_fails_fails_its_request_only(self, url, make):
        def picky(state, event):
            if event.document == "bad":
                raise ZeroDivisionError("picky")
            return {"count": (state or {"count": 0})["count"] + 1, "bad": {1} if event.document == "no json" else 0}

        with Store.open(url, picky) as store:
            for document, error in (("bad", ZeroDivisionError), ("no json", TypeError)):
                with pytest.raises(error):
                    store.add([make("good"), make("c", document=document)])
                assert store.events("ada") == []
            assert store.add([make("good")]) == ["accepted"]
            assert store.state("ada")["count"] == 1

    def test_large_requests(self, store, make):
        """More than fit into one group, and into one statement of SQLite."""
        events = [make(f"e{n}", "impression", user=f"u{n % 50}") for n in range(MAX_EVENTS)]
        random.Random(0).shuffle(events)
        assert set(store.add(events)) == {"accepted"}
        assert set(store.add(events)) == {"repeated"}
        with pytest.raises(EventError, match="1001 events at once: send at most 1000"):
            store.add([*events, make("one more")])

    def test_two_stores_that_give_one_id_to_two_users(self, url, store, fold, make):
        """One of them is told so, whichever comes first; in PostgreSQL they do not wait for each other's users."""
        outcomes = []

        def send(into, user, number):
            try:
                outcomes.append(into.add([make(f"e{number}", user=user), make(f"own {user} {number}", user=user)]))
            except EventConflictError as error:
                outcomes.append(error.id)

        with Store.open(url, fold) as other:
            for number in range(10):
                threads = [threading.Thread(target=send, args=(one, user, number))
                           for one, user in ((store, "ada"), (other, "bob"))]  # fmt: skip
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
        assert sorted(map(str, outcomes)) == sorted([*(f"e{n}" for n in range(10)), *["['accepted', 'accepted']"] * 10])
        assert len(store.events("ada")) + len(store.events("bob")) == 20

    def test_nothing_to_add(self, store):
        assert store.add([]) == []

    def test_a_store_for_reading_needs_no_fold(self, url, store, make):
        store.add([make("c")])
        with Store.open(url) as reader:
            assert reader.state("ada") == {"seen": ["c"]}
            with pytest.raises(ValueError, match="without a fold"):
                reader.add([make("d")])
