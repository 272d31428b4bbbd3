"""What recipes for graphs and for logs share: strict sections, YAML, and ``--set section.key=value``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self, get_type_hints

import yaml

from capse.errors import SettingsError
from capse.experiments.shipped import Kind, recipe_values, shipped
from capse.models import MODELS, ModelSettings, kind_of, model_settings, name_of
from capse.runs.formats import FORMAT, upgraded
from capse.runs.settings import check_key, fill, override, to_mapping
from capse.training.losses import Loss
from capse.training.optimizers import Optimizer
from capse.training.settings import Training, ValidationPlan


@dataclass(frozen=True)
class BaseRecipe:
    """The sections of every recipe; a subclass adds its own. Each is described beside the code that reads it."""

    kind: ClassVar[Kind]

    data: str | None
    model: ModelSettings
    training: Training = field(default_factory=Training)
    loss: Loss = field(default_factory=Loss)
    optimizer: Optimizer = field(default_factory=Optimizer)
    validation: ValidationPlan = field(default_factory=ValidationPlan)

    @property
    def model_name(self) -> str:
        return name_of(self.model)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """A recipe of any format, filled strictly: an unknown key is an error that names the nearest known one."""
        return cls._filled(upgraded(values, f"the {cls.kind}"))

    @classmethod
    def _filled(cls, values: Mapping[str, Any]) -> Self:
        kinds = section_kinds(cls)
        for key in values:
            check_key(str(key), ["data", "model", *kinds])
        data = values.get("data")
        if not (data is None or isinstance(data, str)):
            raise SettingsError(f"data is {data!r}", "write its name or a folder, in quotes")
        sections: dict[str, Any] = {key: _section(kind, values.get(key), key) for key, kind in kinds.items()}
        return cls(data=data, model=cls._model(model_section(values), sections), **sections)

    @classmethod
    def _model(cls, section: Mapping[str, Any], sections: Mapping[str, Any]) -> ModelSettings:
        """The model's settings, for which the other sections may have a say."""
        return model_settings(section)

    def to_mapping(self) -> dict[str, Any]:
        """The resolved recipe: every setting, defaults included."""
        sections = {key: to_mapping(getattr(self, key)) for key in section_kinds(type(self))}
        model = {"name": self.model_name, **to_mapping(self.model)}
        return {"format": FORMAT, "data": self.data, "model": model, **sections}

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.to_mapping(), sort_keys=False, allow_unicode=True)

    @classmethod
    def of(cls, chosen: ModelSettings | Self | str | Path | None, **sections: Any) -> Self:
        """The recipe that a Python call names, with the settings that its sections give in place of the recipe's.

        ``chosen`` is a recipe, a file or a shipped name, or the settings of a model, which has a shipped recipe.
        """
        given = {key: value for key, value in sections.items() if value is not None}
        for key, value in given.items():
            if not isinstance(value, section_kinds(cls)[key]):
                wanted = section_kinds(cls)[key].__name__
                raise SettingsError(f"{key} is {value!r}", f"give a capse.{wanted}(...)")
        if isinstance(chosen, ModelSettings):
            recipe = cls.resolve(model=cls._shipped_for(chosen))
            given["model"] = chosen
        elif isinstance(chosen, cls):
            recipe = chosen
        elif not (chosen is None or isinstance(chosen, (str, Path))):
            raise SettingsError(f"a model is {chosen!r}", "give its settings, a recipe, or a recipe's name or file")
        elif chosen in MODELS and chosen not in shipped(cls.kind):
            recipe = cls.resolve(model=str(chosen))
        else:
            recipe = cls.resolve(chosen)
        return replace(recipe, **{key: value.over(getattr(recipe, key)) for key, value in given.items()})

    @classmethod
    def _shipped_for(cls, model: ModelSettings) -> str:
        """What `resolve` calls the model."""
        return name_of(model)

    @classmethod
    def resolve(
        cls,
        source: str | Path | None = None,
        *,
        model: str | None = None,
        data: str | None = None,
        overrides: Sequence[str] | None = None,
    ) -> Self:
        """The recipe that a command line names: a shipped one, or a file, or the shipped one of ``model``.

        ``overrides`` are its ``--set section.key=value``; ``model.name=...`` among them names the model as well. What a
        file does not say is as in the shipped recipe of its model (CapsE by default).
        """
        values = cls._values_of(source, model, data, overrides)
        if str(source) not in shipped(cls.kind):
            values = over(values, cls._base(model_section(values).get("name")))
        return cls._filled(values)

    @classmethod
    def _values_of(
        cls, source: str | Path | None, model: str | None, data: str | None, overrides: Sequence[str] | None
    ) -> dict[str, Any]:
        """What a file or a shipped recipe says, and what options put in its place."""
        values = {} if source is None else upgraded(recipe_values(cls.kind, source), f"the {cls.kind} {source}")
        if data is not None:
            values["data"] = data
        if model is not None:
            kind_of(model)  # said before anything else that may be wrong
            values["model"] = {"name": model, **model_section(values)}
        values = override(values, list(overrides or ()))
        name = model_section(values).get("name")
        if model is not None and name != model:
            raise SettingsError(f"the settings are for {name!r} but the model asked for is {model!r}", "give one")
        return values

    @classmethod
    def _base(cls, model: object) -> Mapping[str, Any]:
        """What holds where a file says nothing; the sections' own defaults hold where this says nothing either."""
        return {}


def section_kinds(recipe: type[BaseRecipe]) -> dict[str, Any]:
    """The sections of a recipe apart from the model's, and the settings class of each."""
    hints = get_type_hints(recipe)
    return {field.name: hints[field.name] for field in fields(recipe) if field.name not in ("data", "model")}


def over(values: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in place of a base's, key by key."""
    merged = {**base, **values}
    for key, section in base.items():
        if isinstance(section, Mapping) and isinstance(values.get(key) or {}, Mapping):
            merged[key] = {**section, **(values.get(key) or {})}
    return merged


def _section(kind: Any, values: Any, key: str) -> Any:
    """A section's settings; their class may depend on a name in it, and on what other packages register."""
    if hasattr(kind, "settings_of"):
        kind = kind.settings_of(*([values["name"]] if isinstance(values, Mapping) and "name" in values else []))
    return fill(kind, values, key)


def model_section(values: Mapping[str, Any]) -> Mapping[str, Any]:
    section = values.get("model") or {}
    if not isinstance(section, Mapping):
        raise SettingsError(f"section 'model' is {section!r}", "write it as 'key: value' lines")
    return section
