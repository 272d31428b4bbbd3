"""The weights of motifs, by ranking true edges above edges drawn from the model that is refined.

A question is a relation with the node at one end. For each true answer e of it, with e taken out of the graph,

    Σ_e' v(e') max(0, γ − score(e) + score(e')),   score(e) = f(e) + w·Δf(e)

over drawn answers e', whose weight v is 1/q(e') where q is the distribution that they were drawn from, or 1. The
gradients of a question's answers are added up, clipped, and Adagrad takes one step, with the gradient of λ‖w‖ for the
weights that it moves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from capse.arrays import Bools, Float32s, Float64s, Int32s, Int64s
from capse.kernels.motifs.changes import NOWHERE, room_for
from capse.kernels.motifs.loops import entry, helper
from capse.kernels.motifs.scoring import ROOM, Motifs, all_changes, exchange, score

ROUNDING = 1e-12  # of the largest part of a gradient: what is smaller is zero


class Questions(NamedTuple):
    """Q questions with n true answers, each with K drawn ones."""

    relations: Int64s  # (Q,)
    nodes: Int64s  # (Q,) the end that is given
    of_heads: Bools  # (Q,) whether it is the tail, so that heads are asked for
    starts: Int64s  # (Q + 1,) where each question's answers begin
    answers: Int64s  # (n,)
    scores: Float32s  # (n,) f of the true answers


class Drawn(NamedTuple):
    """The negatives of the true answers, of one epoch."""

    nodes: Int32s  # (n, K)
    scores: Float32s  # (n, K) f of them
    importance: Float32s  # (n, K) v


class Weights(NamedTuple):
    """What is fitted, and Adagrad's sums of squared gradients."""

    values: Float64s  # (F,)
    squares: Float64s  # (F,)


class Step(NamedTuple):
    """How far to go."""

    learning_rate: float
    margin: float  # γ
    clip: float  # the greatest length of a question's gradient
    penalty: float  # λ


def descend(
    motifs: Motifs, weights: Weights, questions: Questions, drawn: Drawn, order: Int64s, step: Step
) -> tuple[float, int]:
    """Go through some questions, one Adagrad step each; returns the sum of the hinges, and how many there were."""
    total, count = _descend(
        motifs.graph, motifs.kept, motifs.totals, motifs.of_three, motifs.legs, motifs.starts,
        weights, questions, drawn, order, step,
    )  # fmt: skip
    return float(total), int(count)


class Gradient(NamedTuple):
    """Of the question that is gone through, with lists of where it is not zero."""

    of_motifs: Float64s  # (F,)
    motifs: Int64s  # (F,)
    of_pairs: Float64s  # (R²,) of the answer at hand: what each closure's C of a pair is to be multiplied by
    pairs: Int64s  # (R²,)
    sizes: Int64s  # (2,) how many motifs and pairs are listed
    is_listed: Bools  # (F + R²,)


@entry
def _descend(graph, index, totals, of_three, legs, starts, weights, questions, drawn, order, step):  # type: ignore[no-untyped-def]
    found, of_truth = room_for(index.relations, ROOM), room_for(index.relations, ROOM)
    gradient = _no_gradient(len(weights.values), len(totals.paths))
    squared_length = np.full(1, (weights.values**2).sum())
    edge, without = np.empty(3, np.int64), np.empty(3, np.int64)
    total, count = 0.0, 0
    for question in order:
        node, r = questions.nodes[question], questions.relations[question]
        of_heads = questions.of_heads[question]
        for answer in range(questions.starts[question], questions.starts[question + 1]):
            true = questions.answers[answer]
            edge[0], edge[1], edge[2] = (true, r, node) if of_heads else (node, r, true)
            if true == node:
                without[:] = NOWHERE  # a self-loop is in no motif that it could be taken out of
            else:
                without[:] = edge
                found = exchange(graph, index, totals, edge, -1, of_three, weights.values, found)
            of_truth, n_true, pairs_true = all_changes(
                graph, index, totals, edge[0], r, edge[2], without, of_three, legs, 3, of_truth
            )
            best = questions.scores[answer] + score(of_truth, n_true, pairs_true, totals, weights.values)
            pulled = 0.0
            for i in range(drawn.nodes.shape[1]):
                other = np.int64(drawn.nodes[answer, i])
                s, t = (other, node) if of_heads else (node, other)
                found, n, pairs = all_changes(graph, index, totals, s, r, t, without, of_three, legs, 3, found)
                rival = drawn.scores[answer, i] + score(found, n, pairs, totals, weights.values)
                hinge = step.margin - best + rival
                count += 1
                if hinge > 0:
                    total += hinge
                    pulled += drawn.importance[answer, i]
                    _pull(found, n, pairs, drawn.importance[answer, i], totals, gradient)
            if pulled > 0:
                _pull(of_truth, n_true, pairs_true, -pulled, totals, gradient)
                _spread(totals, starts, gradient)
            if true != node:
                found = exchange(graph, index, totals, edge, 1, of_three, weights.values, found)
        _take_step(weights, totals, step, squared_length, gradient)
    return total, count


@helper
def _no_gradient(motifs, pairs):  # type: ignore[no-untyped-def]
    return Gradient(
        np.zeros(motifs, np.float64),
        np.empty(motifs, np.int64),
        np.zeros(pairs, np.float64),
        np.empty(pairs, np.int64),
        np.zeros(2, np.int64),
        np.zeros(motifs + pairs, np.bool_),
    )


@helper
def _pull(found, n, pairs, strength, totals, gradient):  # type: ignore[no-untyped-def]
    """Add ``strength`` times what an edge changes."""
    for i in range(n):
        place = found.places[i]
        gradient.of_motifs[place] += strength * found.amounts[i]
        _list_motif(place, gradient)
    for i in range(pairs):
        pair = found.pairs[i]
        paths = totals.paths[pair]
        if paths > 0:
            gradient.of_pairs[pair] += strength * (1.0 / (paths + found.added[i]) - 1.0 / paths)
            listed = len(gradient.of_motifs) + pair
            if not gradient.is_listed[listed]:
                gradient.is_listed[listed] = True
                gradient.pairs[gradient.sizes[1]] = pair
                gradient.sizes[1] += 1


@helper
def _list_motif(place, gradient):  # type: ignore[no-untyped-def]
    if not gradient.is_listed[place]:
        gradient.is_listed[place] = True
        gradient.motifs[gradient.sizes[0]] = place
        gradient.sizes[0] += 1


@helper
def _spread(totals, starts, gradient):  # type: ignore[no-untyped-def]
    """Pass what pairs of relations have gathered on to the closures of each."""
    for i in range(gradient.sizes[1]):
        pair = gradient.pairs[i]
        for place in range(starts[pair], starts[pair + 1]):
            if totals.closures[place]:
                gradient.of_motifs[place] += gradient.of_pairs[pair] * totals.closures[place]
                _list_motif(place, gradient)
        gradient.of_pairs[pair] = 0.0
        gradient.is_listed[len(gradient.of_motifs) + pair] = False
    gradient.sizes[1] = 0


@helper
def _take_step(weights, totals, step, squared_length, gradient):  # type: ignore[no-untyped-def]
    """One step of Adagrad, after which the gradient is zero again."""
    squares, largest = 0.0, 0.0
    for i in range(gradient.sizes[0]):
        squares += gradient.of_motifs[gradient.motifs[i]] ** 2
        largest = max(largest, abs(gradient.of_motifs[gradient.motifs[i]]))
    scale = 1.0 if squares <= step.clip**2 else step.clip / np.sqrt(squares)
    decay = step.penalty / np.sqrt(squared_length[0]) if squared_length[0] > 0 else 0.0
    for i in range(gradient.sizes[0]):
        place = gradient.motifs[i]
        before = weights.values[place]
        if abs(gradient.of_motifs[place]) > ROUNDING * largest:  # what true and drawn answers share cancels out
            slope = scale * gradient.of_motifs[place] + decay * before
            weights.squares[place] += slope**2
            after = before - step.learning_rate * slope / max(np.sqrt(weights.squares[place]), 1e-300)
            weights.values[place] = after
            squared_length[0] += after**2 - before**2
            pair = totals.pair_of[place]
            if pair >= 0:
                totals.weighted[pair] += (after - before) * totals.closures[place]
        gradient.of_motifs[place] = 0.0
        gradient.is_listed[place] = False
    gradient.sizes[0] = 0
