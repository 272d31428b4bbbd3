"""Training on lists: it finds what was planted, goes on after a kill as if nothing had been, and says what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from capse.errors import CapseError, DataError, RunError, SettingsError
from capse.experiments.engine import Listener
from capse.experiments.search.fit import fit_search
from capse.experiments.search.list_training import training_lists
from capse.experiments.search.recipe import SearchRecipe
from capse.experiments.shipped import shipped
from capse.search.evaluation.list_metrics import list_metrics
from capse.search.logs.history import cutoffs
from capse.search.logs.search_log import SearchLog
from capse.search.logs.simulation import Simulated, SimulationSettings, simulate
from capse.search.rankers.baselines import SE
from capse.search.rankers.neural import NeuralRanker
from capse.search.rankers.search_run import SearchRun
from capse.search.serving.reranker import Reranker
from capse.search.users.profiles import user_vectors
from capse.search.vectors.vector_space import VectorSpace, build_vectors

SMALL = [
    "profile.scale=long",
    "vectors.source=topics",
    "vectors.topics=12",
    "vectors.iterations=5",
    "training.epochs=4",
]
FILTERS = "model.filters=8"


@pytest.fixture(scope="module")
def world() -> Simulated:
    return simulate(SimulationSettings(users=20, topics=10, documents=150, impressions=900, days=60))


@pytest.fixture(scope="module")
def space(world: Simulated) -> VectorSpace:
    return build_vectors(world.log, small().vectors)


def small(method: str = "capse", *more: str) -> SearchRecipe:
    overrides = [*SMALL, *([FILTERS] if method != "transe" else []), *more]
    return SearchRecipe.resolve(model=method, overrides=overrides)


@pytest.mark.parametrize(("method", "margin"), [("capse", 0.25), ("convkb", 0.02), ("transe", 0.02)])
@pytest.mark.usefixtures("one_thread")
def test_planted_interests_are_found(
    world: Simulated, space: VectorSpace, method: str, margin: float, tmp_path: Path
) -> None:
    recipe = small(method, "training.epochs=15", f"profile.user={'offset' if method == 'transe' else 'profile'}")
    ranker = NeuralRanker(fit_search(world.log, recipe, out=tmp_path / "run", space=space))
    lists = world.log.judged("test")
    rows, lengths = world.log.rows(lists), world.log.lengths[lists]

    def found(which: Any) -> float:
        scores = which.score(world.log, lists, cutoffs(world.log))
        return list_metrics(scores, world.wanted[rows], lengths, method="x").means()["mrr"]

    assert found(ranker) > found(SE()) + 0.05
    assert found(ranker) > found(ranker.without_user()) + margin
    assert found(ranker) > found(ranker.document_only()) + margin


class Stop(Listener):
    """Ctrl-C after so many steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def step(self, report: Any) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@pytest.mark.parametrize("user", ["profile", "offset", "trained"])
@pytest.mark.usefixtures("one_thread")
def test_a_stopped_run_ends_with_the_same_bits(world: Simulated, space: VectorSpace, user: str, tmp_path: Path) -> None:
    recipe = small("capse", f"profile.user={user}", "training.epochs=3")
    whole = fit_search(world.log, recipe, out=tmp_path / "whole", space=space)
    for steps in (2, 7):
        with pytest.raises(KeyboardInterrupt):
            fit_search(world.log, recipe, out=tmp_path / "cut", space=space, resume=True, listener=Stop(steps))
        with pytest.raises(RunError, match="not finished: continue it with 'capse search train --resume'"):
            Reranker.load(tmp_path / "cut")
    again = fit_search(world.log, recipe, out=tmp_path / "cut", resume=True)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), name
    assert torch.equal(SearchRun.load(tmp_path / "cut").model.offsets, whole.model.offsets)
    assert SearchRun.load(tmp_path / "cut").standing == whole.standing


def test_profiles_in_training_hold_only_what_came_before(world: Simulated, space: VectorSpace, tmp_path: Path) -> None:
    run = fit_search(world.log, small("transe", "training.epochs=0"), out=tmp_path / "run", space=space)
    vectors = space.vectors(world.log)
    lists = training_lists(world.log, run, vectors)
    expected, _ = user_vectors(world.log, vectors.documents, world.log.time, "long")
    np.testing.assert_array_equal(lists.profiles.numpy(), expected[world.log.judged("train")])
    assert not lists.profiles[0].any()


def test_a_vector_that_is_trained_starts_as_the_profile_at_the_end_of_training(
    world: Simulated, space: VectorSpace, tmp_path: Path
) -> None:
    recipe = small("transe", "training.epochs=0", "profile.user=trained")
    run = fit_search(world.log, recipe, out=tmp_path / "run", space=space)
    log, vectors = world.log, space.vectors(world.log)
    end = int(log.time[log.of_split("train")].max()) + 1
    expected, _ = user_vectors(log, vectors.documents, np.full(len(log), end), "long")
    for user, number in run.numbers.items():
        impression = int(np.flatnonzero(log.user == log.users.index(user))[0])
        np.testing.assert_array_equal(run.model.offsets[number].detach().numpy(), expected[impression])


def test_every_shipped_recipe_resolves_and_is_saved_whole() -> None:
    assert {"capse", "convkb", "transe"} <= set(shipped("search recipe"))
    for name in shipped("search recipe"):
        recipe = SearchRecipe.resolve(name)
        assert SearchRecipe.from_mapping(recipe.to_mapping()) == recipe
        assert recipe.method == name.split("-")[0]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["vectors.topic=3"], "did you mean 'vectors.topics'"),
        (["model.dim=3"], "set model.dim=12"),
        (["profile.scale=weekly"], "choose from session, daily, long, nearest"),
        (["profile.user=both"], "choose from profile, offset, trained"),
        (["validation.metric=mr"], "choose from mrr"),
        (["loss.name=bce"], "lists take one of softplus"),
        (["model.name=distmult"], "unknown setting|search is learned by"),
        (["model.filter_start=product", "model.filters=19"], "model.filter_start is 'product', a start for graphs"),
        (["negatives.count=3"], "unknown setting 'negatives'"),
    ],
)
def test_wrong_settings_are_said_before_anything_is_written(
    world: Simulated, space: VectorSpace, overrides: list[str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(CapseError, match=message):
        fit_search(world.log, small("capse", *overrides), out=tmp_path / "run", space=space)
    assert not (tmp_path / "run").exists()


def test_a_run_is_not_overwritten_nor_resumed_with_another_log_or_recipe(
    world: Simulated, space: VectorSpace, tmp_path: Path
) -> None:
    recipe = small("transe", "training.epochs=0")
    fit_search(world.log, recipe, out=tmp_path / "run", space=space)
    with pytest.raises(RunError, match="already"):
        fit_search(world.log, recipe, out=tmp_path / "run", space=space)
    with pytest.raises(RunError, match="other settings in 'training'"):
        fit_search(world.log, small("transe"), out=tmp_path / "run", resume=True)
    other = simulate(SimulationSettings(users=20, topics=10, documents=150, impressions=900, days=60, seed=1)).log
    with pytest.raises(RunError, match="begun with other data"):
        fit_search(other, recipe, out=tmp_path / "run", resume=True)
    with pytest.raises(SettingsError, match="other settings: use the recipe's own"):
        fit_search(world.log, small("transe", "vectors.seed=3"), out=tmp_path / "other", space=space)


def test_transe_without_offsets_has_nothing_to_learn(world: Simulated, space: VectorSpace, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"set profile\.user=offset"):
        fit_search(world.log, small("transe", "profile.user=profile"), out=tmp_path / "run", space=space)


def test_code_that_only_a_run_names_is_not_executed(world: Simulated, tmp_path: Path) -> None:
    name = "vectors.encoder=my_encoder:encode"
    (tmp_path / "vectors").mkdir()
    recipe = SearchRecipe.resolve(model="transe", overrides=[name])
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
    with pytest.raises(SettingsError, match=f"add --set {name} if you trust it"):
        SearchRecipe.resolve(tmp_path / "recipe.yaml")
    assert SearchRecipe.resolve(tmp_path / "recipe.yaml", overrides=[name]) == recipe


def test_a_log_without_a_satisfied_click_to_learn_from_is_refused(tmp_path: Path) -> None:
    log = SearchLog.from_records([{"time": 1, "user": "a", "query": "q", "results": ["d"], "clicks": []}])
    with pytest.raises(DataError, match="no satisfied click in its train split"):
        fit_search(log, small("capse"), out=tmp_path / "run")
