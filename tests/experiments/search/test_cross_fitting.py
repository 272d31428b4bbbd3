"""The scores that a blend learns from are those of rankers that have not seen the lists."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from capse.errors import DataError, SettingsError
from capse.experiments.search.cross_fitting import CrossFitted, before, cross_fit, part
from capse.experiments.search.lambdamart_methods import fit_trees
from capse.search.evaluation.evaluate import evaluate
from capse.search.logs.history import cutoffs
from capse.search.logs.search_log import SPLITS
from capse.search.logs.simulation import SimulationSettings, simulate
from capse.search.rankers.baselines import Refinding
from capse.search.rankers.lambdamart import LambdaMARTSettings
from capse.search.rankers.sp_lambdamart import SP
from capse.search.vectors.vector_space import VectorSettings, build_vectors

QUICK = LambdaMARTSettings(trees=30, leaves=7, learning_rate=0.1, least_documents=20, patience=0)


@pytest.fixture(scope="module")
def log():
    return simulate(SimulationSettings(impressions=900)).log


@pytest.fixture(scope="module")
def space(log):
    return build_vectors(log, VectorSettings(topics=6, iterations=2))


@dataclass(frozen=True)
class Memory:
    """Knows the answers of the lists that it was trained on, and nothing else."""

    answers: frozenset
    name: str = "memory"

    @classmethod
    def trained_on(cls, log):
        rows = log.rows(log.judged("train"))
        return cls(frozenset(_answers(log, rows[log.satisfied[rows]])))

    def score(self, log, impressions, cutoffs):
        return np.array([float(key in self.answers) for key in _answers(log, log.rows(impressions))])


def _answers(log, rows):
    moments = log.impression[rows]
    return zip(log.time[moments].tolist(), log.user[moments].tolist(), log.document[rows].tolist(), strict=True)


def test_no_list_is_scored_by_a_ranker_that_has_seen_it(log):
    logs = []

    def train(known):
        logs.append(known)
        return Memory.trained_on(known)

    fitted = cross_fit(log, train, parts=3)
    train_rows = log.rows(log.judged("train"))
    scored = train_rows[~np.isnan(fitted.scores[train_rows])]
    assert (fitted.scores[scored] == 0).all()  # a memory that had seen one would give it a 1
    assert len(scored) == pytest.approx(2 / 3 * len(train_rows), rel=0.02)
    assert np.isnan(fitted.scores[train_rows[: len(train_rows) - len(scored)]]).all()
    assert (fitted.scores[log.rows(log.judged("valid"))] == 0).all()
    assert np.isnan(fitted.scores[log.rows(log.of_split("test"))]).all()
    assert [len(known.judged("train")) for known in logs] == pytest.approx(
        [len(log.judged("train")) * share for share in (1 / 3, 2 / 3, 1)], abs=2
    )
    assert all((known.split != SPLITS.index("test")).all() for known in logs)
    assert fitted.ranker == Memory.trained_on(log)


def test_a_part_ends_before_the_lists_that_are_scored(log):
    moment = int(log.time[log.judged("train")[100]])
    known = before(log, moment)
    training = known.split == SPLITS.index("train")
    assert known.time[training].max() < moment
    assert (known.split == SPLITS.index("valid")).sum() == len(log.of_split("valid"))


def test_a_part_of_a_log_is_a_log(log):
    chosen = np.array([3, 7, 8])
    small = part(log, chosen)
    assert len(small) == 3
    for place, impression in enumerate(chosen):
        here, there = small.rows(np.array([place])), log.rows(np.array([impression]))
        for name in ("document", "position", "satisfied", "clicked_at"):
            np.testing.assert_array_equal(getattr(small, name)[here], getattr(log, name)[there])
    np.testing.assert_array_equal(small.user, log.user[chosen])


def test_scores_of_lists_that_were_seen_spoil_a_blend(log, space):
    """Why all this: a memory is worthless for new lists, but trees that saw it shine would trust nothing else."""
    whole = replace(QUICK, feature_share=1.0)  # every tree sees every feature
    sp = evaluate(SP.fit(log, cutoffs(log), whole, space=space), log, beside=False)
    unseen = cross_fit(log, Memory.trained_on)
    honest = evaluate(fit_trees(log, settings=whole, fitted={"memory": unseen}, space=space), log, beside=False)
    memory = Memory.trained_on(log)
    seen = CrossFitted(memory, memory.score(log, np.arange(len(log)), log.time))
    spoiled = evaluate(fit_trees(log, settings=whole, fitted={"memory": seen}, space=space), log, beside=False)
    assert honest.mrr == pytest.approx(sp.mrr, abs=0.02)
    assert spoiled.mrr < sp.mrr - 0.1


def test_a_blend_has_the_features_of_sp_and_the_scores_of_another_ranker(log, space):
    sp = fit_trees(log, 1, settings=QUICK, space=space)
    assert (sp.name, sp.model.settings.seed) == ("sp", 1)
    fitted = {"again": cross_fit(log, lambda known: Refinding())}
    blend = fit_trees(log, 1, settings=QUICK, fitted=fitted, space=space)
    assert blend.trees.names[: len(sp.trees.names)] == sp.trees.names
    added = blend.trees.names[len(sp.trees.names) :]
    assert added == ("score.again.rank", "score.again.standardised")


def test_too_little_to_cut(log):
    with pytest.raises(SettingsError, match="cut into 1"):
        cross_fit(log, Memory.trained_on, parts=1)
    with pytest.raises(DataError, match="3 training lists"):
        cross_fit(part(log, log.judged("train")[:3]), Memory.trained_on)
