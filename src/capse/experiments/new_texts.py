"""New entities from their texts, where a run started from word vectors or a sentence encoder.

Training has moved the vectors away from where they started, so a new text's vector x is first carried to where training
would have left it: to Wᵀx + b, fitted by ridge regression on the known entities whose texts say something. The penalty
is the one of a few with the least squared error of leaving each of them out. If there are facts too, folding in begins
there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from capse.arrays import Float64s
from capse.errors import DataError, RunError, SettingsError
from capse.experiments.recipe import Recipe, Start
from capse.experiments.start import entity_texts, text_vectors
from capse.graph.fold_in import FoldIn
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.link_prediction.updating import Described, updated
from capse.search.vectors.encoders import runs_own_code

_PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0)


def fold_in_texts(
    run: LinkPredictor,
    texts: Mapping[str, str],
    facts: Any = (),
    settings: FoldIn | None = None,
    *,
    words: str | Path | None = None,
    encoder: str | None = None,
    skip_known: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> LinkPredictor:
    """A predictor that knows new entities by their texts, by label, and new facts if there are any; nothing is trained.

    ``words`` is the file of word vectors that the run started from, if it is no longer where it was. An ``encoder`` of
    your own, module:function, is called only if it is named here too.
    """
    start = _start(run, words, encoder)
    known = [label for label in texts if label in run.graph.entities]
    if known:
        raise DataError(f"{known[0]!r} is a known entity", "leave it out: known entities keep their vectors")
    fitted, made = _carried(run, start, list(texts.values()))
    if not made.said.all():
        label = [*texts][int(np.flatnonzero(~made.said)[0])]
        raise DataError(f"the text of {label!r} has no word with a vector", "describe it by other words")
    vectors = torch.from_numpy(fitted(made.vectors)).to(run.model.entities)
    described = {label: Described(text, vector) for (label, text), vector in zip(texts.items(), vectors, strict=True)}
    return updated(run, facts, settings, skip_known=skip_known, described=described, progress=progress)


@dataclass(frozen=True)
class _Made:
    """Vectors of texts, and which of these say something."""

    vectors: Float64s
    said: Any


def _start(run: LinkPredictor, words: str | Path | None, encoder: str | None) -> Start:
    """How the run made vectors of texts."""
    recipe = run.folder.read_recipe() if run.folder else {}
    start = Recipe.from_mapping(recipe).start if "start" in recipe else Start()
    if not (start.words or start.encoder):
        raise RunError("this run did not start from texts", "train with start.words or start.encoder, or give facts")
    if start.encoder and runs_own_code(start.encoder) and encoder != start.encoder:
        raise SettingsError(
            f"this run's encoder is code of somebody's own, {start.encoder}",
            f"name it yourself: --encoder {start.encoder}",
        )
    return replace(start, words=str(words)) if words and start.words else start


def _carried(run: LinkPredictor, start: Start, texts: list[str]) -> tuple[Callable[[Float64s], Float64s], _Made]:
    """Where training carries a text's vector, and the vectors of new texts."""
    before = entity_texts(run.graph, start)
    vectors, said = text_vectors([*before, *texts], start)
    count, table = len(before), run.model.entities.detach().cpu().double().numpy()
    old = vectors[:count][said[:count]].astype(np.float64)
    if len(old) < 2:
        raise DataError("fewer than two known entities have a text with a vector", "give facts instead")
    return ridge(old, table[said[:count]]), _Made(vectors[count:].astype(np.float64), said[count:])


def ridge(x: Float64s, y: Float64s) -> Callable[[Float64s], Float64s]:
    """The map of x (n, k) to y (n, m) by ridge regression, its penalty chosen by leaving one out.

    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> ridge(x, 2 * x + 1)(np.array([[10.0]])).round(1)
    array([[21.]])
    """
    middle, mean = x.mean(axis=0), y.mean(axis=0)
    u, values, v = np.linalg.svd(x - middle, full_matrices=False)
    inner = u.T @ (y - mean)

    def left_out(penalty: float) -> float:
        shrunk = values**2 / (values**2 + penalty)
        leverage = np.einsum("ik,k,ik->i", u, shrunk, u) + 1 / len(x)
        residual = (y - mean) - u @ (shrunk[:, None] * inner)
        return float(np.square(residual / np.maximum(1 - leverage, 1e-9)[:, None]).sum())

    best = min(_PENALTIES, key=left_out)
    weights = v.T @ ((values / (values**2 + best))[:, None] * inner)

    def carry(new: Float64s) -> Float64s:
        return np.asarray((new - middle) @ weights + mean)

    return carry
