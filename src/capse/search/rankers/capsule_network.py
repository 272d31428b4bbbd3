"""One network for all that is known of a list: capsules that see SP's features beside topics.

CapsE's matrix [q, u, d] has a row for each number of a vector. It gets two more for each feature x of a result:
(1, 0, x), with x as its quantile among the training results, from −1 to 1, and once more less the mean of its list. So
rank, text match, history and numbers go through the same filters and capsules as topics do, and every capsule is a
piecewise linear function of one feature. How it is trained is in `capse.experiments.search.capsule_training`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from capse.arrays import Float32s, Float64s, Int64s
from capse.errors import RunError, SettingsError
from capse.models.scaled_capse import ScaledCapsE, ScaledCapsEScorer
from capse.runs.atomic import write_json
from capse.runs.settings import fill, to_mapping
from capse.runs.tensors import load_tensors, save_tensors
from capse.search.features import WITHOUT_USER
from capse.search.features.feature_table import FeatureTable
from capse.search.rankers.list_vectors import ListVectors
from capse.search.rankers.neural import score_list

KNOTS = 64  # quantiles of a feature
_WEIGHTS, _DESCRIPTION, _SETTINGS = "network.safetensors", "network.json", "network"
_REMEDY = "train it again"


@dataclass(frozen=True)
class NetworkSettings:
    """How the network is made and trained. The defaults were chosen on gitsearch's training and validation lists."""

    filters: int = 16
    capsule_dim: int = 8
    dropout: float = 0.2  # of the entries of the matrix
    epochs: int = 15
    least_steps: int = 450  # more epochs where these take fewer, as on a short log
    batch_size: int = 128  # lists
    learning_rate: float = 3e-3  # falls to zero as a cosine does
    weight_decay: float = 0.1
    refit: bool = True  # once it was measured on the validation lists, learn from them too
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise SettingsError(f"network.{name} is {getattr(self, name)}", "choose 1 or more")
        for name in ("learning_rate", "weight_decay"):
            if getattr(self, name) < 0:
                raise SettingsError(f"network.{name} is {getattr(self, name)}", "choose 0 or more")
        self.model(1)  # what is wrong with its sizes is said now

    def model(self, width: int) -> ScaledCapsE:
        sizes = {name: getattr(self, name) for name in ("filters", "capsule_dim", "dropout")}
        return ScaledCapsE(dim=width, filter_start="distance", **sizes)


@dataclass(frozen=True)
class FeatureScale:
    """What features become before a network sees them."""

    names: tuple[str, ...]  # (F,)
    quantiles: Sequence[Float64s] = field(repr=False)  # of each feature among the training results, ascending

    @classmethod
    def of(cls, table: FeatureTable) -> FeatureScale:
        places, found = np.linspace(0, 1, KNOTS), []
        for column in table.values.T.astype(np.float64):
            values = column[np.isfinite(column)]
            found.append(np.unique(np.quantile(values, places)) if len(values) else np.zeros(1))
        return cls(table.names, found)

    def __call__(self, values: Float32s, *, knows_user: bool = True) -> Float32s:
        """(r, 2F) of one list's features (r, F); 0 where one has no value, or what is not to be known.

        >>> scale = FeatureScale(("rank.position",), [np.array([1.0, 2.0, 3.0])])
        >>> scale(np.array([[1.0], [3.0]], np.float32))
        array([[-1., -1.],
               [ 1.,  1.]], dtype=float32)
        """
        found = np.zeros(values.shape, np.float32)
        for place, (name, quantiles) in enumerate(zip(self.names, self.quantiles, strict=True)):
            if len(quantiles) > 1 and (knows_user or name.split(".")[0] in WITHOUT_USER):
                column = values[:, place].astype(np.float64)
                places = 2 * np.interp(column, quantiles, np.linspace(0, 1, len(quantiles))) - 1
                found[:, place] = np.where(np.isfinite(column), places, 0)
        return np.hstack([found, found - found.mean(axis=0)])

    @property
    def width(self) -> int:
        """Rows of the matrix that are features'."""
        return 2 * len(self.names)


@dataclass(frozen=True)
class CapsuleNetwork:
    """A trained network; its validation figures are those from before it learned from the validation lists."""

    scale: FeatureScale
    settings: NetworkSettings
    scorer: ScaledCapsEScorer = field(repr=False)
    validation_mrr: float | None = None
    validation_mrr_without_user: float | None = None
    knows_user: bool = True

    def predict(self, features: FeatureTable, vectors: ListVectors, lengths: Int64s) -> Float64s:
        """(rows,) scores, higher is better, of lists (lists,) one by one, whatever the order that their rows have."""
        if features.names != self.scale.names:
            others = ", ".join(sorted(set(features.names) ^ set(self.scale.names))) or "their order"
            raise RunError(
                f"the network was trained on other features than these ({others})",
                "train it again with this capse",
            )
        if not self.knows_user:
            vectors = vectors.without_user()
        found = np.empty(len(features))
        for place, rows in enumerate(rows_of_lists(vectors.position, lengths)):
            known = self.scale(features.values[rows], knows_user=self.knows_user)
            query, user = matrix_sides(self.scale, vectors.queries[place], vectors.users[place])
            found[rows] = score_list(self.scorer, query, user, np.hstack([known, vectors.documents[rows]]))
        return found

    def without_user(self) -> CapsuleNetwork:
        """The same network, from which all is kept that knows the user."""
        return replace(self, validation_mrr=self.validation_mrr_without_user, knows_user=False)

    def save(self, folder: str | Path) -> None:
        save_tensors(Path(folder) / _WEIGHTS, dict(self.scorer.state_dict()), {})
        figures = {name: getattr(self, name) for name in ("validation_mrr", "validation_mrr_without_user")}
        features = {name: found.tolist() for name, found in zip(self.scale.names, self.scale.quantiles, strict=True)}
        content = {_SETTINGS: to_mapping(self.settings), "width": self.scorer.relation_width, "features": features}
        write_json(Path(folder) / _DESCRIPTION, content | figures)

    @classmethod
    def load(cls, folder: str | Path) -> CapsuleNetwork:
        path = Path(folder) / _DESCRIPTION
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            settings = fill(NetworkSettings, content[_SETTINGS], _SETTINGS)
            quantiles = [np.array(found, np.float64) for found in content["features"].values()]
            scale = FeatureScale(tuple(content["features"]), quantiles)
            scorer = ScaledCapsEScorer(settings.model(int(content["width"])))
            figures = content["validation_mrr"], content["validation_mrr_without_user"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, SettingsError) as error:
            raise RunError(f"{path} is not a saved network", _REMEDY) from error
        tensors, _ = load_tensors(Path(folder) / _WEIGHTS, _REMEDY)
        try:
            scorer.load_state_dict(tensors)
        except RuntimeError as error:
            raise RunError(f"{Path(folder) / _WEIGHTS} does not fit {path.name}", _REMEDY) from error
        return cls(scale, settings, scorer.eval(), *figures)


def is_network_saved_in(folder: str | Path) -> bool:
    return (Path(folder) / _DESCRIPTION).is_file()


def fresh_scorer(settings: NetworkSettings, width: int) -> ScaledCapsEScorer:
    """One that was not trained; the same seed gives the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(settings.seed)
        return ScaledCapsEScorer(settings.model(width))


def matrix_sides(scale: FeatureScale, query: Float32s, user: Float32s) -> tuple[Float32s, Float32s]:
    """The first two columns of a list's matrix: [1, q] and [0, u]."""
    ones = np.ones(scale.width, np.float32)
    return np.concatenate([ones, query]), np.concatenate([0 * ones, user])


def rows_of_lists(position: Float64s, lengths: Int64s) -> Iterator[Int64s]:
    """The rows of each list, in the engine's order."""
    ends = np.cumsum(lengths)
    for start, end in zip((ends - lengths).tolist(), ends.tolist(), strict=True):
        yield start + np.argsort(position[start:end], kind="stable")
