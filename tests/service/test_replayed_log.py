"""A log replayed through the service: the figures of evaluation, list by list, whichever process answers."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from benchmarks.search_replayed import replayed
from capse.runs.manifest import write_manifest
from capse.search.evaluation.evaluate import evaluate
from capse.search.evaluation.list_metrics import list_metrics
from capse.search.logs.history import cutoffs
from capse.search.rankers.lambdamart import LambdaMARTSettings
from capse.search.rankers.sp_lambdamart import SP
from capse.search.times import to_seconds
from capse.search.vectors.vector_space import VectorSettings, build_vectors

QUICK = LambdaMARTSettings(trees=20, leaves=7, learning_rate=0.2, least_documents=10, patience=0)
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def trees(simulated, tmp_path_factory) -> Path:
    """A run of SP, as far as a service looks at it."""
    folder: Path = tmp_path_factory.mktemp("sp")
    log = simulated.log
    space = build_vectors(log, VectorSettings(topics=8, iterations=3))
    SP.fit(log, cutoffs(log), QUICK, space=space).save(folder)
    (folder / "recipe.yaml").write_text("format: 2\nmethod: sp\n", encoding="utf-8")
    write_manifest(folder)
    return folder


@pytest.mark.parametrize("before", [True, False], ids=["all events", "those after the run's own log"])
def test_replaying_a_log_through_two_processes_gives_the_figures_of_evaluate(serve, simulated, trees, database, before):
    log, ranker = simulated.log, SP.load(trees)
    workers = [serve(trees, database=database) for _ in range(2)]
    lists, turn = log.judged("test"), itertools.cycle([0, 0, 1])

    def send(path, body):
        sent = workers[next(turn)].post(path, body)
        assert sent.status_code == 200, sent.text
        return sent.json()

    found = replayed(log, lists, send, first=0 if before else int(log.of_split("test")[0]))
    np.testing.assert_array_equal(found, ranker.score(log, lists, cutoffs(log)))
    rows = log.rows(lists)
    by_list = list_metrics(found, log.satisfied[rows], log.lengths[lists])
    np.testing.assert_array_equal(by_list.table, evaluate(ranker, log, beside=False).lists.table)


def test_what_is_counted_of_all_people_follows_bounces_deletions_and_restarts(serve, simulated, trees, database):
    log = simulated.log
    now, shown = to_seconds(int(log.time[-1])) + 60, list(log.documents.ids[:5])
    first, second = (serve(trees, database=database) for _ in range(2))
    base = {"session": "s", "query": "q", "time": now}

    def scores(client):
        answer = client.post("/v1/rerank", {"documents": shown, "query": "q", "time": now + 9}).json()
        return {one["document"]: one["score"] for one in answer["documents"]}

    def counted(client):
        client.service.models.search.catch_up(client.service.store)
        everyone = client.service.models.search.reranker.everyone
        return everyone.clicks, everyone.shown, [click.time for click in everyone.on(shown[4])]

    before, at_first = scores(first), counted(first)
    clicks = [base | {"id": f"c{n}", "kind": "click", "user": f"u{n}", "document": shown[4]} for n in range(9)]
    lists = [base | {"id": f"i{n}", "kind": "impression", "user": f"u{n}", "documents": shown} for n in range(9)]
    first.post("/v1/events", {"events": lists + clicks})
    after = scores(first)
    assert after != before
    assert scores(second) == after
    assert counted(second) == counted(first)
    assert counted(first)[:2] == (at_first[0] + 9, at_first[1] + 45)
    bounced = base | {"id": "d", "kind": "dwell", "user": "u0", "click": "c0", "dwell": 1.0}
    later = base | {"id": "c0b", "kind": "click", "user": "u0", "document": shown[0], "time": now + 1}
    second.post("/v1/events", {"events": [later, {k: v for k, v in bounced.items() if k != "query"}]})
    assert counted(first)[0] == at_first[0] + 9  # one more, one less
    assert counted(first) == counted(second)
    assert counted(serve(trees, database=database)) == counted(first)
    for user in range(9):
        assert second.request("DELETE", f"/v1/users/u{user}").status_code == 200
    assert counted(first) == counted(second) == at_first
    assert scores(first) == scores(second) == before
