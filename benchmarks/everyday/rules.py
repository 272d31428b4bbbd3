"""The rule baseline on the test sets at hand, and what patterns give away of them."""

from __future__ import annotations

import time
from typing import Any

import capse
from capse.graph.patterns import relation_patterns

DATA = ("countries", "wn18rr", "fb15k-237")
SEEDS = (0, 1, 2)  # of the sample that paths of two are found on; inverse rules are counted on all


def run() -> dict[str, Any]:
    rows = []
    for name in DATA:
        graph = capse.load_graph(name)
        for kinds in ("inverse", "all"):
            for seed in SEEDS if kinds == "all" else SEEDS[:1]:
                started = time.perf_counter()
                run = capse.fit(graph, capse.Rules(kinds=kinds), training=capse.Training(seed=seed))
                seconds = time.perf_counter() - started
                result = run.evaluate("test", intervals=False, breakdowns=False)
                rows.append(
                    {
                        "data": name,
                        "kinds": kinds,
                        "seed": seed,
                        "rules": len(run.model.rules),
                        "seconds": round(seconds, 1),
                        "evaluation_seconds": round(result.seconds, 1),
                        "metrics": result.metrics["both"],
                    }
                )
    return {"rows": rows, "patterns": {name: _given_away(name) for name in DATA}}


def _given_away(name: str) -> dict[str, Any]:
    started = time.perf_counter()
    patterns = relation_patterns(capse.load_graph(name))
    kinds = [pattern.kind for pattern in patterns.found]
    return {
        "found": {kind: kinds.count(kind) for kind in ("symmetric", "inverse", "duplicate", "composed")},
        "test": patterns.test,
        "by_one_step": patterns.test_by_one_step,
        "by_any": patterns.test_by_any,
        "seconds": round(time.perf_counter() - started, 1),
    }
