"""The recipe of a refined run: the model of the run that it refines, and how the weights of motifs are fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from capse.errors import SettingsError
from capse.experiments.base_recipe import BaseRecipe
from capse.experiments.shipped import Kind, recipe_values
from capse.graph.refinement.settings import Refinement
from capse.runs.formats import FORMAT, upgraded
from capse.runs.settings import check_key, override
from capse.training.settings import Training, Validation

SHIPPED = "refine"  # the recipe where none is named


@dataclass(frozen=True)
class RefineRecipe(BaseRecipe):
    """All sections of a refined run. An example of the training is a question, and ``loss.margin`` the γ of its hinge.

    Everything but ``data`` and ``model``, which are those of the run that is refined, may stand in a recipe.
    """

    kind: ClassVar[Kind] = "refinement"

    validation: Validation = field(default_factory=Validation)
    refinement: Refinement = field(default_factory=Refinement)

    def __post_init__(self) -> None:
        if self.loss.name != "margin" or self.loss.reduction != "sum":
            raise SettingsError(f"loss is {self.loss.name!r}", "motifs are fitted with loss.name=margin, summed")
        if self.optimizer.name != "adagrad" or self.optimizer.embedding_decay or self.optimizer.weight_decay:
            raise SettingsError("optimizer is not plain Adagrad", "set optimizer.name=adagrad, without decay")


def refine_recipe(
    base: Mapping[str, Any],
    source: str | Path | Mapping[str, Any] | None = None,
    *,
    overrides: Sequence[str] = (),
    refinement: Refinement | None = None,
    training: Training | None = None,
    validation: Validation | None = None,
) -> RefineRecipe:
    """The recipe that refines a run with the sections ``base``, and what is changed in it.

    ``source`` is a file or a shipped name, or the sections themselves.
    """
    if source is None or not isinstance(source, Mapping):
        named = SHIPPED if source is None else source
        source = upgraded(recipe_values("refinement", named), f"the refinement {named}")
    values = override(dict(source), list(overrides))
    for key in values:
        check_key(str(key), ["refinement", "training", "loss", "optimizer", "validation"])
    recipe = RefineRecipe.from_mapping({"format": FORMAT, **values, "data": base["data"], "model": base["model"]})
    return replace(
        recipe,
        refinement=refinement.over(recipe.refinement) if refinement else recipe.refinement,
        training=training.over(recipe.training) if training else recipe.training,
        validation=validation.over(recipe.validation) if validation else recipe.validation,
    )
