"""Scores of all candidates by the exact kernel: against plain torch, PyKEEN's ConvKB, the filters and the machine.

Run with ``CAPSE_DATA=... python -m benchmarks.scoring_speed [--quick]``; the whole takes a quarter of an hour on two
cores. ``python -m benchmarks scoring`` records it under results/, with a plot.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numba
import numpy as np
import torch

from capse import CapsE, ConvKB
from capse.graph.dataset import load_graph
from capse.graph.link_prediction.evaluation import evaluate
from capse.kernels import workspace
from capse.kernels.cpu.lanes import load, plus, store, times_plus
from capse.kernels.cpu.sweep import WIDE
from capse.kernels.scoring import forced
from capse.kernels.threads import SHARES_PER_THREAD, in_threads
from capse.models import ModelSettings, TripleModel, build_model

THREADS = 2
DIM = 100
SIZES = {"wn18rr": (40_943, 400), "fb15k-237": (14_541, 50)}  # entities, filters
FILTERS = (50, 100, 200, 400, 800)
ENDS = FILTERS[0], FILTERS[-1]
ENTITIES = (10_000, 20_000, 40_000, 80_000)
QUERIES = 32
WORKSPACES = (
    2**18,
    2**20,
    2**22,
    2**24,
)  # floats of features that plain torch makes at a time; the last is capse's own
LANES = (0,) * WIDE


def run(quick: bool = False) -> dict[str, Any]:
    """Milliseconds a query, the fastest of several repeats, and ratios; ``quick`` leaves out what takes minutes."""
    torch.set_num_threads(THREADS)
    numba.set_num_threads(THREADS)
    repeats = 3 if quick else 10
    measured: dict[str, Any] = {"threads": THREADS, "dim": DIM, "queries": QUERIES}
    measured["sizes"] = {
        name: _compare(*size, repeats) for name, size in SIZES.items() if name != "wn18rr" or not quick
    }
    by_filters = _kernel({filters: (_capse(filters), SIZES["wn18rr"][0]) for filters in FILTERS}, repeats)
    measured["by_filters"] = by_filters | {"growth": by_filters[FILTERS[-1]] / by_filters[FILTERS[0]]}
    measured["training_by_filters"] = _training(SIZES["fb15k-237"][0], repeats, plain=not quick)
    measured["training_growth"] = {
        name: _growth({filters: _passes(_model(_capse(filters), entities), QUERIES, repeats) for filters in ENDS})
        for name, (entities, _) in SIZES.items()
    }
    measured["errors"] = _errors(*SIZES["fb15k-237"])
    by_entities = _kernel({entities: (_capse(50), entities) for entities in ENTITIES}, repeats)
    per_entity = [milliseconds / entities for entities, milliseconds in by_entities.items()]
    measured["by_entities"] = by_entities | {"spread_per_entity": max(per_entity) / min(per_entity)}
    by_size = _kernel({name: (_capse(filters), entities) for name, (entities, filters) in SIZES.items()}, repeats)
    measured["arithmetic"] = {name: _share_of_the_limit(SIZES[name][0], by_size[name]) for name in SIZES}
    if not quick and os.environ.get("CAPSE_DATA"):
        measured["test_set_seconds"] = {name: _evaluation(name, filters) for name, (_, filters) in SIZES.items()}
    return measured


def _capse(filters: int, **settings: Any) -> CapsE:
    return CapsE(dim=DIM, filters=filters, **settings)


def _compare(entities: int, filters: int, repeats: int) -> dict[str, Any]:
    """The models' milliseconds by the kernel, plain torch and PyKEEN."""
    models: dict[str, ModelSettings] = {
        "capse": _capse(filters),
        "capse-routed": _capse(filters, routing=3),
        "capse-released": _capse(filters, variant="released"),
        "convkb": ConvKB(dim=DIM, filters=filters),
    }
    cases = {name: (settings, entities) for name, settings in models.items()}
    before = _kernel(cases, repeats)
    plain = _plain(cases)
    pykeen = _pykeen_convkb(_model(*cases["convkb"]))
    after = _kernel(cases, repeats)  # neighbours on the machine come and go
    kernel = {name: min(before[name], after[name]) for name in cases}
    found: dict[str, Any] = {
        name: {
            "kernel_ms": kernel[name],
            "plain_ms": min(plain[name].values()),
            "plain_ms_by_workspace": plain[name],
            "ratio": min(plain[name].values()) / kernel[name],
        }
        for name in cases
    }
    found["capse-routed"]["times_one_iteration"] = kernel["capse-routed"] / kernel["capse"]
    return found | {"pykeen-convkb": {"ms": pykeen, "ratio": pykeen / kernel["convkb"]}}


def _model(settings: ModelSettings, entities: int) -> TripleModel:
    model = build_model(settings, entities, 10).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.1, generator=torch.Generator().manual_seed(0))
    return model


@torch.no_grad()
def _score(model: TripleModel, queries: int) -> torch.Tensor:
    return model.score_tails(torch.arange(queries), torch.arange(queries) % 10)


def _kernel(cases: dict[Any, tuple[ModelSettings, int]], repeats: int) -> dict[Any, float]:
    """Milliseconds a query of each case: a model's settings and how many entities it has."""
    models = {case: _model(*settings) for case, settings in cases.items()}
    work = {case: partial(_score, model, QUERIES) for case, model in models.items()}
    return {case: milliseconds / QUERIES for case, milliseconds in _fastest(work, repeats).items()}


def _plain(cases: dict[str, tuple[ModelSettings, int]]) -> dict[str, dict[int, float]]:
    """Milliseconds of one query of each case by the plain formula, for each size of the chunks it is computed in."""
    models = {name: _model(*case) for name, case in cases.items()}

    def score(model: TripleModel, floats: int) -> None:
        with forced("reference"), patch.object(workspace, "CPU", floats):
            _score(model, 1)

    work = {(name, size): partial(score, model, size) for name, model in models.items() for size in WORKSPACES}
    times = _fastest(work, 3)
    return {name: {size: times[name, size] for size in WORKSPACES} for name in cases}


def _training(entities: int, repeats: int, *, plain: bool) -> dict[str, Any]:
    """Milliseconds a query of a forward and of a backward pass over all candidates, by the number of filters."""
    by_filters = {filters: _passes(_model(_capse(filters), entities), QUERIES, repeats) for filters in FILTERS}
    found: dict[str, Any] = {"kernel": by_filters}
    if plain:  # a few queries: autograd keeps every feature of every candidate
        with forced("reference"):
            found["plain"] = {n: _passes(_model(_capse(n), entities), 1, 1) for n in FILTERS[:-1]}
    return found


def _growth(by_filters: dict[int, dict[str, float]]) -> dict[str, float]:
    """How many times what the fewest filters cost the most do."""
    fewest, most = (by_filters[filters] for filters in ENDS)
    return {way: most[way] / fewest[way] for way in fewest}


def _errors(entities: int, filters: int) -> dict[str, dict[str, float]]:
    """The largest error of float32 scores, by the kernel and plain, in shares of the query's largest score."""
    models: dict[str, ModelSettings] = {
        "capse": _capse(filters),
        "capse-released": _capse(filters, variant="released"),
        "convkb": ConvKB(dim=DIM, filters=filters),
    }
    found = {}
    for name, settings in models.items():
        model = _model(settings, entities)
        kernel = _score(model, 4)
        with forced("reference"):
            plain, exact = _score(model, 4), _score(model.double(), 4)
        largest = exact.abs().amax(1, keepdim=True)
        found[name] = {
            way: float(((scores - exact).abs() / largest).max())
            for way, scores in (("kernel", kernel), ("plain", plain))
        }
    return found


def _passes(model: TripleModel, queries: int, repeats: int) -> dict[str, float]:
    """Milliseconds a query of the fastest forward and backward pass; a first round warms up."""
    times = []
    for _ in range(1 + repeats):
        started = time.perf_counter()
        scores = model.score_tails(torch.arange(queries), torch.arange(queries) % 10)
        between = time.perf_counter()
        scores.sum().backward()  # type: ignore[no-untyped-call]
        times.append((between - started, time.perf_counter() - between))
    forward, backward = (min(way) * 1e3 / queries for way in zip(*times[1:], strict=True))
    return {"forward": forward, "backward": backward}


def plot(measured: dict[str, Any], path: Path) -> None:
    """Milliseconds a query against the filters and against the entities, from a recorded measurement."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    filters, entities = figure.subplots(1, 2)
    training = measured["training_by_filters"]
    ways = [("kernel", "o-", "exact kernel"), ("plain", "s--", "plain torch")]
    for way, style, label in [entry for entry in ways if entry[0] in training]:
        numbers = [int(n) for n in training[way]]
        for direction, colour in (("forward", "#1f4e79"), ("backward", "#c05a1c")):
            filters.plot(
                numbers,
                [training[way][n][direction] for n in training[way]],
                style,
                color=colour,
                label=f"{label}, {direction}",
            )
    filters.set(xscale="log", yscale="log", xlabel="filters N", ylabel="milliseconds a query")
    filters.set_title(f"{SIZES['fb15k-237'][0]:,} candidates")
    filters.set_xticks(FILTERS, [str(n) for n in FILTERS])
    filters.minorticks_off()
    filters.legend(fontsize=8, frameon=False)
    sizes = [key for key in measured["by_entities"] if str(key).isdigit()]
    entities.plot([int(n) for n in sizes], [measured["by_entities"][n] for n in sizes], "o-", color="#1f4e79")
    entities.set(xlabel="candidates E", ylabel="milliseconds a query", xlim=(0, None), ylim=(0, None))
    entities.set_title("50 filters")
    for axes in (filters, entities):
        axes.grid(alpha=0.3)
    figure.savefig(path, metadata={"Date": None})


def _fastest(works: dict[Any, Callable[[], object]], repeats: int) -> dict[Any, float]:
    """Milliseconds of the fastest of several calls of each, taken in turns; a first round warms up."""
    times: dict[Any, list[float]] = {name: [] for name in works}
    for _ in range(1 + repeats):
        for name, work in works.items():
            started = time.perf_counter()
            work()
            times[name].append((time.perf_counter() - started) * 1e3)
    return {name: min(rounds[1:]) for name, rounds in times.items()}


@torch.no_grad()
def _pykeen_convkb(model: TripleModel) -> float:
    """PyKEEN's ConvKB with our weights: the same scores, at the best of several slice sizes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pykeen.models import ConvKB
        from pykeen.triples import CoreTriplesFactory
    logging.getLogger("pykeen").setLevel(logging.ERROR)
    scorer = model.scorer
    entities, filters = len(model.entities), scorer.filters.shape[1]
    factory = CoreTriplesFactory(torch.tensor([[0, 0, 1]]), num_entities=entities, num_relations=10)
    theirs = ConvKB(triples_factory=factory, embedding_dim=DIM, num_filters=filters, hidden_dropout_rate=0.0).eval()
    theirs.entity_representations[0]._embeddings.weight.copy_(model.entities)
    theirs.relation_representations[0]._embeddings.weight.copy_(model.relations)
    theirs.interaction.conv.weight.copy_(scorer.filters.T.reshape(filters, 1, 1, 3))
    theirs.interaction.conv.bias.copy_(scorer.bias)
    theirs.interaction.linear.weight.copy_(scorer.weights.T.reshape(1, -1))
    theirs.interaction.linear.bias.zero_()
    question = torch.tensor([[0, 0]])
    times = []
    for size in (256, 1024, 4096):
        started = time.perf_counter()
        scores = theirs.score_t(question, slice_size=size)
        times.append(time.perf_counter() - started)
        torch.testing.assert_close(scores, _score(model, 1), rtol=1e-4, atol=1e-4)
    return min(times) * 1e3


def _share_of_the_limit(entities: int, milliseconds: float) -> dict[str, float]:
    """How much of a query's time its arithmetic would take: a multiply-add and an add per entity and dimension."""
    turns = 50_000
    numbers = np.zeros((THREADS * SHARES_PER_THREAD, WIDE), np.float32)
    work = {"arithmetic": lambda: in_threads(_arithmetic, THREADS, turns, numbers)}
    limit = _fastest(work, 10)["arithmetic"] / (turns * 8 * len(numbers)) * entities * DIM
    return {"limit_ms": limit, "kernel_ms": milliseconds, "share": limit / milliseconds}


@numba.njit(nogil=True)
def _arithmetic(share, shares, turns, numbers):  # type: ignore[no-untyped-def]
    """A multiply-add and an add in each of eight independent chains a turn, all in registers."""
    start = load(numbers[share], 0, LANES)
    a, b, c, d, e, f, g, h = start, start, start, start, start, start, start, start
    half = np.float32(0.5)
    for _ in range(turns):
        a, b = plus(times_plus(a, half, start), start), plus(times_plus(b, half, start), start)
        c, d = plus(times_plus(c, half, start), start), plus(times_plus(d, half, start), start)
        e, f = plus(times_plus(e, half, start), start), plus(times_plus(f, half, start), start)
        g, h = plus(times_plus(g, half, start), start), plus(times_plus(h, half, start), start)
    store(numbers[share], 0, plus(plus(plus(a, b), plus(c, d)), plus(plus(e, f), plus(g, h))))


def _evaluation(name: str, filters: int) -> float:
    """Seconds of a whole filtered test evaluation, both sides and all tie policies, of an untrained CapsE."""
    graph = load_graph(name)
    model = build_model(_capse(filters), len(graph.entities), len(graph.relations)).eval()
    _score(model, 1)
    return evaluate(model, graph, intervals=False, breakdowns=False).seconds


if __name__ == "__main__":
    print(json.dumps(run(quick="--quick" in sys.argv), indent=2))
