"""Scores of triples straight from the tables, without copies of the rows in between.

Plain torch gathers three (B, n, k) arrays, makes as many temporaries again, and scatters gradients back. Here one loop
reads the rows where they lie and another adds the gradients where they belong. It is used for batches of training on a
CPU; what it must equal is the scorer's own ``score_triples``.

Threads divide the rows of the tables, not the triples, when gradients are added: no two write the same row, and every
sum has the order of the batch, so the result does not depend on how many threads there are.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from capse.kernels.compiled import compiled_for_one_thread, numba
from capse.kernels.threads import in_threads

DISTANCE, PRODUCT = 0, 1  # −‖h + r − t‖₁ and Σ h r t

_SMALL = 2**16  # numbers read, below which waking a second thread takes longer than it helps


def is_usable(entities: Tensor) -> bool:
    """Whether the loops below serve this table: numba is there, and the table is on the CPU."""
    return numba is not None and entities.device.type == "cpu" and entities.dtype in (torch.float32, torch.float64)


def score_triples(
    kind: int, entities: Tensor, relations: Tensor, heads: Tensor, relation_ids: Tensor, tails: Tensor
) -> Tensor:
    """Scores, in the broadcast shape of the ids, of triples given by the numbers of rows of two tables."""
    scores: Tensor = _Score.apply(  # type: ignore[no-untyped-call]
        kind, entities, relations, *torch.broadcast_tensors(heads, relation_ids, tails)
    )
    return scores


def pull_into_unit_ball(table: Tensor, columns: int) -> None:
    """Scale the rows whose first ``columns`` numbers are longer than 1 to length 1, in place."""
    _pull(table.detach().numpy(), columns)


class _Score(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kind: int, entities: Tensor, relations: Tensor, heads: Tensor, relation_ids: Tensor, tails: Tensor
    ) -> Tensor:
        ids = [x.reshape(-1).contiguous() for x in (heads, relation_ids, tails)]
        scores = entities.new_empty(len(ids[0]))
        tables = entities.detach().numpy(), relations.detach().numpy()
        _forward(kind, *tables, *(x.numpy() for x in ids), scores.numpy())
        ctx.kind = kind
        ctx.save_for_backward(entities, relations, *ids)
        return scores.view(heads.shape)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        entities, relations, *ids = ctx.saved_tensors
        of_entities, of_relations = torch.zeros_like(entities), torch.zeros_like(relations)
        in_threads(
            _backward,
            torch.get_num_threads() if len(ids[0]) * entities.shape[1] > _SMALL else 1,
            ctx.kind,
            entities.detach().numpy(),
            relations.detach().numpy(),
            *(x.numpy() for x in ids),
            gradient.reshape(-1).contiguous().numpy(),
            of_entities.numpy(),
            of_relations.numpy(),
            shares_per_thread=1,
        )
        return None, of_entities, of_relations, None, None, None


@partial(compiled_for_one_thread, any_order=True)
def _forward(kind, entities, relations, heads, relation_ids, tails, scores):  # type: ignore[no-untyped-def]
    for i in range(len(heads)):
        h, r, t = entities[heads[i]], relations[relation_ids[i]], entities[tails[i]]
        score = entities.dtype.type(0)
        if kind == DISTANCE:
            for c in range(len(h)):
                score -= abs(h[c] + r[c] - t[c])
        else:
            for c in range(len(h)):
                score += h[c] * r[c] * t[c]
        scores[i] = score


@compiled_for_one_thread
def _slope(difference):  # type: ignore[no-untyped-def]
    """Of −|difference|: minus its sign, and zero at zero. In this form the compiler finds vector instructions."""
    number = type(difference)
    return number(difference < 0) - number(difference > 0)


@compiled_for_one_thread
def _backward(  # type: ignore[no-untyped-def]
    part, parts, kind, entities, relations, heads, relation_ids, tails, gradient, of_entities, of_relations
):
    for i in range(len(heads)):
        g, head, relation, tail = gradient[i], heads[i], relation_ids[i], tails[i]
        if g == 0:
            continue
        h, r, t = entities[head], relations[relation], entities[tail]
        if head % parts == part:
            row = of_entities[head]
            if kind == DISTANCE:
                for c in range(len(row)):
                    row[c] += g * _slope(h[c] + r[c] - t[c])
            else:
                for c in range(len(row)):
                    row[c] += g * r[c] * t[c]
        if relation % parts == part:
            row = of_relations[relation]
            if kind == DISTANCE:
                for c in range(len(row)):
                    row[c] += g * _slope(h[c] + r[c] - t[c])
            else:
                for c in range(len(row)):
                    row[c] += g * h[c] * t[c]
        if tail % parts == part:
            row = of_entities[tail]
            if kind == DISTANCE:
                for c in range(len(row)):
                    row[c] -= g * _slope(h[c] + r[c] - t[c])
            else:
                for c in range(len(row)):
                    row[c] += g * h[c] * r[c]


@partial(compiled_for_one_thread, any_order=True)
def _pull(table, columns):  # type: ignore[no-untyped-def]
    for i in range(len(table)):
        square = table.dtype.type(0)
        for c in range(columns):
            square += table[i, c] * table[i, c]
        if square > 1:
            scale = 1 / square**0.5
            for c in range(columns):
                table[i, c] *= scale
