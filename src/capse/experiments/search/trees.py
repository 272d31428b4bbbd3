"""Runs of SP and of the blend: trees as text, vectors as numbers, and inside a blend's run that of the other ranker.

recipe.yaml            the method and its settings
ranker.json            groups of features, and what belongs to it
lambdamart.*           the trees; without_user.*: those that do not know the user
vectors/               topics of documents
rankers/<name>/        a run of CapsE, ConvKB or TransE, whose scores are features
results.json           validation MRR, and where the run comes from
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import yaml

from capse.errors import SettingsError
from capse.experiments.fit import Listener
from capse.experiments.search.methods import fit_blend_of, fit_sp
from capse.experiments.search.neural import train_ranker
from capse.experiments.search.recipe import SearchRecipe
from capse.runs.atomic import atomic_folder, check_free, write_json, write_text
from capse.runs.folder import RunFolder
from capse.runs.records import provenance
from capse.runs.settings import to_mapping
from capse.search.lists import Ranker
from capse.search.log import SearchLog
from capse.search.neural import NeuralRanker
from capse.search.personalised import SP, ranker_names
from capse.search.run import SearchRun

TREES = ("sp", "blend")
RANKERS = "rankers"


def fit_trees(
    log: SearchLog, method: str, seed: int = 0, recipe: SearchRecipe | None = None, listener: Listener | None = None
) -> SP:
    """SP, or the blend with a ranker that ``recipe`` describes."""
    if method == "sp":
        return fit_sp(log, seed)
    if recipe is None:
        raise SettingsError("a blend has another ranker inside", "give the recipe of one")
    train = partial(train_ranker, recipe=recipe, seed=seed, listener=listener, unknown="model")
    return fit_blend_of(log, train, seed, label=recipe.model_name)


def save_trees(ranker: SP, out: str | Path, recipe: SearchRecipe | None = None) -> None:
    """Write a run, whole or not at all; ``recipe`` is that of the ranker inside a blend."""
    out = Path(out)
    check_free(out)
    with atomic_folder(out) as folder:
        run = RunFolder(folder)
        ranker.save(folder)
        for label, inside in ranker.rankers.items():
            _neural(inside).run.save(folder / RANKERS / label, recipe.to_yaml() if recipe else None)
        write_text(run.recipe, yaml.safe_dump(settings_of(ranker), sort_keys=False))
        write_json(run.results, {"validation_mrr": ranker.model.validation_mrr, **provenance()})


def settings_of(ranker: SP) -> dict[str, Any]:
    """What a run of trees was made with, as its recipe has it."""
    space = ranker.space
    sections: dict[str, Any] = {"method": ranker.name, "lambdamart": to_mapping(ranker.model.settings)}
    return sections | ({"vectors": to_mapping(space.settings)} if space else {})


def inside_of(path: str | Path) -> Path:
    """The run of the ranker inside a blend's."""
    return Path(path) / RANKERS / ranker_names(path)[0]


def load_trees(path: str | Path, method: str) -> SP:
    """The ranker of a run, which must be one of this method."""
    path = Path(path)
    inside = {
        label: NeuralRanker(SearchRun.load(path / RANKERS / label), unknown="model") for label in ranker_names(path)
    }
    ranker = SP.load(path, inside)
    if ranker.name != method:
        raise SettingsError(f"{path} was trained with {ranker.name}, not {method}", f"give --method {ranker.name}")
    return ranker


def _neural(ranker: Ranker) -> NeuralRanker:
    if not isinstance(ranker, NeuralRanker):
        raise SettingsError(f"a blend with {type(ranker).__name__} inside has no run", "blend with a neural ranker")
    return ranker
