"""Events from a stream: at least once in, exactly once stored, whatever repeats, comes out of order or stops."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from capse.cli import main
from capse.errors import DataError, SettingsError, StoreError, StreamError
from capse.service.store import Store
from capse.service.streams import STREAMS, Message, open_stream
from capse.service.streams.consumer import Consumer, read_event
from tests.ports import hold_port

NOW = 1_700_000_000


def event(number, **more):
    about = {"id": f"e{number}", "kind": "click", "user": f"u{number % 3}", "session": "s", "time": NOW + number}
    return about | {"document": f"d{number % 7}"} | more


def body(content):
    return json.dumps(content).encode()


class Listed:
    """A stream in memory, that gives what was not confirmed again, and is away now and then."""

    def __init__(self, bodies, away=()):
        self.waiting = [Message(str(number), one) for number, one in enumerate(bodies)]
        self.away = list(away)  # which calls fail
        self.calls = self.lost = 0

    def _call(self):
        self.calls += 1
        if self.calls in self.away:
            raise StreamError("the stream is away", "start it")

    def read(self, most, seconds):
        self._call()
        return self.waiting[:most]

    def confirm(self, messages):
        self._call()
        gone = {message.id for message in messages}
        self.waiting = [message for message in self.waiting if message.id not in gone]

    def close(self):
        pass


@pytest.fixture
def store(tmp_path):
    with Store.open(str(tmp_path / "capse.db")) as opened:
        yield opened


def stored(store):
    return {(user, one.id): one for user in ("u0", "u1", "u2") for one in store.events(user)}


def consume(stream, store, tmp_path, **options):
    consumer = Consumer(stream, store, tmp_path / "quarantine.jsonl", wait=lambda seconds: None, **options)
    while stream.waiting and consumer.step():
        pass
    return consumer


def test_what_repeats_and_comes_out_of_order_is_stored_once(store, tmp_path):
    """As if every event had come once, in order: the same events, and the same remembered of users."""
    events = [event(number) for number in range(200)]
    events += [
        event(number, id=f"left{number}", kind="dwell", click=f"e{number}", dwell=2.0) for number in range(0, 200, 3)
    ]
    for one in events[200:]:
        del one["document"]
    mixed = events + events[::2]
    random.Random(0).shuffle(mixed)
    consumer = consume(Listed(map(body, mixed)), store, tmp_path)
    assert (consumer.tally.stored, consumer.tally.repeated) == (len(events), len(events[::2]))
    with Store.open(str(tmp_path / "plain.db")) as plain:
        for one in events:
            plain.add([read_event(body(one))])
        assert stored(store).keys() == stored(plain).keys()
        for user in ("u0", "u1", "u2"):
            one, other = (sorted(of.state(user).clicks, key=lambda click: click.time) for of in (store, plain))
            assert one == other


def test_what_is_no_event_is_set_aside_once_with_its_reason(store, tmp_path):
    bad = [
        (b"{", "Invalid JSON"),
        (b"", "Invalid JSON"),
        (body(event(1, kind="wish")), "kind: Input should be"),
        (body(event(2, dwell=float("nan"))), "dwell"),
        (body(event(3, time="soon")), "time: Value error, time is 'soon'"),
        (body(event(4, document=None)), "needs 'document'"),
        (body(event(5, document="other") | {"id": "e8", "user": "u2"}), "was sent before with another content"),
    ]
    bodies = [body(event(8)), *(content for content, _ in bad), body(event(9))]
    stream = Listed(bodies)
    again = list(stream.waiting)
    consumer = consume(stream, store, tmp_path)
    assert (consumer.tally.stored, consumer.tally.quarantined) == (2, len(bad))
    lines = [json.loads(line) for line in (tmp_path / "quarantine.jsonl").read_text().splitlines()]
    assert len(lines) == len(bad)
    for _, reason in bad:
        assert any(reason in line["reason"] for line in lines), reason
    stream.waiting = again  # as after a reader that was killed before it confirmed
    consumer = consume(stream, store, tmp_path)
    assert (consumer.tally.stored, consumer.tally.repeated, consumer.tally.quarantined) == (0, 2, 0)
    assert len((tmp_path / "quarantine.jsonl").read_text().splitlines()) == len(bad)


def test_a_stream_that_stops_is_waited_for(store, tmp_path):
    said: list[str] = []
    stream = Listed([body(event(number)) for number in range(30)], away=(1, 2, 4))  # 4: while it confirms
    consumer = consume(stream, store, tmp_path, say=said.append)
    assert (consumer.tally.stored, stream.waiting) == (30, [])
    assert said == ["the stream is away: start it; waiting"] * 2


def test_a_database_that_is_away_is_waited_for_and_nothing_is_confirmed(store, tmp_path, monkeypatch):
    stream, plain, tries = Listed([body(event(1))]), store.add, []

    def away(events):
        tries.append(len(stream.waiting))
        if len(tries) < 3:
            raise StoreError("gone", "the database is away", "start it")
        return plain(events)

    monkeypatch.setattr(store, "add", away)
    assert consume(stream, store, tmp_path).tally.stored == 1
    assert tries == [1, 1, 1]


def test_who_stops_while_it_waits_confirms_nothing(store, tmp_path):
    stream = Listed([body(event(1))], away=range(2, 99))
    consumer = Consumer(stream, store, tmp_path / "q", stopped=lambda: stream.calls > 4, wait=lambda seconds: None)
    consumer.step()
    assert len(stream.waiting) == 1
    assert stored(store).keys() == {("u1", "e1")}


def test_what_does_not_pass_ends_it(store, tmp_path):
    class Refused(Listed):
        def read(self, most, seconds):
            raise StreamError("no", "check", passes=False)

    with pytest.raises(StreamError, match="no: check"):
        Consumer(Refused([]), store, tmp_path / "q").step()


def test_a_line_that_was_cut_off_does_no_harm(store, tmp_path):
    path = tmp_path / "quarantine.jsonl"
    path.write_text('{"message": "0"}\n{"message": "1", "rea')
    stream = Listed([b"{", b"{"])
    consumer = Consumer(stream, store, path)
    consumer.step()
    assert consumer.tally.quarantined == 1


def test_addresses_that_are_none(capsys, tmp_path):
    with pytest.raises(SettingsError, match="no address of a stream"):
        open_stream("localhost", "events", "capse")
    Store.open(str(tmp_path / "capse.db")).close()
    with pytest.raises(SystemExit) as exit:
        main(["search", "consume", "kafka://localhost", "--db", str(tmp_path / "capse.db")])
    assert exit.value.code == 2
    assert "kafka" in capsys.readouterr().err
    assert set(STREAMS) >= {"redis", "rediss"}
    with pytest.raises(DataError, match="kind"):
        read_event(body(event(1, kind="wish")))


@pytest.fixture
def redis_server(tmp_path):
    """Starts a real server, and again after it was stopped, with what it had written."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no redis-server")
    held, port = hold_port()
    running = []

    def start():
        options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path), "--appendonly", "yes"]
        options += ["--appendfsync", "always", "--save", ""]
        running.append(subprocess.Popen([program, *options], stdout=subprocess.DEVNULL))
        import redis

        client = redis.Redis(port=port)
        for _ in range(100):
            try:
                client.ping()
                return client
            except redis.exceptions.ConnectionError:
                time.sleep(0.1)
        raise AssertionError("Redis does not answer")

    def stop():
        running[-1].kill()
        running[-1].wait(10)

    yield f"redis://127.0.0.1:{port}/0", start, stop
    stop()
    held.close()


@pytest.mark.slow
class TestRedis:
    def consume(self, url, database, folder, *options):
        command = [sys.executable, "-m", "capse", "search", "consume", url, "--db", str(database), *options]
        command += ["--quarantine", str(folder / "quarantine.jsonl")]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_everything_is_stored_once_though_readers_and_the_server_are_killed(
        self, redis_server, database, tmp_path, monkeypatch
    ):
        """Events that come twice and out of order while one of two readers and then Redis itself are killed."""
        url, start, stop = redis_server
        client = start()
        sent = [event(number) for number in range(6_000)]
        mixed = sent + sent[::3]
        random.Random(1).shuffle(mixed)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        monkeypatch.setattr(os, "environ", environment)
        Store.open(str(database)).close()
        readers = [self.consume(url, database, tmp_path) for _ in range(2)]
        for number, one in enumerate(mixed):
            client.xadd("events", {"event": body(one)})
            if number == len(mixed) // 3:
                _until(lambda: _count(database) > 200)
                readers[0].kill()
            if number == 2 * len(mixed) // 3:
                stop()
                client = start()
        client.xadd("events", {"event": b"no event"})
        _until(lambda: _count(database) == len(sent) and not _unread(client))
        # What the killed reader had not confirmed is taken over once it has been silent for long enough.
        monkeypatch.setattr("capse.service.streams.redis_streams.TAKE_OVER", 1)
        with Store.open(str(database)) as store:
            last = Consumer(open_stream(url, "events", "capse"), store, tmp_path / "quarantine.jsonl")
            while client.xpending("events", "capse")["pending"]:
                last.step(0.1)
            found = Counter((one.user, one.id) for user in ("u0", "u1", "u2") for one in store.events(user))
            last.stream.close()
        assert found == Counter((one["user"], one["id"]) for one in sent)
        readers[1].send_signal(signal.SIGTERM)
        out, _ = readers[1].communicate(timeout=30)
        assert readers[1].returncode == 0
        assert "stored" in out
        readers[0].communicate(timeout=30)
        lines = (tmp_path / "quarantine.jsonl").read_text().splitlines()
        assert [json.loads(line)["body"] for line in lines] == ["no event"]

    def test_until_empty_and_what_the_server_deleted(self, redis_server, database, tmp_path):
        url, start, _ = redis_server
        client = start()
        Store.open(str(database)).close()
        for number in range(20):
            client.xadd("events", {"event": body(event(number))})
        done = self.consume(url, database, tmp_path, "--until-empty")
        assert done.communicate(timeout=60)[0].strip() == "20 stored, 0 repeated, 0 quarantined"
        gone = client.xadd("events", {"event": body(event(99))})
        lost = open_stream(url, "events", "capse")
        assert len(lost.read(10, 0.1)) == 1
        client.xdel("events", gone)
        assert (lost.read(10, 0.1), lost.lost) == ([], 1), "what was deleted has no content"
        lost.close()

    def test_a_name_that_is_no_stream(self, redis_server, database, tmp_path):
        url, start, _ = redis_server
        start().set("events", "text")
        Store.open(str(database)).close()
        done = self.consume(url, database, tmp_path)
        _, err = done.communicate(timeout=60)
        assert done.returncode == 2
        assert "Redis cannot do that" in err
        assert "Traceback" not in err


def _count(database):
    from sqlalchemy import create_engine, text

    engine = create_engine(f"sqlite:///{database}")
    with engine.connect() as connection:
        found = connection.execute(text("SELECT count(*) FROM events")).scalar()
    engine.dispose()
    return found


def _unread(client):
    return client.xinfo_groups("events")[0]["lag"]


def _until(holds, seconds=120):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
