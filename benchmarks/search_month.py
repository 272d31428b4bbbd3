"""A month of simulated traffic through the real service, retrained every night, beside training on all of it at once.

    python -m benchmarks month

People of a simulated world ask; `capse serve` ranks what their engine found, keeps the lists, and they look at what it
shows from the top down, click and stay as `capse search simulate` has it. The first run has learned from two days
whose clicks were shuffled, which is little. Every night a process of its own makes a log of what is stored, trains on
it and hands the run over if it is better (`retrain`), and the service reloads. On some nights the training is planted
to be bad: it learns that what was clicked is worst. In the middle of the month a former version is put back in service
while clients go on asking. The last days judge: a run trained at once on all that was stored before them, and the one
that the nights have left in service, rank the same lists. NDCG@10 is by what was planted, intervals are over users.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.servers import Service, served
from capse.errors import DataError
from capse.evaluation.clusters import cluster_interval, cluster_p_value
from capse.experiments.search.cross_fitting import part
from capse.experiments.search.methods import METHODS, SearchMethod, load_search_run
from capse.experiments.search.retraining import retrain
from capse.runs.versions import Versions
from capse.search.evaluation.judged_lists import shuffle_within_lists
from capse.search.evaluation.list_metrics import graded_ndcg
from capse.search.ingest import IngestSettings, ingest
from capse.search.logs.history import cutoffs
from capse.search.logs.search_log import SearchLog
from capse.search.logs.simulation import SimulationSettings, simulate
from capse.search.rankers.lambdamart import LambdaMARTSettings
from capse.search.rankers.sp_lambdamart import SP
from capse.search.times import DAY, SECOND
from capse.search.vectors.vector_space import VectorSettings, build_vectors
from capse.service.store import Store
from capse.service.stored_log import StoredLog

FIRST, NIGHTS, JUDGING = 2, 28, 3  # days before the service, nights after a day of traffic, and the days after them
LISTS = int(os.environ.get("LISTS", "50"))  # a day
BAD = (5, 12, 19, 26)  # nights on which the training is planted to be bad
ROLLBACK = 15  # the night on which a former version is put back
CLIENTS, LOAD_SECONDS = 4, 60.0  # that another version may take to answer
DAYS = FIRST + NIGHTS + JUDGING
WORLD = SimulationSettings(users=60, impressions=LISTS * DAYS, days=DAYS, noise=1.0)
TREES = LambdaMARTSettings(trees=80, leaves=15, learning_rate=0.1, patience=20, refit=False)
TEST_SHARE = 0.1  # of what is stored: what both runs are compared on every night


class _Quick(SearchMethod):
    """SP with fewer trees and vectors that take no time."""

    learns = True
    save, settings, notes = METHODS["sp"].save, METHODS["sp"].settings, METHODS["sp"].notes

    def fit(self, log: SearchLog, recipe: Any = None, **_: Any) -> SP:
        space = build_vectors(log, VectorSettings(source="encoder", dimensions=50))
        return SP.fit(log, cutoffs(log), TREES, space=space)


def train(log: SearchLog, out: Path) -> None:
    _Quick("sp").train(log, out=out)


def train_badly(log: SearchLog, out: Path) -> None:
    """As if what nobody clicked had been best."""
    worst = ~log.clicked & (log.position > np.median(log.position))
    at = np.where(worst, log.time[log.impression] + SECOND, log.clicked_at)
    train(replace(log, clicked=worst, satisfied=worst, clicked_at=at), out)


def run() -> dict[str, Any]:
    world = simulate(WORLD)
    draw = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        world.write_jsonl(folder / "raw")
        begin = FIRST * LISTS
        first = _first(world.log, begin)
        train(shuffle_within_lists(first, ("clicked", "clicked_at", "satisfied"), 0), folder / "run")
        database = str(folder / "capse.db")
        nights: list[dict[str, Any]] = []
        with served(folder / "run", folder, database=database, options=("--keep-lists", "365")) as service:
            people = _People(world, service, draw)
            for night in range(1, NIGHTS + 1):
                people.day(begin + (night - 1) * LISTS)
                nights.append(_night(folder, database, service, bad=night in BAD) | {"night": night})
                print(json.dumps(nights[-1]), flush=True)
                if night == ROLLBACK:
                    rolled = _roll_back(folder / "run", service, people)
                    print(json.dumps(rolled), flush=True)
            for day in range(JUDGING):
                people.day(begin + (NIGHTS + day) * LISTS)
            time.sleep(2.5)  # lists are written a moment later
        judged = _judge(folder, database, world, JUDGING * LISTS)
        bad = [one for one in nights if one["bad"]]
        return {
            "lists_a_day": LISTS,
            "nights": nights,
            "handed_over": sum(one["handed_over"] for one in nights),
            "bad_nights": len(bad),
            "bad_handed_over": sum(one["handed_over"] for one in bad),
            "rolled_back": rolled,
            "statuses_of_the_traffic": {str(status): count for status, count in people.statuses.items()},
            **judged,
        }


def _first(log: SearchLog, count: int) -> SearchLog:
    places = np.searchsorted([0.7 * count, 0.85 * count], np.arange(count), side="right")
    return replace(part(log, np.arange(count)), split=places.astype(np.int8))


class _People:
    """They ask in the order of the simulated lists, and do with what they are shown as the simulation has it."""

    def __init__(self, world: Any, service: Service, draw: np.random.Generator) -> None:
        self.world, self.service, self.draw = world, service, draw
        self.statuses: Counter[int] = Counter()

    def question(self, number: int) -> dict[str, Any]:
        log = self.world.log
        rows = slice(int(log.offsets[number]), int(log.offsets[number + 1]))
        return {
            "user": log.users[log.user[number]],
            "session": log.sessions[log.session[number]],
            "query": log.queries[log.query[number]],
            "documents": [log.documents.ids[document] for document in log.document[rows]],
            "time": int(log.time[number]) / SECOND,
        }

    def day(self, first: int) -> None:
        for number in range(first, first + LISTS):
            asked = self.question(number)
            status, answer = self.post("/v1/rerank", asked)
            assert status == 200
            start = int(self.world.log.offsets[number])
            events = []
            for one in answer["documents"]:
                wanted = bool(self.world.wanted[start + one["position"] - 1])
                looks = self.draw.random() < one["rank"] ** -WORLD.position_bias
                if looks and self.draw.random() < (0.9 if wanted else 0.03):
                    stays = float(round(self.draw.lognormal(np.log(90 if wanted else 8), 0.6), 1))
                    about = {"id": f"{number}-{one['rank']}", "kind": "click", "document": one["document"]}
                    events.append(about | {"time": asked["time"] + 5 * one["rank"], "dwell": stays})
            who = {key: asked[key] for key in ("user", "session", "query")}
            if events:
                self.post("/v1/events", {"events": [who | event for event in events]})

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.service.port}{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                status, answer = response.status, json.loads(response.read())
        except OSError as error:
            status, answer = getattr(error, "code", 0), None
        self.statuses[status] += 1
        return status, answer


def _night(folder: Path, database: str, service: Service, *, bad: bool) -> dict[str, Any]:
    """Train on what is stored, and have the service load what is better."""
    time.sleep(2.5)  # lists are written a moment later
    with Store.open(database) as store:
        log = _stored(folder, store, TEST_SHARE)
    try:
        verdict = retrain(folder / "run", log, train_badly if bad else train, keep=4)
    except DataError as error:  # too few lists that the run in service does not know
        return {"bad": bad, "handed_over": False, "refused": str(error)}
    if verdict.handed_over:
        os.kill(service.process, signal.SIGHUP)
    return {
        "bad": bad,
        "handed_over": verdict.handed_over,
        "lists": verdict.lists,
        "better_in": verdict.better_in,
        "clicks_weighed_by": verdict.bias,
        "mrr_new": round(verdict.new, 4),
        "mrr_in_service": round(verdict.served, 4),
        "mrr_engine": round(verdict.engine, 4),
    }


def _stored(folder: Path, store: Store, test_share: float) -> SearchLog:
    settings = IngestSettings(test_share=test_share)
    with tempfile.TemporaryDirectory(dir=folder) as aside:
        ingest([folder / "raw" / "documents.jsonl"], Path(aside, "log"), format=StoredLog(store), settings=settings)
        return SearchLog.load(Path(aside, "log"))


def _roll_back(run: Path, service: Service, people: _People) -> dict[str, Any]:
    """A former version in service and the newest again, while clients ask: what they were answered, and by which."""
    statuses: Counter[int] = Counter()
    versions: list[str] = []
    stopped = threading.Event()
    questions = [people.question(number) for number in range(200)]

    def client(number: int) -> None:
        while not stopped.is_set():
            number += 1
            status, answer = people.post("/v1/rerank", questions[number % 200])
            statuses[status] += 1
            versions.append(answer["model"] if answer else "")

    newest = Versions(run).current
    assert len(Versions(run).names()) > 1, "no night has handed a run over yet"
    clients = [threading.Thread(target=client, args=(50 * number,)) for number in range(CLIENTS)]
    for one in clients:
        one.start()
    command = [sys.executable, "-m", "capse", "search", "rollback", str(run), "--tell", str(service.process)]
    said = []
    for to in ((), ("--to", str(newest))):
        while not versions:
            time.sleep(0.05)
        served, until = versions[-1], time.monotonic() + LOAD_SECONDS
        done = subprocess.run([*command, *to], capture_output=True, text=True, check=True)
        said.append(done.stdout.strip().rpartition(" ")[2])
        while versions[-1] == served and time.monotonic() < until:
            time.sleep(0.05)
    stopped.set()
    for one in clients:
        one.join()
    return {
        "put_in_service": said,
        "requests": statuses.total(),
        "statuses": {str(status): count for status, count in statuses.items()},
        "versions_that_answered": len(set(versions)),
    }


def _judge(folder: Path, database: str, world: Any, lists: int) -> dict[str, Any]:
    """The run in service and one trained at once, on the last lists, by what was planted."""
    with Store.open(database) as store:
        log = _stored(folder, store, TEST_SHARE)
    places = np.full(len(log), 2, np.int8)
    places[: len(log) - lists] = np.where(np.arange(len(log) - lists) < 0.88 * (len(log) - lists), 0, 1)
    log = replace(log, split=places)
    train(log, folder / "whole")
    of_document = dict(zip(world.log.documents.ids, world.document_topics.tolist(), strict=True))
    test = log.of_split("test")
    rows = log.rows(test)
    wanted = np.array(
        [
            float(
                of_document[log.documents.ids[log.document[row]]]
                in world.interests[log.users[log.user[log.impression[row]]]]
            )
            for row in rows
        ]
    )
    lengths = log.lengths[test]
    some = np.bincount(np.repeat(np.arange(len(test)), lengths), wanted) > 0
    found = {
        name: graded_ndcg(load_search_run(folder / path).score(log, test, cutoffs(log)), wanted, lengths)[some]
        for name, path in (("in_service", "run"), ("trained_at_once", "whole"))
    }
    engine = graded_ndcg(-log.position[rows].astype(float), wanted, lengths)[some]
    gained = found["in_service"] - found["trained_at_once"]
    users = log.user[test][some]
    low, high = cluster_interval(gained, users).tolist()
    return {
        "judged_lists": int(some.sum()),
        "ndcg@10": {name: round(float(of.mean()), 4) for name, of in found.items()} | {"engine": float(engine.mean())},
        "in_service_minus_trained_at_once": {
            "mean": float(gained.mean()),
            "low": low,
            "high": high,
            "p": cluster_p_value(gained, users),
        },
        "last_of_the_log": str(np.datetime64(int(log.time[-1]), "us")),
        "days": round(float(log.time[-1] - log.time[0]) / DAY, 1),
    }
