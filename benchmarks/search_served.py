"""What is served by default, on one log and several seeds, beside SP alone and the engine, with tests over users.

    python -m benchmarks.search_served gitsearch 0 1 2 3 4      # a folder of CAPSE_DATA
    python -m benchmarks.search_served simulated 0              # made up by `capse search simulate`
    python -m benchmarks.search_served sources-sklearn 0        # simulated people, an installed package's sources
    python -m benchmarks.search_served PATH 0                   # a git repository, or any log

One file for each log and seed under ``results/search-served``; a seed that is recorded is not made again. The page of
all of them is made by ``python tools/record_results.py``.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.source_log import write_source_log
from capse.experiments.search.methods import BEST, METHODS
from capse.runs.atomic import write_json
from capse.runs.records import provenance
from capse.search.evaluation.evaluate import SearchEvaluation, evaluate
from capse.search.ingest import ingest, open_log
from capse.search.logs.search_log import SearchLog
from capse.search.logs.simulation import simulate

SOURCES = "sources-"
RESULTS = Path(__file__).parents[1] / "results" / "search-served"


def find_log(name: str) -> SearchLog:
    if name == "simulated":
        return simulate().log
    folder = Path(os.environ.get("CAPSE_DATA", ".")) / name
    if folder.is_dir():
        return open_log(folder)
    with tempfile.TemporaryDirectory() as temporary:
        if name.startswith(SOURCES):
            write_source_log(name.removeprefix(SOURCES), Path(temporary))
            return open_log(Path(temporary))
        ingest([Path(name)], Path(temporary, "log"), format="git" if Path(name, ".git").exists() else None)
        return open_log(Path(temporary, "log"))


def record(log: SearchLog, name: str, seed: int) -> None:
    started = time.perf_counter()
    sp = evaluate(METHODS["sp"].fit(log, seed=seed), log, method="sp")
    after_sp = time.perf_counter()
    best = evaluate(METHODS[BEST].fit(log, seed=seed), log, method=BEST, against=[sp])
    seconds = {"sp": round(after_sp - started, 1), BEST: round(time.perf_counter() - after_sp, 1)}
    content: dict[str, Any] = {"log": name, "seed": seed, "impressions": len(log), "seconds": seconds}
    content |= {"best": best.to_json(), "sp": sp.to_json()}
    lists = {"owners": best.owners.tolist()} | {one: _ranks(found) for one, found in (("best", best), ("sp", sp))}
    write_json(RESULTS / name / f"seed-{seed}.json", content | provenance() | {"lists": lists})
    print(name, seed, {one.method: round(one.mrr, 4) for one in (sp, best)}, seconds, flush=True)


def _ranks(found: SearchEvaluation) -> list[float]:
    """What each list contributes to the MRR."""
    return [round(rank, 6) for rank in found.lists.mrr.tolist()]


def main(log: str, *seeds: str) -> None:
    name = Path(log).resolve().name if Path(log).exists() else log
    missing = [int(seed) for seed in seeds if not (RESULTS / name / f"seed-{seed}.json").is_file()]
    data = find_log(log) if missing else None
    for seed in missing:
        assert data is not None
        record(data, name, seed)


if __name__ == "__main__":
    main(*sys.argv[1:])
