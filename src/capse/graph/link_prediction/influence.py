"""What an answer hangs on: an estimate of how its probability changes if one training fact is removed.

The vector v of each of the triple's two entities is taken to be where the loss over this entity's own facts is least,
everything else standing still. Let l_z be the loss of fact z, both of whose questions are asked (see
`capse.graph.fold_in`), L that of the question that is explained, and H = Σ_z ∇l_z ∇l_zᵀ + λI. Without z the vector
moves by H⁻¹∇l_z to first order, and so log p, the logarithm of the answer's share in the softmax over all entities, by

    Δ log p = −∇L · H⁻¹ ∇l_z

summed over the two entities. Influence functions (Koh and Liang, ICML 2017) for one vector of a link predictor, as
Pezeshkpour, Tian and Singh (NAACL 2019) have them, with the Fisher matrix of what was observed in place of the Hessian.

Its limits: relations and other entities would move as well; training stops before its least loss; a step of first order
is small, and a removal may not be; softmaxes are over drawn entities. So it says which facts to try, and in what order:
`capse.retrain_without` tells what really happens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from capse.arrays import Float64s, Int64s
from capse.graph.refinement.refined_model import RefinedModel
from capse.models import TripleModel
from capse.models.rules import RuleModel
from capse.triples import HEAD, RELATION, TAIL, Triples

DRAWN = 512  # entities that an answer is scored against
MOST, LEAST = 1000, 50  # facts of an entity that are looked at: those whose other end has the fewest facts
DAMPING = 0.1  # λ, in means of the diagonal that it is added to
_WORK = 1 << 30  # numbers that scores of an entity's facts may take: bounds the time of large networks
_HELD = 1 << 25  # of them at once


def without_each(model: TripleModel, train: Triples, triple: Triples, asked: int) -> tuple[Int64s, Float64s]:
    """Places in ``train`` of the facts about a triple's (3,) entities, and the estimated Δ log p without each.

    ``asked`` is the slot of the answer, HEAD or TAIL. The triple itself is left out. Rules have no vectors, and of a
    refined run nothing is estimated: both get no facts.
    """
    if isinstance(model, RefinedModel | RuleModel):
        return np.empty(0, np.int64), np.empty(0)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randperm(len(model.entities), generator=generator)[:DRAWN].to(model.device)
    changes = np.zeros(len(train))
    touched = np.zeros(len(train), bool)
    most = min(MOST, max(LEAST, _WORK // (len(drawn) * model.scorer.floats_per_triple)))
    for entity in dict.fromkeys(triple[[HEAD, TAIL]].tolist()):
        places = _facts_about(train, entity, triple, most)
        if len(places):
            own = _gradients(model, triple[None], entity, drawn, [asked])[0]
            of_facts = _gradients(model, train[places], entity, drawn, [HEAD, TAIL])
            changes[places] -= (_damped_inverse(of_facts) @ own @ of_facts.T).cpu().numpy()
            touched[places] = True
    found = np.flatnonzero(touched)
    return found, changes[found]


def _facts_about(train: Triples, entity: int, triple: Triples, most: int) -> Int64s:
    """Places of the facts about an entity but for the triple itself."""
    ends = train[:, [HEAD, TAIL]]
    places = np.flatnonzero((ends == entity).any(axis=1) & (train != triple).any(axis=1))
    if len(places) <= most:
        return places
    facts = np.bincount(ends.ravel())
    return np.sort(places[np.argsort(facts[ends[places]].min(axis=1), kind="stable")[:most]])


def _damped_inverse(gradients: Tensor) -> Tensor:
    fisher = gradients.T @ gradients
    damping = DAMPING * float(fisher.diagonal().mean()) + 1e-12
    inverse: Tensor = torch.linalg.inv(
        fisher + damping * torch.eye(len(fisher), dtype=fisher.dtype, device=fisher.device)
    )
    return inverse


def _gradients(model: TripleModel, facts: Triples, entity: int, drawn: Tensor, asked: Sequence[int]) -> Tensor:
    """The gradient (n, width) of each fact's loss by the vector of one of its entities."""
    parts = []
    at_once = max(1, _HELD // (len(drawn) * model.scorer.floats_per_triple))
    for ids in torch.from_numpy(facts.astype(np.int64)).to(model.device).split(at_once):
        own = model.entities.detach()[entity].expand(len(ids), -1).clone().requires_grad_()  # one for each fact
        (gradient,) = torch.autograd.grad(_loss(model, ids, entity, own, drawn, asked), own)
        parts.append(gradient.double())
    return torch.cat(parts)


def _loss(model: TripleModel, facts: Tensor, entity: int, own: Tensor, drawn: Tensor, asked: Sequence[int]) -> Tensor:
    """Σ −log softmax of the answers of facts (n, 3), ``own`` (n, width) standing for the entity in each of them."""
    table, count = model.entities.detach(), len(facts)
    ends = [torch.where((facts[:, [side]] == entity), own, table[facts[:, side]]) for side in (HEAD, TAIL)]
    moved = model.over(torch.cat([table[drawn], *ends]), model.relations.detach())
    candidates = torch.arange(len(drawn), device=table.device)
    heads = len(drawn) + torch.arange(count, device=table.device)
    tails, relations = heads + count, facts[:, RELATION]
    weigh = float(np.log(len(table) / len(drawn)))  # so few stand for so many
    total = own.new_zeros(())
    for side in asked:
        right = moved.score_answers(side, heads, relations, tails)
        given = (relations, tails, candidates) if side == HEAD else (heads, relations, candidates)
        others = (moved.score_heads if side == HEAD else moved.score_tails)(*given) + weigh
        others = others.masked_fill(facts[:, [side]] == drawn, -torch.inf)
        total = total + (torch.logsumexp(torch.cat([right[:, None], others], dim=1), dim=1) - right).sum()
    return total
