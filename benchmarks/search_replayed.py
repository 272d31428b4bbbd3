"""gitsearch's test period through `capse serve`, each list asked for as it was shown: what `evaluate` gives for each.

Run with ``CAPSE_DATA=... python -m benchmarks replay``; ``RUN`` in the environment names a run of gitsearch that is
there. The service has two workers and begins with the run alone, so what came before is what the run took along.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.load_client import Connection
from benchmarks.servers import served
from capse.arrays import Float64s, Int64s
from capse.experiments.search.methods import BEST, METHODS, load_search_run, method_of
from capse.search.evaluation.evaluate import evaluate
from capse.search.evaluation.list_metrics import list_metrics
from capse.search.ingest import open_log
from capse.search.logs.history import Clicks, cutoffs
from capse.search.logs.search_log import SearchLog
from capse.search.times import to_seconds

WORKERS = 2
AT_ONCE = 400  # events of a request

Send = Callable[[str, Any], Any]  # a path and a body; the answer


def run() -> dict[str, Any]:
    log = open_log(Path(os.environ["CAPSE_DATA"]) / "gitsearch")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(os.environ.get("RUN", Path(name, BEST)))
        if not folder.is_dir():
            METHODS[BEST].train(log, METHODS[BEST].resolve(), out=folder)
        return {"task": "gitsearch's test period through capse serve", "workers": WORKERS} | _compared(
            log, folder, Path(name)
        )


def _compared(log: SearchLog, run: Path, folder: Path) -> dict[str, Any]:
    ranker, lists = load_search_run(run), log.judged("test")
    with served(run, folder, workers=WORKERS) as service, asyncio.Runner() as runner:
        connection = Connection(service.port)

        def send(path: str, body: Any) -> Any:
            status, answer = runner.run(connection.send(path, json.dumps(body).encode()))
            assert status == 200, answer
            return json.loads(answer)

        scores = replayed(log, lists, send, first=int(log.of_split("test")[0]))
    rows = log.rows(lists)
    expected = ranker.score(log, lists, cutoffs(log))
    found = list_metrics(scores, log.satisfied[rows], log.lengths[lists])
    of_evaluate = evaluate(ranker, log, beside=False)
    owner = np.repeat(np.arange(len(lists)), log.lengths[lists])
    return {
        "method": method_of(run),
        "lists": len(lists),
        "lists_with_other_scores": len(np.unique(owner[scores != expected])),
        "lists_with_other_figures": int((found.table != of_evaluate.lists.table).any(axis=1).sum()),
        "mrr": {"served": float(found.mrr.mean()), "evaluate": of_evaluate.mrr},
    }


def replayed(log: SearchLog, lists: Int64s, send: Send, *, first: int = 0) -> Float64s:
    """Scores of these lists in a service that is told what happened before each, from list ``first`` of the log on."""
    told, found, done = _told(log, first), [], 0
    for impression in lists.tolist():
        (asked, *_) = events_of(log, impression, {})
        end = next((n for n in range(done, len(told)) if told[n]["time"] >= asked["time"]), len(told))
        for start in range(done, end, AT_ONCE):
            send("/v1/events", {"events": told[start : min(start + AT_ONCE, end)]})
        done = end
        wanted = {key: asked[key] for key in ("user", "session", "query", "time", "documents")}
        answer = send("/v1/rerank", wanted)
        found += [one["score"] for one in sorted(answer["documents"], key=lambda one: one["position"])]
    return np.array(found, np.float64)


def _told(log: SearchLog, first: int) -> list[dict[str, Any]]:
    """All events in the order of time; a list is shown before it is clicked."""
    clicks: dict[int, list[int]] = {}
    for row in Clicks.of(log).rows.tolist():
        clicks.setdefault(int(log.impression[row]), []).append(row)
    told = [event for impression in range(first, len(log)) for event in events_of(log, impression, clicks)]
    return sorted(told, key=lambda event: event["time"])


def events_of(log: SearchLog, impression: int, clicks: Mapping[int, list[int]]) -> Iterator[dict[str, Any]]:
    """What a client tells of a list: that it was shown, and what satisfied."""
    own = {
        "user": log.users[log.user[impression]],
        "session": log.sessions[log.session[impression]],
        "query": log.queries[log.query[impression]],
    }
    shown = [log.documents.ids[number] for number in log.document[log.rows(np.array([impression]))]]
    at = to_seconds(int(log.time[impression]))
    yield own | {"id": f"i{impression}", "kind": "impression", "time": at, "documents": shown}
    for row in clicks.get(impression, []):
        document, at = log.documents.ids[log.document[row]], to_seconds(int(log.clicked_at[row]))
        yield own | {"id": f"c{row}", "kind": "click", "time": at, "document": document}


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
