"""Time and memory of each feature on the command line, on the largest graph at hand: a fresh process for each.

By facts that is FB15k-237, by entities WN18RR. The run is that of `classification`, seed 0. What a process takes that
loads the run and asks one question stands first; the load of the machine is in the record.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import capse
from benchmarks.everyday.classification import trained
from capse.graph.link_prediction.predictor import LinkPredictor

DATA = ("fb15k-237", "wn18rr")


def run() -> dict[str, Any]:
    return {"load_before": os.getloadavg()[0], "rows": [row for data in DATA for row in _rows(data)]}


def _rows(data: str) -> list[dict[str, Any]]:
    run = trained(data, 0)
    assert run.folder is not None
    with tempfile.TemporaryDirectory() as folder:
        return [{"data": data, **row} for row in map(_measured, _commands(run, data, Path(folder)))]


def _commands(run: LinkPredictor, data: str, folder: Path) -> list[tuple[str, list[str]]]:
    graph = run.graph
    entities, relations = graph.entities.labels, graph.relations.labels
    facts = np.bincount(graph.train[:, [0, 2]].ravel(), minlength=len(entities))
    h, r, t = next(row for row in graph.test.tolist() if facts[row[0]] > 20)
    triple = ["--head", entities[h], "--relation", relations[r], "--tail", entities[t]]
    (folder / "one.tsv").write_text(f"{entities[h]}\t{relations[r]}\t{entities[t]}\n")
    new = "".join(f"new\t{relations[b]}\t{entities[c]}\n" for a, b, c in graph.train.tolist() if a == h)
    (folder / "new.tsv").write_text(new)
    path, question = str(run.folder.path) if run.folder else "", triple[:4]
    return [
        ("load", ["predict", path, *question, "--top", "1"]),
        ("score --classify", ["score", path, str(folder / "one.tsv"), "--classify"]),
        ("predict --among seen", ["predict", path, *question, "--among", "seen"]),
        ("update", ["update", path, str(folder / "new.tsv"), "--out", str(folder / "larger")]),
        ("similar", ["similar", path, entities[h]]),
        ("export --format faiss", ["export", path, "--format", "faiss", "--out", str(folder / "index.faiss")]),
        ("export --format hugging-face", ["export", path, "--format", "hugging-face", "--out", str(folder / "hub")]),
        ("explain", ["explain", path, *triple]),
        ("explain --removals", ["explain", path, *triple, "--removals"]),
        ("data info", ["data", "info", data]),
        ("data negatives", ["data", "negatives", data, "--out", str(folder / "false.tsv")]),
        ("train --model rules", ["train", "--model", "rules", "--data", data, "--out", str(folder / "rules")]),
    ]


def _measured(named: tuple[str, list[str]]) -> dict[str, Any]:
    name, arguments = named
    started = time.perf_counter()
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    command = [sys.executable, "-m", "capse", *arguments]
    pid = os.posix_spawn(sys.executable, command, os.environ, file_actions=quiet)
    _, status, used = os.wait4(pid, 0)
    if status:
        raise capse.CapseError(f"{name} ended with status {os.waitstatus_to_exitcode(status)}", "see what it said")
    seconds = time.perf_counter() - started
    cpu = used.ru_utime + used.ru_stime
    return {"feature": name, "seconds": round(seconds, 1), "cpu_seconds": round(cpu, 1), "mib": used.ru_maxrss // 1024}
