"""Every candidate's score, exactly, by compiled loops on all cores.

columns    the candidates' vectors, sorted by column in tiles
pieces     a query's dimensions as tables over the pieces between their breakpoints
walk       along columns and pieces together, adding up each candidate's vector
readout    from that vector, or from the dimensions' votes by routing, to the score
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from capse.kernels.cpu.columns import ColumnCache
from capse.kernels.cpu.readout import KINDS, Form
from capse.kernels.cpu.walk import WIDE, Filters, Known, walk
from capse.kernels.stage import Stage

TILE = 2**15  # most candidates in a tile
SUMS = 2**17  # floats that their sums may take: with fewer there are more steps over pieces, with more there are misses
VOTES = 2**20  # floats that their votes may take, where those are routed
SMALL = 2**16  # entries that one thread has added up before a second has started

_cache = ColumnCache()


def score_candidates(stage: Stage, slot: int, first: Tensor, second: Tensor, candidates: Tensor) -> Tensor:
    """Scores (B, C) of candidates (C, k) in a slot of [h, r, t]; ``first`` and ``second`` (B, k) fill the other two."""
    k, _, d = stage.weights.shape
    first, second = torch.broadcast_tensors(first, second)
    scores = candidates.new_empty(len(first), len(candidates))
    threads = torch.get_num_threads() if scores.numel() * k > SMALL else 1
    width = 1 if d == 1 else -(-d // WIDE) * WIDE
    tile = max(1, min(TILE, SUMS // width if stage.routing == 1 else VOTES // (k * width)))
    known = Known(first.detach().contiguous().numpy(), second.detach().contiguous().numpy())
    columns = _cache.columns(candidates, tile, threads)
    walk(known, _filters(stage, slot), columns, _form(stage), scores.detach().numpy(), threads)
    return scores


def _filters(stage: Stage, slot: int) -> Filters:
    """The filters in the loops' order: those that see the candidate, then those that do not."""
    filters, bias, weights = (tensor.detach().numpy() for tensor in (stage.filters, stage.bias, stage.weights))
    blind = filters[slot] == 0
    if blind.any():
        order = np.argsort(blind, kind="stable")
        filters, bias, weights = filters[:, order], bias[order], weights[:, order]
    of_first, of_second = (filters[other].astype(np.float64) for other in range(3) if other != slot)
    return Filters(
        of_first,
        of_second,
        filters[slot].astype(np.float64),
        bias.astype(np.float64),
        int((~blind).sum()),
        np.concatenate([weights.reshape(-1), np.zeros(WIDE, weights.dtype)]),
        weights.shape[2],
    )


def _form(stage: Stage) -> Form:
    k = len(stage.weights)
    scale = stage.scale / k if stage.routing == 1 and stage.kind != "linear" else stage.scale
    return Form(KINDS[stage.kind], stage.sigmoid, stage.routing, scale, stage.epsilon)
