"""Penalties on the vectors and weights that a batch uses."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from capse.errors import SettingsError
from capse.models import TripleModel


@dataclass(frozen=True)
class RegularizerSettings:
    """Strengths; 0 leaves a penalty out. n3 and l2 are means over the batch's triples, weights is a plain sum."""

    n3: float = 0.0  # Σ |x|³ over the batch's vectors (Lacroix et al., ICML 2018)
    l2: float = 0.0  # Σ x² over the batch's vectors
    weights: float = 0.0  # ½ Σ w² over the scorer's own weights; of ConvKB's over w alone, so that it is its paper's λ

    def __post_init__(self) -> None:
        for key in ("n3", "l2", "weights"):
            if getattr(self, key) < 0:
                raise SettingsError(f"regularizer.{key} is {getattr(self, key)}", "choose 0 or more")


def penalty(settings: RegularizerSettings, model: TripleModel, batch: Tensor) -> Tensor | None:
    """The penalty for a batch of triples (B, 3), or None where nothing is penalised."""
    terms: list[Tensor] = []
    if settings.n3 or settings.l2:
        heads, relations, tails = batch.unbind(1)
        vectors = [model.entity(heads), model.relation(relations), model.entity(tails)]
        if settings.n3:
            terms += [settings.n3 / len(batch) * model.scorer.magnitudes(v).pow(3).sum() for v in vectors]
        if settings.l2:
            terms += [settings.l2 / len(batch) * v.square().sum() for v in vectors]
    if settings.weights:
        terms += [settings.weights / 2 * w.square().sum() for w in model.scorer.penalised()]
    return torch.stack(terms).sum() if terms else None
