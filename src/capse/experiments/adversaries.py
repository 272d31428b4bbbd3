"""The second model of an adversarial training: what a recipe's section ``adversary`` names."""

from __future__ import annotations

from capse.errors import SettingsError
from capse.experiments.identity import identity
from capse.experiments.recipe import Recipe
from capse.graph.dataset import Graph
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.models import MODELS, TripleModel, build_model, model_settings, name_of
from capse.training.adversary import Adversary


def build_generator(recipe: Recipe, graph: Graph, model: TripleModel) -> TripleModel | None:
    """The generator for a discriminator, on its device: a finished run's model or a new one; None where none is named.

    The run must have been made on the same graph: the same entities, relations, training and validation triples. With
    others it would choose among other entities, or tell of triples that this run must not know.
    """
    adversary = recipe.adversary
    if not adversary.is_named:
        if adversary != Adversary():
            raise SettingsError("the section adversary names no model", "set adversary.run or adversary.model")
        return None
    if adversary.run is not None:
        generator = _of_run(adversary.run, adversary.model, graph)
    else:
        section = {"name": adversary.model, "dim": adversary.dim, "reciprocal": model.reciprocal}
        sizes = len(graph.entities), len(graph.relations)
        generator = build_model(
            model_settings(section), *sizes, recipe.training.seed + 1
        )  # or a like model would be the same
        generator.adapt()
    return generator.to(model.device)


def _of_run(path: str, name: str | None, graph: Graph) -> TripleModel:
    found = LinkPredictor.load(path, device="cpu")
    settings = found.model.settings
    assert settings is not None
    if name is not None and MODELS[name].Settings is not type(settings):
        raise SettingsError(
            f"adversary.model is {name!r}, and {path} is a run of {name_of(settings)!r}",
            "leave adversary.model out, or name another run",
        )
    if not all(a == b for a, b in zip(identity(found.graph), identity(graph), strict=True)):
        raise SettingsError(
            f"the adversary in {path} was trained on another graph ({found.graph.name!r}) than {graph.name!r}",
            "train it on the data of this run",
        )
    return found.model
