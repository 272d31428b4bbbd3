"""The scores of every candidate in one slot: by a compiled kernel where one can be used, else by the plain formula.

The choice makes itself, with or without a gradient: loops compiled by numba on the CPU, Triton's on a GPU.
``CAPSE_KERNEL=reference`` (or `forced`) has everything computed by the plain formula, ``CAPSE_KERNEL=cpu`` and ``gpu``
make it an error where that kernel cannot be used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Literal, get_args

import torch
from torch import Tensor

from capse.errors import SettingsError
from capse.kernels import reference
from capse.kernels.frozen import is_frozen
from capse.kernels.stage import Stage, floats_per_triple, require_finite
from capse.kernels.votes import score_by_votes
from capse.kernels.workspace import in_chunks

Kernel = Literal["auto", "reference", "cpu", "gpu"]

_VECTORS = ("head vectors", "relation vectors", "tail vectors")
_forced: ContextVar[Kernel | None] = ContextVar("_forced", default=None)
INSTALLED = {package: find_spec(package) is not None for package in ("numba", "triton")}


def score_triples(stage: Stage, h: Tensor, r: Tensor, t: Tensor) -> Tensor:
    """Scores (...) of triples given as vectors h, r, t (..., k) that broadcast.

    Compiled loops do it where a gradient is wanted: a single triple's score is no better for them.
    """
    if stage.wants_gradient(h, r, t) and _chosen((*stage.tensors.values(), h, r, t)) == "cpu":
        from capse.kernels.cpu.batch import score_batch  # here, since it loads numba

        return score_batch(stage, h, r, t)
    return reference.score(stage, h, r, t)


def score_candidates(stage: Stage, slot: int, first: Tensor, second: Tensor, candidates: Tensor) -> Tensor:
    """Scores (B, C) of candidates (C, k) in a slot of [h, r, t]; ``first`` and ``second`` (B, k) fill the other two.

    NaN or infinity in a tensor is an error that names it, unless a gradient is wanted.
    """
    names = [name for place, name in enumerate(_VECTORS) if place != slot]
    named = {**stage.tensors, names[0]: first, names[1]: second, "candidates' vectors": candidates}
    kernel = _chosen(tuple(named.values()))
    wants_gradient = stage.wants_gradient(first, second, candidates)
    if not wants_gradient and not is_frozen():
        for name, tensor in named.items():
            require_finite(name, tensor)
    if kernel == "reference":
        return _score_plainly(stage, slot, first, second, candidates)
    if kernel == "cpu" and not wants_gradient:
        from capse.kernels import cpu  # here, since it loads numba

        return cpu.score_candidates(stage, slot, first, second, candidates)
    return score_by_votes(stage, slot, first, second, candidates)


def wanted_kernel() -> str:
    """What `forced` or ``CAPSE_KERNEL`` says."""
    wanted = _forced.get() or os.environ.get("CAPSE_KERNEL", "auto")
    if wanted not in get_args(Kernel):
        raise SettingsError(f"CAPSE_KERNEL is {wanted!r}", f"choose one of {', '.join(get_args(Kernel))}")
    return wanted


@contextmanager
def forced(kernel: Kernel) -> Iterator[None]:
    """Within this context, use one kernel whatever ``CAPSE_KERNEL`` says."""
    token = _forced.set(kernel)
    try:
        yield
    finally:
        _forced.reset(token)


def _score_plainly(stage: Stage, slot: int, first: Tensor, second: Tensor, candidates: Tensor) -> Tensor:
    def score(part: Tensor) -> Tensor:
        vectors = [first[:, None], second[:, None]]
        vectors.insert(slot, part)
        return reference.score(stage, *vectors)

    return in_chunks(score, candidates, len(first) * floats_per_triple(*stage.weights.shape))


def _chosen(tensors: tuple[Tensor, ...]) -> str:
    """The kernel to use: reference, cpu or gpu."""
    wanted = wanted_kernel()
    if wanted == "auto":
        return next((kernel for kernel in ("cpu", "gpu") if not _obstacle(kernel, tensors)), "reference")
    obstacle = _obstacle(wanted, tensors)
    if obstacle:
        raise SettingsError(f"CAPSE_KERNEL is {wanted!r}, but {obstacle}", "unset it to have the choice made for you")
    return wanted


def _obstacle(kernel: str, tensors: tuple[Tensor, ...]) -> str:
    """Why a kernel cannot be used, if it cannot."""
    if kernel == "reference":
        return ""
    package, device = ("numba", "cpu") if kernel == "cpu" else ("triton", "cuda")
    if not INSTALLED[package]:
        return f"{package} is not installed"
    if any(tensor.device.type != device for tensor in tensors):
        return f"not all tensors are on the {kernel.upper()}"
    if {tensor.dtype for tensor in tensors} not in ({torch.float32}, {torch.float64}):
        return "the tensors are neither all float32 nor all float64"
    return ""
