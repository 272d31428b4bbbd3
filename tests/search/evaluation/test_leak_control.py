"""The leak control finds what must not be known, and leaves the honest alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from capse.errors import SettingsError
from capse.search.evaluation.evaluate import evaluate
from capse.search.evaluation.leak_control import leak_control, shuffle_labels
from capse.search.evaluation.popularity import DocumentOnly
from capse.search.logs.history import Clicks, count_before
from capse.search.logs.search_log import NO_TIME, SearchLog

LISTS, LENGTH, WORDS = 500, 8, 120


def made_log(seed=0):
    """Every list has documents of its own, and a first one that its user wants, or now and then a second."""
    generator = np.random.default_rng(seed)
    return SearchLog.from_records(
        {
            "time": number,
            "user": f"u{generator.integers(20)}",
            "query": "q",
            "results": [f"d{number}-{place}" for place in range(LENGTH)],
            "clicks": [f"d{number}-{place}" for place in range(1 + (generator.random() < 0.2))],
            "split": "train" if number < 300 else "test",
        }
        for number in range(LISTS)
    )


LOG = made_log()
TEXTS = np.random.default_rng(1).normal(
    size=(LISTS * LENGTH, WORDS)
)  # (D, words): what the documents say means nothing


@dataclass(frozen=True)
class Fit:
    """Scores a document by how well the main directions of the documents it was fitted on describe it."""

    directions: np.ndarray  # (words, k)
    name: str = "fit"

    @classmethod
    def on(cls, documents):
        return cls(np.linalg.svd(TEXTS[documents], full_matrices=False)[2][:60].T)

    def score(self, log, impressions, cutoffs):
        texts = TEXTS[log.document[log.rows(impressions)]]
        return np.linalg.norm(texts @ self.directions, axis=1)


def on_the_relevant(log):
    """The paper's way: directions from the relevant documents, those of the test split included."""
    return evaluate(Fit.on(log.document[log.satisfied]), log, beside=False)


def on_all(log):
    return evaluate(Fit.on(np.unique(log.document)), log, beside=False)


def by_popularity(log):
    return evaluate(DocumentOnly(), log, beside=False)


@dataclass(frozen=True)
class Refound:
    """Documents clicked before ``cutoffs + late``; if late, the click that is to be predicted is among them."""

    late: int
    name: str = "refound"

    def score(self, log, impressions, cutoffs):
        rows, clicks = log.rows(impressions), Clicks.of(log)
        return count_before(
            log.document[clicks.rows], clicks.time, log.document[rows], cutoffs[log.impression[rows]] + self.late
        )


def test_topics_of_relevant_documents_leak():
    found = leak_control(LOG, on_the_relevant)
    assert found.leaks
    assert found.excess.low > 0.02
    assert found.warning.startswith("fit leaks labels: with labels shuffled within each list its MRR is 0.")
    assert "\n" not in found.warning


@pytest.mark.parametrize("pipeline", [on_all, by_popularity])
def test_label_blind_topics_and_earlier_clicks_do_not(pipeline):
    found = leak_control(LOG, pipeline, seeds=range(5))
    assert not found.leaks
    assert found.warning == ""
    assert found.excess.low <= 0 <= found.excess.high
    assert found.mrr == pytest.approx(found.chance, abs=0.02)
    assert found.shuffles == 5


def test_what_is_true_of_the_labels_is_gone():
    """The engine's order is right in every list, and at chance when labels are shuffled."""

    class Engine:
        def score(self, log, impressions, cutoffs):
            return -log.position[log.rows(impressions)]

    assert evaluate(Engine(), LOG).mrr == 1
    assert not leak_control(LOG, lambda log: evaluate(Engine(), log, beside=False), seeds=range(3)).leaks


def test_a_profile_that_holds_the_answer_leaks():
    at_once, later = (leak_control(LOG, partial(evaluate, Refound(late), beside=False)) for late in (0, 1))
    assert not at_once.leaks
    assert at_once.mrr == pytest.approx(at_once.chance)
    assert later.leaks
    assert later.mrr == 1


def test_honest_rankers_are_seldom_accused():
    """At most a few of a hundred label-blind scorers: the alarm is set at p < 0.01, on the upper side."""
    generator = np.random.default_rng(5)

    def random_scores(log):
        scores = generator.normal(size=len(log.document))

        class Random:
            def score(self, log, impressions, cutoffs):
                return scores[log.document[log.rows(impressions)]]

        return evaluate(Random(), log, beside=False)

    accused = [leak_control(LOG, random_scores, seeds=[seed]).leaks for seed in range(100)]
    assert sum(accused) <= 3


def test_shuffled_labels_keep_their_lists():
    found = shuffle_labels(LOG, 3)
    for name in ("document", "position", "offsets", "time", "split"):
        assert (getattr(found, name) == getattr(LOG, name)).all()
    for labels in ("clicked", "satisfied"):
        before, after = (np.add.reduceat(getattr(log, labels).astype(int), log.offsets[:-1]) for log in (LOG, found))
        assert (before == after).all()
    assert (found.clicked == found.satisfied).all()
    assert (found.clicked_at[found.clicked] == found.time[found.impression[found.clicked]]).all()
    assert (found.clicked_at[~found.clicked] == NO_TIME).all()
    share = np.bincount(found.position[found.satisfied], minlength=LENGTH + 1)[1:] / found.satisfied.sum()
    np.testing.assert_allclose(share, 1 / LENGTH, atol=0.05)
    assert (shuffle_labels(LOG, 3).satisfied == found.satisfied).all()
    assert (shuffle_labels(LOG, 4).satisfied != found.satisfied).any()


def test_json():
    found = json.loads(json.dumps(leak_control(LOG, on_the_relevant).to_json()))
    assert found["leaks"] is True
    assert found["mrr"] - found["chance"] == pytest.approx(found["difference"])
    assert set(found) == {
        "method",
        "shuffles",
        "mrr",
        "chance",
        "difference",
        "low",
        "high",
        "p_value",
        "leaks",
        "warning",
    }


def test_no_seed():
    with pytest.raises(SettingsError, match="at least one"):
        leak_control(LOG, by_popularity, seeds=[])
