"""What each of two processes that share the entity table needs, against one: memory, and processor time of a step.

    python -m benchmarks several-processes

A million entities, ten million random triples, ComplEx with 64 complex numbers and row-wise Adagrad, 256 negatives that
a batch shares. The graph is opened from columns on disk. Training stops after a few steps and saves its checkpoint; a
whole epoch would take hours on a busy machine, so its time is not measured. Memory is the peak of what a process has of
its own (RssAnon), and that less what it has once everything is imported; mapped pages of files are counted apart.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

ENTITIES, RELATIONS, TRIPLES = 1_000_000, 500, 10_000_000
STEPS = 12
SETTINGS = {
    "model.dim": 64,
    "training.parts": 2,
    "training.parallel": "rows",
    "training.epochs": 1,
    "training.batch_size": 4096,
    "training.learning_rate": 0.1,
    "training.device": "cpu",
    "training.wait_seconds": 1200,
    "negatives.sampler": "shared",
    "negatives.count": 256,
    "loss.relation_weight": 0,
    "optimizer.name": "adagrad",
    "validation.every": 0,
}


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        write_graph(Path(scratch, "graph"))
        found = {str(count): train(Path(scratch), count, "benchmarks.several_processes") for count in (1, 2)}
    one, two = (max(each["peak above imports gib"] for each in found[count]) for count in ("1", "2"))
    return {
        "entities": ENTITIES,
        "triples": TRIPLES,
        "steps": STEPS,
        "settings": SETTINGS,
        "processes": found,
        "peak of two against one": round(two / one, 3),
    }


def write_graph(folder: Path, test: int = 0) -> None:
    """Random triples as columns, of which so many are a test set."""
    from capse.graph.columns import describe_columns, write_triples
    from capse.graph.encoding import distinct
    from capse.graph.mapped_labels import write_labels

    folder.mkdir()
    random = np.random.default_rng(0)
    drawn = random.integers([ENTITIES, RELATIONS, ENTITIES], size=(TRIPLES, 3), dtype=np.int32)
    triples = distinct(drawn, ENTITIES, RELATIONS)
    held_out = np.zeros(len(triples), bool)
    held_out[random.choice(len(triples), test, replace=False)] = True
    for split, chosen in (("train", triples[~held_out]), ("valid", triples[:0]), ("test", triples[held_out])):
        write_triples(folder, split, len(chosen), [chosen])
    for kind, count in (("entities", ENTITIES), ("relations", RELATIONS)):
        write_labels(folder / f"{kind}.arrow", [pa.array([f"{kind} {number:08d}" for number in range(count)])])
    describe_columns(folder, {"repeated": {}, "skipped": 0})


def train(scratch: Path, count: int, module: str, *arguments: str) -> list[dict[str, Any]]:
    """What each of so many processes found, which were started together."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1"}
    common |= {"MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", module, str(scratch), str(count), *arguments],
            cwd=Path(__file__).parents[1],
            env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(count)
    ]
    statuses = [process.wait() for process in processes]
    if any(statuses):
        raise RuntimeError(f"{count} processes failed")
    found = [json.loads((scratch / f"{count}-{rank}.json").read_text()) for rank in range(count)]
    print(f"{count}: {found}", flush=True)
    return found


def _part_of_training(scratch: Path, count: int) -> None:
    """In each process: train for some steps, and write down what that took."""
    from capse.experiments.engine import Listener, StepReport, StopTraining
    from capse.experiments.fit import fit
    from capse.experiments.recipe import Recipe
    from capse.graph.dataset import load_graph
    from capse.processes.group import joined
    from capse.processes.job import rank_in_job

    times: list[float] = []

    class Few(Listener):
        def step(self, report: StepReport) -> None:
            times.append(time.process_time())
            if report.step == STEPS:
                raise StopTraining

    recipe = Recipe.resolve(model="complex", overrides=[f"{key}={value}" for key, value in SETTINGS.items()])
    with joined(1200) as group:
        before, watch = _memory(), _Watch()
        # Only the first process's listener is told of steps: the others' time is the same, as they take turns.
        fit(load_graph(scratch / "graph"), recipe, out=scratch / f"run-{count}", listener=Few())
        peaks = watch.end()
        found = {
            "after imports gib": before[0],
            "peak gib": peaks[0],
            "peak above imports gib": peaks[0] - before[0],
            "mapped gib": peaks[1],
            "bytes sent a step": group.sent / STEPS,
        }
        if group.leads:
            found["processor seconds of a step"] = float(np.median(np.diff(times)))
    rounded = {key: round(value, 4) for key, value in found.items()}
    (scratch / f"{count}-{rank_in_job()}.json").write_text(json.dumps(rounded))


class _Watch:
    """Looks at this process's memory twenty times a second."""

    def __init__(self) -> None:
        self.peaks, self.over = (0.0, 0.0), threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def _look(self) -> None:
        while not self.over.wait(0.05):
            own, mapped = _memory()
            self.peaks = max(self.peaks[0], own), max(self.peaks[1], mapped)

    def end(self) -> tuple[float, float]:
        self.over.set()
        self.thread.join()
        return self.peaks


def _memory() -> tuple[float, float]:
    lines = Path("/proc/self/status").read_text().splitlines()
    kept = {
        name: int(rest.split()[0]) / 2**20 for name, _, rest in (line.partition(":") for line in lines) if "Rss" in name
    }
    return kept["RssAnon"], kept["RssFile"] + kept["RssShmem"]


if __name__ == "__main__":
    _part_of_training(Path(sys.argv[1]), int(sys.argv[2]))
