"""Several processes, and processes that are killed: every acknowledged event is there, none twice.

A driver imports the store once and forks a process for each writer, so that a kill costs a fraction of a second.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import pytest

from capse.search.users.profiles import REMEMBERED
from capse.service.store import Store
from tests.service.store.states import seen

DRIVER = '''
import array, fcntl, json, os, random, signal, sys, termios, threading, time, traceback
import alembic.runtime.environment, alembic.script  # before the processes part
from capse.service.store import Event, Store

url, kills = sys.argv[1], int(sys.argv[2])
START = 1_700_000_000_000_000


def event(writer, number):
    """One in three of a user who is this writer's alone, the others of a user whom all share."""
    user = writer if number % 3 == 0 else "ada"
    about = {"user": user, "session": "s", "time": START + number, "document": f"d{number}",
             "query": f"{writer}.{number}"}
    return Event(id=f"{writer}.{number}", kind="click", **about)


def write(writer, first, out, count=10**9):
    """Two threads send pairs of events and repeat the first pair; what was acknowledged is written to a pipe."""
    with Store.open(url) as store:
        def send(thread):
            for number in range(first + 10**6 * thread, first + 10**6 * thread + count, 2):
                pair = [event(writer, number), event(writer, number + 1)]
                store.add(pair)
                os.write(out, "".join(f"{one.id} {one.user}\\n" for one in pair).encode())
                if number == first:
                    assert store.add(pair) == ["repeated"] * 2
        threads = [threading.Thread(target=send, args=(n,), daemon=True) for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def fork(*arguments):
    """A process that writes, and where to read what was acknowledged to it."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        try:
            write(arguments[0], arguments[1], theirs, *arguments[2:])
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(theirs)
    return child, ours


def read_all(pipe):
    with os.fdopen(pipe) as file:
        return [line.split(" ", 1) for line in file.read().splitlines() if line.count(" ") == 1]


def await_acknowledgements(pipe, pairs):
    """Wait until a writer has said so often that a pair of events is stored."""
    deadline, waiting = time.monotonic() + 30, array.array("i", [0])
    while waiting[0] < 24 * pairs:  # bytes
        assert time.monotonic() < deadline, "too few acknowledgements within 30 seconds"
        time.sleep(0.002)
        fcntl.ioctl(pipe, termios.FIONREAD, waiting)


def kill(rounds):
    """Kill writers, one or two at a time, a random moment after some acknowledgements."""
    rng, acknowledged, kills = random.Random(0), [], 0
    while kills < rounds:
        writers = [fork(f"w{kills + n}", 0) for n in range(1 + kills % 2)]
        for _, pipe in writers:
            await_acknowledgements(pipe, rng.randint(1, 5))
        time.sleep(rng.uniform(0, 0.03))
        for child, _ in writers:
            os.kill(child, signal.SIGKILL)
        for child, pipe in writers:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -9
            acknowledged += read_all(pipe)
            kills += 1
    return acknowledged


def share(writers, count):
    """Writers that are left alone, each of which finds the database empty or half made."""
    acknowledged = []
    children = [fork(f"w{n}", 0, count) for n in range(writers)]
    for child, pipe in children:
        acknowledged += read_all(pipe)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return acknowledged


print(json.dumps(kill(kills) if kills else share(3, 20)))
'''


def run(url, kills):
    done = subprocess.run([sys.executable, "-c", DRIVER, url, str(kills)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [tuple(pair) for pair in json.loads(done.stdout)]


def check(url, acknowledged):
    """Nothing lost, nothing twice, and every state is what its user's events make of it."""
    assert max(Counter(acknowledged).values()) == 1
    stored = {}
    with Store.open(url) as store:
        for user in {user for _, user in acknowledged}:
            events = store.events(user)
            for event in events:
                assert event.id not in stored
                stored[event.id] = user
            assert seen(store.state(user)) == [event.id for event in events][-REMEMBERED:]
    assert set(acknowledged) <= set(stored.items())
    return stored


def test_processes_that_start_on_an_empty_database_and_write_at_once_lose_nothing(url):
    acknowledged = run(url, kills=0)
    assert len(acknowledged) == 3 * 2 * 20
    assert len(check(url, acknowledged)) == len(acknowledged)


@pytest.mark.slow
def test_kills_in_the_middle_of_a_stream_lose_nothing(url):
    kills = 20 if "://" in url else 100  # a server makes of a kill what it makes of any lost connection
    acknowledged = run(url, kills)
    check(url, acknowledged)
    assert len(acknowledged) >= 3 * kills, "they were in the middle of a stream"
