"""What the rankers of a log reach with each of two BLAS kernels: NumPy's and SciPy's OpenBLAS round differently.

    python -m benchmarks.blas_kernels [METHOD ...]      # sp, capse and blend unless some are named; needs CAPSE_DATA

Each method is made anew with seed 0 in a process of its own for each kernel (``OPENBLAS_CORETYPE``) and evaluated on
the test lists of gitsearch. One file, results/search/blas.json; a method that is in it is not made again. Torch has a
BLAS of its own (MKL), which the variable does not reach: what differs is the vectors of documents, and what learns from
them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from capse.runs.atomic import write_json
from capse.runs.records import provenance, versions

RECORD = Path(__file__).parents[1] / "results" / "search" / "blas.json"
LOG, SEED = "gitsearch", 0
KERNELS = ("Haswell", "SkylakeX")
METHODS = ("sp", "capse", "blend")


def measure(method: str) -> None:
    """Print what a method reaches in this process, and on which BLAS."""
    from capse.experiments.search import methods
    from capse.search.evaluation.evaluate import evaluate
    from capse.search.ingest import open_log

    started = time.monotonic()
    log = open_log(Path(os.environ["CAPSE_DATA"], LOG))
    ranker = methods.METHODS[method].fit(log, seed=SEED)
    found: dict[str, Any] = {}
    for history in ("prequential", "frozen"):
        reached = evaluate(ranker, log, history=history, method=method)
        found[history] = {"metrics": reached.metrics, "reciprocal_ranks": reached.lists.mrr.tolist()}
    seconds = round(time.monotonic() - started)
    print(json.dumps({"blas": versions()["blas"], "seconds": seconds, "found": found}))


def on_kernel(kernel: str, method: str) -> dict[str, Any]:
    code = f"from benchmarks.blas_kernels import measure; measure({method!r})"
    environment = os.environ | {"OPENBLAS_CORETYPE": kernel}
    done = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    printed: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if not printed["blas"].endswith(kernel):
        sys.exit(f"asked for {kernel}, and NumPy's BLAS is {printed['blas']}")
    return printed


def compare(method: str) -> dict[str, Any]:
    """Metrics on each kernel, their differences, and how many lists are ranked to another reciprocal rank."""
    first, second = (on_kernel(kernel, method) for kernel in KERNELS)
    record: dict[str, Any] = {
        "seconds": {name: one["seconds"] for name, one in zip(KERNELS, (first, second), strict=True)}
    }
    for history, one in first["found"].items():
        other = second["found"][history]
        ranks = np.array([one["reciprocal_ranks"], other["reciprocal_ranks"]])
        record[history] = {
            KERNELS[0]: one["metrics"],
            KERNELS[1]: other["metrics"],
            "difference": {name: other["metrics"][name] - value for name, value in one["metrics"].items()},
            "lists": ranks.shape[1],
            "lists_that_differ": int((ranks[0] != ranks[1]).sum()),
        }
    return record | {"blas": [first["blas"], second["blas"]]}


def main(names: list[str]) -> None:
    for method in names or METHODS:
        known = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {"methods": {}}
        if method in known["methods"]:
            continue
        compared = compare(method)
        origin = provenance() | {"command": f"python -m benchmarks.blas_kernels {method}"}
        known = {"log": LOG, "seed": SEED, "methods": known["methods"] | {method: compared | origin}}
        write_json(RECORD, known)
        print(method, json.dumps(compared), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
