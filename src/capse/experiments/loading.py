"""A finished run of any kind, by its folder."""

from __future__ import annotations

from pathlib import Path

from capse.experiments.search.methods import load_search_run
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.runs.folder import RunFolder
from capse.search.evaluation.judged_lists import Ranker


def load(path: str | Path, device: str = "auto") -> LinkPredictor | Ranker:
    """What a run answers with: a `LinkPredictor` of a graph's run, and of a search log's run its ranker.

    Nothing in the folder is executed: it is numbers and text. ``device`` is where a graph's model is to score.

    >>> import capse
    >>> run = capse.fit("countries", capse.DistMult(dim=8), training=capse.Training(epochs=0))
    >>> type(load(run.folder.path)).__name__
    'LinkPredictor'
    """
    run = RunFolder(path)
    of_search = run.recipe.is_file() and not {"profile", "method"}.isdisjoint(run.read_recipe())
    return load_search_run(path) if of_search else LinkPredictor.load(path, device)
