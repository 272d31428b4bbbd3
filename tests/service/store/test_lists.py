"""Lists and texts that are kept to be learned from: how they become a log, and how they go."""

from __future__ import annotations

import json
import threading

import pyarrow.parquet as pq
import pytest
from sqlalchemy import func, select

from capse.errors import DataError
from capse.search.ingest import ingest
from capse.search.logs.search_log import SearchLog
from capse.search.times import DAY, SECOND
from capse.service.store import Event, KeptList, KeptText, Store
from capse.service.store.schema import lists, texts, told
from capse.service.stored_log import StoredLog

START = 1_700_000_000 * SECOND
ABC = ("a", "b", "c")


def shown(user="ada", minute=0, documents=ABC, session="s", **given):
    return KeptList(
        user, session, START + minute * 60 * SECOND, "q", documents, tuple(range(len(documents), 0, -1)), "v1", **given
    )


def clicked(id, document, user="ada", second=5, session="s", **given):
    at = START + second * SECOND
    return Event(id=id, kind="click", user=user, session=session, time=at, document=document, **given)


def sizes(store):
    with store.reading() as connection:
        return [connection.execute(select(func.count()).select_from(table)).scalar() for table in (lists, texts, told)]


def log_of(store, tmp_path, since=0):
    out = tmp_path / f"log-{len(list(tmp_path.iterdir()))}"
    report = ingest([], out, format=StoredLog(store, since))
    return SearchLog.load(out), report, out


def clicks_of(log):
    rows = log.clicked.nonzero()[0].tolist()
    return [(int(log.impression[row]), log.documents.ids[log.document[row]]) for row in rows]


def test_a_click_belongs_to_the_latest_list_of_its_session_that_holds_it(store, tmp_path):
    store.keep_lists(
        [shown(), shown(minute=1), shown(minute=2, documents=("x", "y")), shown(minute=3, session="t"), shown("bob")]
    )
    store.add(
        [
            clicked("1", "a", second=5),  # the first list
            clicked("2", "b", second=65, dwell=3.0),  # the second
            clicked("3", "c", second=150),  # the second: the third does not hold it
            clicked("4", "c", second=200),  # the second: the fourth is of another session
            clicked("5", "a", second=201, session=""),  # the fourth, as it names no session
            clicked("6", "nothing", second=202),
            clicked("7", "a", user="bob", second=-1),  # before the list
            Event(id="8", kind="dwell", user="ada", session="s", time=START + DAY, click="2", dwell=44.0),
        ]
    )
    log, report, out = log_of(store, tmp_path)
    assert [log.users[user] for user in log.user] == ["ada", "bob", "ada", "ada", "ada"]
    assert clicks_of(log) == [(0, "a"), (2, "b"), (2, "c"), (4, "a")]
    dwells = pq.read_table(out / "results.parquet")["dwell"].to_pylist()
    assert [dwell for dwell in dwells if dwell is not None] == [44.0]
    assert [log.documents.ids[number] for number in log.document[:3]] == list(ABC), "in the engine's order"
    assert report.counts["clicks"]["staged"] == 5
    assert any("2 clicks on documents of no list" in note for note in report.notes)


def test_only_texts_that_were_kept_are_in_the_log(store, tmp_path):
    texts = (KeptText("a", "Title", "words of a"), KeptText("b", "", None))
    store.keep_lists(
        [shown(texts=texts), shown(minute=1, texts=texts), shown("bob", texts=(KeptText("a", "T", None),))]
    )
    assert sizes(store) == [3, 3, 3]
    log, _, _ = log_of(store, tmp_path)
    assert dict(zip(log.documents.ids, log.documents.texts, strict=True)) == {"a": "words of a", "b": None, "c": None}


def test_a_deleted_user_is_in_no_log_and_is_not_kept_again(store, tmp_path):
    own, shared = KeptText("a", "", "ada's own"), KeptText("b", "", "everybody's")
    store.keep_lists([shown(texts=(own, shared)), shown("bob", texts=(shared,))])
    store.add([clicked("1", "a")])
    store.delete_user("ada")
    assert sizes(store) == [1, 1, 1]
    assert store.keep_lists([shown(minute=5), shown("bob", minute=5)]) == 1, "one still waited to be written"
    store.add([clicked("2", "a", second=400)])  # who comes back begins anew, but no run learns of it
    log, _, _ = log_of(store, tmp_path)
    assert log.users == ["bob"]


def test_a_text_is_known_again_by_what_older_versions_stored_of_it():
    assert KeptText("d1", "A title", None).digest == "11a003fd249babacc13770659a3564e2"


def test_what_is_too_old_goes(store, monkeypatch):
    text = KeptText("a", "", "old")
    monkeypatch.setattr("time.time_ns", lambda: START * 1000)
    store.keep_lists([shown(texts=(text,)), shown("bob", texts=(KeptText("b", "", "new"),))])
    monkeypatch.setattr("time.time_ns", lambda: (START + 5 * DAY) * 1000)
    store.keep_lists([shown("bob", minute=5, texts=(KeptText("b", "", "new"),))])
    now = START + 10 * DAY
    assert store.expire_lists(now, 10, 10) == (0, 0)  # not longer than that
    assert store.expire_lists(now, 6, 20) == (2, 0)
    assert store.expire_lists(now, 6, 6) == (0, 1)
    assert sizes(store) == [1, 1, 1]
    assert store.expire_lists(now, 1, 1) == (1, 1)


def test_since_leaves_out_what_is_older(store, tmp_path):
    store.keep_lists([shown(minute=minute) for minute in range(5)])
    store.add([clicked("1", "a", second=5), clicked("2", "a", second=185)])
    log, report, _ = log_of(store, tmp_path, START + 180 * SECOND)
    assert (len(log), clicks_of(log), report.counts["clicks"]["staged"]) == (2, [(0, "a")], 1)


def test_a_reading_sees_one_moment_while_others_write(store, url, tmp_path):
    """Every user has as many clicks as lists, at every moment at which somebody may look."""
    names, stopped = [f"u{number}" for number in range(10)], threading.Event()

    def write():
        minute = 0
        with Store.open(url) as other:
            while not stopped.is_set() and minute < 60:
                other.keep_lists([shown(name, minute) for name in names])
                other.add([clicked(f"{minute}", "a", name, 60 * minute + 1) for name in names])
                minute += 1

    store.keep_lists([shown(name, -1) for name in names])
    store.add([clicked("first", "a", name, -59) for name in names])
    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = [log_of(store, tmp_path)[0] for _ in range(2)]
    finally:
        stopped.set()
        writer.join()
    for log in found:
        per_user: dict[int, list[int]] = {}
        for impression, user in enumerate(log.user.tolist()):
            per_user.setdefault(user, []).append(impression)
        lengths = {len(of) for of in per_user.values()}
        assert len(lengths) == 1, "a transaction is there for all of its users or for none"
        clicks = len(clicks_of(log))
        assert clicks in (len(log), len(log) - len(names)), "the clicks on the last lists may still be to come"
    assert len(found[-1]) >= len(found[0])


def test_nothing_kept_is_said(store, tmp_path):
    store.add([clicked("1", "a")])
    with pytest.raises(DataError, match=r"holds no lists to learn from: .*capse serve --keep-lists DAYS"):
        log_of(store, tmp_path)
    assert not list(tmp_path.glob("log*"))


def test_a_text_is_stored_once_however_often_it_comes(store):
    text = KeptText("a", "t", "x")
    for minute in range(3):
        store.keep_lists([shown(minute=minute, texts=(text, text))])
    assert sizes(store) == [3, 1, 1]
    with store.reading() as connection:
        row = connection.execute(select(lists)).first()
    assert (json.loads(row.documents), json.loads(row.shown), row.trial) == (list(ABC), [3, 2, 1], None)
