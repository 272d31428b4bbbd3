"""A search recipe: every setting of a run on a log, as YAML, as ``--set section.key=value``, and saved with the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import yaml

from capse.errors import SettingsError, UnknownNameError
from capse.models import ModelSettings, model_settings
from capse.runs.settings import check_choices, check_key, fill, load_yaml, override, to_mapping
from capse.search.encoders import LSA, runs_own_code
from capse.search.live import ProfileSettings
from capse.search.run import METHODS
from capse.search.vectors import VectorSettings
from capse.training.lists import ShownSettings
from capse.training.loop import TrainingSettings, ValidationSettings
from capse.training.losses import LossSettings
from capse.training.optimizers import OptimizerSettings


@dataclass(frozen=True)
class SearchValidationSettings:
    """When to look at the validation split, and what to choose the best epoch by; ties count in expectation."""

    every: int = 1  # epochs between two looks; 0 never looks and keeps the last epoch
    metric: Literal["mrr", "hits@1", "ndcg@10"] = "mrr"
    patience: int = 0  # stop after this many looks without gain; 0 never stops early

    def __post_init__(self) -> None:
        check_choices(self, "validation")
        self.for_trainer()

    def for_trainer(self) -> ValidationSettings:
        return ValidationSettings(self.every, self.metric, self.patience)


@dataclass(frozen=True)
class SearchRecipe:
    """All sections; each is described beside the code that reads it."""

    data: str | None  # the log's name
    model_name: str
    model: ModelSettings
    vectors: VectorSettings = field(default_factory=VectorSettings)
    profile: ProfileSettings = field(default_factory=ProfileSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    loss: LossSettings = field(default_factory=LossSettings)
    shown: ShownSettings = field(default_factory=ShownSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    validation: SearchValidationSettings = field(default_factory=SearchValidationSettings)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> SearchRecipe:
        """Fill the sections strictly; ``model.dim`` is the length of the vectors where it is not given."""
        for key in values:
            check_key(str(key), ["data", "model", *_SECTIONS])
        data = values.get("data")
        if not (data is None or isinstance(data, str)):
            raise SettingsError(f"data is {data!r}", "write a log's name, in quotes")
        sections: dict[str, Any] = {key: fill(kind, values.get(key), key) for key, kind in _SECTIONS.items()}
        model = values.get("model") or {}
        if not isinstance(model, Mapping):
            raise SettingsError(f"section 'model' is {model!r}", "write it as 'key: value' lines")
        name, settings = model_settings({**_width(sections["vectors"]), **model})
        if name not in METHODS:
            raise SettingsError(f"model.name is {name!r}", f"search is learned by {', '.join(METHODS)}")
        if getattr(settings, "filter_start", None) == "product":  # `Scorer.adapt` makes it, from a graph's tables
            raise SettingsError("model.filter_start is 'product', a start for graphs", "choose distance, or another")
        return cls(data=data, model_name=name, model=settings, **sections)

    def to_mapping(self) -> dict[str, Any]:
        """The resolved recipe: every setting, defaults included."""
        sections = {key: to_mapping(getattr(self, key)) for key in _SECTIONS}
        return {"data": self.data, "model": {"name": self.model_name, **to_mapping(self.model)}, **sections}

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.to_mapping(), sort_keys=False, allow_unicode=True)


_SECTIONS: dict[str, type] = {
    "vectors": VectorSettings,
    "profile": ProfileSettings,
    "training": TrainingSettings,
    "loss": LossSettings,
    "shown": ShownSettings,
    "optimizer": OptimizerSettings,
    "validation": SearchValidationSettings,
}


def load_search_recipe(
    source: str | Path | None = None, *, method: str | None = None, overrides: list[str] | None = None
) -> SearchRecipe:
    """A recipe from a file or by a shipped name; without one, the shipped recipe of ``method`` (CapsE by default).

    >>> load_search_recipe(method="transe", overrides=["training.epochs=3"]).training.epochs
    3
    """
    if method is not None and method not in METHODS:
        raise UnknownNameError("method", method, METHODS, f"search is learned by {', '.join(METHODS)}")
    values = override(load_yaml(*_text(source if source is not None else method or "capse")), overrides or [])
    recipe = SearchRecipe.from_mapping(values)
    _refuse_code_of_a_run(source, recipe.vectors, overrides or [])
    if method is not None and recipe.model_name != method:
        raise SettingsError(
            f"the settings are for {recipe.model_name!r}, the method asked for is {method!r}", "give one"
        )
    return recipe


def _refuse_code_of_a_run(source: str | Path | None, vectors: VectorSettings, overrides: list[str]) -> None:
    """A run never has code executed: an encoder of the user's own must be named by the user, not by the recipe."""
    stored = isinstance(source, Path) and (source.parent / "vectors").is_dir()
    named = any(option.partition("=")[0].strip() == "vectors.encoder" for option in overrides)
    if stored and not named and vectors.source == "encoder" and runs_own_code(vectors.encoder):
        raise SettingsError(
            f"the vectors of {source} come from {vectors.encoder}, code that is not run unless you name it",
            f"add --set vectors.encoder={vectors.encoder} if you trust it",
        )


def shipped_search_recipes() -> list[str]:
    """The names of the search recipes that come with the package."""
    return sorted(path.name.removesuffix(".yaml") for path in _shipped().iterdir() if path.name.endswith(".yaml"))


def _width(vectors: VectorSettings) -> dict[str, int]:
    """``model.dim`` as far as settings tell it: files and other encoders have vectors of their own length."""
    if vectors.source == "topics":
        return {"dim": vectors.topics}
    return {"dim": vectors.dimensions} if vectors.source == "encoder" and vectors.encoder == LSA else {}


def _text(source: str | Path) -> tuple[str, str]:
    if str(source) in shipped_search_recipes():
        return (_shipped() / f"{source}.yaml").read_text(encoding="utf-8"), f"recipe {source}"
    path = Path(source)
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not UTF-8 text", "give a recipe in YAML") from error
    except OSError as error:
        names = shipped_search_recipes()
        remedy = f"give a YAML file or one of {', '.join(names)}"
        raise UnknownNameError("search recipe", str(source), names, remedy) from error


def _shipped() -> Any:
    return files("capse") / "recipes" / "search"
