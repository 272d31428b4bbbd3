"""The fused step of adversarial training (KBGAN: `capse.training.adversary`), in loops over the tables on a CPU.

The generator is DistMult, the discriminator TransE or TransD with L1 and a margin loss, the optimiser Adam. A triple's
candidates differ in one entity, so the product of the other two is taken once, their scores are products with that, and
what they all add to its gradient is summed up before it is written. Adam passes over a table once, and leaves the
gradient at zero.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from torch import Tensor

from capse.kernels.adversarial_tables import Tables
from capse.kernels.compiled import compiled_for_one_thread
from capse.kernels.fused import pull_rows
from capse.kernels.row_adam import BETA1, BETA2, EPSILON

BLOCK = 2**12  # numbers of a table that Adam changes before their vectors are pulled into the ball


def add_gradients(
    discriminator: Tables,
    generator: Tables,
    rows: Tensor,
    baseline: Tensor,
    *,
    candidates: int,
    margin: float,
    share: float,
    projects: bool,
    steps: int,
) -> tuple[Tensor, Tensor]:
    """The margin losses (B,) and the rewards (B,); both models' gradients, times ``share``, are added to theirs.

    ``rows`` (B, 3 + 2 · candidates + 1) are a true triple, its candidates' heads and tails, of which either are all its
    own, and a whole number below ``steps`` to draw one by. ``projects`` says that the discriminator is TransD.
    """
    losses, rewards = (discriminator.entities.new_empty(len(rows)) for _ in range(2))
    tables = [table.numpy() for table in (*discriminator, *generator)]
    number = tables[0].dtype.type
    constants = number(baseline), number(margin), number(share), steps
    _add_gradients(
        *tables, rows.contiguous().numpy(), candidates, projects, *constants, losses.numpy(), rewards.numpy()
    )
    return losses, rewards


def descend(
    table: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    taken: Tensor,
    rate: Tensor,
    *,
    decay: float,
    dim: int,
    pull: int,
) -> None:
    """Adam's step number ``taken``, in place, after which the gradient is zero.

    With ``pull`` = n, every n-th ``dim`` numbers are scaled to length 1 where they are longer; with 0 nothing is.
    """
    step = int(taken)
    size, correction = float(rate) / (1 - BETA1**step), (1 - BETA2**step) ** 0.5
    arrays = (x.view(-1, dim * max(pull, 1)).numpy() for x in (table, gradient, mean, square))
    _descend(*arrays, size, correction, decay, dim if pull else 0)


@partial(compiled_for_one_thread, any_order=True)
def _dot(x, y):  # type: ignore[no-untyped-def]
    total = type(x[0])(0)
    for c in range(len(x)):
        total += x[c] * y[c]
    return total


@compiled_for_one_thread
def _add(total, factor, x):  # type: ignore[no-untyped-def]
    for c in range(len(total)):
        total[c] += factor * x[c]


@compiled_for_one_thread
def _add_product(total, x, y):  # type: ignore[no-untyped-def]
    for c in range(len(total)):
        total[c] += x[c] * y[c]


@compiled_for_one_thread
def _along(x, k, projects):  # type: ignore[no-untyped-def]
    """x_p·x, where the model projects."""
    return _dot(x[k:], x[:k]) if projects else type(x[0])(0)


@partial(compiled_for_one_thread, any_order=True)
def _distance(x, y, z, gap, projects):  # type: ignore[no-untyped-def]
    """The sum of the absolute values of h⊥ + d_r − t⊥, which ``gap`` (k,) becomes."""
    k = len(gap)
    for c in range(k):
        gap[c] = x[c] + y[c] - z[c]
    if projects:
        along = _along(x, k, projects) - _along(z, k, projects)
        for c in range(k):
            gap[c] += along * y[k + c]
    distance = type(gap[0])(0)
    for c in range(k):
        distance += abs(gap[c])
    return distance


@compiled_for_one_thread
def _add_distance_gradient(x, y, z, of_x, of_y, of_z, gap, factor, projects):  # type: ignore[no-untyped-def]
    """Add ``factor`` times the derivatives of Σ |gap|, which becomes its own derivative."""
    k, number = len(gap), type(gap[0])
    for c in range(k):
        gap[c] = number(gap[c] > 0) - number(gap[c] < 0)
    _add(of_y[:k], factor, gap)
    if not projects:
        _add(of_x, factor, gap)
        _add(of_z, -factor, gap)
        return
    along = factor * _dot(gap, y[k:])
    # In one sum each: what a true and a drawn triple add to an entity they share must cancel out to the last bit.
    for c in range(k):
        of_x[c] += factor * gap[c] + along * x[k + c]
    for c in range(k):
        of_z[c] -= factor * gap[c] + along * z[k + c]
    _add(of_x[k:], along, x[:k])
    _add(of_z[k:], -along, z[:k])
    _add(of_y[k:], factor * (_along(x, k, projects) - _along(z, k, projects)), gap)


@compiled_for_one_thread
def _draw(scores, choice, steps):  # type: ignore[no-untyped-def]
    """The candidate that the whole number ``choice`` stands for; ``scores`` become chances."""
    number = type(scores[0])
    top, total = scores.max(), number(0)
    for c in range(len(scores)):
        scores[c] = np.exp(scores[c] - top)
        total += scores[c]
    aim, drawn, passed = number((choice + 0.5) / steps) * total, 0, scores[0]
    while passed < aim and drawn < len(scores) - 1:
        drawn += 1
        passed += scores[drawn]
    for c in range(len(scores)):
        scores[c] /= total
    return drawn


@partial(compiled_for_one_thread, any_order=True)
def _weighted_sum(total, weights, ids, table):  # type: ignore[no-untyped-def]
    """Σ weight · row, of four rows at a time: the sum is read and written a quarter as often."""
    whole = len(ids) - len(ids) % 4
    total[:] = 0
    for i in range(0, whole, 4):
        a, b, c, d = table[ids[i]], table[ids[i + 1]], table[ids[i + 2]], table[ids[i + 3]]
        of_a, of_b, of_c, of_d = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for j in range(len(total)):
            total[j] += (of_a * a[j] + of_b * b[j]) + (of_c * c[j] + of_d * d[j])
    for i in range(whole, len(ids)):
        _add(total, weights[i], table[ids[i]])


@compiled_for_one_thread
def _add_gradients(  # type: ignore[no-untyped-def]
    d_entities, d_relations, of_d_entities, of_d_relations, g_entities, g_relations, of_g_entities, of_g_relations,
    rows, candidates, projects, baseline, margin, share, steps, losses, rewards,
):  # fmt: skip
    width, number = g_entities.shape[1], d_entities.dtype.type
    dim = d_entities.shape[1] // 2 if projects else d_entities.shape[1]
    product, total = np.empty(width, g_entities.dtype), np.empty(width, g_entities.dtype)
    true_gap, drawn_gap = np.empty(dim, d_entities.dtype), np.empty(dim, d_entities.dtype)
    weights = np.empty(candidates, g_entities.dtype)
    for i in range(len(rows)):
        h, r, t, choice = rows[i, 0], rows[i, 1], rows[i, 2], rows[i, 3 + 2 * candidates]
        heads, tails = rows[i, 3 : 3 + candidates], rows[i, 3 + candidates : 3 + 2 * candidates]
        kept, replaced = (t, heads) if (heads != h).any() else (h, tails)
        x, y = g_entities[kept], g_relations[r]
        for c in range(width):
            product[c] = x[c] * y[c]
        for c in range(candidates):
            weights[c] = _dot(product, g_entities[replaced[c]])
        drawn = _draw(weights, choice, steps)
        a, b, d = d_entities[h], d_relations[r], d_entities[t]
        drawn_a, drawn_d = d_entities[heads[drawn]], d_entities[tails[drawn]]
        wrong = _distance(drawn_a, b, drawn_d, drawn_gap, projects)
        violation = margin + _distance(a, b, d, true_gap, projects) - wrong
        rewards[i] = -wrong
        losses[i] = number(0) if violation <= 0 else violation  # NaN stays, so that the loss says so
        if violation > 0:
            of_a, of_b, of_d = of_d_entities[h], of_d_relations[r], of_d_entities[t]
            _add_distance_gradient(a, b, d, of_a, of_b, of_d, true_gap, share, projects)
            of_a, of_d = of_d_entities[heads[drawn]], of_d_entities[tails[drawn]]
            _add_distance_gradient(drawn_a, b, drawn_d, of_a, of_b, of_d, drawn_gap, -share, projects)
        # The generator's gradient: of −(R − b) log p(drawn) in the score of candidate c, −(R − b) ([c drawn] − p_c).
        surprise = share * (wrong + baseline)
        for c in range(candidates):
            weights[c] *= -surprise
        weights[drawn] += surprise
        _weighted_sum(total, weights, replaced, g_entities)
        for c in range(candidates):
            _add(of_g_entities[replaced[c]], weights[c], product)
        _add_product(of_g_entities[kept], total, y)
        _add_product(of_g_relations[r], total, x)


@partial(compiled_for_one_thread, any_order=True)
def _adam(p, g, m, v, size, scale, decay):  # type: ignore[no-untyped-def]
    number = type(p[0])
    keep1, b2, keep2, epsilon = number(1 - BETA1), number(BETA2), number(1 - BETA2), number(EPSILON)
    for c in range(len(p)):
        slope = g[c] + decay * p[c]
        x = m[c] + keep1 * (slope - m[c])
        y = v[c] * b2 + keep2 * (slope * slope)
        m[c] = x
        v[c] = y
        g[c] = number(0)
        p[c] -= size * x / (np.sqrt(y) * scale + epsilon)


@compiled_for_one_thread
def _descend(values, gradients, first, second, size, correction, decay, columns):  # type: ignore[no-untyped-def]
    number, width = values.dtype.type, values.shape[1]
    constants = number(size), number(1 / correction), number(decay)
    many = max(1, BLOCK // width)
    p, g, m, v = values.reshape(-1), gradients.reshape(-1), first.reshape(-1), second.reshape(-1)
    for row in range(0, len(values), many):
        part = slice(row * width, min(row + many, len(values)) * width)
        _adam(p[part], g[part], m[part], v[part], *constants)
        if columns:
            pull_rows(values[row : row + many], columns)
