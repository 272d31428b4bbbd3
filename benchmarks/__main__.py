"""``make bench``: measure, print ratios, record them with commit and machine under results/, some with a plot.

    python -m benchmarks [NAME ...]        names: import, import-on-disk, training, steps, several-processes,
                                            epoch, serving-large, evaluation, scoring, rerank, refining, refining-dense,
                                            ingest, metarank, store, service, soak, kills, shop, bias, month, replay;
                                            without one, all but the last six

Each benchmark compares with a peer, or with the plain computation, in one run; needs ``CAPSE_DATA``.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

from capse.runs.atomic import write_json
from capse.runs.records import provenance

BENCHMARKS = {
    "import": "import_speed",
    "import-on-disk": "import_on_disk",
    "training": "training_speed",
    "steps": "step_time",
    "several-processes": "several_processes",
    "epoch": "epoch_speed",
    "serving-large": "serving_large",
    "evaluation": "evaluation_speed",
    "scoring": "scoring_speed",
    "rerank": "rerank_speed",
    "refining": "refining_speed",
    "refining-dense": "refining_dense",
    "ingest": "search_ingest_speed",
    "metarank": "metarank_import",
    "store": "store_speed",
    "service": "service_load",
    "soak": "service_soak",
    "kills": "service_kills",
    "shop": "search_shop",
    "bias": "position_bias",
    "month": "search_month",
    "replay": "search_replayed",
}
BY_NAME_ONLY = {"soak", "kills", "shop", "bias", "month", "replay"}  # they take long
RESULTS = Path(__file__).parents[1] / "results"


def main(names: list[str]) -> None:
    unknown = set(names) - set(BENCHMARKS)
    if unknown:
        sys.exit(f"unknown benchmark {', '.join(sorted(unknown))}: choose from {', '.join(BENCHMARKS)}")
    for name in names or [name for name in BENCHMARKS if name not in BY_NAME_ONLY]:
        benchmark = import_module(f"benchmarks.{BENCHMARKS[name]}")
        measured = benchmark.run()
        origin = provenance() | {"command": f"python -m benchmarks {name}"}
        write_json(RESULTS / "benchmarks" / f"{name}.json", {"benchmark": name, **measured, **origin})
        if hasattr(benchmark, "plot"):
            benchmark.plot(measured, RESULTS / "benchmarks" / f"{name}.svg")
        print(f"== {name}\n{json.dumps(measured, indent=2)}")


if __name__ == "__main__":
    main(sys.argv[1:])
