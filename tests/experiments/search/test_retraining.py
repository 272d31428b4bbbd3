"""Retraining: the better run is handed over, a bad one never, and nothing of a refused one stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from capse.arrays import Float64s, Int64s
from capse.errors import DataError, SettingsError
from capse.experiments.search.cross_fitting import part
from capse.experiments.search.methods import METHODS, SearchMethod
from capse.experiments.search.retraining import compare, newest_lists, retrain
from capse.runs.versions import Versions
from capse.search.bias.settings import PositionBias
from capse.search.evaluation.judged_lists import shuffle_within_lists
from capse.search.logs.history import cutoffs
from capse.search.logs.search_log import NO_TIME, SPLITS, SearchLog
from capse.search.logs.simulation import Simulated, SimulationSettings, simulate
from capse.search.rankers.lambdamart import LambdaMARTSettings
from capse.search.rankers.sp_lambdamart import SP
from capse.search.rankers.training_past import TrainingPast
from capse.search.vectors.vector_space import VectorSettings, build_vectors

pytestmark = pytest.mark.usefixtures("one_thread")
QUICK = LambdaMARTSettings(trees=25, leaves=7, learning_rate=0.2, least_documents=20, patience=0)


@pytest.fixture(scope="module")
def log() -> SearchLog:
    return simulate(SimulationSettings(users=15, topics=8, documents=80, impressions=900, days=30)).log


def until(log: SearchLog, share: float) -> SearchLog:
    """The log as it was when this share of it had come, the last fifth of that testing."""
    count = int(len(log) * share)
    places = np.searchsorted([0.7 * count, 0.8 * count], np.arange(count), side="right")
    return replace(part(log, np.arange(count)), split=places.astype(np.int8))


def train(log: SearchLog, out: Path, settings: LambdaMARTSettings = QUICK) -> None:
    class Quick(SearchMethod):
        learns = True

        def fit(self, log: SearchLog, recipe: object = None, **_: object) -> SP:
            space = build_vectors(log, VectorSettings(topics=8, iterations=3))
            return SP.fit(log, cutoffs(log), settings, space=space)

        save, settings, notes = METHODS["sp"].save, METHODS["sp"].settings, METHODS["sp"].notes

    Quick("sp").train(log, out=out)


def train_badly(log: SearchLog, out: Path) -> None:
    """As if the worst were the best."""
    satisfied = log.clicked & ~log.satisfied | ~log.clicked & (log.position > 6)
    train(
        replace(log, satisfied=satisfied, clicked_at=np.where(satisfied, log.time[log.impression] + 1, log.clicked_at)),
        out,
    )


@pytest.fixture
def served(log: SearchLog, tmp_path: Path) -> Path:
    """A run that learned from little."""
    few = until(log, 0.4)
    train(shuffle_within_lists(few, ("clicked", "clicked_at", "satisfied"), 0), tmp_path / "run")
    return tmp_path / "run"


def test_a_better_run_is_handed_over_and_a_bad_one_never(log: SearchLog, served: Path) -> None:
    now = until(log, 0.8)
    verdict = retrain(served, now, train)
    versions = Versions(served)
    assert verdict.handed_over, str(verdict)
    assert (versions.current, versions.names()) == ("0002", ["0001", "0002"])
    later = until(log, 1.0)
    for bad in (train_badly, partial(train_on_noise, seed=1), partial(train_on_noise, seed=2)):
        verdict = retrain(served, later, bad)
        assert not verdict.handed_over, str(verdict)
        assert verdict.new < verdict.served
        assert (versions.current, versions.names()) == ("0002", ["0001", "0002"])
    assert [line["what"] for line in versions.history()][-3:] == ["not handed over"] * 3
    assert versions.next_path().name == "0006"


def train_on_noise(log: SearchLog, out: Path, seed: int) -> None:
    train(shuffle_within_lists(log, ("clicked", "clicked_at", "satisfied"), seed), out)


def test_a_training_that_fails_changes_nothing(log: SearchLog, served: Path) -> None:
    def fails(_: SearchLog, path: Path) -> None:
        path.mkdir()
        raise KeyboardInterrupt

    before = Versions(served)
    with pytest.raises(KeyboardInterrupt):
        retrain(served, until(log, 0.8), fails)
    assert (before.current, before.names()) == ("0001", ["0001"])


def test_whoever_was_forgotten_is_not_in_the_new_run(log: SearchLog, served: Path) -> None:
    user = log.users[0]
    assert retrain(served, until(log, 0.8), train, forgotten=lambda name: name == user).handed_over
    assert user not in TrainingPast.load(served).users
    assert log.users[1] in TrainingPast.load(served).users


class Fixed:
    """A ranker that knows what is wanted, but for some noise."""

    def __init__(self, simulated: Simulated, noise: float, seed: int) -> None:
        log, draw = simulated.log, np.random.default_rng(seed)
        self.scores = np.zeros((len(log), len(log.documents)))
        self.scores[log.impression, log.document] = simulated.wanted + draw.normal(0, noise, len(log.document))

    def score(self, log: SearchLog, impressions: Int64s, cutoffs: Int64s) -> Float64s:
        rows = log.rows(impressions)
        found: Float64s = self.scores[log.impression[rows], log.document[rows]]
        return found


def test_clicks_on_what_the_run_in_service_put_first_do_not_keep_it_there() -> None:
    simulated = simulate(SimulationSettings(users=30, topics=8, documents=80, impressions=1_500))
    log, draw = simulated.log, np.random.default_rng(0)
    served, better = Fixed(simulated, 1.0, 1), Fixed(simulated, 0.7, 2)
    scores = served.score(log, np.arange(len(log)), log.time)
    order = np.lexsort((-scores, log.impression))
    ranks = np.empty(len(scores), np.int32)
    ranks[order] = np.arange(len(scores)) - log.offsets[log.impression] + 1
    attracted = draw.random(len(ranks)) < np.where(simulated.wanted, 0.9, 0.05)
    clicked = attracted & (draw.random(len(ranks)) < 1 / ranks)
    at = np.where(clicked, log.time[log.impression] + 1, NO_TIME)
    log = replace(log, reranked=ranks, clicked=clicked, satisfied=clicked, clicked_at=at)
    plain, weighed = (compare(better, served, log, log, "0002", 0.95, PositionBias(of)) for of in ("none", "position"))
    assert plain.new < plain.served
    assert not plain.handed_over
    assert weighed.new > weighed.served
    assert weighed.handed_over
    assert (plain.bias, weighed.bias) == ("none", "position")
    assert "; clicks count as they are" in str(plain)
    alone = replace(log, query=np.arange(len(log), dtype=np.int32), queries=[str(one) for one in range(len(log))])
    assert compare(better, served, alone, alone, "0002", 0.95).bias == "none", "no result was shown twice for a query"


def test_lists_that_the_run_in_service_knows_do_not_judge(log: SearchLog) -> None:
    now = until(log, 0.8)
    moment = int(now.time[len(now) * 9 // 10])
    newest = newest_lists(now, moment)
    assert newest.time[newest.of_split("test")].min() >= moment
    assert (newest.split == SPLITS.index("valid")).sum() > (now.split == SPLITS.index("valid")).sum()
    with pytest.raises(DataError, match="0 of the newest lists"):
        newest_lists(now, int(now.time[-1]) + 1)


@pytest.mark.parametrize(
    ("options", "message"), [({"confidence": 1.0}, "--confidence is 1"), ({"keep": 1}, "--keep is 1")]
)
def test_options_that_make_no_sense(log: SearchLog, tmp_path: Path, options: dict, message: str) -> None:
    ask: Callable[..., object] = partial(retrain, tmp_path / "run", log, train, **options)
    with pytest.raises(SettingsError, match=message):
        ask()
