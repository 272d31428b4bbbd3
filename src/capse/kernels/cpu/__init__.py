"""Every candidate's score, exactly, by compiled loops on all cores.

columns    the candidates' vectors, sorted by column in tiles
pieces     a query's dimensions as tables over the pieces between their breakpoints
walk       along columns and pieces together, adding up each candidate's vector
routing    of the dimensions' votes, to the vector that is scored
readout    from that vector to the score
gradient   the same walk for the gradient of those vectors and votes
sums       over each piece's candidates and, from them, over each filter's
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from capse.kernels.cpu.columns import ColumnCache, Columns
from capse.kernels.cpu.gradient import OF_BIAS, OF_CANDIDATE, OF_FIRST, OF_SECOND, walk_back
from capse.kernels.cpu.readout import KINDS, VOTES, Form
from capse.kernels.cpu.routing import CAPSULES
from capse.kernels.cpu.walk import WIDE, Filters, Known, walk
from capse.kernels.stage import Gradients, Stage

TILE = 2**15  # most candidates in a tile
SUMS = 2**17  # floats that their sums may take: with fewer there are more steps over pieces, with more there are misses
VOTES_ROOM = 2**20  # floats that their votes may take, where each dimension's are kept
SMALL = 2**16  # entries that one thread has added up before a second has started

_cache = ColumnCache()


def score_candidates(stage: Stage, slot: int, first: Tensor, second: Tensor, candidates: Tensor) -> Tensor:
    """Scores (B, C) of candidates (C, k) in a slot of [h, r, t]; ``first`` and ``second`` (B, k) fill the other two."""
    first, second = torch.broadcast_tensors(first, second)
    return _walked(stage, slot, first, second, candidates, KINDS[stage.kind], (len(first), len(candidates)))


def votes(stage: Stage, slot: int, first: Tensor, second: Tensor, candidates: Tensor) -> Tensor:
    """û summed over dimensions, (B, C, d), where there is one routing iteration, else each of them, (B, C, k, d)."""
    k, _, d = stage.weights.shape
    shape = (len(first), len(candidates), d) if stage.routing == 1 else (len(first), len(candidates), k, d)
    return _walked(stage, slot, first, second, candidates, VOTES, shape)


def votes_gradient(
    stage: Stage, slot: int, first: Tensor, second: Tensor, candidates: Tensor, gradient: Tensor
) -> Gradients:
    """The gradients of all that `votes` are made of, given that of the votes."""
    k, count, d = stage.weights.shape
    filters, order = _filters(stage, slot)
    threads = _threads(stage, first, candidates)
    each = gradient.contiguous().numpy().reshape(len(first), len(candidates), 1 if stage.routing == 1 else k, d)
    epsilon = stage.epsilon if stage.kind == "released" else None
    sums = walk_back(_known(first, second), filters, _columns(stage, candidates, threads), epsilon, each, threads)

    def back_in_order(array: npt.NDArray[np.float64]) -> Tensor:
        """Along the last dimension, the filters' gradients as the filters stand in the stage."""
        ordered = np.empty_like(array)
        ordered[..., order] = array
        return torch.from_numpy(ordered).to(candidates.dtype)

    of_filters = sums.filters.sum(0)
    others = [other for other in range(3) if other != slot]
    by_slot = np.empty((3, count))
    by_slot[others], by_slot[slot] = of_filters[[OF_FIRST, OF_SECOND]], of_filters[OF_CANDIDATE]
    of_weights = sums.weights[:, : count * d].reshape(k, count, d).swapaxes(1, 2)
    return Gradients(
        torch.from_numpy(sums.first),
        torch.from_numpy(sums.second),
        torch.from_numpy(sums.columns).T.contiguous(),
        back_in_order(by_slot),
        back_in_order(of_filters[OF_BIAS]),
        back_in_order(of_weights).transpose(1, 2),
    )


def _walked(
    stage: Stage, slot: int, first: Tensor, second: Tensor, candidates: Tensor, kind: int, shape: tuple[int, ...]
) -> Tensor:
    results = candidates.new_empty(shape, requires_grad=False)
    if results.numel():
        threads = _threads(stage, first, candidates)
        filters, _ = _filters(stage, slot)
        columns = _columns(stage, candidates, threads)
        squash = stage.kind == "released"
        walk(_known(first, second), filters, columns, squash, _form(stage, kind), results.numpy(), threads)
    return results


def _threads(stage: Stage, first: Tensor, candidates: Tensor) -> int:
    return torch.get_num_threads() if len(first) * len(candidates) * len(stage.weights) > SMALL else 1


def _columns(stage: Stage, candidates: Tensor, threads: int) -> Columns:
    k, _, d = stage.weights.shape
    width = 1 if d == 1 else -(-d // WIDE) * WIDE
    capsules = -(-k // len(CAPSULES)) * len(CAPSULES)  # k in whole groups of lanes
    tile = max(1, min(TILE, SUMS // width if stage.routing == 1 else VOTES_ROOM // (capsules * width)))
    return _cache.columns(candidates, tile, threads)


def _known(first: Tensor, second: Tensor) -> Known:
    return Known(first.detach().contiguous().numpy(), second.detach().contiguous().numpy())


def _filters(stage: Stage, slot: int) -> tuple[Filters, npt.NDArray[np.int64]]:
    """The filters in the loops' order, those that see the candidate before those that do not; and that order."""
    filters, bias, weights = (tensor.detach().numpy() for tensor in (stage.filters, stage.bias, stage.weights))
    blind = filters[slot] == 0
    order = np.argsort(blind, kind="stable")
    if blind.any():
        filters, bias, weights = filters[:, order], bias[order], weights[:, order]
    of_first, of_second = (filters[other].astype(np.float64) for other in range(3) if other != slot)
    prepared = Filters(
        of_first,
        of_second,
        filters[slot].astype(np.float64),
        bias.astype(np.float64),
        int((~blind).sum()),
        np.concatenate([weights.reshape(-1), np.zeros(WIDE, weights.dtype)]),
        abs(weights).max((1, 2), initial=0).astype(np.float64),
        weights.shape[2],
    )
    return prepared, order


def _form(stage: Stage, kind: int) -> Form:
    k = len(stage.weights)
    scale = stage.scale / k if stage.routing == 1 and stage.kind != "linear" else stage.scale
    return Form(kind, stage.sigmoid, stage.routing, scale, stage.epsilon)
