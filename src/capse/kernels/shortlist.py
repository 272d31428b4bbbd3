"""The scores of one short list: a single (h, r) and a handful of candidates, in one pass over the weights.

The kernels for all candidates of a slot first prepare tables that only thousands of candidates pay for, and plain torch
writes all k·N features of every candidate to memory. Here the features of one embedding entry stay in the cache while
they are multiplied by that entry's weights: with k = 200, N = 400, d = 10 and ten candidates, a fraction of a
millisecond on one core, nearly all of it reading W once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from capse.kernels.compiled import compiled_for_one_thread, numba
from capse.kernels.reference import read_out
from capse.kernels.stage import Stage

Float32s = npt.NDArray[np.float32]


class ShortLists:
    """A stage made ready for short lists; its weights are copied, so it does not follow a training."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._filters: Float32s = np.ascontiguousarray(stage.filters.detach().numpy())  # (3, N)
        self._bias: Float32s = np.ascontiguousarray(stage.bias.detach().numpy())  # (N,)
        # Along N, the longest axis, the numbers of one output entry then lie together.
        self._weights: Float32s = np.ascontiguousarray(stage.weights.detach().transpose(1, 2).numpy())  # (k, d, N)

    @staticmethod
    def serve(stage: Stage) -> bool:
        """Whether this is the quicker way: numba is there, one routing iteration, float32 on the CPU."""
        plain = stage.kind != "released" and stage.routing == 1
        return numba is not None and plain and all(_is_plain(tensor) for tensor in stage.tensors.values())

    def score(self, h: Float32s, r: Float32s, candidates: Float32s) -> Float32s:
        """Scores (C,) of candidates (C, k) as tails of h (k,) and r (k,); equal candidates get equal scores."""
        votes = np.zeros((len(candidates), self._weights.shape[1]), np.float32)
        _votes(h, r, np.ascontiguousarray(candidates), self._filters, self._bias, self._weights, votes)
        with torch.no_grad():
            scores: Float32s = read_out(self.stage, torch.from_numpy(votes)).numpy()
        return scores


def _is_plain(tensor: Any) -> bool:
    return bool(tensor.device.type == "cpu" and tensor.dtype == torch.float32)


@compiled_for_one_thread
def _features(h, r, t, filters, bias, features):  # type: ignore[no-untyped-def]
    """relu(ω·[h_i, r_i, t_i] + b) of one entry i, for all N filters."""
    of_h, of_r, of_t = filters[0], filters[1], filters[2]
    for n in range(len(bias)):
        features[n] = max(h * of_h[n] + r * of_r[n] + t * of_t[n] + bias[n], np.float32(0))


@partial(compiled_for_one_thread, any_order=True)
def _product(first, second):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for n in range(len(first)):
        total += first[n] * second[n]
    return total


@compiled_for_one_thread
def _votes(h, r, candidates, filters, bias, weights, votes):  # type: ignore[no-untyped-def]
    """Σ_i W_i u_i of every candidate, added to ``votes`` (C, d)."""
    k, d, n = weights.shape
    features = np.empty(n, np.float32)
    for i in range(k):
        of_entry = weights[i]
        for c in range(len(candidates)):
            _features(h[i], r[i], candidates[c, i], filters, bias, features)
            for j in range(d):
                votes[c, j] += _product(features, of_entry[j])
