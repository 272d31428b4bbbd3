"""Scores of triples straight from the tables, without copies of the rows in between.

Plain torch gathers three (B, n, k) arrays, makes as many temporaries again, and scatters gradients back. Here one loop
reads the rows where they lie and another adds the gradients where they belong. It is used for batches of training on a
CPU; what it must equal is the scorer's own ``score_triples``.

One thread does it. A second would have to take a core from torch's own threads, which spin between torch's operations,
and on two cores that was slower; and with one, every sum has the order of the batch.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from capse.kernels.compiled import compiled_for_one_thread, numba

DISTANCE, PRODUCT, EUCLIDEAN = 0, 1, 2  # −‖h + r − t‖₁, Σ h r t and −‖h + r − t‖₂


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
    pull_rows(table.detach().numpy(), columns)


def descend_margin(
    entities: Tensor,
    relations: Tensor,
    heads: Tensor,
    relation_ids: Tensor,
    tails: Tensor,
    *,
    margin: float,
    rate: float,
    unit_ball: bool,
) -> float:
    """One step of plain gradient descent of Σ max(0, margin − f(true) + f(corrupted)), f = −‖h + r − t‖₁, in place.

    ``heads`` and ``tails`` are (B, 1 + n), the true triple first, ``relation_ids`` (B,). Returns that sum, before the
    step. Only the rows of the batch are written, and with ``unit_ball`` pulled back into the ball.
    """
    tables = entities.detach().numpy(), relations.detach().numpy()
    ids = (x.contiguous().numpy() for x in (heads, relation_ids, tails))
    loss: float = _descend_margin(*tables, *ids, margin, rate, unit_ball)
    return loss


class _Score(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kind: int, entities: Tensor, relations: Tensor, heads: Tensor, relation_ids: Tensor, tails: Tensor
    ) -> Tensor:
        ids = [x.reshape(-1).contiguous() for x in (heads, relation_ids, tails)]
        scores = entities.new_empty(len(ids[0]))
        tables = entities.detach().numpy(), relations.detach().numpy()
        arrays = (*tables, *(x.numpy() for x in ids), scores.numpy())
        _forward(kind, *arrays)
        ctx.kind = kind
        ctx.save_for_backward(entities, relations, *ids)
        return scores.view(heads.shape)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        entities, relations, *ids = ctx.saved_tensors
        of_entities, of_relations = torch.zeros_like(entities), torch.zeros_like(relations)
        _backward(
            ctx.kind,
            entities.detach().numpy(),
            relations.detach().numpy(),
            *(x.numpy() for x in ids),
            gradient.reshape(-1).contiguous().numpy(),
            of_entities.numpy(),
            of_relations.numpy(),
        )
        return None, of_entities, of_relations, None, None, None


@partial(compiled_for_one_thread, any_order=True)
def _length(h, r, t):  # type: ignore[no-untyped-def]
    square = type(h[0])(0)
    for c in range(len(h)):
        difference = h[c] + r[c] - t[c]
        square += difference * difference
    return np.sqrt(square)


@partial(compiled_for_one_thread, any_order=True)
def _forward(kind, entities, relations, heads, relation_ids, tails, scores):  # type: ignore[no-untyped-def]
    for i in range(len(heads)):
        h, r, t = entities[heads[i]], relations[relation_ids[i]], entities[tails[i]]
        score = entities.dtype.type(0)
        if kind == DISTANCE:
            for c in range(len(h)):
                score -= abs(h[c] + r[c] - t[c])
        elif kind == EUCLIDEAN:
            score = -_length(h, r, t)
        else:
            for c in range(len(h)):
                score += h[c] * r[c] * t[c]
        scores[i] = score


@compiled_for_one_thread
def _slope(difference):  # type: ignore[no-untyped-def]
    """Of −|difference|: minus its sign, and zero at zero. In this form the compiler finds vector instructions."""
    number = type(difference)
    return number(difference < 0) - number(difference > 0)


# One loop for each row written: with three in one the compiler cannot rule out overlaps, and goes slowly.
@partial(compiled_for_one_thread, inline=True)
def _add_distance_gradient(g, h, r, t, dh, dr, dt):  # type: ignore[no-untyped-def]
    for c in range(len(h)):
        dh[c] += g * _slope(h[c] + r[c] - t[c])
    for c in range(len(h)):
        dr[c] += g * _slope(h[c] + r[c] - t[c])
    for c in range(len(h)):
        dt[c] -= g * _slope(h[c] + r[c] - t[c])


@partial(compiled_for_one_thread, inline=True)
def _add_euclidean_gradient(g, h, r, t, dh, dr, dt):  # type: ignore[no-untyped-def]
    length = _length(h, r, t)
    if length == 0:  # as torch has it
        return
    share = g / length
    for c in range(len(h)):
        dh[c] -= share * (h[c] + r[c] - t[c])
    for c in range(len(h)):
        dr[c] -= share * (h[c] + r[c] - t[c])
    for c in range(len(h)):
        dt[c] += share * (h[c] + r[c] - t[c])


@partial(compiled_for_one_thread, inline=True)
def _add_product_gradient(g, h, r, t, dh, dr, dt):  # type: ignore[no-untyped-def]
    for c in range(len(h)):
        dh[c] += g * r[c] * t[c]
    for c in range(len(h)):
        dr[c] += g * h[c] * t[c]
    for c in range(len(h)):
        dt[c] += g * h[c] * r[c]


@compiled_for_one_thread
def _backward(  # type: ignore[no-untyped-def]
    kind, entities, relations, heads, relation_ids, tails, gradient, of_entities, of_relations
):
    for i in range(len(heads)):
        g, head, relation, tail = gradient[i], heads[i], relation_ids[i], tails[i]
        if g == 0:
            continue
        h, r, t = entities[head], relations[relation], entities[tail]
        dh, dr, dt = of_entities[head], of_relations[relation], of_entities[tail]
        if kind == DISTANCE:
            _add_distance_gradient(g, h, r, t, dh, dr, dt)
        elif kind == EUCLIDEAN:
            _add_euclidean_gradient(g, h, r, t, dh, dr, dt)
        else:
            _add_product_gradient(g, h, r, t, dh, dr, dt)


@partial(compiled_for_one_thread, any_order=True)
def pull_rows(table, columns):  # type: ignore[no-untyped-def]
    """`pull_into_unit_ball` for compiled loops."""
    for i in range(len(table)):
        row = table[i]
        square = table.dtype.type(0)
        for c in range(columns):
            square += row[c] * row[c]
        if square > 1:
            scale = 1 / square**0.5
            for c in range(columns):
                row[c] *= scale


@partial(compiled_for_one_thread, any_order=True)
def _distance(h, r, t):  # type: ignore[no-untyped-def]
    distance = type(h[0])(0)
    for c in range(len(h)):
        distance += abs(h[c] + r[c] - t[c])
    return distance


@partial(compiled_for_one_thread, inline=True)
def _add_violations(loss, entities, r, heads, tails, margin, counts):  # type: ignore[no-untyped-def]
    """Adds one true triple's violated margins to the loss, and counts them: each for it, and against the corrupted."""
    true = _distance(entities[heads[0]], r, entities[tails[0]])
    for j in range(1, len(heads)):
        violation = margin + true - _distance(entities[heads[j]], r, entities[tails[j]])
        if not violation <= 0:  # NaN counts, so that the loss says so
            loss += violation
            counts[0] += 1
            counts[j] = -1
    return loss


@partial(compiled_for_one_thread, inline=True)
def _write_signs(h, r, t, signs):  # type: ignore[no-untyped-def]
    for c in range(len(h)):
        difference = h[c] + r[c] - t[c]
        signs[c] = np.int8(difference > 0) - np.int8(difference < 0)


@partial(compiled_for_one_thread, inline=True)
def _step(step, signs, h, r, t):  # type: ignore[no-untyped-def]
    for c in range(len(h)):
        h[c] -= step * signs[c]
    for c in range(len(h)):
        r[c] -= step * signs[c]
    for c in range(len(h)):
        t[c] += step * signs[c]


@partial(compiled_for_one_thread, inline=True)
def _pull_moved(table, ids, counts):  # type: ignore[no-untyped-def]
    """Pulls the rows ``ids`` whose triples counted back into the ball; one that is in it stays as it is."""
    for i in range(ids.shape[0]):
        for j in range(ids.shape[1]):
            if counts[i, j] != 0:
                pull_rows(table[ids[i, j] : ids[i, j] + 1], table.shape[1])


@compiled_for_one_thread
def _descend_margin(entities, relations, heads, relation_ids, tails, margin, rate, unit_ball):  # type: ignore[no-untyped-def]
    batch, versions = heads.shape
    k = entities.shape[1]
    counts = np.zeros((batch, versions), np.int64)  # how often each triple's distance counts in the gradient
    signs = np.empty((batch, versions, k), np.int8)  # of h + r − t as they were before the step
    loss = 0.0
    for i in range(batch):
        r = relations[relation_ids[i]]
        loss = _add_violations(loss, entities, r, heads[i], tails[i], margin, counts[i])
        for j in range(versions):
            if counts[i, j] != 0:
                _write_signs(entities[heads[i, j]], r, entities[tails[i, j]], signs[i, j])
    for i in range(batch):
        for j in range(versions):
            if counts[i, j] != 0:
                step = entities.dtype.type(rate * counts[i, j])
                _step(step, signs[i, j], entities[heads[i, j]], relations[relation_ids[i]], entities[tails[i, j]])
    if unit_ball:
        _pull_moved(entities, heads, counts)
        _pull_moved(entities, tails, counts)
    return loss
