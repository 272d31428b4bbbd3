"""Ranking in chunks: each distinct query once, whatever the chunks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from capse.evaluation.query_ranks import rank_answers
from capse.evaluation.ranks import NonFiniteScoreError, rank_scores
from capse.triples import TripleIndex

ENTITIES, RELATIONS = 40, 3


class Model:
    """Scores from a table of small whole numbers: many ties, the same whatever the chunk."""

    def __init__(self):
        generator = np.random.default_rng(0)
        self.table = torch.from_numpy(generator.integers(0, 6, (RELATIONS, ENTITIES, ENTITIES)).astype(np.float32))
        self.asked = []

    def __call__(self, relations, entities):
        self.asked.append(list(zip(relations.tolist(), entities.tolist(), strict=True)))
        return self.table[torch.from_numpy(relations), torch.from_numpy(entities)]


@pytest.fixture
def triples():
    generator = np.random.default_rng(1)
    return np.stack([generator.integers(0, n, 150) for n in (9, RELATIONS, ENTITIES)], axis=1).astype(np.int32)


def ranks(model, triples, most_rows, advance=lambda ranks: None, known=None):
    heads, relations, tails = triples.T
    return rank_answers(
        relations,
        heads,
        tails,
        score=model,
        excluded=lambda r, h: known and known.tails(h, r),
        most_rows=most_rows,
        advance=advance,
    )


@pytest.mark.parametrize("most_rows", [1, 2, 5, 26, 1000])
def test_chunks_change_nothing(triples, most_rows):
    known = TripleIndex(triples, ENTITIES, RELATIONS)
    model = Model()
    ours = ranks(model, triples, most_rows, known=known)
    heads, relations, tails = triples.T.astype(np.int64)
    plain = rank_scores(model.table[relations, heads], tails, known.tails(heads, relations))
    for column in ("greater", "equal", "candidates"):
        np.testing.assert_array_equal(getattr(ours, column), getattr(plain, column))
    assert max(map(len, model.asked)) <= most_rows


def test_each_query_is_asked_once_and_relations_stay_together(triples):
    model = Model()
    ranks(model, triples, most_rows=10)
    asked = [query for chunk in model.asked for query in chunk]
    assert asked == sorted({(r, h) for h, r, _ in triples.tolist()})
    sizes = list(map(len, model.asked))
    assert max(sizes) - min(sizes) <= 1


def test_progress(triples):
    steps: list[int] = []
    ranks(Model(), triples, most_rows=7, advance=steps.append)
    assert sum(steps) == len(triples)
    assert len(steps) > 1


def test_a_bad_score_is_traced_to_its_query(triples):
    model = Model()
    head, relation, _ = triples[70]
    model.table[relation, head, 11] = torch.nan
    with pytest.raises(NonFiniteScoreError) as caught:
        ranks(model, triples, most_rows=4)
    assert tuple(triples[caught.value.row, :2]) == (head, relation)
    assert caught.value.candidate == 11
