"""LambdaMART (Burges 2010): gradient-boosted trees that learn to order lists, by LightGBM.

A model is saved as LightGBM's own text with the names of its features as JSON beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from capse.arrays import Bools, Float64s, Int32s, Int64s
from capse.errors import DataError, MissingExtraError, RunError, SettingsError
from capse.runs.atomic import write_json, write_text
from capse.runs.settings import fill, to_mapping
from capse.search.evaluation.list_metrics import graded_ndcg, list_metrics
from capse.search.features.feature_table import FeatureTable
from capse.search.rankers.list_vectors import ListVectors
from capse.search.rankers.tree_loops import Trees

_PLAIN = re.compile(r"[\w.]+")  # names that LightGBM takes


@dataclass(frozen=True)
class LambdaMARTSettings:
    """How trees are grown. The defaults were chosen on gitsearch's training and validation periods."""

    trees: int = 400  # at most, where the validation lists say when to stop
    leaves: int = 31
    learning_rate: float = 0.05
    least_documents: int = 100  # in a leaf
    feature_share: float = 0.3  # of the features, drawn anew for each tree
    patience: int = 100  # trees without a better validation MRR before training stops; 0 grows them all
    refit: bool = True  # once the number of trees is known, learn from the validation lists too: from then on seen
    forests: int = 1  # grown from seeds of their own, and averaged
    seed: int = 0
    threads: int = 1


@dataclass(frozen=True)
class LabelledLists:
    """What a ranking is learned from, or chosen by: features and labels of lists that stand one after the other."""

    features: FeatureTable
    relevant: Bools  # (rows,)
    lengths: Int64s  # (lists,)
    weights: Float64s | None = None  # (lists,) what each counts for; None: all the same
    gains: Float64s | None = None  # (rows,) what each is worth; None: 1 where it is relevant
    vectors: ListVectors | None = None  # for what sees more than features

    @property
    def grades(self) -> tuple[Int32s, list[float]]:
        """(rows,) labels for LightGBM, and what each label gains: worths made to begin at 0."""
        if self.gains is None:
            return self.relevant.astype(np.int32), [0.0, 1.0]
        worths, grades = np.unique(np.append(self.gains, 0.0), return_inverse=True)
        return grades[:-1].astype(np.int32), (worths - worths[0]).tolist()

    @property
    def rows(self) -> Float64s | None:
        """(rows,) the weight of each row's list."""
        return None if self.weights is None else np.repeat(self.weights, self.lengths)

    def mrr(self, scores: Float64s) -> float:
        """The mean over lists, by their weights."""
        return float(np.average(list_metrics(scores, self.relevant, self.lengths).mrr, weights=self.weights))

    def quality(self, scores: Float64s) -> float:
        """What training stops by: the MRR, or the graded NDCG where results are worth more or less."""
        if self.gains is None:
            return self.mrr(scores)
        return float(np.average(graded_ndcg(scores, self.gains, self.lengths), weights=self.weights))

    def per_click(self, weights: Float64s) -> LabelledLists:
        """Each list once for every click in it, counting for the click's weight (rows,); all else is below that click.

        So every pair of a click and another result has the click's weight, as in the propensity-weighted ranking of
        Joachims et al. (2017). The other clicks stay: two relevant results then pull at each other with weights that
        are equal on average. Were they left out, the one above would win, since it is the one below that is often
        not clicked for not being looked at.
        """
        clicks = np.flatnonzero(self.relevant)
        lists = np.repeat(np.arange(len(self.lengths)), self.lengths)[clicks]
        sizes, starts = self.lengths[lists], (np.cumsum(self.lengths) - self.lengths)[lists]
        ends = np.cumsum(sizes)
        rows = np.repeat(starts - ends + sizes, sizes) + np.arange(int(sizes.sum()))
        own = rows == np.repeat(clicks, sizes)
        features = FeatureTable(self.features.names, self.features.values[rows])
        gains = None if self.gains is None else np.where(own | ~self.relevant[rows], self.gains[rows], 0.0)
        vectors = None if self.vectors is None else self.vectors.take(lists, rows)
        return LabelledLists(features, own, sizes, weights[clicks], gains, vectors)

    def followed_by(self, other: LabelledLists) -> LabelledLists:
        """These lists and then others."""
        values = np.concatenate([self.features.values, other.features.values])
        labels = np.concatenate([self.relevant, other.relevant])
        lengths = np.concatenate([self.lengths, other.lengths])
        parts = [lists.weights for lists in (self, other) if lists.weights is not None]
        weights, worths = np.concatenate(parts) if parts else None, (self.gains, other.gains)
        gains = np.concatenate([one for one in worths if one is not None]) if worths[0] is not None else None
        vectors = self.vectors.followed_by(other.vectors) if self.vectors and other.vectors else None
        return LabelledLists(FeatureTable(self.features.names, values), labels, lengths, weights, gains, vectors)


@dataclass(frozen=True)
class LambdaMART:
    """Learned trees."""

    names: tuple[str, ...]
    settings: LambdaMARTSettings
    text: str = field(repr=False)  # LightGBM's models, one after the other
    validation_mrr: float | None = None  # of the trees that were stopped, before they were refitted; see `quality`

    @classmethod
    def fit(
        cls, train: LabelledLists, valid: LabelledLists | None = None, settings: LambdaMARTSettings | None = None
    ) -> LambdaMART:
        """Learn from ``train``; ``valid`` decides by its MRR after how many trees to stop."""
        lightgbm = _lightgbm()
        settings = settings or LambdaMARTSettings()
        names = train.features.names
        if not len(train.lengths):
            raise DataError("no list of the training split has a satisfied click", "there is nothing to learn from")
        if not names:
            raise SettingsError(
                "LambdaMART has no feature to learn from", "choose at least one group that has features"
            )
        forests = [_Forest.grow(lightgbm, train, valid, replace(settings, seed=seed)) for seed in _seeds(settings)]
        found = [forest.on_valid for forest in forests if forest.on_valid is not None]
        reached = None
        if valid is not None and found:
            reached = valid.quality(_mean(found))
        grown = replace(settings, trees=round(float(np.mean([forest.trees for forest in forests]))))
        return cls(names, grown, "".join(forest.text for forest in forests), reached)

    def predict(self, features: FeatureTable) -> Float64s:
        """(rows,) scores, higher is better."""
        if features.names != self.names:
            known = set(features.names) ^ set(self.names)
            raise RunError(
                f"the model was trained on other features than these ({', '.join(sorted(known)) or 'their order'})",
                "train it again with this capse",
            )
        return _mean([trees.predict(features.values) for trees in self._trees])

    def gains(self) -> dict[str, float]:
        """What each feature contributed to the splits, the most useful first."""
        lightgbm = _lightgbm()
        gains = sum(lightgbm.Booster(model_str=text).feature_importance("gain") for text in self._texts)
        return {self.names[place]: float(gains[place]) for place in np.argsort(-gains, kind="stable")}

    def save(self, folder: str | Path, stem: str = "lambdamart") -> None:
        """Write ``stem.txt`` and ``stem.json`` into a folder."""
        write_text(Path(folder) / f"{stem}.txt", self.text)
        content = {"names": list(self.names), "settings": to_mapping(self.settings)}
        write_json(Path(folder) / f"{stem}.json", content | {"validation_mrr": self.validation_mrr})

    @classmethod
    def load(cls, folder: str | Path, stem: str = "lambdamart") -> LambdaMART:
        path = Path(folder) / f"{stem}.json"
        try:
            content: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            names = tuple(str(name) for name in content["names"])
            settings = fill(LambdaMARTSettings, content["settings"])
            text = path.with_suffix(".txt").read_text(encoding="utf-8")
            model = cls(names, settings, text, content["validation_mrr"])
        except (OSError, ValueError, KeyError, TypeError, SettingsError) as error:
            raise RunError(f"{path} is not a saved LambdaMART model", "train it again") from error
        if any(trees.features != len(names) for trees in model._trees):
            raise RunError(f"{path} names {len(names)} features, its model has others", "train it again")
        return model

    @property
    def _texts(self) -> list[str]:
        """LightGBM's models, each of which begins with the line 'tree'."""
        return [text for text in re.split(r"(?m)^(?=tree$)", self.text) if text]

    @cached_property
    def _trees(self) -> list[Trees]:
        try:
            return [Trees.parse(text) for text in self._texts or [""]]
        except (ValueError, KeyError) as error:
            raise RunError("the saved LambdaMART model is damaged", "train it again") from error


@dataclass(frozen=True)
class _Forest:
    """Trees of one seed."""

    text: str
    trees: int
    on_valid: Float64s | None  # scores of the validation lists, where they said when to stop

    @classmethod
    def grow(cls, lightgbm: Any, train: LabelledLists, valid: LabelledLists | None, settings: Any) -> _Forest:
        data = _dataset(lightgbm, train)
        if valid is None or not len(valid.lengths) or not settings.patience:
            booster = lightgbm.train(_parameters(settings, train), data, settings.trees)
            return cls(booster.model_to_string(num_iteration=settings.trees), settings.trees, None)
        judged = valid

        def mrr(scores: Float64s, _: Any) -> tuple[str, float, bool]:
            return "mrr", judged.quality(scores), True

        stop = lightgbm.early_stopping(settings.patience, verbose=False)
        options = {"valid_sets": [_dataset(lightgbm, judged, data)], "feval": mrr, "callbacks": [stop]}
        booster = lightgbm.train(_parameters(settings, train), data, settings.trees, **options)
        trees = booster.best_iteration
        stopped = booster.model_to_string(num_iteration=trees)
        on_valid = Trees.parse(stopped).predict(judged.features.values)
        if not settings.refit:
            return cls(stopped, trees, on_valid)
        every = train.followed_by(judged)
        booster = lightgbm.train(_parameters(settings, every), _dataset(lightgbm, every), trees)
        return cls(booster.model_to_string(num_iteration=trees), trees, on_valid)


def _mean(scores: Sequence[Float64s]) -> Float64s:
    """(rows,) of scores (rows,) by several; of one its own bits."""
    return scores[0] if len(scores) == 1 else np.asarray(np.mean(scores, axis=0), np.float64)


def _seeds(settings: LambdaMARTSettings) -> list[int]:
    """Those of the forests: the seed itself, and others that no other seed has."""
    return [settings.seed + 1_000 * forest for forest in range(settings.forests)]


def _lightgbm() -> Any:
    try:
        import lightgbm
    except ImportError as error:
        raise MissingExtraError("LambdaMART", "search") from error
    return lightgbm


def _dataset(lightgbm: Any, lists: LabelledLists, reference: Any = None) -> Any:
    return lightgbm.Dataset(
        lists.features.values,
        lists.grades[0],
        weight=lists.rows,
        group=lists.lengths[lists.lengths > 0],
        feature_name=[name if _PLAIN.fullmatch(name) else f"column_{i}" for i, name in enumerate(lists.features.names)],
        reference=reference,
        free_raw_data=False,
    )


def _parameters(settings: LambdaMARTSettings, lists: LabelledLists) -> dict[str, Any]:
    graded = {} if lists.gains is None else {"label_gain": lists.grades[1]}
    return graded | {
        "objective": "lambdarank",
        "metric": "None",  # validation MRR is ours
        "num_leaves": settings.leaves,
        "learning_rate": settings.learning_rate,
        "min_data_in_leaf": settings.least_documents,
        "feature_fraction": settings.feature_share,
        "seed": settings.seed,
        "deterministic": True,
        "force_col_wise": True,
        "num_threads": settings.threads,
        "verbosity": -1,
    }
