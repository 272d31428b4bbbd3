"""What is served by default, on one log and several seeds, beside SP alone and the engine, with tests over users.

    python -m benchmarks.search_served gitsearch 0 1 2 3 4      # a folder of CAPSE_DATA
    python -m benchmarks.search_served simulated 0              # made up by `capse search simulate`
    python -m benchmarks.search_served sources-sklearn 0        # simulated people, an installed package's sources
    python -m benchmarks.search_served PATH 0                   # a git repository, or any log
    python -m benchmarks.search_served                          # the page of all that is recorded

One file for each log and seed under ``results/search-served``; a seed that is recorded is not made again.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.source_log import write_source_log
from capse.experiments.search.methods import BEST, METHODS
from capse.runs.atomic import write_json, write_text
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


def page() -> str:
    """All that is recorded, means over seeds; intervals and tests of the first seed's lists, users being drawn."""
    lines = [
        "| log | test lists, users | engine | SP | what is served | over users | gained over SP, over users |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for folder in sorted(path for path in RESULTS.iterdir() if path.is_dir()):
        found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("seed-*.json"))]
        best, sp = ([one[name] for one in found] for name in ("best", "sp"))
        first, gained = best[0], [one["comparisons"]["sp"] for one in best]
        low, high = first["intervals_over_users"]["mrr"]
        least, most = (gained[0]["over_users"][side] for side in ("low", "high"))
        lines.append(
            f"| {folder.name} | {first['impressions']:,}, {first['users']:,} | {first['beside']['engine']['mrr']:.3f} "
            f"| {_mean(sp)} | {_mean(best)}, {len(best)} seeds | {low:.3f} to {high:.3f} "
            f"| {np.mean([one['difference'] for one in gained]):+.3f}, {least:+.3f} to {most:+.3f} |"
        )
    return "\n".join(lines) + "\n"


def _mean(found: list[dict[str, Any]]) -> str:
    values = [one["mrr"] for one in found]
    spread = f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else ""
    return f"{np.mean(values):.4f}{spread}"


def main(log: str = "", *seeds: str) -> None:
    if not log:
        write_text(RESULTS / "README.md", f"# What is served by default\n\n{__doc__}\n{page()}")
        print(page())
        return
    name = Path(log).resolve().name if Path(log).exists() else log
    missing = [int(seed) for seed in seeds if not (RESULTS / name / f"seed-{seed}.json").is_file()]
    data = find_log(log) if missing else None
    for seed in missing:
        assert data is not None
        record(data, name, seed)


if __name__ == "__main__":
    main(*sys.argv[1:])
