"""A model whose best answers are put into another order by weighted motifs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from capse.arrays import Float64s, Int64s
from capse.graph.refinement.features import Features
from capse.graph.refinement.settings import Refinement
from capse.graph.refinement.windows import Questions, joined, lift, lowest_of, of_motifs, open_window
from capse.kernels.motifs.scoring import Motifs
from capse.models.base import TripleModel
from capse.triples import HEAD, TAIL, Triples

_QUESTIONS = 256  # scored at a time where single triples are asked for


class MotifWeights(nn.Module):
    """What refining learns: a weight for each motif, and for each relation how the two scores are joined."""

    keys: Tensor  # (F,) what each motif is called by, ascending
    values: Tensor  # (F,) w
    keep: Tensor  # (R,) of the run's own score: 1 − α, or 1 in a plain sum
    weight: Tensor  # (R,) of the motifs: α, or 1

    def __init__(self, keys: Int64s, relations: int) -> None:
        super().__init__()
        self.register_buffer("keys", torch.from_numpy(keys))
        self.register_buffer("values", torch.zeros(len(keys), dtype=torch.float64))
        for name in ("keep", "weight"):
            self.register_buffer(name, torch.ones(relations, dtype=torch.float64))

    def factors(self, relations: Int64s) -> tuple[Float64s, Float64s]:
        """keep_r and weight_r of relations (n,)."""
        return self.keep.cpu().numpy()[relations], self.weight.cpu().numpy()[relations]


class RefinedModel(TripleModel):
    """f'(s, r, t) = keep_r f(s, r, t) + weight_r w·Δf(s, r, t) for the best answers of a question; others lie below.

    All else, tables and scorer too, is the base's: what is not found here is looked for there. A triple's score depends
    on the side that is asked for: it may be among the best tails and not among the best heads.
    """

    def __init__(self, base: TripleModel, features: Features, settings: Refinement, keys: Int64s) -> None:
        nn.Module.__init__(self)
        self.base = base
        self.settings = base.settings
        self.features = features
        self.refinement = settings
        self.motifs = MotifWeights(keys, base.relation_count)
        self._prepared: tuple[int, Motifs] | None = None

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "base":
                raise
            return getattr(self.base, name)

    @classmethod
    def stored(
        cls, base: TripleModel, triples: Triples, settings: Refinement, tensors: Mapping[str, Tensor]
    ) -> RefinedModel:
        """The model that such tensors are of; they are still to be loaded."""
        features = Features.of(triples, len(base.entities), base.relation_count, settings.relations)
        return cls(base, features, settings, tensors["motifs.keys"].numpy())

    @property
    def has_exact_ranks(self) -> bool:
        return False

    @property
    def weights(self) -> Float64s:
        """w (F,)."""
        values: Float64s = self.motifs.values.cpu().numpy()
        return values

    @property
    def prepared(self) -> Motifs:
        """What the loops need, for the weights as they are."""
        version = self.motifs.values._version
        if self._prepared is None or self._prepared[0] != version:
            keys = self.motifs.keys.cpu().numpy()
            self._prepared = version, self.features.motifs(keys, self.weights, legs=self.refinement.legs)
        return self._prepared[1]

    def score_tails(self, heads: Tensor, relations: Tensor, candidates: Tensor | None = None) -> Tensor:
        scores = self._refined(self.base_scores(relations, heads, of_heads=False), relations, heads, of_heads=False)
        return scores if candidates is None else scores[:, candidates]

    def score_heads(self, relations: Tensor, tails: Tensor, candidates: Tensor | None = None) -> Tensor:
        scores = self._refined(self.base_scores(relations, tails, of_heads=True), relations, tails, of_heads=True)
        return scores if candidates is None else scores[:, candidates]

    def score_triples(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Scores of triples as answers for their tails."""
        return self.score_answers(TAIL, heads, relations, tails)

    def score_answers(self, free: int, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        h, r, t = torch.broadcast_tensors(heads, relations, tails)
        node, answer = (t, h.reshape(-1)) if free == HEAD else (h, t.reshape(-1))
        questions = torch.stack([r.reshape(-1), node.reshape(-1)], dim=1)
        distinct, row = questions.unique(dim=0, return_inverse=True)
        scores = torch.empty(len(row), dtype=torch.float64, device=row.device)
        for start in range(0, len(distinct), _QUESTIONS):
            asked, given = distinct[start : start + _QUESTIONS].unbind(1)
            part = self.score_heads(asked, given) if free == HEAD else self.score_tails(given, asked)
            here = (row >= start) & (row < start + _QUESTIONS)
            scores[here] = part[row[here] - start, answer[here]]
        return scores.reshape(h.shape)

    def score_relations(self, heads: Tensor, tails: Tensor, *, inverses: bool = False) -> Tensor:
        return self.base.score_relations(heads, tails, inverses=inverses)

    def base_scores(self, relations: Tensor, nodes: Tensor, *, of_heads: bool) -> Tensor:
        """Scores (B, E) of the model that is refined."""
        return self.base.score_heads(relations, nodes) if of_heads else self.base.score_tails(nodes, relations)

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        for name, part in self.named_children():  # a base may have a way of its own
            own = {
                key.removeprefix(f"{name}."): value for key, value in state_dict.items() if key.startswith(f"{name}.")
            }
            part.load_state_dict(own, *args, **kwargs)

    def _refined(self, scores: Tensor, relations: Tensor, nodes: Tensor, *, of_heads: bool) -> Tensor:
        """Such scores with the best answers in another order, in float64: those below them keep their order."""
        questions = Questions(relations.cpu().numpy(), nodes.cpu().numpy(), of_heads)
        chosen = self.refinement
        window = open_window(scores, questions, self.features, top=chosen.top, rule=chosen.symmetric)
        by_motifs = of_motifs(window, questions, self.prepared, self.weights)
        new = joined(window, by_motifs, *self.motifs.factors(questions.relations[window.rows]), len(scores))
        places = torch.from_numpy(window.rows).to(scores.device), torch.from_numpy(window.entities).to(scores.device)
        below = scores.double()
        below[places] = -torch.inf
        highest: Float64s = below.amax(1).cpu().numpy()
        down = lift(highest, lowest_of(window, new, len(scores)))
        below -= torch.from_numpy(down).to(scores.device)[:, None]
        below[places] = torch.from_numpy(new).to(scores.device)
        return below
