"""One pass over the questions against the same in plain Python, from Δf by recounting; and draws by their chances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from capse.kernels.motifs import keys as k
from capse.kernels.motifs import reference
from capse.kernels.motifs.drawing import draw
from capse.kernels.motifs.fitting import Drawn, Questions, Step, Weights, descend
from capse.kernels.motifs.scoring import build_motifs
from tests.kernels.motifs.conftest import cases

STEP = Step(learning_rate=0.1, margin=1.0, clip=5.0, penalty=0.01)


def plain_pass(case, keys, weights, squares, questions, drawn, legs):
    """The docstring of `fitting`, word for word; returns the sum of hinges."""
    weights, squares, total = weights.copy(), squares.copy(), 0.0

    def change(edge, without):
        others = set(case.edges) - {without}
        found = np.zeros(len(keys))
        for key, value in reference.changed_by(edge, others, case.relations, legs=legs).items():
            found[np.searchsorted(keys, key)] = value
        return found

    for q in range(len(questions.nodes)):
        node, r, gradient = questions.nodes[q], questions.relations[q], np.zeros(len(keys))
        for a in range(questions.starts[q], questions.starts[q + 1]):
            answer = questions.answers[a]
            true = tuple(map(int, (answer, r, node) if questions.of_heads[q] else (node, r, answer)))
            of_true = change(true, true)
            for i, other in enumerate(drawn.nodes[a]):
                rival = (other, r, node) if questions.of_heads[q] else (node, r, other)
                of_rival = change(tuple(map(int, rival)), true)
                gap = (drawn.scores[a, i] + weights @ of_rival) - (questions.scores[a] + weights @ of_true)
                if STEP.margin + gap > 0:
                    total += STEP.margin + gap
                    gradient += drawn.importance[a, i] * (of_rival - of_true)
        touched = abs(gradient) > 1e-12 * max(float(abs(gradient).max()), 1e-300)
        gradient *= min(1, STEP.clip / max(float(np.linalg.norm(gradient)), 1e-300))
        length = np.linalg.norm(weights)
        gradient[touched] += STEP.penalty * weights[touched] / length if length else 0
        squares[touched] += gradient[touched] ** 2
        weights[touched] -= STEP.learning_rate * gradient[touched] / np.sqrt(squares[touched])
    return weights, squares, total


@settings(max_examples=40)
@given(cases(), st.booleans(), st.booleans(), st.integers(0, 1000))
def test_a_pass_over_questions_takes_the_steps_of_the_plain_formula(case, legs, of_heads, seed):
    generator = np.random.default_rng(seed)
    edges = np.array(sorted(set(case.edges)), np.int64).reshape(-1, 3)
    given, free = (2, 0) if of_heads else (0, 2)
    edges = edges[np.lexsort((edges[:, free], edges[:, given], edges[:, 1]))]
    pairs, counts = np.unique(edges[:, [1, given]], axis=0, return_counts=True)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    n = len(edges)
    questions = Questions(
        pairs[:, 0].copy(),
        pairs[:, 1].copy(),
        np.full(len(pairs), of_heads),
        starts,
        edges[:, free].copy(),
        generator.normal(size=n).astype(np.float32),
    )
    nodes = np.zeros((n, 3), np.int32)
    for question in range(len(pairs)):  # what is drawn is never a fact of the graph
        own = slice(starts[question], starts[question + 1])
        others = np.setdiff1d(np.arange(case.entities), questions.answers[own])
        assume(len(others))
        nodes[own] = generator.choice(others, nodes[own].shape)
    drawn = Drawn(
        nodes,
        generator.normal(size=(n, 3)).astype(np.float32),
        (10 ** generator.random((n, 3))).astype(np.float32),
    )
    keys = k.all_keys(case.relations)
    start = generator.normal(size=len(keys))
    weights = Weights(start.copy(), np.ones(len(keys)))
    motifs = build_motifs(case.graph, case.counted(), keys, case.relations, legs=legs, weights=start)
    expected = plain_pass(case, keys, start, np.ones(len(keys)), questions, drawn, legs)
    total, count = descend(motifs, weights, questions, drawn, np.arange(len(pairs)), STEP)
    assert count == 3 * n
    assert total == pytest.approx(expected[2], abs=1e-6)
    assert weights.values == pytest.approx(expected[0], abs=1e-6)
    assert weights.squares == pytest.approx(expected[1], abs=1e-6)
    again = build_motifs(case.graph, case.counted(), keys, case.relations, legs=legs, weights=weights.values)
    assert motifs.totals.weighted == pytest.approx(again.totals.weighted, abs=1e-9)  # U followed the weights
    assert np.array_equal(motifs.totals.paths, again.totals.paths)  # all edges were put back


def test_entities_are_drawn_as_often_as_their_chances_say():
    chances = np.array([[0.0, 1.0, 3.0, 0.0], [2.0, 0.0, 0.0, 2.0]], np.float32)
    uniform = np.random.default_rng(0).random((40_000, 1), np.float32)
    drawn, q = draw(chances, np.repeat([0, 1], 20_000), uniform)
    first, second = (np.bincount(part.ravel(), minlength=4) / 20_000 for part in np.split(drawn, 2))
    assert first == pytest.approx([0, 0.25, 0.75, 0], abs=0.01)
    assert second == pytest.approx([0.5, 0, 0, 0.5], abs=0.01)
    assert np.array_equal(q[:20_000, 0], np.where(drawn[:20_000, 0] == 2, 0.75, 0.25))


def test_nothing_is_drawn_where_everything_is_an_answer():
    _, q = draw(np.zeros((1, 3), np.float32), np.array([0]), np.array([[0.3]], np.float32))
    assert q.tolist() == [[0.0]]
