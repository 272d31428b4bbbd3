"""All candidates' votes and their gradients on a GPU: how far from the plain formula, and how fast.

Run with ``CAPSE_DATA=... python -m benchmarks.gpu_scoring [RESULT.json]`` on a machine with a CUDA device; it takes a
minute or two, most of it to compile.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from capse import CapsE
from capse.graph.dataset import load_graph
from capse.graph.link_prediction.evaluation import evaluate
from capse.kernels import gpu, reference
from capse.kernels.gpu import tables
from capse.kernels.stage import Stage
from capse.kernels.votes import score_by_votes
from capse.models import build_model
from capse.runs.atomic import write_json
from capse.runs.records import provenance
from capse.triples import HEAD, TAIL

DIM, CAPSULE = 100, 10
SIZES = {"wn18rr": (40_943, 400, 5_716), "fb15k-237": (14_541, 50, 17_000)}  # entities, filters, distinct tail queries
FORMS = (
    ("paper", 1, torch.float32),
    ("released", 1, torch.float32),
    ("released", 3, torch.float32),
    ("paper", 3, torch.float64),
    ("released", 1, torch.float64),
)
SHAPES = ((400, 6, 10), (70, 3, 33))  # filters, dimensions, capsule size, where differences are looked for
BATCH = 512  # queries whose votes are asked for at a time
TRAINING_BATCH = 128
ROUTED, ROUTING = 6, 3  # queries whose votes fill the room once, and the iterations that they are routed in


def run() -> dict[str, Any]:
    measured: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    measured["errors"] = {
        f"{kind} routing {routing} {str(dtype)[6:]}": _errors(kind, routing, dtype) for kind, routing, dtype in FORMS
    }
    measured["milliseconds"] = {
        f"{name} {kind}": _times(kind, *sizes) for name, sizes in SIZES.items() for kind in ("paper", "released")
    }
    if os.environ.get("CAPSE_DATA"):
        measured["test_set_seconds"] = {
            f"{name} {kind}": _evaluation(name, filters, kind)
            for name, (_, filters, _) in SIZES.items()
            for kind in ("paper", "released")
        }
    return measured | provenance() | {"command": "python -m benchmarks.gpu_scoring"}


def _evaluation(name: str, filters: int, variant: str) -> float:
    """Seconds of a whole filtered test evaluation, both sides and all tie policies, of an untrained CapsE."""
    graph = load_graph(name)
    settings = CapsE(dim=DIM, filters=filters, capsule_dim=CAPSULE, variant=variant)  # type: ignore[arg-type]
    model = build_model(settings, len(graph.entities), len(graph.relations)).eval().cuda()
    seconds = [evaluate(model, graph, intervals=False, breakdowns=False).seconds for _ in range(2)]
    return seconds[-1]  # the first compiles


def _draw(
    kind: str, routing: int, dtype: torch.dtype, queries: int, entities: int, k: int, filters: int, d: int
) -> Any:
    generator = torch.Generator("cuda").manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, device="cuda", generator=generator).mul_(0.3).to(dtype)

    first, second, candidates = normal(queries, k), normal(queries, k), normal(entities, k)
    stage = Stage(normal(3, filters), normal(filters), normal(k, filters, d), kind, routing, epsilon=1e-9)  # type: ignore[arg-type]
    return stage, first, second, candidates


def _errors(kind: str, routing: int, dtype: torch.dtype) -> dict[str, float]:
    """Largest differences from the plain formula and its gradients in float64, each by the largest number there."""
    worst: dict[str, float] = {}
    for slot in (HEAD, TAIL):
        for filters, k, d in SHAPES:
            stage, *tensors = _draw(kind, routing, dtype, 5, 3_000, k, filters, d)
            stage.filters[slot, ::7] = 0
            ours = gpu.votes(stage, slot, *tensors)
            wide = [x.double().requires_grad_() for x in (*tensors, stage.filters, stage.bias, stage.weights)]
            exact = _plain(kind, routing, slot, *wide)
            gradient = torch.randn_like(ours)
            exact_gradients = torch.autograd.grad(exact, wide, gradient.double())
            ours_gradients = gpu.votes_gradient(stage, slot, *tensors, gradient)
            pairs = {"votes": (ours, exact.detach())}
            if routing > 1:
                pairs["routed"] = gpu.route(stage, ours), _plainly_routed(stage, ours)
            pairs |= dict(zip(ours_gradients._fields, zip(ours_gradients, exact_gradients, strict=True), strict=True))
            for name, (our, true) in pairs.items():
                error = ((our - true).abs().max() / true.abs().max()).item()
                worst[name] = max(worst.get(name, 0.0), error)
    return worst


def _plain(
    kind: str,
    routing: int,
    slot: int,
    first: Tensor,
    second: Tensor,
    candidates: Tensor,
    filters: Tensor,
    bias: Tensor,
    weights: Tensor,
) -> Tensor:
    triple = [first[:, None], second[:, None]]
    triple.insert(slot, candidates[None])
    capsules = reference.features(*triple, filters, bias)
    if kind == "released":
        capsules = reference.squash(capsules, 1e-9)
    return (reference.summed_predictions if routing == 1 else reference.predictions)(capsules, weights)


def _plainly_routed(stage: Stage, votes: Tensor) -> Tensor:
    options = {"scale": stage.scale, "epsilon": stage.epsilon}
    return reference.route(votes.double(), stage.routing, **options, last_gradient_only=False)


def _times(kind: str, entities: int, filters: int, queries: int) -> dict[str, float]:
    """Of one side of a test set: its tables, its votes, and of a training batch the votes and their gradients.

    Of a few queries, all scores: with one routing iteration, with several, and with these by the plain formula.
    """
    stage, first, second, candidates = _draw(kind, 1, torch.float32, queries, entities, DIM, filters, CAPSULE)
    prepared = tables.prepare(stage, TAIL)

    def build_tables() -> None:
        for chunk in tables.chunks(prepared, queries):
            tables.tabulate(prepared, first[chunk], second[chunk])

    def vote() -> None:
        for start in range(0, queries, BATCH):
            batch = slice(start, start + BATCH)
            gpu.votes(stage, TAIL, first[batch], second[batch], candidates)

    batch = first[:TRAINING_BATCH], second[:TRAINING_BATCH], candidates
    gradient = torch.randn(TRAINING_BATCH, entities, CAPSULE, device="cuda")
    few, routed = (first[:ROUTED], second[:ROUTED], candidates), replace(stage, routing=ROUTING)

    def route_plainly() -> None:
        votes = gpu.votes(routed, TAIL, *few)
        reference.score_capsule(routed, _plainly_routed(routed, votes))

    return {
        "tables": _fastest(build_tables),
        "votes": _fastest(vote),
        "batch_votes": _fastest(lambda: gpu.votes(stage, TAIL, *batch)),
        "batch_gradients": _fastest(lambda: gpu.votes_gradient(stage, TAIL, *batch, gradient)),
        "few_scores": _fastest(lambda: score_by_votes(stage, TAIL, *few)),
        "few_routed": _fastest(lambda: score_by_votes(routed, TAIL, *few)),
        "few_routed_plainly": _fastest(route_plainly),
    }


def _fastest(work: Callable[[], object], repeats: int = 3) -> float:
    """Milliseconds of the fastest of several calls, after one to warm up."""
    times = []
    for _ in range(1 + repeats):
        started, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        started.record()
        work()
        ended.record()
        torch.cuda.synchronize()
        times.append(started.elapsed_time(ended))
    return min(times[1:])


def main(arguments: list[str]) -> None:
    measured = run()
    for title in ("errors", "milliseconds"):
        print(f"== {title}")
        for name, numbers in measured[title].items():
            print(f"{name:32}", *(f"{key} {number:.3g}" for key, number in numbers.items()), sep="  ")
    print("== seconds of a test set\n" + json.dumps(measured.get("test_set_seconds", {}), indent=2))
    if arguments:
        write_json(Path(arguments[0]), measured)


if __name__ == "__main__":
    main(sys.argv[1:])
