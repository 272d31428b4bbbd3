"""Adam (Kingma & Ba, ICLR 2015) on the rows of a table that a batch touches, the others' steps taken later.

    m ← β₁ m + (1 − β₁) g     v ← β₂ v + (1 − β₂) g²     p ← p − η_s m / (√v / c_s + ε)

with η_s = learning rate / (1 − β₁^s) and c_s = √(1 − β₂^s) in step s. A row without a gradient moves on too, by its
momentum, and an optimiser that walks the whole table for it reads and writes three arrays of that size in every step.
Here such steps wait until the row is needed and are then taken one after the other, with the numbers in the cache:
the same arithmetic, in the same order, however the waiting steps are divided. Once a step has moved none of a row's
numbers, those that follow do not either, as each is smaller than the one before it: only m and v fade then.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from capse.kernels.compiled import compiled_for_one_thread

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # torch's own
TINY = 1e-30  # a momentum below it moves nothing, as its step is far below a number's last digit


@partial(compiled_for_one_thread, any_order=True)
def _drift(p, m, v, size, correction):  # type: ignore[no-untyped-def]
    """One step without a gradient; returns how many numbers it moved."""
    number = p.dtype.type
    b1, b2, epsilon, tiny = number(BETA1), number(BETA2), number(EPSILON), number(TINY)
    eta, scale = number(size), number(1 / correction)
    moved = np.int32(0)
    for c in range(len(p)):
        x = m[c] * b1
        x = x if abs(x) > tiny else number(0)
        y = v[c] * b2
        new = p[c] - eta * x / (np.sqrt(y) * scale + epsilon)
        moved += np.int32(new != p[c])
        m[c] = x
        v[c] = y
        p[c] = new
    return moved


@compiled_for_one_thread
def _fade(m, v):  # type: ignore[no-untyped-def]
    """The same where nothing is moved any more."""
    number = m.dtype.type
    b1, b2, tiny = number(BETA1), number(BETA2), number(TINY)
    for c in range(len(m)):
        x = m[c] * b1
        m[c] = x if abs(x) > tiny else number(0)
        v[c] = v[c] * b2


@compiled_for_one_thread
def catch_up(values, first, second, steps, rows, until, sizes, corrections):  # type: ignore[no-untyped-def]
    """Take the waiting steps of ``rows``, up to and with step ``until``: all arrays in place.

    ``values``, ``first`` and ``second`` (n, k) are p, m and v, ``steps`` (n,) the last step that each row took.
    """
    for row in rows:
        p, m, v = values[row], first[row], second[row]
        step, moved = steps[row], 1
        while step < until and moved > 0:
            step += 1
            moved = _drift(p, m, v, sizes[step], corrections[step])
        while step < until:
            step += 1
            _fade(m, v)
        steps[row] = until


@partial(compiled_for_one_thread, any_order=True)
def descend(values, first, second, steps, rows, gradients, step, size, correction):  # type: ignore[no-untyped-def]
    """Step number ``step`` of ``rows``, which have taken all before it, with ``gradients`` (len(rows), k)."""
    number = values.dtype.type
    keep1, b2, keep2, epsilon = number(1 - BETA1), number(BETA2), number(1 - BETA2), number(EPSILON)
    eta, scale = number(size), number(1 / correction)
    for i in range(len(rows)):
        row = rows[i]
        p, m, v, g = values[row], first[row], second[row], gradients[i]
        for c in range(len(p)):
            x = m[c] + keep1 * (g[c] - m[c])
            y = v[c] * b2 + keep2 * (g[c] * g[c])
            m[c] = x
            v[c] = y
            p[c] -= eta * x / (np.sqrt(y) * scale + epsilon)
        steps[row] = step
