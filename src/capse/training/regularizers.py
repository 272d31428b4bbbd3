"""Penalties on the vectors and weights that a batch uses.

A penalty is a function of a model and a batch of its triples (B, 3). Other packages register theirs in the entry point
group ``capse.regularizers``; the name is the setting that gives its strength.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, make_dataclass
from functools import cache

import torch
from torch import Tensor

from capse.errors import SettingsError
from capse.models import TripleModel
from capse.models.bilinear import BilinearScorer
from capse.registry import Registry
from capse.runs.settings import Section

Penalty = Callable[[TripleModel, Tensor], Tensor]

REGULARIZERS: Registry[Penalty] = Registry(
    "regularizer",
    "capse.regularizers",
    {
        "n3": "capse.training.regularizers:n3",
        "l2": "capse.training.regularizers:l2",
        "dura": "capse.training.regularizers:dura",
        "weights": "capse.training.regularizers:weights",
    },
)


@dataclass(frozen=True)
class Regularizer(Section):
    """Strengths; 0 leaves a penalty out. n3, l2 and dura are means over the batch's triples, weights is a plain sum."""

    n3: float = 0.0  # Σ |x|³ over the batch's vectors (Lacroix et al., ICML 2018)
    l2: float = 0.0  # Σ x² over the batch's vectors
    dura: float = 0.0  # ½(‖h‖² + ‖t‖²) + 1½(‖h∘r‖² + ‖t∘r̄‖²) of a product score (Zhang et al., NeurIPS 2020)
    weights: float = 0.0  # ½ Σ w² over the scorer's own weights; of ConvKB's over w alone, so that it is its paper's λ

    def __post_init__(self) -> None:
        for name, strength in self.strengths.items():
            if strength < 0:
                raise SettingsError(f"regularizer.{name} is {strength}", "choose 0 or more")

    @property
    def strengths(self) -> dict[str, float]:
        """Every penalty's, those that are left out included."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def settings_of(cls, name: object = None) -> type[Regularizer]:
        """This class with a strength for each penalty that other packages register."""
        return _with_strengths(tuple(REGULARIZERS.outside))


@cache
def _with_strengths(names: tuple[str, ...]) -> type[Regularizer]:
    more = [(name, float, 0.0) for name in names]
    return make_dataclass("Regularizer", more, bases=(Regularizer,), frozen=True) if names else Regularizer


def penalty(settings: Regularizer, model: TripleModel, batch: Tensor) -> Tensor | None:
    """The penalty for a batch of triples (B, 3), or None where nothing is penalised."""
    chosen = {name: strength for name, strength in settings.strengths.items() if strength}
    terms = [strength * REGULARIZERS[name](model, batch) for name, strength in chosen.items()]
    return torch.stack(terms).sum() if terms else None


def n3(model: TripleModel, batch: Tensor) -> Tensor:
    return torch.stack([model.scorer.magnitudes(v).pow(3).sum() for v in _vectors(model, batch)]).sum() / len(batch)


def l2(model: TripleModel, batch: Tensor) -> Tensor:
    return torch.stack([v.square().sum() for v in _vectors(model, batch)]).sum() / len(batch)


def dura(model: TripleModel, batch: Tensor) -> Tensor:
    scorer = model.scorer
    if not isinstance(scorer, BilinearScorer):
        raise SettingsError(
            "regularizer.dura is about a product of head and relation", "use distmult or complex, or n3"
        )
    h, r, t = _vectors(model, batch)
    entities = h.square().sum() + t.square().sum()
    products = scorer.product(h, r).square().sum() + scorer.product(t, scorer.inverse(r)).square().sum()
    return (entities / 2 + 1.5 * products) / len(batch)


def weights(model: TripleModel, batch: Tensor) -> Tensor:
    terms = [w.square().sum() for w in model.scorer.penalised()]
    return torch.stack(terms).sum() / 2 if terms else torch.zeros((), device=model.device)


def _vectors(model: TripleModel, batch: Tensor) -> list[Tensor]:
    heads, relations, tails = batch.unbind(1)
    return [model.entity(heads), model.relation(relations), model.entity(tails)]
