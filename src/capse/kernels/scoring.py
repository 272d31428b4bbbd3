"""The scores of every candidate in one slot: by the compiled kernel where that can be used, else by the plain formula.

The choice makes itself. ``CAPSE_KERNEL=reference`` (or `forced`) has everything computed by the plain formula,
``CAPSE_KERNEL=cpu`` makes it an error where the compiled kernel cannot be used. Where a gradient is wanted, the plain
formula is used whatever the setting.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Literal, get_args

import torch
from torch import Tensor

from capse.errors import SettingsError
from capse.kernels.stage import Stage, require_finite
from capse.triples import HEAD, TAIL

Kernel = Literal["auto", "reference", "cpu"]
Plain = Callable[[Tensor, Tensor, Tensor], Tensor]

_forced: ContextVar[Kernel | None] = ContextVar("_forced", default=None)
_has_numba = find_spec("numba") is not None


def score_tails(stage: Stage, h: Tensor, r: Tensor, candidates: Tensor, plain: Plain) -> Tensor:
    """Scores (B, C) of candidates (C, k) as tails of h (B, k), r (B, k); ``plain(h, r, candidates)`` is the formula.

    NaN or infinity in a tensor is an error that names it, unless a gradient is wanted.
    """
    if not _is_fast(stage, {"head vectors": h, "relation vectors": r}, candidates):
        return plain(h, r, candidates)
    return _score_on_cpu(stage, TAIL, h, r, candidates)


def score_heads(stage: Stage, r: Tensor, t: Tensor, candidates: Tensor, plain: Plain) -> Tensor:
    """Scores (B, C) of candidates (C, k) as heads of r (B, k), t (B, k); ``plain(r, t, candidates)`` is the formula."""
    if not _is_fast(stage, {"relation vectors": r, "tail vectors": t}, candidates):
        return plain(r, t, candidates)
    return _score_on_cpu(stage, HEAD, r, t, candidates)


def is_usable_for(*tensors: Tensor) -> bool:
    """Whether the compiled kernel can be used on such tensors."""
    return not _obstacle(*tensors)


@contextmanager
def forced(kernel: Kernel) -> Iterator[None]:
    """Within this context, use one kernel whatever ``CAPSE_KERNEL`` says."""
    token = _forced.set(kernel)
    try:
        yield
    finally:
        _forced.reset(token)


def _is_fast(stage: Stage, known: dict[str, Tensor], candidates: Tensor) -> bool:
    """Whether the compiled kernel is to be used; an error where a tensor makes scores meaningless."""
    kernel = _forced.get() or os.environ.get("CAPSE_KERNEL", "auto")
    if kernel not in get_args(Kernel):
        raise SettingsError(f"CAPSE_KERNEL is {kernel!r}", f"choose one of {', '.join(get_args(Kernel))}")
    named = {**stage.tensors, **known}
    tensors = (*named.values(), candidates)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return False
    for name, tensor in named.items():
        require_finite(name, tensor)
    obstacle = _obstacle(*tensors)
    if kernel == "reference" or (kernel == "auto" and obstacle):
        require_finite("candidates' vectors", candidates)
        return False
    if obstacle:
        raise SettingsError(f"CAPSE_KERNEL is 'cpu', but {obstacle}", "unset it to use the plain formula")
    return True


def _obstacle(*tensors: Tensor) -> str:
    """Why the compiled kernel cannot be used, if it cannot."""
    if not _has_numba:
        return "numba is not installed"
    if any(tensor.device.type != "cpu" for tensor in tensors):
        return "there are tensors on another device"
    if {tensor.dtype for tensor in tensors} not in ({torch.float32}, {torch.float64}):
        return "the tensors are neither all float32 nor all float64"
    return ""


def _score_on_cpu(stage: Stage, slot: int, first: Tensor, second: Tensor, candidates: Tensor) -> Tensor:
    from capse.kernels.cpu import score_candidates  # here, since it loads numba

    return score_candidates(stage, slot, first, second, candidates)
