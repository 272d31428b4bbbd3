"""An epoch on ten million triples over a million entities, and ranks of a thousand more, beside PyKEEN's.

    python -m benchmarks epoch

ComplEx with 64 complex numbers, Adagrad, batches of 4,096, on CPUs with one thread a process. Ours: 256 negatives that
a batch shares, in one process and in two that share the entity table. PyKEEN has no shared negatives: it has its own
sampler with one negative a triple, and its optimiser moves the whole table in each step. An epoch is extrapolated from
the mean of the steps that were timed, of which the first are left out. Full ranks are filtered, among all entities;
sampled ones among 500 drawn for each question. Where PyKEEN ends with an error, that stands in place of a figure.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.several_processes import ENTITIES, RELATIONS, SETTINGS, TRIPLES, train, write_graph
from capse.processes.job import rank_in_job, size_of_job

TEST, DRAWN = 1_000, 500
BATCH = 4096
STEPS, PEER_STEPS, LEFT_OUT = 150, 15, 5


def run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        write_graph(Path(scratch, "graph"), TEST)
        ours = {f"capse, {n} processes": train(Path(scratch), n, "benchmarks.epoch_speed")[0] for n in (1, 2)}
        peer = train(Path(scratch), 1, "benchmarks.epoch_speed", "pykeen")[0]
    return {
        "entities": ENTITIES,
        "triples": TRIPLES,
        "test triples": TEST,
        "settings": SETTINGS,
        "steps timed": {"capse": STEPS - LEFT_OUT, "pykeen": PEER_STEPS - LEFT_OUT},
        **ours,
        "pykeen": peer,
    }


def _ours(scratch: Path) -> dict[str, Any]:
    from capse.experiments.engine import Listener, StepReport, StopTraining
    from capse.experiments.fit import fit
    from capse.experiments.recipe import Recipe
    from capse.graph.dataset import load_graph
    from capse.graph.link_prediction.candidates import Sampled
    from capse.graph.link_prediction.evaluation import evaluate
    from capse.processes.group import joined

    times: list[float] = []

    class Few(Listener):
        def step(self, report: StepReport) -> None:
            times.append(time.perf_counter())
            if report.step == STEPS:
                raise StopTraining

    recipe = Recipe.resolve(model="complex", overrides=[f"{key}={value}" for key, value in SETTINGS.items()])
    with joined(1200) as group:
        out = scratch / f"run-{size_of_job()}"
        run = fit(load_graph(scratch / "graph"), recipe, out=out, listener=Few())
        options: dict[str, Any] = {"group": group, "breakdowns": False, "relations": False}
        found = {"seconds of full ranks": evaluate(run.model, run.graph, **options).seconds}
        started = time.perf_counter()
        evaluate(run.model, run.graph, among=Sampled(run.graph, DRAWN), **options)
        found["seconds of sampled ranks"] = time.perf_counter() - started - found["seconds of full ranks"]
    return {**_epoch(times), **found}


def _epoch(times: list[float]) -> dict[str, float]:
    step = float(np.diff(times)[LEFT_OUT - 1 :].mean()) if times else math.nan
    return {"seconds of a step": step, "seconds of an epoch": step * math.ceil(TRIPLES / BATCH)}


def _pykeen(scratch: Path) -> dict[str, Any]:
    import torch
    from pykeen.evaluation import RankBasedEvaluator, SampledRankBasedEvaluator
    from pykeen.models import ComplEx
    from pykeen.training import SLCWATrainingLoop, TrainingCallback
    from pykeen.triples import CoreTriplesFactory

    from capse.graph.dataset import load_graph

    graph = load_graph(scratch / "graph")
    sizes = {"num_entities": ENTITIES, "num_relations": RELATIONS}
    train, test = (CoreTriplesFactory(torch.from_numpy(x.astype(np.int64)), **sizes) for x in (graph.train, graph.test))
    model = ComplEx(triples_factory=train, embedding_dim=SETTINGS["model.dim"], random_seed=0)
    times: list[float] = []

    class Few(TrainingCallback):  # type: ignore[misc] # PyKEEN's classes are not typed
        def post_batch(self, *_: Any, **__: Any) -> None:
            times.append(time.perf_counter())
            if len(times) == PEER_STEPS:
                raise StopIteration

    def few_steps() -> None:
        optimizer = torch.optim.Adagrad(model.parameters(), lr=SETTINGS["training.learning_rate"])
        loop = SLCWATrainingLoop(model=model, triples_factory=train, optimizer=optimizer)
        with contextlib.suppress(StopIteration):
            loop.train(train, num_epochs=1, batch_size=BATCH, use_tqdm=False, callbacks=Few(), sampler=None)

    filters = {"additional_filter_triples": [train.mapped_triples]}
    full = RankBasedEvaluator(filtered=True, clear_on_finalize=False)
    sampled = SampledRankBasedEvaluator(test, num_negatives=DRAWN, **filters)
    trained = _timed(few_steps)
    return {
        **(_epoch(times) if isinstance(trained, float) else {"an epoch": trained}),
        "seconds of full ranks": _timed(
            lambda: full.evaluate(model, test.mapped_triples, batch_size=32, use_tqdm=False, **filters)
        ),
        "seconds of sampled ranks": _timed(
            lambda: sampled.evaluate(model, test.mapped_triples, batch_size=32, use_tqdm=False, **filters)
        ),
    }


def _timed(work: Callable[[], object]) -> float | str:
    """Seconds, or how it ended."""
    started = time.perf_counter()
    try:
        work()
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    return time.perf_counter() - started


if __name__ == "__main__":
    folder, processes, *peer = sys.argv[1:]
    found = _pykeen(Path(folder)) if peer else _ours(Path(folder))
    rounded = {key: round(value, 4) if isinstance(value, float) else value for key, value in found.items()}
    Path(folder, f"{processes}-{rank_in_job()}.json").write_text(json.dumps(rounded))
