"""Yes-or-no judgements against scikit-learn, against brute force, and on planted curves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from capse.errors import SettingsError
from capse.evaluation.choosing import best_threshold, choose, fit_curves, sigmoid
from capse.evaluation.judgements import Decisions, Judgements, area_under_curve, average_precision, reliability

SCORED = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=40).filter(
    lambda rows: len({true for _, true in rows}) == 2
)


@given(SCORED)
def test_areas_and_decisions_are_those_of_scikit_learn(rows):
    scores, true = np.array([s for s, _ in rows], float), np.array([t for _, t in rows])
    said = scores >= 3
    assert area_under_curve(scores, true) == pytest.approx(metrics.roc_auc_score(true, scores))
    assert average_precision(scores, true) == pytest.approx(metrics.average_precision_score(true, scores))
    made = Decisions.judge(said, true)
    assert made.accuracy == pytest.approx(metrics.accuracy_score(true, said))
    assert made.f1 == pytest.approx(metrics.f1_score(true, said, zero_division=0))
    assert made.precision == pytest.approx(metrics.precision_score(true, said, zero_division=0))
    assert made.recall == pytest.approx(metrics.recall_score(true, said))


def test_what_is_undefined_without_both_kinds_is_none():
    p, every = np.array([0.2, 0.9]), np.array([True, True])
    judged = Judgements.of(p, p, every, every, every)
    assert (judged.auc, judged.average_precision, judged.mean_probability_false) == (None, None, None)
    assert np.isnan(area_under_curve(p, every))
    assert np.isnan(average_precision(p, ~every))


def test_reliability_adds_up():
    rng = np.random.default_rng(0)
    p = rng.random(5000)
    true = rng.random(5000) < p
    bins = reliability(p, true)
    assert sum(one.judgements for one in bins) == 5000
    assert all(abs(one.mean_probability - one.share_true) < 0.06 for one in bins)


@given(SCORED)
def test_the_best_threshold_judges_most_rightly(rows):
    scores, true = np.array([s for s, _ in rows], float), np.array([t for _, t in rows])
    tried = [((scores >= threshold) == true).sum() for threshold in [*np.unique(scores), scores.max() + 1]]
    assert ((scores >= best_threshold(scores, true)) == true).sum() == max(tried)


def planted(groups=6, each=800, seed=0):
    """Judgements whose groups have curves of their own."""
    rng = np.random.default_rng(seed)
    slopes, intercepts = rng.uniform(0.5, 3, groups), rng.normal(0, 2, groups)
    group = np.repeat(np.arange(groups), each)
    scores = rng.normal(0, 2, len(group))
    true = rng.random(len(group)) < sigmoid(slopes[group] * scores + intercepts[group])
    return scores, group, true, slopes, intercepts


def test_planted_curves_are_found_and_thresholds_are_where_they_cross_one_half():
    scores, group, true, slopes, intercepts = planted()
    choice = choose(scores, group, true, 7)
    assert choice.curves.slopes[:6] == pytest.approx(slopes, rel=0.25)
    assert choice.curves.intercepts[:6] == pytest.approx(intercepts, abs=0.4)
    assert choice.thresholds[:6] == pytest.approx(-intercepts / slopes, abs=0.5)
    assert choice.curves.slopes[6] == pytest.approx(choice.curves.slope)  # a group that nothing is known of
    fresh = planted(seed=0)
    p = choice.curves.probability(fresh[0], fresh[1])
    judged = Judgements.of(fresh[0], p, fresh[0] >= choice.thresholds[fresh[1]], fresh[0] >= choice.threshold, fresh[2])
    assert judged.expected_calibration_error < 0.02
    assert judged.by_relation.accuracy > judged.one_threshold.accuracy + 0.05
    assert abs(choice.held_out.by_relation.accuracy - judged.by_relation.accuracy) < 0.02


def test_the_curve_of_all_is_that_of_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    scores, group, true, _, _ = planted()
    peer = LogisticRegression(C=1e6).fit(scores[:, None], true)
    curves = fit_curves(scores, group, true, 6, 1.0)
    assert (curves.slope, curves.intercept) == pytest.approx((peer.coef_[0, 0], peer.intercept_[0]), rel=1e-2)


def test_a_strong_prior_makes_groups_alike():
    scores, group, true, _, _ = planted()
    curves = fit_curves(scores, group, true, 6, 1e9)
    assert curves.slopes == pytest.approx(np.full(6, curves.slope), rel=1e-4)


def test_scores_that_tell_nothing_are_refused():
    true = np.arange(20) % 2 == 0
    with pytest.raises(SettingsError, match="the same score"):
        choose(np.ones(20), np.zeros(20, np.int64), true, 1)
    with pytest.raises(SettingsError, match="does not score true triples higher"):
        choose(np.where(true, 0.0, 1.0) + np.arange(20) / 100, np.zeros(20, np.int64), true, 1)
