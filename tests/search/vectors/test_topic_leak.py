"""The whole pipeline under the leak control, topics included: label-blind topics pass, the paper's are found out.

The probe sees nothing but a document's topic weights in descending order: neither which topics they are, nor query or
user, nor any click. Topics fitted on the relevant documents describe those better, and their weights are then more
concentrated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from capse.search.evaluation.evaluate import evaluate
from capse.search.evaluation.leak_control import leak_control
from capse.search.features.feature_table import FeatureTable
from capse.search.logs.history import cutoffs
from capse.search.logs.simulation import SimulationSettings, simulate
from capse.search.rankers.lambdamart import LabelledLists, LambdaMART, LambdaMARTSettings
from capse.search.rankers.sp_lambdamart import SP
from capse.search.vectors.vector_space import VectorSettings, build_vectors

QUICK = LambdaMARTSettings(trees=60, leaves=7, learning_rate=0.1, least_documents=20, feature_share=1.0, patience=0)
SHOWN = 12  # weights that the probe sees


@dataclass(frozen=True)
class Witness:
    """Trees over sorted topic weights."""

    weights: FeatureTable  # (D, SHOWN)
    model: LambdaMART
    name: str = "sorted topics"

    @classmethod
    def fit(cls, log, topics):
        documents = build_vectors(log, topics).vectors(log).documents
        ordered = -np.sort(-documents, axis=1)[:, :SHOWN]
        weights = FeatureTable(tuple(f"weight{place}" for place in range(SHOWN)), ordered)
        lists = log.judged("train")
        rows = log.rows(lists)
        shown = FeatureTable(weights.names, ordered[log.document[rows]])
        judged = LabelledLists(shown, log.satisfied[rows], log.lengths[lists])
        return cls(weights, LambdaMART.fit(judged, None, QUICK))

    def score(self, log, impressions, cutoffs):
        shown = self.weights.values[log.document[log.rows(impressions)]]
        return self.model.predict(FeatureTable(self.weights.names, shown))


@pytest.fixture(scope="module")
def log():
    """Many documents, each shown seldom, with rare words as real text has: 40 each, from 20,000 by Zipf's law.

    What is popular cannot be learned from shuffled labels, and a word that few documents have betrays these.
    """
    log = simulate(SimulationSettings(documents=6_000, impressions=1_500, noise=3.0)).log
    draw = np.random.default_rng(0)
    chances = 1 / np.arange(1.0, 20_001)
    counts = draw.multinomial(40, chances / chances.sum(), len(log.documents))
    terms = [
        {**log.documents.words_of(number), **{f"rare{word}": int(row[word]) for word in np.flatnonzero(row)}}
        for number, row in enumerate(counts)
    ]
    return replace(log, documents=replace(log.documents, terms=terms))


def control(log, fitted_on):
    topics = VectorSettings(topics=60, iterations=5, fitted_on=fitted_on)
    return leak_control(log, lambda other: evaluate(Witness.fit(other, topics), other, beside=False))


@pytest.mark.slow
def test_label_blind_topics_end_at_chance(log):
    found = control(log, "blind")
    assert not found.leaks, found.warning
    assert found.mrr == pytest.approx(found.chance, abs=0.05)


@pytest.mark.slow
def test_topics_of_the_relevant_documents_are_found_out(log):
    found = control(log, "relevant")
    assert found.leaks
    assert found.mrr > found.chance + 0.05
    assert "cannot be trusted" in found.warning


@pytest.mark.slow
def test_sp_with_label_blind_topics_ends_at_chance(log):
    def pipeline(other):
        space = build_vectors(other, VectorSettings(topics=20, iterations=3))
        return evaluate(SP.fit(other, cutoffs(other), QUICK, space=space), other, beside=False)

    found = leak_control(log, pipeline, seeds=(0, 1))
    assert not found.leaks, found.warning
    assert found.mrr == pytest.approx(found.chance, abs=0.05)
