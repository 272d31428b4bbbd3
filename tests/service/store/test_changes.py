"""The journal of what all people clicked and were shown: one order for every process, without who is forgotten."""

from __future__ import annotations

import threading

from capse.service.store import Change, Event, Store

START = 1_700_000_000_000_000


def event(id: str, kind: str = "click", user: str = "ada", second: int = 0, **more: object) -> Event:
    given = {"documents": ("d1", "d2")} if kind == "impression" else {"document": "d1"} if kind == "click" else {}
    content = {"id": id, "kind": kind, "user": user, "session": "s", "time": START + second * 10**6, **given, **more}
    return Event.model_validate(content)


def told(changes: list[Change]) -> list[tuple[int, bool, tuple[str, ...]]]:
    return [(change.step, change.kind == "click", change.documents) for change in changes]


def test_lists_clicks_and_clicks_that_stop_counting_are_told_in_their_order(store: Store) -> None:
    assert store.changes() == []
    assert store.last_change() == 0
    store.add([event("i", "impression", query="q"), event("c1", query="q"), event("c2", second=9, document="d2")])
    first = store.changes()
    assert told(first) == [(1, False, ("d1", "d2")), (1, True, ("d1",)), (1, True, ("d2",))]
    assert [(change.query, change.time - START) for change in first] == [("q", 0), ("q", 0), ("", 9_000_000)]
    store.add([event("w", "dwell", click="c1", dwell=2.0)])  # it bounced
    later = store.changes(first[-1].number)
    assert told(later) == [(-1, True, ("d1",))]
    assert store.last_change() == later[-1].number
    store.add([event("w2", "dwell", click="c1", dwell=40.0)])
    assert told(store.changes(later[-1].number)) == [(1, True, ("d1",))]
    store.add([event("i", "impression", query="q")])  # sent again
    assert len(store.changes()) == 5


def test_who_is_forgotten_is_not_told_of_and_whoever_read_on_learns_that_it_must_begin_anew(store: Store) -> None:
    store.add([event("a"), event("b", user="bob"), event("i", "impression")])
    read = store.last_change()
    store.delete_user("ada")
    (forgotten,) = store.changes(read)
    assert forgotten.step == 0
    assert told(store.changes()) == [(1, True, ("d1",)), (0, False, ())]
    store.add([event("a")])
    assert [change.number > forgotten.number for change in store.changes(forgotten.number)] == [True]
    before = store.last_change()
    store.delete_user("nobody")
    assert store.last_change() == before


def test_a_number_is_never_given_twice(store: Store) -> None:
    """Else a process that has read it would miss what has it next."""
    store.add([event("a")])
    last = store.last_change()
    store.delete_user("ada")
    store.add([event("a")])
    assert min(change.number for change in store.changes(last)) > last


def test_no_row_appears_behind_one_that_was_read(url: str) -> None:
    """Two processes write, a third reads on: it sees every row, each once."""
    writers = [Store.open(url) for _ in range(2)]
    reader = Store.open(url)
    found: list[int] = []

    def write(place: int) -> None:
        for number in range(30):
            writers[place].add([event(f"{place}-{number}", user=f"u{place}-{number % 5}")])

    threads = [threading.Thread(target=write, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) or len(found) < len(reader.changes()):
        found += [change.number for change in reader.changes(found[-1] if found else 0)]
    for thread in threads:
        thread.join()
    assert found == sorted(found) == [change.number for change in reader.changes()]
    assert len(found) >= 60
    for store in (*writers, reader):
        store.close()
