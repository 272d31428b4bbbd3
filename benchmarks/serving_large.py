"""What it takes to serve a table of 3.8 GiB: memory of each process, and how long a question takes.

    python -m benchmarks serving-large

Half a million entities, ComplEx with 1,024 complex numbers, random. The run is served by one process that has the table
in memory, by one that has it mapped, by one that is allowed less memory than the table has (a control group of Linux,
where one can be made), and by two shards behind a front. All are asked the same questions one after another, and must
give the same answers. Memory is looked at twenty times a second from the start on: what a process has of its own
(RssAnon), and pages of files that it has mapped (RssFile), which leave it when memory is wanted elsewhere.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.import_on_disk import memory

ENTITIES, RELATIONS, TRIPLES, DIM = 500_000, 50, 1_000_000, 1024
QUESTIONS = 12
ALLOWED = 3 * 2**30  # bytes, of the process whose memory is limited
_GROUP = Path("/sys/fs/cgroup/memory/capse-serving")
_MAIN = "from capse.cli import main; main()"
_IN_MEMORY = f"from capse.graph.link_prediction import predictor; predictor.LEAST_MAPPED = 2**62; {_MAIN}"


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "run")
        _write_run(folder)
        size = (folder / "model.safetensors").stat().st_size / 2**30
        found = {"in memory": _served(folder, _IN_MEMORY), "mapped": _served(folder, _MAIN)}
        with suppress(OSError):
            _GROUP.mkdir()
            try:
                (_GROUP / "memory.limit_in_bytes").write_text(str(ALLOWED))
                found[f"mapped, {ALLOWED / 2**30:g} GiB allowed"] = _served(folder, _MAIN, group=_GROUP)
            finally:
                _GROUP.rmdir()
        found["two shards and a front"] = _sharded(folder)
    answers = {json.dumps(each.pop("answers")) for each in found.values()}
    if len(answers) != 1:
        raise RuntimeError("the answers differ")
    return {"entities": ENTITIES, "table gib": round(size, 2), "questions": QUESTIONS, "served": found}


def _write_run(folder: Path) -> None:
    from capse import ComplEx
    from capse.graph.dataset import Graph
    from capse.graph.link_prediction.predictor import LinkPredictor
    from capse.graph.vocabulary import Vocabulary
    from capse.models import build_model
    from capse.runs.tensors import table_on_disk

    drawn = np.random.default_rng(0).integers([ENTITIES, RELATIONS, ENTITIES], size=(TRIPLES, 3))
    entities, relations = (
        Vocabulary([f"{kind} {number:07d}" for number in range(count)], kind=kind)
        for kind, count in (("entity", ENTITIES), ("relation", RELATIONS))
    )
    graph = Graph.from_triples(drawn, entities=entities, relations=relations, name="large")
    model = build_model(ComplEx(dim=DIM), ENTITIES, RELATIONS, table=table_on_disk)
    LinkPredictor(model, graph).save(folder)


def _served(run: Path, code: str, group: Path | None = None) -> dict[str, Any]:
    with _service(code, str(run), group=group) as (address, watch):
        return {**_asked(address), "processes": [watch.peaks()]}


def _sharded(run: Path) -> dict[str, Any]:
    with ExitStack() as stack:
        shards = [stack.enter_context(_service(_MAIN, str(run), "--shard", f"{i}/2")) for i in (1, 2)]
        addresses = [word for address, _ in shards for word in ("--shards", address)]
        front = stack.enter_context(_service(_MAIN, str(run), *addresses))
        return {**_asked(front[0]), "processes": [watch.peaks() for _, watch in (*shards, front)]}


@contextmanager
def _service(code: str, *arguments: str, group: Path | None = None) -> Iterator[tuple[str, _Watch]]:
    def join() -> None:
        if group is not None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    command = [sys.executable, "-c", code, "serve", *arguments, "--port", "0", "--log-level", "warning"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1], preexec_fn=join
    ) as process:
        watch = _Watch(process.pid)
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), watch
        finally:
            process.terminate()
            process.wait(60)


def _asked(address: str) -> dict[str, Any]:
    answers, seconds = [], []
    for number in range(QUESTIONS):
        given = {"head" if number % 2 else "tail": f"entity {number * 37_000:07d}"}
        body = json.dumps({"relation": f"relation {number:07d}", "top": 100, **given}).encode()
        request = urllib.request.Request(f"{address}/v1/predict", body, {"Content-Type": "application/json"})
        started = time.perf_counter()
        with urllib.request.urlopen(request) as response:
            answers.append(json.load(response)["predictions"])
        seconds.append(time.perf_counter() - started)
    return {"answers": answers, "seconds of a question": round(statistics.median(seconds), 3)}


class _Watch:
    """The peaks of a process's memory, until they are asked for."""

    def __init__(self, process: int) -> None:
        self.process, self.seen, self.over = process, [(0.0, 0.0)], threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def _look(self) -> None:
        while not self.over.wait(0.05):
            self.seen.append(memory(self.process))

    def peaks(self) -> dict[str, float]:
        self.over.set()
        self.thread.join()
        own, mapped = (max(peaks) for peaks in zip(*self.seen, strict=True))
        return {"own memory gib": round(own, 3), "mapped gib": round(mapped, 3)}
