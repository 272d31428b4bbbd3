"""A recipe: every setting of a run, as YAML in a file, as ``--set section.key=value``, and saved with the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from capse.errors import SettingsError
from capse.experiments.base_recipe import BaseRecipe, model_section, over
from capse.experiments.shipped import Kind, recipe_of_model, recipe_values, shipped
from capse.models import kind_of
from capse.runs.formats import upgraded
from capse.runs.settings import Section
from capse.training.adversary import Adversary
from capse.training.negatives import Negatives
from capse.training.regularizers import Regularizer
from capse.training.settings import Validation


@dataclass(frozen=True)
class Start(Section):
    """Where the embeddings start; random where nothing is named."""

    run: str | None = None  # a run folder whose entity and relation vectors are taken over, label by label
    beside: str | None = None  # a second one, whose vectors fill the dimensions after those of the first
    words: str | None = None  # a word-vector file: an entity starts as the mean of the vectors of its name's words
    encoder: str | None = None  # what gives names vectors instead: sentence-transformers:NAME or module:function
    names: str | None = None  # a tab-separated file with a header that holds the names; the graph's own by default
    column: str = "name"  # the column of that file to take the words from
    normalise: bool = True  # scale the averaged word vectors to length 1; an encoder's have it
    values: bool = False  # the last dimensions start as the entities' numbers and dates, one for each property

    def __post_init__(self) -> None:
        if self.run and self.words:
            raise SettingsError("start.run and start.words are both given", "start from one of them")
        if self.encoder and ":" not in self.encoder:
            raise SettingsError(
                f"start.encoder is {self.encoder!r}", "write sentence-transformers:NAME or module:function"
            )
        if self.encoder and (self.run or self.words):
            other = "start.run" if self.run else "start.words"
            raise SettingsError(f"{other} and start.encoder are both given", "start from one of them")
        if self.run and self.values:
            raise SettingsError("start.run and start.values are both given", "give values with start.words, or alone")
        if self.beside and not self.run:
            raise SettingsError("start.beside is given without start.run", "give it as start.run")


@dataclass(frozen=True)
class Recipe(BaseRecipe):
    """All sections of a training on a graph."""

    kind: ClassVar[Kind] = "recipe"

    validation: Validation = field(default_factory=Validation)
    start: Start = field(default_factory=Start)
    negatives: Negatives = field(default_factory=Negatives)
    adversary: Adversary = field(default_factory=Adversary)
    regularizer: Regularizer = field(default_factory=Regularizer)

    @classmethod
    def names_model(cls, source: str | Path | None, model: str | None, overrides: Sequence[str] | None = None) -> bool:
        """Whether anything of this says which model to train; see `resolve`."""
        return "name" in model_section(cls._values_of(source, model, None, overrides))

    @classmethod
    def leaves_negatives(cls, source: str | Path | None, overrides: Sequence[str] | None = None) -> bool:
        """Whether neither a file nor an option says what is drawn: it is as a shipped recipe has it."""
        of_user = source is not None and str(source) not in shipped(cls.kind)
        return not of_user and not any(text.startswith("negatives") for text in overrides or ())

    def with_settings(self, source: str | Path | None, overrides: Sequence[str] | None = None) -> Self:
        """This recipe with the settings of a file that names no model, and with options, in place of its own."""
        return self.from_mapping(over(self._values_of(source, None, None, overrides), self.to_mapping()))

    @classmethod
    def _base(cls, model: object) -> Mapping[str, Any]:
        """The shipped recipe of the model, or of CapsE."""
        name = "capse" if model is None else str(model)
        kind_of(name)
        return upgraded(recipe_values("recipe", recipe_of_model(name)), f"the recipe of {name}")


def load_recipe(source: str | Path | None = None, *, model: str | None = None, data: str | None = None) -> Recipe:
    """A recipe from a file or by a shipped name; without one, the shipped recipe of ``model`` (CapsE by default).

    >>> load_recipe("transe").training.batch_size
    1024
    """
    return Recipe.resolve(source, model=model, data=data)
