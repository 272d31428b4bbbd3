"""LambdaMART (Burges 2010): gradient-boosted trees that learn to order lists, by LightGBM.

A model is saved as LightGBM's own text with the names of its features as JSON beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from capse.arrays import Bools, Float64s, Int64s
from capse.errors import DataError, MissingExtraError, RunError, SettingsError
from capse.runs.atomic import write_json, write_text
from capse.runs.settings import fill, to_mapping
from capse.search.evaluation.list_metrics import list_metrics
from capse.search.features.feature_table import FeatureTable


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
    seed: int = 0
    threads: int = 1


@dataclass(frozen=True)
class LabelledLists:
    """What a ranking is learned from, or chosen by: features and labels of lists that stand one after the other."""

    features: FeatureTable
    relevant: Bools  # (rows,)
    lengths: Int64s  # (lists,)


@dataclass(frozen=True)
class LambdaMART:
    """Learned trees."""

    names: tuple[str, ...]
    settings: LambdaMARTSettings
    text: str = field(repr=False)  # LightGBM's model
    validation_mrr: float | None = None  # of the trees that were stopped, before they were refitted

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
        stops = valid is not None and len(valid.lengths) > 0 and settings.patience > 0
        options: dict[str, Any] = {}
        if stops and valid is not None:
            judged = valid

            def mrr(scores: Float64s, _: Any) -> tuple[str, float, bool]:
                return "mrr", float(list_metrics(scores, judged.relevant, judged.lengths).mrr.mean()), True

            data = _dataset(lightgbm, train)
            options = {
                "valid_sets": [_dataset(lightgbm, judged, data)],
                "feval": mrr,
                "callbacks": [lightgbm.early_stopping(settings.patience, verbose=False)],
            }
        else:
            data = _dataset(lightgbm, train)
        booster = lightgbm.train(_parameters(settings), data, settings.trees, **options)
        trees = booster.best_iteration if stops else settings.trees
        reached = float(booster.best_score["valid_0"]["mrr"]) if stops else None
        if stops and settings.refit and valid is not None:
            both = LabelledLists(
                FeatureTable(names, np.concatenate([train.features.values, valid.features.values])),
                np.concatenate([train.relevant, valid.relevant]),
                np.concatenate([train.lengths, valid.lengths]),
            )
            booster = lightgbm.train(_parameters(settings), _dataset(lightgbm, both), trees)
        return cls(names, replace(settings, trees=trees), booster.model_to_string(num_iteration=trees), reached)

    def predict(self, features: FeatureTable) -> Float64s:
        """(rows,) scores, higher is better."""
        if features.names != self.names:
            known = set(features.names) ^ set(self.names)
            raise RunError(
                f"the model was trained on other features than these ({', '.join(sorted(known)) or 'their order'})",
                "train it again with this capse",
            )
        return np.asarray(self._booster.predict(features.values, num_threads=self.settings.threads), np.float64)

    def gains(self) -> dict[str, float]:
        """What each feature contributed to the splits, the most useful first."""
        gains = self._booster.feature_importance("gain")
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
        if model._booster.num_feature() != len(names):
            raise RunError(f"{path} names {len(names)} features, its model has others", "train it again")
        return model

    @cached_property
    def _booster(self) -> Any:
        lightgbm = _lightgbm()
        try:
            return lightgbm.Booster(model_str=self.text)
        except lightgbm.basic.LightGBMError as error:
            raise RunError("the saved LambdaMART model is damaged", "train it again") from error


def _lightgbm() -> Any:
    try:
        import lightgbm
    except ImportError as error:
        raise MissingExtraError("LambdaMART", "search") from error
    return lightgbm


def _dataset(lightgbm: Any, lists: LabelledLists, reference: Any = None) -> Any:
    return lightgbm.Dataset(
        lists.features.values,
        lists.relevant.astype(np.int32),
        group=lists.lengths[lists.lengths > 0],
        feature_name=list(lists.features.names),
        reference=reference,
        free_raw_data=False,
    )


def _parameters(settings: LambdaMARTSettings) -> dict[str, Any]:
    return {
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
