"""Every candidate's score, exactly, by compiled loops on all cores.

With two slots of [h, r, t] known, dimension i sees a candidate as one number x, and N filters make of it a function
F_i(x) ∈ R^d that is linear between breakpoints, one for each filter. Here N = 3, one entry of F_i being drawn:

    F_i(x) |                                   .       piece           0       1       2       3
           |                              . '          keys         -0.8     0.3     1.1      +∞   its end
           | ' .                  ______'              anchors      -0.8     0.0     0.3     1.1   nearest to 0
           |     ' .          . '                      values    F(-0.8)  F(0.0)  F(0.3)  F(1.1)   (d,) each
           |         ' . .  '                          slopes         s0      s1      s2      s3   (d,) each
           +----------+-----+----------+-------> x
                    -0.8   0.3        1.1

A query has such a table for each of its k dimensions: F_i(x) = value + slope·(x − anchor). The candidates' i-th entries
are sorted once, in tiles of at most 2¹⁵ candidates, so that a tile's sums stay in the cache:

    entries[tile, i]   -2.1  -1.3 | -0.5   0.0   0.2 |  0.4   0.9 |  1.2   3.0     ascending
    places[tile, i]      7     2  |   0     5     8  |   3     1  |   6     4      whose entry it is
    piece                     0   |         1        |      2     |      3         one sweep over both

Each step of the sweep adds one piece's line to one candidate's sum: k·(N + C) steps for C candidates instead of k·N·C.

columns    the candidates' vectors, sorted by column in tiles
pieces     a query's dimensions as tables over the pieces between their breakpoints
sweep      along columns and pieces together, adding up each candidate's vector
routing    of the dimensions' votes, to the vector that is scored
readout    from that vector to the score
gradient   the same sweep for the gradient of those vectors and votes
sums       over each piece's candidates and, from them, over each filter's
squash     its factor and the derivative of that

`batch` is apart from these: the scores of single triples with their gradient.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from capse.kernels.cpu.columns import ColumnCache, Columns
from capse.kernels.cpu.gradient import OF_BIAS, OF_CANDIDATE, OF_FIRST, OF_SECOND, sweep_gradient
from capse.kernels.cpu.readout import KINDS, VOTES, Form
from capse.kernels.cpu.routing import CAPSULES
from capse.kernels.cpu.sweep import WIDE, Filters, Known, sweep
from capse.kernels.stage import Gradients, Stage

TILE = 2**15  # most candidates in a tile
SUMS = 2**17  # floats that their sums may take: with fewer there are more steps over pieces, with more there are misses
VOTES_FLOATS = 2**20  # floats that their votes may take, where each dimension's are kept
SMALL = 2**16  # entries that one thread has added up before a second has started

_cache = ColumnCache()


def score_candidates(stage: Stage, slot: int, first: Tensor, second: Tensor, candidates: Tensor) -> Tensor:
    """Scores (B, C) of candidates (C, k) in a slot of [h, r, t]; ``first`` and ``second`` (B, k) fill the other two."""
    first, second = torch.broadcast_tensors(first, second)
    scores = _swept(stage, slot, first, second, candidates, KINDS[stage.kind], (len(first), len(candidates)))
    return scores if stage.gamma is None else scores * stage.gamma.detach()


def votes(stage: Stage, slot: int, first: Tensor, second: Tensor, candidates: Tensor) -> Tensor:
    """û summed over dimensions, (B, C, d), where there is one routing iteration, else each of them, (B, C, k, d)."""
    k, _, d = stage.weights.shape
    shape = (len(first), len(candidates), d) if stage.routing == 1 else (len(first), len(candidates), k, d)
    return _swept(stage, slot, first, second, candidates, VOTES, shape)


def votes_gradient(
    stage: Stage, slot: int, first: Tensor, second: Tensor, candidates: Tensor, gradient: Tensor
) -> Gradients:
    """The gradients of all that `votes` are made of, given that of the votes."""
    k, count, d = stage.weights.shape
    filters, order = _filters(stage, slot)
    threads = _threads(stage, first, candidates)
    each = gradient.contiguous().numpy().reshape(len(first), len(candidates), 1 if stage.routing == 1 else k, d)
    epsilon = stage.epsilon if stage.kind == "released" else None
    sums = sweep_gradient(_known(first, second), filters, _columns(stage, candidates, threads), epsilon, each, threads)

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


def _swept(
    stage: Stage, slot: int, first: Tensor, second: Tensor, candidates: Tensor, kind: int, shape: tuple[int, ...]
) -> Tensor:
    results = candidates.new_empty(shape, requires_grad=False)
    if results.numel():
        threads = _threads(stage, first, candidates)
        filters, _ = _filters(stage, slot)
        columns = _columns(stage, candidates, threads)
        squash = stage.kind == "released"
        sweep(_known(first, second), filters, columns, squash, _form(stage, kind), results.numpy(), threads)
    return results


def _threads(stage: Stage, first: Tensor, candidates: Tensor) -> int:
    return torch.get_num_threads() if len(first) * len(candidates) * len(stage.weights) > SMALL else 1


def _columns(stage: Stage, candidates: Tensor, threads: int) -> Columns:
    k, _, d = stage.weights.shape
    width = 1 if d == 1 else -(-d // WIDE) * WIDE
    capsules = -(-k // len(CAPSULES)) * len(CAPSULES)  # k in whole groups of lanes
    tile = max(1, min(TILE, SUMS // width if stage.routing == 1 else VOTES_FLOATS // (capsules * width)))
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
