"""Facts of a graph in the store: each once, all or none, in the order in which they came, kills and all."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import pytest
from sqlalchemy import select

from capse.service.store import Store
from capse.service.store.schema import facts

KENYA = ("Kenya", "borders", "Uganda")
PERU = ("Peru", "borders", "Chile")

# Processes that add facts until they are killed, a random moment after some acknowledgements; what was acknowledged is
# printed. Half of what each sends, all send.
DRIVER = """
import json, os, random, signal, sys, time
from capse.service.store import Store

url, kills = sys.argv[1], int(sys.argv[2])


def fork(writer):
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        with Store.open(url) as store:
            for number in range(10**9):
                facts = [(f"e{number}", "r", "shared"), (f"e{number}", "r", writer)]
                store.add_facts(facts)
                os.write(theirs, (json.dumps(facts) + "\\n").encode())
    os.close(theirs)
    return child, os.fdopen(ours)


rng, acknowledged = random.Random(0), []
for kill in range(kills):
    writers = [fork(f"w{kill}.{n}") for n in range(1 + kill % 2)]
    for _, pipe in writers:
        acknowledged += json.loads(pipe.readline())
    time.sleep(rng.uniform(0, 0.03))
    for child, pipe in writers:
        os.kill(child, signal.SIGKILL)
        acknowledged += [fact for line in pipe.read().split("\\n")[:-1] for fact in json.loads(line)]
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -9
print(json.dumps(acknowledged))
"""


def test_a_fact_is_stored_once_and_the_order_is_that_of_arrival(store):
    assert (store.facts(), store.fact_count()) == ([], 0)
    assert store.add_facts([KENYA, PERU, KENYA]) == ["accepted", "accepted", "repeated"]
    assert store.add_facts([("A", "b", "C"), PERU]) == ["accepted", "repeated"]
    assert store.facts() == [KENYA, PERU, ("A", "b", "C")]
    assert store.fact_count() == 3


def test_a_fact_is_kept_with_its_microsecond_and_known_again_by_the_digest_of_older_versions(store, monkeypatch):
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000_123_456_789)
    store.add_facts([KENYA])
    with store.reading() as connection:
        (row,) = connection.execute(select(facts.c.at, facts.c.digest))
    assert tuple(row) == (1_700_000_000_123_456, "caf54e34214cd1abe6b6dce6e981d578")


def test_labels_may_be_long_and_run_into_each_other(store):
    long = "ä" * 1_000
    alike = [("a b", "c", "d"), ("a", "b c", "d"), (long, long, long), (long, long, long + "x")]
    assert store.add_facts(alike) == ["accepted"] * 4
    assert store.facts() == alike


def test_threads_that_send_the_same_facts_store_each_once(store):
    facts = [(f"e{i}", "r", "t") for i in range(20)]
    outcomes = []
    threads = [threading.Thread(target=lambda: outcomes.extend(store.add_facts(facts))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["accepted"] * 20 + ["repeated"] * 60
    assert store.facts() == facts


def killed(url, kills):
    done = subprocess.run([sys.executable, "-c", DRIVER, url, str(kills)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    acknowledged = {tuple(fact) for fact in json.loads(done.stdout)}
    with Store.open(url) as store:
        stored = store.facts()
    assert len(set(stored)) == len(stored)
    assert acknowledged <= set(stored)
    return len(acknowledged)


@pytest.mark.parametrize("kills", [5, pytest.param(100, marks=pytest.mark.slow)])
def test_kills_in_the_middle_of_a_stream_of_facts_lose_none(url, kills):
    assert killed(url, kills) >= 2 * kills
