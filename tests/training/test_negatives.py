"""Corrupted triples: never a known one, on the side and in the proportions that the settings say."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capse.errors import DataError, SettingsError
from capse.training.negatives import Corruptor, Negatives, head_chances
from capse.triples import TripleIndex

CPU = torch.device("cpu")


def corruptor(triples, entities, relations, sampler="uniform"):
    return Corruptor(TripleIndex(triples, entities, relations), head_chances(triples, relations, sampler), CPU)


def draw(triples, entities, relations, count, seed=0, sampler="uniform"):
    """All triples corrupted ``count`` times, as heads and tails of shape (n, count)."""
    generator = torch.Generator().manual_seed(seed)
    batch = torch.from_numpy(triples).long()
    return [x.numpy() for x in corruptor(triples, entities, relations, sampler).corrupt(batch, count, generator)]


def check(triples, heads, tails):
    known = set(map(tuple, triples.tolist()))
    for (h, r, t), row_heads, row_tails in zip(triples.tolist(), heads.tolist(), tails.tolist(), strict=True):
        for wrong_head, wrong_tail in zip(row_heads, row_tails, strict=True):
            assert (wrong_head, r, wrong_tail) not in known
            assert (wrong_head == h) != (wrong_tail == t), "exactly one side is replaced"


@st.composite
def dense_graphs(draw):
    """Graphs in which only a few triples are false, but each triple can be corrupted."""
    entities, relations = draw(st.integers(2, 6)), draw(st.integers(1, 3))
    everything = [(h, r, t) for h in range(entities) for r in range(relations) for t in range(entities)]
    missing = set(draw(st.lists(st.sampled_from(everything), min_size=1, max_size=6)))
    known = [
        (h, r, t)
        for h, r, t in everything
        if (h, r, t) not in missing and any((x, r, t) in missing or (h, r, x) in missing for x in range(entities))
    ]
    return np.array(known).reshape(-1, 3), entities, relations


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(dense_graphs(), st.integers(0, 1000), st.sampled_from(["uniform", "bernoulli"]))
def test_never_a_known_triple_where_almost_all_are_known(graph, seed, sampler):
    triples, entities, relations = graph
    if len(triples):
        check(triples, *draw(triples, entities, relations, count=4, seed=seed, sampler=sampler))


def test_never_a_known_triple_with_many_negatives():
    rng = np.random.default_rng(1)
    triples = np.unique(rng.integers([40, 3, 40], size=(2000, 3)), axis=0)  # nearly half of all triples
    heads, tails = draw(triples, 40, 3, count=50)
    assert heads.shape == tails.shape == (len(triples), 50)
    check(triples, heads, tails)


def test_a_saturated_side_is_left_alone():
    """Every head has the one tail there is room for: only tails can be replaced."""
    triples = np.array([[h, 0, 0] for h in range(6)])
    heads, tails = draw(triples, 6, 1, count=8)
    assert (heads == triples[:, :1]).all()
    assert (tails != 0).all()


@pytest.mark.parametrize("head_chance", [0.0, 1.0])
def test_a_side_that_is_never_replaced_is_no_last_resort(head_chance):
    """The side that may be replaced has no free entity; the other has many, and stays as it is all the same."""
    replaced, kept = (0, 2) if head_chance else (2, 0)
    triples = np.zeros((6, 3), np.int64)
    triples[:, replaced] = np.arange(6)
    one_side = Corruptor(TripleIndex(triples, 6, 1), torch.tensor([head_chance]), CPU)
    with pytest.raises(DataError, match="no corrupted triple is false"):
        one_side.corrupt(torch.from_numpy(triples), 1, torch.Generator().manual_seed(0))
    either = Corruptor(TripleIndex(triples, 6, 1), torch.tensor([0.5]), CPU)
    drawn = either.corrupt(torch.from_numpy(triples), 4, torch.Generator().manual_seed(0))
    assert (drawn[kept // 2] != 0).all()


def test_a_saturated_relation_is_a_clear_error():
    triples = np.array([[h, 1, t] for h in range(4) for t in range(4)] + [[0, 0, 1]])
    with pytest.raises(DataError, match=r"relation number 1 connects every entity.*sampler=all"):
        draw(triples, 4, 2, count=1)


def test_the_last_free_entities_are_drawn_alike():
    """When redrawing is not enough, the list of what is free is sampled, not its first member taken."""
    triples = np.array([[h, 0, t] for h in range(300) for t in (0,)] + [[0, 0, t] for t in range(300) if t % 100 != 7])
    triples = np.unique(triples, axis=0)
    batch = torch.tensor([[0, 0, 0]])  # its heads are all taken, and of its tails all but three
    heads, tails = corruptor(triples, 300, 1).corrupt(batch, 300, torch.Generator().manual_seed(0))
    assert (heads == 0).all()
    _, counts = np.unique(tails.numpy(), return_counts=True)
    assert sorted(np.unique(tails.numpy())) == [7, 107, 207]
    assert (np.abs(counts - 100) < 5 * np.sqrt(300 * 2 / 9)).all()


def test_bernoulli_chances_are_those_of_the_paper():
    """tph / (tph + hpt), counted the slow way (Wang et al., AAAI 2014)."""
    rng = np.random.default_rng(5)
    triples = np.concatenate([
        np.stack([rng.integers(3, size=200), np.zeros(200, int), rng.integers(50, size=200)], 1),  # 1-M
        np.stack([rng.integers(50, size=200), np.ones(200, int), rng.integers(3, size=200)], 1),  # M-1
        np.stack([rng.integers(50, size=90), np.full(90, 2), rng.integers(50, size=90)], 1),
    ])  # fmt: skip
    expected = []
    for relation in range(3):
        pairs = {(h, t) for h, r, t in triples.tolist() if r == relation}
        tails_per_head = np.mean([sum(h == head for h, _ in pairs) for head in {h for h, _ in pairs}])
        heads_per_tail = np.mean([sum(t == tail for _, t in pairs) for tail in {t for _, t in pairs}])
        expected.append(tails_per_head / (tails_per_head + heads_per_tail))
    assert expected[0] > 0.8
    assert expected[1] < 0.2
    np.testing.assert_allclose(head_chances(triples, 3, "bernoulli"), expected, rtol=1e-6)
    np.testing.assert_array_equal(head_chances(triples, 4, "bernoulli")[3], 0.5)  # a relation without triples
    np.testing.assert_array_equal(head_chances(triples, 3, "uniform"), [0.5] * 3)


@pytest.mark.parametrize("sampler", ["uniform", "bernoulli"])
def test_sides_are_replaced_as_often_as_the_chances_say(sampler):
    triples = np.array([[h % 4, 0, t] for h, t in zip(range(40), range(40), strict=True)] + [[41, 1, 42], [43, 1, 44]])
    chance = head_chances(triples, 2, sampler).numpy()
    heads, _ = draw(triples, 100, 2, count=500, sampler=sampler)
    for relation in (0, 1):
        rows = triples[:, 1] == relation
        replaced = heads[rows] != triples[rows][:, :1]
        deviation = np.sqrt(chance[relation] * (1 - chance[relation]) / replaced.size)
        assert abs(replaced.mean() - chance[relation]) < 5 * deviation


def test_replacements_are_uniform_over_the_entities():
    triples = np.array([[0, 0, 1]])
    heads, tails = (x.ravel() for x in draw(triples, 10, 1, count=20_000))
    for drawn, original in ((heads[heads != 0], 0), (tails[tails != 1], 1)):
        counts = np.bincount(drawn, minlength=10)
        assert counts[original] == 0
        expected = counts.sum() / 9
        chi_square = ((np.delete(counts, original) - expected) ** 2 / expected).sum()
        assert chi_square < 35  # 8 degrees of freedom: beyond 35 in 3 of 100,000 runs


def test_seeds_fix_the_negatives():
    triples = np.array([[0, 0, 1], [2, 0, 3], [4, 0, 5]])
    first, again, other = (draw(triples, 50, 1, count=20, seed=seed) for seed in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert any((a != b).any() for a, b in zip(first, other, strict=True))


def test_known_agrees_with_a_set():
    rng = np.random.default_rng(0)
    triples = np.unique(rng.integers([6, 2, 6], size=(30, 3)), axis=0)
    everything = torch.cartesian_prod(torch.arange(6), torch.arange(2), torch.arange(6))
    found = corruptor(triples, 6, 2).known(*everything.unbind(1))
    known = set(map(tuple, triples.tolist()))
    assert found.tolist() == [tuple(triple) in known for triple in everything.tolist()]


def test_no_negatives_make_no_sense():
    with pytest.raises(SettingsError, match=r"negatives\.count is 0: draw 1"):
        Negatives(count=0)


def test_what_is_drawn_is_kept_where_nothing_is_filtered():
    """Known facts and the triple itself too, each as often as any other entity."""
    triples = np.array([[0, 0, t] for t in range(9)])
    index, chances = TripleIndex(triples, 10, 1), torch.tensor([0.0])
    heads, tails = Corruptor(index, chances, CPU, filtered=False).corrupt(
        torch.tensor([[0, 0, 1]]), 20_000, torch.Generator().manual_seed(0)
    )
    assert (heads == 0).all()
    counts = np.bincount(tails[0].numpy(), minlength=10)
    assert ((counts - 2000) ** 2 / 2000).sum() < 35  # 9 degrees of freedom


@pytest.mark.parametrize("filtered", [True, False])
def test_one_side_is_replaced_in_all_versions_of_a_triple(filtered):
    rng = np.random.default_rng(2)
    triples = np.unique(rng.integers([40, 2, 40], size=(300, 3)), axis=0)
    drawing = Corruptor(TripleIndex(triples, 40, 2), torch.tensor([0.2, 0.8]), CPU, filtered=filtered, one_side=True)
    heads, tails = drawing.corrupt(torch.from_numpy(triples), 30, torch.Generator().manual_seed(0))
    moved = [(found.numpy() != triples[:, [side]]).any(1) for found, side in ((heads, 0), (tails, 2))]
    assert (moved[0] != moved[1]).all()
    for relation, chance in ((0, 0.2), (1, 0.8)):
        share = moved[0][triples[:, 1] == relation].mean()
        assert abs(share - chance) < 0.15
    if filtered:
        check(triples, heads.numpy(), tails.numpy())


@pytest.mark.parametrize("sampler", ["shared", "all"])
@pytest.mark.parametrize("changes", [{"filtered": False}, {"one_side": True}])
def test_choices_of_corrupted_triples_are_refused_for_others(sampler, changes):
    with pytest.raises(SettingsError, match=rf"negatives.{next(iter(changes))} is .* with negatives.sampler={sampler}"):
        Negatives(sampler, **changes)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(dense_graphs(), st.integers(0, 1000))
def test_known_among_candidates_is_known_one_by_one(graph, seed):
    triples, entities, relations = graph
    if not len(triples):
        return
    rng = np.random.default_rng(seed)
    asked = corruptor(triples, entities, relations)
    one, relation = (torch.from_numpy(rng.integers(count, size=5)) for count in (entities, relations))
    drawn = torch.from_numpy(rng.integers(entities, size=7))  # some of them twice
    by_pair = asked.known(one[:, None], relation[:, None], drawn), asked.known(drawn, relation[:, None], one[:, None])
    assert torch.equal(asked.known_tails(one, relation, drawn), by_pair[0])
    assert torch.equal(asked.known_heads(relation, one, drawn), by_pair[1])


def test_an_answer_beyond_the_only_candidate_is_not_taken_for_it():
    asked = corruptor(np.array([[0, 0, 1], [0, 0, 3], [2, 0, 0]]), 4, 1)
    zero, relation = torch.tensor([0]), torch.tensor([0])
    assert asked.known_tails(zero, relation, torch.tensor([1])).tolist() == [[True]]
    assert asked.known_tails(zero, relation, torch.tensor([2])).tolist() == [[False]]
    assert asked.known_heads(relation, zero, torch.tensor([1])).tolist() == [[False]]
