"""How long it takes to refine a run on WN18RR (M3GM), step by step; `benchmarks.refining_dense` has FB15k-237.

    python -m benchmarks refining

What is refined is TransE after two epochs: how good a run is makes no difference to what is counted for an answer.
Seconds are by the clock and of the processor, all threads together: the second leaves out what others do on the
machine meanwhile. The plain version is the same loops in Python, not compiled, both on the embedded graph.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

import capse
from capse.graph.dataset import load_graph
from capse.graph.link_prediction.ranking import rank_split
from capse.graph.refinement.features import Features
from capse.graph.refinement.refined_model import RefinedModel
from capse.graph.refinement.settings import Refinement
from capse.kernels.motifs.scoring import weigh
from capse.triples import TripleIndex

T = TypeVar("T")
LINES = {"top_100_seconds": 20, "epoch_seconds": 120}
RECIPE = "m3gm-own"
SMALL = "countries"  # where compiled and plain loops are compared
CANDIDATES, FEW = 200_000, 1_000  # scored by the former, and by the latter


def run() -> dict[str, Any]:
    """Counts, weights and ranks, in torch's threads; and a candidate, compiled and plain."""
    with tempfile.TemporaryDirectory() as scratch:
        steps = _step_by_step(Path(scratch))
    compiled, plain = _candidate_seconds(CANDIDATES), _not_compiled()
    each = {"compiled": 1e6 * compiled, "plain": 1e6 * plain, "ratio": plain / compiled}
    return {
        "task": f"capse refine --recipe {RECIPE} over TransE, L2, k = 100, on wn18rr",
        "threads": torch.get_num_threads(),
        **steps,
        "processor_microseconds_a_candidate": {"graph": SMALL, **each},
        "lines": LINES,
    }


def plain_seconds() -> float:
    """Seconds for a candidate: for a process in which nothing is compiled."""
    return _candidate_seconds(FEW)


def base_run(name: str, scratch: Path) -> capse.LinkPredictor:
    """TransE that has hardly been trained."""
    return capse.fit(
        name,
        capse.TransE(dim=100, norm=2, unit_ball=False),
        loss=capse.Loss("softmax", reduction="sum"),
        negatives=capse.Negatives("uniform", count=10),
        optimizer=capse.Optimizer("adagrad"),
        training=capse.Training(epochs=2, batch_size=1024, learning_rate=0.1, device="cpu"),
        validation=capse.Validation(every=2, triples=100),
        out=scratch / "base",
    )


def _step_by_step(scratch: Path) -> dict[str, Any]:
    base = base_run("wn18rr", scratch)
    graph = base.graph
    index = TripleIndex(graph.split("all"), len(graph.entities), len(graph.relations))
    one_epoch = capse.Training(epochs=1)
    refined, whole = _timed(lambda: capse.refine(base, RECIPE, training=one_epoch, out=scratch / "refined"))
    assert isinstance(refined.model, RefinedModel)
    assert refined.folder is not None
    (line,) = refined.folder.read_metrics()
    _, alone = _timed(lambda: rank_split(base.model, graph.test, index))
    _, together = _timed(lambda: rank_split(refined.model, graph.test, index))
    return {
        "motifs": len(refined.model.weights),
        "whole_refinement_of_one_epoch": whole,
        "epoch_seconds": line["seconds"],
        "questions_per_second": line["examples_per_second"],
        "test_set_by_the_run": alone,
        "test_set_refined": together,
        "top_100_seconds": {key: together[key] - alone[key] for key in alone},
    }


def _timed(work: Callable[[], T]) -> tuple[T, dict[str, float]]:
    clock, processor = time.perf_counter(), time.process_time()
    found = work()
    return found, {
        "seconds": time.perf_counter() - clock,
        "processor_seconds": time.process_time() - processor,
    }


def _candidate_seconds(count: int) -> float:
    """Processor seconds for w·Δf of one made-up answer, in one thread."""
    graph = load_graph(SMALL)
    features = Features.of(graph.train, len(graph.entities), len(graph.relations), most=3)
    keys = features.kept(Refinement())
    random = np.random.default_rng(0)
    weights = random.normal(size=len(keys))
    motifs = features.motifs(keys, weights, legs=False)
    asked = graph.test[random.integers(len(graph.test), size=count)].astype(np.int64)
    heads, relations = np.ascontiguousarray(asked[:, 0]), np.ascontiguousarray(asked[:, 1])
    tails = random.integers(len(graph.entities), size=count)
    weigh(motifs, weights, heads[:1], relations[:1], tails[:1])
    _, taken = _timed(lambda: weigh(motifs, weights, heads, relations, tails))
    return taken["processor_seconds"] / count


def _not_compiled() -> float:
    code = "import json; from benchmarks.refining_speed import plain_seconds; print(json.dumps(plain_seconds()))"
    settings = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    answer = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, check=True, text=True)
    return float(json.loads(answer.stdout))
