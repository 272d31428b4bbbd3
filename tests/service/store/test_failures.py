"""A database that fails is said to, with a remedy; when it works again, so does the store, without a restart."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import threading
import time
from contextlib import closing

import psycopg
import pytest
from sqlalchemy import event, exc, text

from capse.errors import SettingsError, StoreError
from capse.search.users.profiles import REMEMBERED
from capse.service.store import Event, Store
from capse.service.store import engine as engines
from capse.service.store.writing import Writer
from tests.service.store.states import seen


def fails(kind, call, *arguments):
    """The StoreError that a call must raise, which must say what to do in one line."""
    with pytest.raises(StoreError) as caught:
        call(*arguments)
    error = caught.value
    assert error.kind == kind, error
    assert error.remedy
    assert "\n" not in str(error)
    return str(error)


class TestSettings:
    def test_reach_every_connection(self, lite):
        with lite._engine.connect() as first, lite._engine.connect() as second:
            for connection in (first, second):
                found = {name: connection.execute(text(f"PRAGMA {name}")).scalar() for name in (
                    "journal_mode", "synchronous", "secure_delete", "foreign_keys")}  # fmt: skip
                assert found == {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1, "foreign_keys": 1}

    def test_only_the_owner_may_read_the_files(self, lite, path, make):
        lite.add([make("c")])
        assert {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {
            "capse.db": 0o600, "capse.db-shm": 0o600, "capse.db-wal": 0o600,
        }  # fmt: skip

    @pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///x?mode=ro", "mysql://h/d", "://"])
    def test_a_url_of_no_use_is_refused(self, url):
        with pytest.raises(SettingsError, match="give a file for SQLite, or postgresql://"):
            Store.open(url)

    def test_a_password_is_not_shown(self):
        message = fails("gone", Store.open, "postgresql://ada:secret@127.0.0.1:1/capse")
        assert "secret" not in message
        assert "postgresql+psycopg://ada:***@127.0.0.1:1/capse cannot be reached" in message

    def test_a_folder_that_is_not_there(self, tmp_path):
        assert "make its folder" in fails("refused", Store.open, str(tmp_path / "no" / "capse.db"))
        with pytest.raises(StoreError):
            Store.open(str(tmp_path / "capse.db"), create=False)
        assert list(tmp_path.iterdir()) == []


class TestFull:
    def test_nothing_of_the_request_is_stored(self, lite, make):
        """By a limit on the file's pages, which gives SQLite's error of a full disk."""
        lite.add([make("first")])
        lite.close()
        pages = [12]

        @event.listens_for(lite._engine, "checkout")
        def limit(connection, *_):
            connection.execute(f"PRAGMA max_page_count={pages[0]}")

        large = [make(f"e{n}", query="q" * 1000) for n in range(60)]
        assert "has no space left (database or disk is full): free space" in fails("full", lite.add, large)
        assert seen(lite.state("ada")) == ["first"], "reading goes on"
        pages[0] = 10_000
        assert set(lite.add(large)) == {"accepted"}
        assert len(seen(lite.state("ada"))) == 61

    @pytest.mark.slow
    def test_a_real_disk(self, tmp_path, make):
        folder = tmp_path / "small"
        folder.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True)
        if done.returncode:
            pytest.skip("a small file system cannot be mounted here")
        try:
            with Store.open(str(folder / "capse.db")) as store:
                (folder / "filler").write_bytes(b"x" * 600_000)
                acknowledged = []

                def fill():
                    for number in range(1000):
                        query = f"{number}".ljust(1000, "q")
                        store.add([make(f"e{number}", query=query)])
                        acknowledged.append(query)

                fails("full", fill)
                assert 0 < len(acknowledged) == len(store.events("ada"))
                assert seen(store.state("ada")) == acknowledged[-REMEMBERED:]
                (folder / "filler").unlink()
                more = [make(f"e{len(acknowledged) + n}", query="q" * 1000) for n in range(20)]
                assert store.add(more) == ["accepted"] * 20
                assert len(store.events("ada")) == len(acknowledged) + 20
        finally:
            subprocess.run(["umount", folder], check=True)


class TestGone:
    def test_a_file_that_was_moved_away_and_back(self, lite, path, make):
        lite.add([make("a")])
        away = path.with_suffix(".away")
        path.rename(away)
        assert "cannot be reached" in fails("gone", lite.add, [make("b")])
        fails("gone", lite.state, "ada")
        assert not path.exists(), "no new one is made in its place"
        away.rename(path)
        assert lite.add([make("b")]) == ["accepted"]
        assert seen(lite.state("ada")) == ["a", "b"]

    def test_a_file_that_was_replaced_is_the_one_that_is_used(self, lite, path, make):
        """Open connections would go on writing into the file that has no name any more."""
        lite.add([make("a")])
        other = path.with_name("other.db")
        with Store.open(str(other)) as second:
            second.add([make("restored")])
        for ending in ("", "-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
        other.rename(path)
        assert lite.add([make("b")]) == ["accepted"]
        with Store.open(str(path)) as reader:
            assert seen(reader.state("ada")) == ["restored", "b"]

    @pytest.mark.slow
    def test_a_server_that_is_away_and_comes_back(self, postgres, make):
        """Two threads go on sending and repeat what was not acknowledged."""
        url = postgres.new_database()
        with Store.open(url) as store:
            enough, refused, acknowledged = threading.Event(), [], []

            def send(thread):
                number = 0
                while not enough.is_set():
                    try:
                        store.add([make(f"{thread}.{number}")])
                    except StoreError as error:
                        refused.append(error)
                    else:
                        acknowledged.append(f"{thread}.{number}")
                        number += 1
                    enough.wait(0.01)

            threads = [threading.Thread(target=send, args=(n,)) for n in range(2)]
            for thread in threads:
                thread.start()
            wait_until(lambda: len(acknowledged) >= 10)
            postgres.stop()
            before = len(acknowledged)
            wait_until(lambda: len(refused) >= 100)
            during = len(acknowledged)
            postgres.start()
            wait_until(lambda: len(acknowledged) >= during + 10)
            enough.set()
            for thread in threads:
                thread.join()
            assert during - before <= 2, "answers that were on their way when it had stopped"
            assert {error.kind for error in refused} == {"gone"}
            assert all(error.temporary for error in refused)
            assert sorted(seen(store.state("ada"))) == sorted(acknowledged)
            assert sorted(event.id for event in store.events("ada")) == sorted(acknowledged)


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


class TestDamaged:
    def test_a_file_that_is_no_database(self, path):
        path.write_bytes(b"once upon a time " * 1000)
        message = fails("damaged", Store.open, str(path))
        assert "is damaged (file is not a database): stop the service and restore" in message
        assert path.read_bytes() == b"once upon a time " * 1000

    def test_overwritten_pages_are_found_and_a_restored_file_is_used(self, path, make):
        with Store.open(str(path)) as store:
            store.add([make(f"e{n}", query="q" * 500) for n in range(100)])
        backup = path.with_name("backup.db")
        shutil.copy(path, backup)
        with Store.open(str(path)) as store:
            with path.open("r+b") as file:
                file.seek(4096)
                file.write(os.urandom(path.stat().st_size - 4096))
            assert "restore the database from a backup" in fails("damaged", store.state, "ada")
            fails("damaged", store.add, [make("new")])
            shutil.copy(backup, path)
            assert len(seen(store.state("ada"))) == 100
            assert store.add([make("new")]) == ["accepted"]
            assert len(store.events("ada")) == 101

    def test_lost_tables_are_said_to_be_lost(self, store, make):
        with engines.writing(store._engine) as connection:
            connection.execute(text("DROP TABLE events"))
        with pytest.raises(StoreError) as caught:
            store.add([make("a", user="ada lovelace")])
        assert caught.value.kind == "damaged"
        assert "lovelace" not in f"{caught.value} {caught.value.__cause__}", "errors are logged"


class TestBusy:
    def test_a_lock_of_another_program_is_waited_for_and_then_named(self, path, make, monkeypatch):
        monkeypatch.setattr(engines, "FILE_WAIT", 0.1)
        with Store.open(str(path)) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
            store.add([make("a")])
            other.execute("BEGIN IMMEDIATE")
            assert "is busy (database is locked): try again" in fails("busy", store.add, [make("b")])
            assert seen(store.state("ada")) == ["a"], "reading goes on"
            other.execute("ROLLBACK")
            assert store.add([make("b")]) == ["accepted"]

    @pytest.mark.slow
    def test_a_lock_in_postgresql(self, postgres, make, monkeypatch):
        monkeypatch.setattr(engines, "WAIT", 0.2)
        url = postgres.new_database()
        with Store.open(url) as store, psycopg.connect(url) as other:
            store.add([make("a")])
            other.execute("LOCK TABLE events")
            fails("busy", store.add, [make("b")])
            other.rollback()
            assert store.add([make("b")]) == ["accepted"]


class TestCollisions:
    """What another process did meanwhile is met with another attempt, up to five; nothing else is."""

    @staticmethod
    def failing(monkeypatch, error, times):
        real, attempts = Writer._apply, []

        def apply(writer, connection, group):
            attempts.append(connection)
            if len(attempts) <= times:
                raise error
            return real(writer, connection, group)

        monkeypatch.setattr(Writer, "_apply", apply)
        return attempts

    @staticmethod
    def collision(sqlstate):
        original = Exception("collided")
        original.sqlstate = sqlstate  # type: ignore[attr-defined]
        return exc.OperationalError("insert", {}, original)

    @pytest.mark.parametrize("sqlstate", ["40001", "40P01"])
    def test_a_collision_is_tried_again(self, lite, make, monkeypatch, sqlstate):
        attempts = self.failing(monkeypatch, self.collision(sqlstate), times=4)
        assert lite.add([make("a")]) == ["accepted"]
        assert len(attempts) == 5
        assert seen(lite.state("ada")) == ["a"]

    def test_five_collisions_are_an_error(self, lite, make, monkeypatch):
        attempts = self.failing(monkeypatch, self.collision("40001"), times=5)
        fails("busy", lite.add, [make("a")])
        assert len(attempts) == 5
        assert lite.add([make("a")]) == ["accepted"]

    def test_another_failure_is_not_tried_again(self, lite, make, monkeypatch):
        attempts = self.failing(monkeypatch, exc.OperationalError("insert", {}, Exception("no answer")), times=1)
        fails("gone", lite.add, [make("a")])
        assert len(attempts) == 1


class TestPostgreSQL:
    @pytest.mark.slow
    def test_commits_wait_for_the_disk_whatever_the_server_prefers(self, postgres):
        url = postgres.new_database()
        with psycopg.connect(url, autocommit=True) as other:
            other.execute("CREATE ROLE hasty SUPERUSER LOGIN")
            other.execute("ALTER ROLE hasty SET synchronous_commit = off")
        with Store.open(url.replace("capse@", "hasty@")) as store, store._engine.connect() as connection:
            assert connection.execute(text("SHOW synchronous_commit")).scalar() == "on"

    @pytest.mark.slow
    def test_refused_and_unknown(self, postgres):
        url = postgres.new_database()
        assert "does not exist" in fails("gone", Store.open, url.replace("/postgres?", "/other?"))
        with psycopg.connect(url, autocommit=True) as other:
            other.execute("CREATE ROLE reader LOGIN")
        assert "permissions" in fails("refused", Store.open, url.replace("capse@", "reader@"))


def test_an_error_of_our_own_is_not_taken_for_the_databases(store):
    with pytest.raises(AttributeError):
        store.add([Event])
