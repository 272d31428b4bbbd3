"""SP finds planted interests, keeps them when saved, and knows less when it is asked to."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from capse.errors import RunError, SettingsError
from capse.search.evaluation.evaluate import evaluate
from capse.search.evaluation.judged_lists import shuffled
from capse.search.logs.history import cutoffs
from capse.search.logs.simulation import SimulationSettings, simulate
from capse.search.rankers.baselines import SE
from capse.search.rankers.lambdamart import LambdaMARTSettings
from capse.search.rankers.sp_lambdamart import SP, score_columns
from capse.search.vectors.vector_space import VectorSettings, build_vectors

QUICK = LambdaMARTSettings(trees=40, leaves=7, learning_rate=0.1, least_documents=20, patience=0)


@pytest.fixture(scope="module")
def planted():
    return simulate(SimulationSettings(impressions=1_200))


@pytest.fixture(scope="module")
def log(planted):
    return planted.log


@pytest.fixture(scope="module")
def topics(log):
    return build_vectors(log, VectorSettings(topics=10, iterations=3))


@pytest.fixture(scope="module")
def fitted(log, topics):
    return SP.fit(log, cutoffs(log), QUICK, space=topics)


@pytest.fixture(scope="module")
def evaluated(log, fitted):
    return evaluate(fitted, log)


@dataclass(frozen=True)
class Oracle:
    """Knows what will be clicked, as far as ``noise`` lets it."""

    noise: float
    name: str = "oracle"

    def score(self, log, impressions, cutoffs):
        rows = log.rows(impressions)
        luck = np.random.default_rng(0).normal(size=(len(log), len(log.documents)))
        return log.satisfied[rows] + self.noise * luck[log.impression[rows], log.document[rows]]


def test_finds_the_planted_interests(planted, evaluated, fitted, log):
    assert evaluated.metrics["mrr"] > evaluated.beside["engine"]["mrr"] + 0.1
    assert evaluated.metrics["mrr"] > evaluated.beside["without_user"]["mrr"] + 0.1
    assert evaluated.comparisons["without_user"].p_value < 1e-6
    assert evaluated.warnings == []
    lists = log.judged("test")
    scores, wanted = fitted.score(log, lists, cutoffs(log)), planted.wanted[log.rows(lists)]
    assert scores[wanted].mean() > scores[~wanted].mean() + 0.5


def test_what_does_not_know_the_user_has_fewer_features(fitted):
    groups = {column.split(".")[0] for column in fitted.without_user().model.names}
    assert groups == {"rank", "text", "document", "aggregate"}


def test_without_the_user_the_user_is_of_no_account(log, fitted):
    other = replace(log, user=(log.user[::-1]).copy(), session=(log.session[::-1]).copy())
    lists = log.judged("test")
    nameless = fitted.without_user()
    np.testing.assert_array_equal(
        nameless.score(log, lists, cutoffs(log)), nameless.score(other, lists, cutoffs(other))
    )
    assert not np.array_equal(fitted.score(log, lists, cutoffs(log)), fitted.score(other, lists, cutoffs(other)))


def test_with_nothing_but_the_user_the_engine_is_what_is_left(log):
    mine = SP.fit(log, cutoffs(log), QUICK, ["history"])
    assert mine.without_user() == SE()


def test_the_same_seed_gives_the_same_ranker(log, topics, fitted):
    assert SP.fit(log, cutoffs(log), QUICK, space=topics).trees.text == fitted.trees.text


def test_a_saved_ranker_gives_the_same_scores(log, fitted, tmp_path):
    fitted.save(tmp_path)
    loaded = SP.load(tmp_path)
    lists = log.judged("test")
    for one, other in ((fitted, loaded), (fitted.without_user(), loaded.without_user())):
        np.testing.assert_array_equal(one.score(log, lists, log.time), other.score(log, lists, log.time))
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} <= {
        ".json",
        ".txt",
        ".parquet",
        ".safetensors",
    }


def test_documents_are_known_by_their_ids(log, fitted):
    """The same log with its documents numbered the other way round has the same scores."""
    documents = log.documents
    turned = replace(
        log,
        documents=type(documents)(*(getattr(documents, name)[::-1] for name in ("ids", "titles", "texts", "terms"))),
        document=(len(documents) - 1 - log.document).astype(np.int32),
    )
    lists = log.judged("test")
    here, there = fitted.score(log, lists, log.time), fitted.score(turned, lists, log.time)
    assert np.mean(np.abs(here - there) < 1e-6) > 0.99  # sums in another order may fall on the other side of a split


def test_scores_do_not_depend_on_how_a_list_is_stored(log, fitted):
    other = shuffled(log, 5)
    lists = log.judged("test")
    rows, others = log.rows(lists), other.rows(lists)
    place = np.lexsort((log.position[rows], log.impression[rows]))
    placed = np.lexsort((other.position[others], other.impression[others]))
    here, there = fitted.score(log, lists, log.time)[place], fitted.score(other, lists, other.time)[placed]
    assert np.mean(np.abs(here - there) < 1e-6) > 0.99


def test_damaged_and_unsuitable_folders_are_named(fitted, tmp_path):
    with pytest.raises(RunError, match=r"ranker\.json is not a saved ranker"):
        SP.load(tmp_path)
    fitted.save(tmp_path)
    with pytest.raises(SettingsError, match="no other ranker"):
        SP.load(tmp_path, {"capse": SE()})
    content = json.loads((tmp_path / "ranker.json").read_text())
    (tmp_path / "ranker.json").write_text(json.dumps(content | {"groups": 3}))
    with pytest.raises(RunError, match="not a saved ranker"):
        SP.load(tmp_path)


def test_a_blend_listens_to_a_ranker_that_knows(log, topics, evaluated, tmp_path):
    oracle = Oracle(noise=0.5)
    scores = oracle.score(log, np.arange(len(log)), log.time)
    blend = SP.fit(log, cutoffs(log), QUICK, space=topics, rankers={"oracle": oracle}, scores={"oracle": scores})
    assert blend.name == "blend"
    better = evaluate(blend, log, against=[evaluated])
    assert better.comparisons["sp"].difference > 0
    assert better.comparisons["sp"].p_value < 0.05
    assert max(blend.trees.gains().items(), key=lambda item: item[1])[0].startswith("score.oracle")
    blend.save(tmp_path)
    lists = log.judged("test")
    loaded = SP.load(tmp_path, {"oracle": oracle})
    np.testing.assert_array_equal(blend.score(log, lists, log.time), loaded.score(log, lists, log.time))
    with pytest.raises(SettingsError, match="fitted with oracle"):
        SP.load(tmp_path, {})
    with pytest.raises(RunError, match=r"there is no run in .*oracle"):
        SP.load(tmp_path)


def test_lists_without_scores_have_none_in_any_form():
    table = score_columns({"a": np.array([np.nan, np.nan, 3.0, 1.0])}, np.array([2, 2]))
    np.testing.assert_array_equal(table.values, np.array([[np.nan] * 2, [np.nan] * 2, [0, 1], [1, -1]], np.float32))


def test_scores_that_cannot_be_used_are_refused(log):
    right = np.zeros(len(log.document))
    for scores, complaint in (
        ({"other": right}, "different names"),
        ({"a": right[1:]}, "have shape"),
        ({"a": right + np.inf}, "not finite"),
    ):
        with pytest.raises(SettingsError, match=complaint):
            SP.fit(log, cutoffs(log), QUICK, rankers={"a": SE()}, scores=scores)
