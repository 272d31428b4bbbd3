"""One network over features and topics: it learns from both, is saved whole, and is served as it is evaluated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capse.arrays import Float64s
from capse.errors import RunError, SettingsError
from capse.experiments.engine import Listener
from capse.experiments.search.capsule_training import fit_network
from capse.experiments.search.methods import METHODS, load_search_run, method_of
from capse.search.evaluation.evaluate import evaluate
from capse.search.evaluation.judged_lists import shuffled
from capse.search.features.feature_table import FeatureTable
from capse.search.logs.history import cutoffs
from capse.search.logs.search_log import SearchLog
from capse.search.logs.simulation import SimulationSettings, simulate
from capse.search.rankers.capsule_network import CapsuleNetwork, FeatureScale, NetworkSettings
from capse.search.rankers.forgetting import forget_in_run
from capse.search.rankers.lambdamart import LabelledLists
from capse.search.rankers.list_vectors import ListVectors
from capse.search.rankers.sp_lambdamart import SP
from capse.search.rankers.standing import Standing
from capse.search.serving.reranker import Reranker
from tests.search.serving.test_replayed_trees import replayed

QUICK = [
    "network.epochs=6",
    "network.least_steps=60",
    "network.filters=8",
    "network.capsule_dim=4",
    "network.batch_size=32",
]
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def log() -> SearchLog:
    return simulate(SimulationSettings(users=10, topics=6, documents=60, impressions=400, days=30)).log


@pytest.fixture(scope="module")
def run(log: SearchLog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out: Path = tmp_path_factory.mktemp("runs") / "capsules"
    method = METHODS["capsules"]
    method.train(log, method.resolve(overrides=QUICK), out=out)
    return out


def made_up(seed: int, lists: int = 200, size: int = 5) -> LabelledLists:
    """What is wanted is told by one feature in half of the lists, and by a topic in the others."""
    random = np.random.default_rng(seed)
    rows = lists * size
    wanted = np.arange(rows) % size == np.repeat(random.integers(size, size=lists), size)
    by_feature = np.repeat(np.arange(lists) % 2 == 0, size)
    known = np.where(wanted & by_feature, 1.0, 0.0).astype(np.float32) + random.normal(0, 0.1, rows)
    noise = np.where(np.arange(rows) % 7 == 0, np.nan, random.normal(size=rows))
    table = FeatureTable.of({"text.known": known, "history.noise": noise}, rows)
    topics = random.dirichlet(np.ones(3), rows).astype(np.float32) * 0.1
    topics[wanted & ~by_feature] = [1, 0, 0]
    query = np.tile(np.array([1, 0, 0], np.float32), (lists, 1))
    position = np.tile(np.arange(1.0, size + 1), lists)
    vectors = ListVectors(query, 0 * query, topics, position)
    return LabelledLists(table, wanted, np.full(lists, size), vectors=vectors)


def test_it_learns_from_features_and_from_topics() -> None:
    settings = NetworkSettings(filters=8, capsule_dim=4, epochs=20, least_steps=1, batch_size=20, learning_rate=0.02)
    network = fit_network(made_up(0), made_up(1), settings)
    judged = made_up(2)
    assert judged.vectors is not None
    scores = network.predict(judged.features, judged.vectors, judged.lengths)
    assert judged.mrr(scores) > 0.9
    assert network.validation_mrr is not None
    assert network.validation_mrr > 0.9


def test_a_scale_is_quantiles_of_what_training_saw_and_what_has_no_value_is_in_the_middle() -> None:
    table = FeatureTable(("text.x", "history.y"), np.array([[1, 5], [2, 5], [3, np.nan]], np.float32))
    scale = FeatureScale.of(table)
    values = np.array([[1, 5], [9, np.nan], [np.nan, 5]], np.float32)
    np.testing.assert_allclose(scale(values)[:, :2], [[-1, 0], [1, 0], [0, 0]])
    np.testing.assert_allclose(scale(values)[:, 2:], scale(values)[:, :2] - scale(values)[:, :2].mean(axis=0))
    of_user = FeatureScale(("history.y",), [np.array([1.0, 2.0])])
    assert (of_user(np.array([[1.0], [2.0]], np.float32))[:, 0] == [-1, 1]).all()
    assert not of_user(np.array([[1.0], [2.0]], np.float32), knows_user=False).any()


def test_the_same_seed_gives_the_same_weights_and_the_order_of_rows_changes_nothing(log: SearchLog, run: Path) -> None:
    ranker = SP.load(run)
    again = METHODS["capsules"].fit(log, METHODS["capsules"].resolve(overrides=QUICK))
    lists, known = log.judged("test"), cutoffs(log)
    np.testing.assert_array_equal(ranker.score(log, lists, known), again.score(log, lists, known))
    figures = [evaluate(ranker, one, beside=False).mrr for one in (log, shuffled(log, 3))]
    assert figures[0] == figures[1]


def test_it_is_above_the_engine_and_knows_its_users(log: SearchLog, run: Path) -> None:
    found = evaluate(SP.load(run), log)
    assert found.mrr > found.beside["engine"]["mrr"]
    assert found.mrr > found.beside["without_user"]["mrr"]
    ranker = SP.load(run)
    assert ranker.standing.model == ranker.model.validation_mrr
    assert ranker.standing.without_user != ranker.standing.model


def test_a_replayed_log_gives_the_figures_of_evaluate(log: SearchLog, run: Path) -> None:
    assert (Reranker.load(run).method, method_of(run)) == ("capsules", "capsules")
    ranker = load_search_run(run)
    assert isinstance(ranker, SP)
    ranker = replace(ranker, standing=Standing())  # whatever validation says of people without a click
    lists = log.judged("test")
    np.testing.assert_array_equal(replayed(log, Reranker(ranker), lists), ranker.score(log, lists, cutoffs(log)))


def test_nobody_is_named_in_it_who_was_forgotten(log: SearchLog, run: Path, tmp_path: Path) -> None:
    kept = SP.load(run)
    kept.save(tmp_path)
    assert forget_in_run(tmp_path, {log.users[0]}.__contains__) == 1
    assert log.users[0] not in SP.load(tmp_path).past.users


@pytest.mark.parametrize("bias", [[], ["bias.model=position"]])
def test_lists_that_count_for_more_are_learned_from_more(log: SearchLog, bias: list[str]) -> None:
    method = METHODS["capsules"]
    ranker = method.fit(log, method.resolve(overrides=[*QUICK, "network.refit=false", *bias]))
    assert np.isfinite(ranker.score(log, log.judged("test"), cutoffs(log))).all()


def test_few_lists_are_learned_from_more_often() -> None:
    class Told(Listener):
        steps = 0

        def prepare(self, what: str, done: int, total: int) -> None:
            self.steps, self.total = done, total

    for lists, least, steps in ((10, 1, 2), (10, 7, 8), (20, 7, 8)):  # of 5 lists each
        told, few = Told(), made_up(0, lists)
        settings = NetworkSettings(filters=4, capsule_dim=2, epochs=1, least_steps=least, batch_size=5, refit=False)
        fit_network(few, made_up(1, 2), settings, told)
        assert told.steps == told.total == steps


def test_weights_of_one_change_nothing() -> None:
    lists, settings = made_up(0), NetworkSettings(filters=4, capsule_dim=2, epochs=2, least_steps=1)

    def learned(**counts: Any) -> Float64s:
        train, valid = (replace(one, **counts) for one in (lists, made_up(0)))
        assert lists.vectors is not None
        return fit_network(train, valid, settings).predict(lists.features, lists.vectors, lists.lengths)

    plain = learned()
    others = learned(weights=np.full(len(lists.lengths), 3.0)), learned(gains=lists.relevant.astype(float) * 2)
    for other in others:
        np.testing.assert_allclose(other, plain, rtol=1e-4, atol=1e-4)


def test_what_cannot_be_is_refused(run: Path, tmp_path: Path) -> None:
    for setting in ("epochs=0", "batch_size=0", "learning_rate=-1", "filters=0", "dropout=2"):
        with pytest.raises(SettingsError):
            METHODS["capsules"].resolve(overrides=[f"network.{setting}"])
    network = CapsuleNetwork.load(run)
    lists = made_up(0)
    assert lists.vectors is not None
    with pytest.raises(RunError, match=r"other features than these \(.*text.known"):
        network.predict(lists.features, lists.vectors, lists.lengths)
    (tmp_path / "network.json").write_text("{}")
    with pytest.raises(RunError, match="not a saved network"):
        CapsuleNetwork.load(tmp_path)
