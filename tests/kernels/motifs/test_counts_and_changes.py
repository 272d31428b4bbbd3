"""The compiled loops against recounting the whole graph in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capse.kernels.motifs import keys as k
from capse.kernels.motifs import reference
from capse.kernels.motifs.counting import TooManyMotifsError, count_motifs
from capse.kernels.motifs.graph import build_graph, work_of_three
from capse.kernels.motifs.scoring import Motifs, build_motifs, changes_of, weigh
from tests.kernels.motifs.conftest import Case, cases


def motifs_of(case: Case, keys, weights, legs: bool) -> Motifs:
    return build_motifs(case.graph, case.counted(), keys, case.relations, legs=legs, weights=weights)


def change_by_key(motifs: Motifs, keys, edge) -> dict[int, float]:
    """Δf of every motif, put together from the two lists of the loops."""
    found, changed, pairs, totals = changes_of(motifs, edge, np.zeros(len(keys)))
    change = np.zeros(len(keys))
    np.add.at(change, found.places[:changed], found.amounts[:changed])
    for pair, added in zip(found.pairs[:pairs], found.added[:pairs], strict=True):
        if before := totals.paths[pair]:
            closures = slice(motifs.starts[pair], motifs.starts[pair + 1])
            change[closures] += totals.closures[closures] * (1 / (before + added) - 1 / before)
    return {int(key): value for key, value in zip(keys, change, strict=True) if abs(value) > 1e-12}


@settings(max_examples=40)
@given(cases())
def test_counts_are_those_of_plain_python(case):
    counted = case.counted()
    found = {int(key): int(count) for key, count in zip(counted.keys, counted.counts, strict=True) if count}
    assert found == dict(reference.counts(case.edges, case.relations))


@settings(max_examples=40)
@given(cases())
def test_motifs_of_two_relations_alone_can_be_counted(case):
    counted = case.counted(most=2)
    expected = {key: n for key, n in reference.counts(case.edges, case.relations).items() if key in k.all_keys(3, 2)}
    if case.relations == 3:
        found = {int(key): int(n) for key, n in zip(counted.keys, counted.counts, strict=True) if n}
        assert found == expected


def test_there_is_room_for_however_much_an_edge_changes():
    """Motifs of several kinds, each with more changes than there is room for at first: 1,280 triangles alone."""
    relations, others = 8, range(2, 22)
    ends = [pair for other in others for end in (0, 1) for pair in ((end, other), (other, end))]
    edges = [(s, r, t) for s, t in ends for r in range(relations)]
    case = Case(22, relations, [*edges, (0, 0, 1)], (0, 0, 1))
    keys = case.counted().keys
    found = change_by_key(motifs_of(case, keys, np.zeros(len(keys)), legs=True), keys, case.edge)
    assert found == pytest.approx(reference.changed_by(case.edge, edges, relations, legs=True), abs=1e-9)


@pytest.mark.parametrize("legs", [False, True])
@settings(max_examples=40)
@given(case=cases())
def test_what_an_edge_changes_is_what_recounting_the_graph_says(legs, case):
    keys = k.all_keys(case.relations)
    found = change_by_key(motifs_of(case, keys, np.zeros(len(keys)), legs), keys, case.edge)
    assert found == pytest.approx(reference.changed_by(case.edge, case.edges, case.relations, legs=legs), abs=1e-9)


@settings(max_examples=30)
@given(cases(), st.booleans(), st.integers(0, 10))
def test_the_score_of_an_edge_is_the_plain_sum_of_weights_times_changes(case, legs, seed):
    keys = k.all_keys(case.relations)
    weights = np.random.default_rng(seed).normal(size=len(keys))
    every = [(s, r, t) for s in range(case.entities) for r in range(case.relations) for t in range(case.entities)]
    asked = [np.array(column, np.int64) for column in zip(*every, strict=True)]
    found = weigh(motifs_of(case, keys, weights, legs), weights, *asked)
    for edge, score in list(zip(every, found, strict=True))[:: max(1, len(every) // 5)]:
        changes = reference.changed_by(edge, case.edges, case.relations, legs=legs)
        expected = sum(weights[np.searchsorted(keys, key)] * change for key, change in changes.items())
        assert score == pytest.approx(expected, abs=1e-9)


@settings(max_examples=20)
@given(cases())
def test_scoring_leaves_the_totals_as_they_were(case):
    keys = k.all_keys(case.relations)
    motifs = motifs_of(case, keys, np.ones(len(keys)), legs=False)
    before = [array.copy() for array in motifs.totals]
    weigh(motifs, np.ones(len(keys)), *(np.array([part], np.int64) for part in case.edge))
    assert all(np.array_equal(a, b) for a, b in zip(before, motifs.totals, strict=True))


def test_a_motif_that_is_not_kept_counts_for_nothing():
    case = Case(3, 2, [(0, 0, 1), (1, 1, 2)], (2, 0, 0))
    every = k.all_keys(2)
    kept = every[::2]
    found = change_by_key(motifs_of(case, kept, np.zeros(len(kept)), legs=False), kept, case.edge)
    expected = reference.changed_by(case.edge, case.edges, 2, legs=False)
    assert found == {key: change for key, change in expected.items() if key in kept}
    assert 0 < len(found) < len(expected)


def test_eleven_relations_have_as_many_motifs_as_the_paper_says():
    families = [k.parts_of(int(key), 11)[0] for key in k.all_keys(11)]
    assert len(families) - families.count(k.LOOP) == 3432


def test_more_neighbours_than_there_is_room_for_at_first_are_counted_all_the_same():
    hub = [(0, 0, x) for x in range(2, 900)] + [(x, 0, 1) for x in range(2, 900)]
    case = Case(900, 1, hub, (0, 0, 1))
    keys = k.all_keys(1)
    found = change_by_key(motifs_of(case, keys, np.zeros(len(keys)), legs=False), keys, case.edge)
    assert found[int(k.key_of(1, k.CLOSURE, 0, 0, 0))] == pytest.approx(898 / 898)  # no path was closed, now all are


def test_a_graph_with_too_many_motifs_is_told_from_others():
    edges = np.array([(0, r, 1) for r in range(30)])
    graph = build_graph(edges, 2)
    with pytest.raises(TooManyMotifsError):
        count_motifs(graph, np.zeros(30, np.int64), 30, relations_at_most=3, room=1000)


def test_the_work_of_counting_grows_with_neighbours_in_common():
    sparse = build_graph(np.array([(i, 0, i + 1) for i in range(50)]), 51)
    dense = build_graph(np.array([(i, 0, j) for i in range(51) for j in range(51)]), 51)
    assert work_of_three(dense) > 100 * work_of_three(sparse)
