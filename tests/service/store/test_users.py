"""What is known of a user, and that nothing of it is left once the user is deleted."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from capse.errors import StoreError
from capse.search.users.user_state import PastClick, UserState
from capse.service.store import Deletion, Event, Store, UserDescription
from capse.service.store import engine as engines
from tests.service.store.states import seen


def left_in_files(folder, word):
    """The files that hold a word, wherever in them."""
    return [name for name in os.listdir(folder) if word.encode() in (folder / name).read_bytes()]


def stale_copies(path, names):
    """Names of which the file holds more copies than the same rows need when they are rewritten."""
    compact = path.with_name("compact")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("VACUUM INTO ?", [str(compact)])
    before, after = path.read_bytes(), compact.read_bytes()
    compact.unlink()
    return [name for name in names if before.count(name.encode()) > after.count(name.encode())]


class TestDescription:
    def test_counts_what_is_stored(self, store, make):
        first, short, shorter, last = (10**15 + seconds for seconds in range(4))
        store.add(
            [
                make("i", "impression", time=first),
                make("c", time=last),
                make("short", dwell=2.0, session="s2", time=short),
                make("shorter", dwell=1.0, session="s2", time=shorter),
            ]
        )
        state = UserState([PastClick("d1", "s1", last, "c"), PastClick("d1", "s2", shorter, "shorter")])
        assert store.describe_user("ada") == UserDescription(
            "ada", impressions=1, clicks=3, satisfied=2, sessions=2, first=first, last=last, state=state
        )

    @pytest.mark.parametrize("name", ["nobody", "", "a\0b", "\ud800"])
    def test_a_stranger_is_nobody(self, store, name):
        assert store.describe_user(name) is None
        assert store.state(name) is None
        assert store.events(name) == []
        assert store.delete_user(name) == Deletion(0, 0, known=False)


class TestDeletion:
    def test_removes_the_user_and_nobody_else(self, store, make):
        store.add([make("a"), make("i", "impression"), make("b", user="bob")])
        own = store.add_key("phone", ["events"], user="ada")
        other = store.add_key("web", ["events"])
        assert store.delete_user("ada") == Deletion(events=2, keys=1, known=True)
        assert store.describe_user("ada") is None
        assert store.events("ada") == []
        assert store.find_key(own) is None
        assert store.find_key(other) is not None
        assert seen(store.state("bob")) == ["b"]

    def test_ids_may_come_again(self, store, make):
        store.add([make("a")])
        store.delete_user("ada")
        assert store.add([make("a", user="bob")]) == ["accepted"]
        assert store.add([make("c")]) == ["accepted"]
        assert seen(store.state("ada")) == ["c"]

    def test_while_events_arrive_leaves_state_and_events_agreeing(self, url, store, make):
        """Two stores, as two processes have them; what comes after a deletion begins a new user."""
        failed = []

        def send(into, name):
            try:
                for number in range(25):
                    into.add([make(f"{name}{number}"), make(f"{name}{number}b", user="bob")])
            except Exception as error:
                failed.append(error)

        with Store.open(url) as other:
            threads = [threading.Thread(target=send, args=pair) for pair in ((store, "x"), (other, "y"))]
            for thread in threads:
                thread.start()
            removed = 0
            while any(thread.is_alive() for thread in threads):
                removed += store.delete_user("ada").events
            for thread in threads:
                thread.join()
        assert failed == []
        left = [event.id for event in store.events("ada")]
        assert removed + len(left) == 50
        assert seen(store.state("ada")) == left
        assert len(seen(store.state("bob"))) == 50

    def test_leaves_no_byte_in_sqlites_files(self, path, tmp_path):
        """Many users in random order, rows of many sizes: pages split, and leave copies of rows in unused places."""

        rng = random.Random(3)
        names = [f"user-{rng.getrandbits(64):016x}" for _ in range(600)]
        with Store.open(str(path)) as store:
            for _ in range(12):
                users = rng.choices(names, k=rng.randint(50, 200))
                store.add(
                    [
                        Event(id=f"{user}:{rng.getrandbits(60)}", kind="click", user=user, session=f"{user}:1",
                              time=10**15, query=f"{user} {'asks ' * rng.randint(0, 60)}", document=f"{user}'s")
                        for user in users
                    ]
                )  # fmt: skip
            store.add_key("own", ["rerank"], user=names[0])
            leftovers = stale_copies(path, names)
            assert leftovers, "without them the test shows little"
            for user in [*leftovers[:2], names[0], rng.choice(names)]:
                store.delete_user(user)
                assert left_in_files(tmp_path, user) == []

    def test_a_reader_that_hinders_it_is_named_and_it_can_be_repeated(self, path, tmp_path, make, monkeypatch):
        monkeypatch.setattr(engines, "FILE_WAIT", 0.05)
        with Store.open(str(path)) as store:
            store.add([make("a", user="ada lovelace")])
            reader = sqlite3.connect(path, isolation_level=None)
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM events").fetchone() == (1,)
            with pytest.raises(StoreError, match=r"a reader keeps old pages in the log .*: delete the user again"):
                store.delete_user("ada lovelace")
            assert store.describe_user("ada lovelace") is None
            reader.close()
            assert left_in_files(tmp_path, "ada lovelace")
            assert store.delete_user("ada lovelace") == Deletion(0, 0, known=False)
            assert left_in_files(tmp_path, "ada lovelace") == []

    def test_what_a_killed_process_left_is_removed_when_the_store_is_opened(self, path, tmp_path, lite, make):
        lite.add([make("a", user="ada lovelace")])
        code = """
import os, sys, capse.service.store.store as module
module.scrub = lambda *_: os.kill(os.getpid(), 9) if os.environ.get("armed") else None
store = module.Store.open(sys.argv[1])
os.environ["armed"] = "1"
store.delete_user("ada lovelace")
"""
        assert subprocess.run([sys.executable, "-c", code, path]).returncode == -9
        assert left_in_files(tmp_path, "ada lovelace")
        Store.open(str(path)).close()
        assert left_in_files(tmp_path, "ada lovelace") == []
