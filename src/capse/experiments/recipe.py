"""A recipe: every setting of a run, as YAML in a file, as ``--set section.key=value``, and saved with the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from capse.errors import SettingsError, UnknownNameError
from capse.models import ModelSettings, model_settings, scorer_class
from capse.runs.settings import check_key, fill, load_yaml, override, to_mapping
from capse.training.loop import TrainingSettings, ValidationSettings
from capse.training.losses import LossSettings
from capse.training.negatives import NegativeSettings
from capse.training.optimizers import OptimizerSettings
from capse.training.regularizers import RegularizerSettings


@dataclass(frozen=True)
class StartSettings:
    """Where the embeddings start; random where nothing is named."""

    run: str | None = None  # a run folder whose entity and relation vectors are taken over, label by label
    beside: str | None = None  # a second one, whose vectors fill the dimensions after those of the first
    words: str | None = None  # a word-vector file: an entity starts as the mean of the vectors of its name's words
    names: str | None = None  # a tab-separated file with a header that holds the names; the graph's own by default
    column: str = "name"  # the column of that file to take the words from
    normalise: bool = True  # scale the averaged word vectors to length 1

    def __post_init__(self) -> None:
        if self.run and self.words:
            raise SettingsError("start.run and start.words are both given", "start from one of them")
        if self.beside and not self.run:
            raise SettingsError("start.beside is given without start.run", "give it as start.run")


@dataclass(frozen=True)
class Recipe:
    """All sections; each is described beside the code that reads it."""

    data: str | None
    model_name: str
    model: ModelSettings
    start: StartSettings = field(default_factory=StartSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    loss: LossSettings = field(default_factory=LossSettings)
    negatives: NegativeSettings = field(default_factory=NegativeSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    regularizer: RegularizerSettings = field(default_factory=RegularizerSettings)
    validation: ValidationSettings = field(default_factory=ValidationSettings)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Recipe:
        """Fill the sections strictly: an unknown section or key is an error that names the nearest known one."""
        for key in values:
            check_key(str(key), ["data", "model", *_SECTIONS])
        data = values.get("data")
        if not (data is None or isinstance(data, str)):
            raise SettingsError(f"data is {data!r}", "write a dataset's name or a folder, in quotes")
        name, model = model_settings(_model_section(values))
        sections: dict[str, Any] = {key: fill(kind, values.get(key), key) for key, kind in _SECTIONS.items()}
        return cls(data=data, model_name=name, model=model, **sections)

    def to_mapping(self) -> dict[str, Any]:
        """The resolved recipe: every setting, defaults included."""
        sections = {key: to_mapping(getattr(self, key)) for key in _SECTIONS}
        return {"data": self.data, "model": {"name": self.model_name, **to_mapping(self.model)}, **sections}

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.to_mapping(), sort_keys=False, allow_unicode=True)


_SECTIONS: dict[str, type] = {
    "start": StartSettings,
    "training": TrainingSettings,
    "loss": LossSettings,
    "negatives": NegativeSettings,
    "optimizer": OptimizerSettings,
    "regularizer": RegularizerSettings,
    "validation": ValidationSettings,
}


def load_recipe(
    source: str | Path | None = None,
    *,
    model: str | None = None,
    data: str | None = None,
    overrides: list[str] | None = None,
) -> Recipe:
    """A recipe from a file or by a shipped name; without one, the shipped recipe of ``model`` (CapsE by default).

    ``--set model.name=...`` among the ``overrides`` names the model as well.

    >>> load_recipe(model="transe", overrides=["training.epochs=3"]).training.epochs
    3
    """
    overrides = overrides or []
    if source is None and model is None:
        chosen = override({}, overrides).get("model", {}).get("name")
        model = None if chosen is None else str(chosen)
    if model is not None:
        scorer_class(model)  # an unknown model is a better error than an unknown recipe
    values = load_yaml(*_text(source if source is not None else model or "capse"))
    if data is not None:
        values["data"] = data
    if model is not None:
        values["model"] = {"name": model, **_model_section(values)}
    values = override(values, overrides)
    name = _model_section(values).get("name")
    if model is not None and name != model:
        raise SettingsError(f"the settings are for {name!r} but the model asked for is {model!r}", "give one")
    return Recipe.from_mapping(values)


def shipped_recipes() -> list[str]:
    """The names of the recipes that come with the package."""
    return sorted(path.name.removesuffix(".yaml") for path in _shipped().iterdir() if path.name.endswith(".yaml"))


def _model_section(values: Mapping[str, Any]) -> Mapping[str, Any]:
    section = values.get("model") or {}
    if not isinstance(section, Mapping):
        raise SettingsError(f"section 'model' is {section!r}", "write it as 'key: value' lines")
    return section


def _text(source: str | Path) -> tuple[str, str]:
    if str(source) in shipped_recipes():
        return (_shipped() / f"{source}.yaml").read_text(encoding="utf-8"), f"recipe {source}"
    path = Path(source)
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not UTF-8 text", "give a recipe in YAML") from error
    except OSError as error:
        names = shipped_recipes()
        raise UnknownNameError(
            "recipe", str(source), names, f"give a YAML file or one of {', '.join(names)}"
        ) from error


def _shipped() -> Any:
    return files("capse") / "recipes"
