"""A search recipe: every setting of a run on a log, as YAML, as ``--set section.key=value``, and saved with the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from capse.errors import SettingsError, UnknownNameError
from capse.experiments.base_recipe import BaseRecipe
from capse.experiments.shipped import Kind
from capse.models import ModelSettings, model_settings
from capse.search.bias.settings import PositionBias
from capse.search.logs.actions import EventWeights
from capse.search.rankers.search_run import LIST_MODELS, list_method
from capse.search.users.user_state import ProfileSettings
from capse.search.vectors.encoders import LSA, runs_own_code
from capse.search.vectors.vector_space import VectorSettings
from capse.training.list_objective import Shown
from capse.training.settings import ValidationPlan


@dataclass(frozen=True)
class SearchValidation(ValidationPlan):
    """When to validate, and what to choose the best epoch by; ties count in expectation."""

    every: int = 1  # epochs between two validations; 0 never validates and keeps the last epoch
    metric: Literal["mrr", "hits@1", "ndcg@10"] = "mrr"  # over the lists of the validation split


@dataclass(frozen=True)
class SearchRecipe(BaseRecipe):
    """All sections of a training on a log; ``data`` is the log's name."""

    kind: ClassVar[Kind] = "search recipe"

    validation: SearchValidation = field(default_factory=SearchValidation)
    vectors: VectorSettings = field(default_factory=VectorSettings)
    profile: ProfileSettings = field(default_factory=ProfileSettings)
    shown: Shown = field(default_factory=Shown)
    bias: PositionBias = field(default_factory=PositionBias)
    events: EventWeights = field(default_factory=EventWeights)

    @classmethod
    def _model(cls, section: Mapping[str, Any], sections: Mapping[str, Any]) -> ModelSettings:
        """``model.dim`` is the length of the vectors where it is not given."""
        settings = model_settings({**_width(sections["vectors"]), **section})
        list_method(settings)
        if getattr(settings, "filter_start", None) == "product":  # `Scorer.adapt` makes it, from a graph's tables
            raise SettingsError("model.filter_start is 'product', a start for graphs", "choose distance, or another")
        return settings

    @classmethod
    def of(cls, chosen: ModelSettings | Self | str | Path | None, **sections: Any) -> Self:
        """As for every recipe; ``model.dim`` follows the vectors that are given, unless the model's settings are."""
        recipe = super().of(chosen, **sections)
        if sections.get("vectors") is None or isinstance(chosen, ModelSettings):
            return recipe
        width: dict[str, Any] = _width(recipe.vectors)
        return replace(recipe, model=replace(recipe.model, **width))

    @classmethod
    def resolve(
        cls,
        source: str | Path | None = None,
        *,
        model: str | None = None,
        data: str | None = None,
        overrides: Sequence[str] | None = None,
    ) -> Self:
        """As for every recipe, but ``model`` is a method, of which CapsE has two models."""
        methods = list(dict.fromkeys(LIST_MODELS.values()))
        if model is not None and model not in methods:
            raise UnknownNameError("method", model, methods, f"search is learned by {', '.join(methods)}")
        named = source if source is not None else model or "capse"
        recipe = super().resolve(named, data=data, overrides=overrides)
        _refuse_code_of_a_run(source, recipe.vectors, overrides or ())
        if model is not None and recipe.method != model:
            raise SettingsError(
                f"the settings are for {recipe.method!r}, the method asked for is {model!r}", "give one"
            )
        return recipe

    @classmethod
    def _shipped_for(cls, model: ModelSettings) -> str:
        return list_method(model)

    @property
    def method(self) -> str:
        return list_method(self.model)


def load_search_recipe(source: str | Path | None = None, *, method: str | None = None) -> SearchRecipe:
    """A recipe from a file or by a shipped name; without one, the shipped recipe of ``method`` (CapsE by default).

    >>> load_search_recipe("transe").training.epochs
    20
    """
    return SearchRecipe.resolve(source, model=method)


def _refuse_code_of_a_run(source: str | Path | None, vectors: VectorSettings, overrides: Sequence[str]) -> None:
    """A run never has code executed: an encoder of the user's own must be named by the user, not by the recipe."""
    stored = isinstance(source, Path) and (source.parent / "vectors").is_dir()
    named = any(option.partition("=")[0].strip() == "vectors.encoder" for option in overrides)
    if stored and not named and vectors.source == "encoder" and runs_own_code(vectors.encoder):
        raise SettingsError(
            f"the vectors of {source} come from {vectors.encoder}, code that is not run unless you name it",
            f"add --set vectors.encoder={vectors.encoder} if you trust it",
        )


def _width(vectors: VectorSettings) -> dict[str, int]:
    """``model.dim`` as far as settings tell it: files and other encoders have vectors of their own length."""
    if vectors.source == "topics":
        return {"dim": vectors.topics}
    return {"dim": vectors.dimensions} if vectors.source == "encoder" and vectors.encoder == LSA else {}
