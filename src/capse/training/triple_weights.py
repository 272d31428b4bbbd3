"""Weights of training triples in a loss: a fact that counts twice pulls twice.

A term of the loss weighs what its true triple weighs, the terms of its corrupted versions included. Weights are scaled
to a mean of 1 over the training triples, so that all of .5 train as all of 1 do, and a learning rate means the same.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from capse.arrays import Float32s
from capse.errors import SettingsError
from capse.triples import TripleIndex, Triples


class TripleWeights(nn.Module):
    """The weight of each training triple, looked up by the triple."""

    keys: Tensor
    values: Tensor

    def __init__(
        self, triples: Triples, weights: Float32s, entities: int, relations: int, device: torch.device
    ) -> None:
        """Distinct triples (n, 3) with their weights (n,); ``relations`` counts inverse ones where there are any."""
        super().__init__()
        mean = float(np.mean(weights, dtype=np.float64)) if len(weights) else 0.0
        if not mean > 0:
            raise SettingsError("no training triple weighs more than 0", "give some of them a weight")
        keys = TripleIndex(triples[:0], entities, relations).key(*triples.T)
        order = np.argsort(keys, kind="stable")
        self.entities, self.relations = entities, relations
        self.register_buffer("keys", torch.from_numpy(keys[order]).to(device), persistent=False)
        scaled = (weights[order] / mean).astype(np.float32)
        self.register_buffer("values", torch.from_numpy(scaled).to(device), persistent=False)

    def of(self, triples: Tensor) -> Tensor:
        """The weights (n,) of training triples (n, 3)."""
        heads, relations, tails = triples.unbind(1)
        keys = (heads * self.relations + relations) * self.entities + tails
        found: Tensor = self.values[torch.searchsorted(self.keys, keys)]
        return found


def of_terms(weights: Tensor, terms: Tensor) -> Tensor:
    """The weights of a loss's terms, in their shape, where those of its B true triples are (B,).

    Terms may be (B,), or (B, n) with a row for each triple, or the B of true triples and then B times n of false ones.

    >>> of_terms(torch.tensor([1.0, 3.0]), torch.zeros(6)).tolist()
    [1.0, 3.0, 1.0, 1.0, 3.0, 3.0]
    """
    if terms.dim() == 2 and len(terms) == len(weights):
        return weights.unsqueeze(1).expand_as(terms)
    if terms.dim() != 1 or len(terms) % len(weights):
        raise SettingsError("this loss does not say which triple each of its terms is about", "leave out the weights")
    each = len(terms) // len(weights) - 1
    return torch.cat([weights, weights.repeat_interleave(each)]) if each else weights
