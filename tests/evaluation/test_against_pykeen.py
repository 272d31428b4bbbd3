"""The same scores give the same ranks and metrics in PyKEEN."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
import pytest
import torch

from capse.evaluation.metrics import summarize
from capse.evaluation.ranks import Ranks, rank_scores
from capse.triples import HEAD, TAIL, TripleIndex

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("pykeen")
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.evaluation.evaluator import create_sparse_positive_filter_, filter_scores_
    from pykeen.evaluation.ranks import Ranks as TheirRanks

ENTITIES, RELATIONS, TRIPLES = 200, 5, 300
THEIR_NAMES = {
    "mr": "arithmetic_mean_rank",
    "mrr": "inverse_harmonic_mean_rank",
    "hits@1": "hits_at_1",
    "hits@3": "hits_at_3",
    "hits@10": "hits_at_10",
}


@pytest.fixture(scope="module")
def known():
    generator = np.random.default_rng(0)
    return np.unique(
        np.stack([generator.integers(0, n, 2000) for n in (ENTITIES, RELATIONS, ENTITIES)], axis=1), axis=0
    )


@pytest.fixture(scope="module", params=[3, 30, 10**6], ids=["few values", "some values", "hardly a tie"])
def scored(request, known):
    """Test triples, and scores (n, E) for each free column, drawn from so many values."""
    generator = np.random.default_rng(request.param)
    triples = known[generator.permutation(len(known))[:TRIPLES]]
    shape = (TRIPLES, ENTITIES)
    return triples, {c: torch.from_numpy(generator.integers(0, request.param, shape)).float() for c in (HEAD, TAIL)}


def their_scores(triples, scores, column, known):
    """As PyKEEN's evaluation loop prepares them: other known answers become NaN."""
    batch = torch.from_numpy(triples)
    positives, _ = create_sparse_positive_filter_(batch, torch.from_numpy(known), filter_col=column)
    true = scores.gather(1, batch[:, column : column + 1])
    filtered = filter_scores_(scores.clone(), positives)
    return true, filtered.scatter(1, batch[:, column : column + 1], true)


def our_ranks(triples, scores, column, known):
    index = TripleIndex(known, ENTITIES, RELATIONS)
    h, r, t = triples.T
    return rank_scores(scores, triples[:, column], index.heads(r, t) if column == HEAD else index.tails(h, r))


@pytest.mark.parametrize("column", [HEAD, TAIL])
def test_ranks(scored, known, column):
    triples, scores = scored
    theirs = TheirRanks.from_scores(*their_scores(triples, scores[column], column, known))
    ours = our_ranks(triples, scores[column], column, known)
    for kind in ("optimistic", "realistic", "pessimistic"):
        np.testing.assert_allclose(getattr(ours, kind), getattr(theirs, kind).numpy(), rtol=1e-6)
    np.testing.assert_array_equal(ours.candidates, theirs.number_of_options.numpy())


@pytest.mark.filterwarnings("ignore")
def test_metrics(scored, known):
    triples, scores = scored
    evaluator = RankBasedEvaluator(filtered=True)
    ranks: dict[str, Ranks] = {}
    sides: list[tuple[Literal["head", "tail"], int]] = [("head", HEAD), ("tail", TAIL)]
    for side, column in sides:
        true, filtered = their_scores(triples, scores[column], column, known)
        evaluator.process_scores_(torch.from_numpy(triples), side, filtered, true)
        ranks[side] = our_ranks(triples, scores[column], column, known)
    ranks["both"] = Ranks.concatenate([ranks["head"], ranks["tail"]])
    theirs = evaluator.finalize()
    for name, of_side in ranks.items():
        for policy, metrics in summarize(of_side).items():
            for metric, value in metrics.items():
                if policy != "expected":
                    assert value == pytest.approx(theirs.get_metric(f"{name}.{policy}.{THEIR_NAMES[metric]}"), rel=1e-6)
