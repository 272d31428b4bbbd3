"""SP, the blend and a network over the same features as search methods.

Their runs are trees as text, vectors and weights as numbers, and a run inside a blend's:

recipe.yaml            the method and its settings
ranker.json            groups of features, and what belongs to it
lambdamart.*           the trees; without_user.*: those that do not know the user
network.*              in their place: the network's weights, and what it makes of features
vectors/               topics of documents
rankers/<name>/        a run of a neural model, whose scores are features
results.json           validation MRR, and where the run comes from
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from capse.errors import SettingsError
from capse.experiments.engine import Listener
from capse.experiments.search.capsule_training import fit_network
from capse.experiments.search.cross_fitting import CrossFitted, cross_fit
from capse.experiments.search.methods import SearchMethod
from capse.experiments.search.neural_methods import NeuralMethod, train_ranker
from capse.experiments.search.recipe import SearchRecipe
from capse.runs.atomic import write_json
from capse.runs.folder import RunFolder
from capse.runs.records import provenance
from capse.runs.settings import fill, override, to_mapping
from capse.search.bias.settings import PositionBias
from capse.search.evaluation.judged_lists import Ranker
from capse.search.logs.actions import EventWeights
from capse.search.logs.history import cutoffs
from capse.search.logs.search_log import SearchLog
from capse.search.rankers.capsule_network import NetworkSettings
from capse.search.rankers.lambdamart import LambdaMARTSettings
from capse.search.rankers.neural import NeuralRanker
from capse.search.rankers.sp_lambdamart import SP, run_inside
from capse.search.vectors.vector_space import VectorSettings, VectorSpace, build_vectors

FORESTS = 5  # whose mean is steadier, and better, than one alone


def fit_trees(
    log: SearchLog,
    seed: int = 0,
    *,
    settings: LambdaMARTSettings | None = None,
    fitted: Mapping[str, CrossFitted] | None = None,
    space: VectorSpace | None = None,
    **about: Any,
) -> SP:
    """`SP.fit` with topics of its own, or those of ``space``; with the scores of ``fitted`` rankers it is a blend."""
    space = space or build_vectors(log, VectorSettings())
    settings = replace(settings or LambdaMARTSettings(), seed=seed)
    rankers = {label: each.ranker for label, each in (fitted or {}).items()}
    scores = {label: each.scores for label, each in (fitted or {}).items()}
    return SP.fit(log, cutoffs(log), settings, space=space, rankers=rankers, scores=scores, **about)


@dataclass(frozen=True)
class TreeRecipe:
    """What trees are trained with."""

    bias: PositionBias = field(default_factory=PositionBias)
    events: EventWeights = field(default_factory=EventWeights)


class SPMethod(SearchMethod):
    """SP, or several SPs of other seeds whose scores are averaged."""

    learns = True
    recipe_type: type[TreeRecipe] = TreeRecipe

    def __init__(self, name: str, forests: int = 1) -> None:
        super().__init__(name)
        self.forests = forests

    def resolve(self, recipe: str | Path | None = None, overrides: Sequence[str] = ()) -> Any:
        """``recipe`` is that of a run of trees."""
        said: dict[str, Any] = {}
        if recipe is not None:
            values = RunFolder(Path(recipe).parent).read_recipe() if Path(recipe).name == "recipe.yaml" else {}
            if values.get("method") != self.name:
                raise SettingsError(f"--method {self.name} has no recipe", "leave out --recipe, and --set what it has")
            said = {one.name: values.get(one.name) for one in fields(self.recipe_type)}
        return fill(self.recipe_type, override(said, list(overrides)))

    def fit(
        self,
        log: SearchLog,
        recipe: Any = None,
        *,
        seed: int | None = None,
        listener: Listener | None = None,
    ) -> SP:
        recipe = recipe or TreeRecipe()
        settings = LambdaMARTSettings(forests=self.forests)
        found = fit_trees(log, seed or 0, settings=settings, bias=recipe.bias, events=recipe.events)
        return replace(found, name=self.name)

    def save(self, ranker: SP, folder: Path, recipe: Any = None) -> None:
        ranker.save(folder)
        write_json(RunFolder(folder).results, {"validation_mrr": ranker.model.validation_mrr, **provenance()})

    def settings(self, ranker: SP, recipe: Any = None) -> dict[str, Any]:
        vectors = {"vectors": to_mapping(ranker.space.settings)} if ranker.space else {}
        said = {name: to_mapping(getattr(recipe, name)) for name in ("bias", "events")} if recipe is not None else {}
        model = "network" if ranker.sees_vectors else "lambdamart"
        return {model: to_mapping(ranker.model.settings), **vectors, **said}

    def notes(self, ranker: SP) -> list[str]:
        return [warning] if (warning := ranker.standing.warning(ranker.name)) else []

    def load(self, run: Path) -> SP:
        return SP.load(run)

    def recipe_of(self, run: Path) -> Path:
        return RunFolder(run).recipe


@dataclass(frozen=True)
class NetworkRecipe(TreeRecipe):
    """What a network is trained with."""

    network: NetworkSettings = field(default_factory=NetworkSettings)


class CapsulesMethod(SPMethod):
    """A capsule network over SP's features and topics."""

    recipe_type = NetworkRecipe

    def fit(
        self,
        log: SearchLog,
        recipe: Any = None,
        *,
        seed: int | None = None,
        listener: Listener | None = None,
    ) -> SP:
        recipe = recipe or NetworkRecipe()
        settings = recipe.network if seed is None else replace(recipe.network, seed=seed)
        about: dict[str, Any] = {"bias": recipe.bias, "events": recipe.events}
        train = partial(fit_network, settings=settings, listener=listener)
        space = build_vectors(log, VectorSettings())
        found = SP.fit(log, cutoffs(log), space=space, train_network=train, **about)
        return replace(found, name=self.name)


class BlendMethod(SPMethod):
    """The recipe is that of the neural ranker inside."""

    inside = NeuralMethod()

    def resolve(self, recipe: str | Path | None = None, overrides: Sequence[str] = ()) -> SearchRecipe:
        return self.inside.resolve(recipe, overrides)

    def epochs(self, recipe: SearchRecipe) -> int:
        return self.inside.epochs(recipe)

    def fit(
        self,
        log: SearchLog,
        recipe: Any = None,
        *,
        seed: int | None = None,
        listener: Listener | None = None,
    ) -> SP:
        recipe = recipe or self.resolve()
        seed = recipe.training.seed if seed is None else seed
        train = partial(train_ranker, recipe=recipe, seed=seed, listener=listener, ranks="model")
        settings = LambdaMARTSettings(forests=self.forests)
        fitted = {recipe.method: cross_fit(log, train)}
        return fit_trees(log, seed, settings=settings, fitted=fitted, bias=recipe.bias, events=recipe.events)

    def save(self, ranker: SP, folder: Path, recipe: SearchRecipe | None = None) -> None:
        super().save(ranker, folder)
        for label, inside in ranker.rankers.items():
            _neural(inside).run.save(run_inside(folder, label), recipe.to_yaml() if recipe else None)

    def recipe_of(self, run: Path) -> Path:
        return RunFolder(run_inside(run)).recipe


SP_METHOD, FORESTS_METHOD, BLEND = SPMethod("sp"), SPMethod("forests", FORESTS), BlendMethod("blend", FORESTS)
CAPSULES = CapsulesMethod("capsules")


def _neural(ranker: Ranker) -> NeuralRanker:
    if not isinstance(ranker, NeuralRanker):
        raise SettingsError(f"a blend with {type(ranker).__name__} inside has no run", "blend with a neural ranker")
    return ranker
