"""SP, the learned re-ranker of Bennett et al. (2012) and Vu et al. (2015), and the blend of it with other rankers.

Both are LambdaMART over `capse.search.features`; a blend has the scores of other rankers among its features.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from capse.arrays import Float64s, Int64s
from capse.errors import RunError, SettingsError
from capse.runs.atomic import write_json
from capse.search.evaluation.judged_lists import Ranker
from capse.search.features import GROUPS, WITHOUT_USER, build_features
from capse.search.features.feature_table import FeatureTable, ranks_within, standardised
from capse.search.features.profile_match import Profiles
from capse.search.logs.search_log import SearchLog
from capse.search.rankers.baselines import SE, in_engine_order
from capse.search.rankers.lambdamart import LabelledLists, LambdaMART, LambdaMARTSettings
from capse.search.rankers.neural import NeuralRanker
from capse.search.rankers.search_run import SearchRun
from capse.search.users.profiles import NEAREST, user_vectors
from capse.search.vectors.vector_space import VectorSpace

SCORE = "score"  # the group of what other rankers say
VECTORS, DESCRIPTION, RANKERS = "vectors", "ranker.json", "rankers"  # in a saved ranker's folder
ANONYMOUS = "without_user"  # the stem of the trees without the user


@dataclass(frozen=True)
class SP:
    """LambdaMART over rank, text, clicks, profiles, context and what other rankers say. Fit one with `SP.fit`."""

    model: LambdaMART
    anonymous: LambdaMART | None  # fitted without what knows the user; None where nothing is left then
    groups: tuple[str, ...]
    space: VectorSpace | None = field(default=None, repr=False)  # topics, for the group 'profile'
    rankers: Mapping[str, Ranker] = field(default_factory=dict, repr=False)  # whose scores are features too
    name: str = "sp"

    @classmethod
    def fit(
        cls,
        log: SearchLog,
        cutoffs: Int64s,
        settings: LambdaMARTSettings | None = None,
        groups: Sequence[str] = GROUPS,
        *,
        space: VectorSpace | None = None,
        rankers: Mapping[str, Ranker] | None = None,
        scores: Mapping[str, Float64s] | None = None,
    ) -> SP:
        """Learn from the judged lists of the training split; the validation split says when to stop.

        With ``rankers`` it becomes a blend: ``scores`` (m,) are what each of them says of the log's results. Those of
        a training list must come from a ranker that has not seen it (`capse.experiments.search.cross_fitting`): a
        ranker scores what it was trained on far better than anything else, and trees that see such scores trust it
        blindly. NaN stands for 'not scored'; a training or validation list has either all scores or none.
        """
        rankers, scores = dict(rankers or {}), dict(scores or {})
        _check(log, rankers, scores)
        train, valid = (_judged(log, split, cutoffs, tuple(groups), space, scores) for split in ("train", "valid"))
        model = LambdaMART.fit(train, valid, settings)
        anonymous = None
        if set(WITHOUT_USER) & set(groups):
            anonymous = LambdaMART.fit(_only(train, WITHOUT_USER), _only(valid, WITHOUT_USER), settings)
        return cls(model, anonymous, tuple(groups), space, rankers, "blend" if rankers else "sp")

    def score(self, log: SearchLog, impressions: Int64s, cutoffs: Int64s) -> Float64s:
        """Scores aligned with ``log.rows(impressions)``; results that tie follow the engine's order."""
        scores = {label: ranker.score(log, impressions, cutoffs) for label, ranker in self.rankers.items()}
        features = _features(log, impressions, cutoffs, self.groups, self.space, scores)
        return in_engine_order(self.model.predict(features), log.position[log.rows(impressions)])

    def without_user(self) -> Ranker:
        """Trees that were fitted without what knows the user: history, profile, context and other rankers."""
        if self.anonymous is None:
            return SE()  # nothing is left to go by
        groups = tuple(group for group in self.groups if group in WITHOUT_USER)
        return replace(
            self, model=self.anonymous, groups=groups, space=None, rankers={}, name=f"{self.name} for anyone"
        )

    def save(self, folder: str | Path) -> None:
        """Write the trees and the vectors; other rankers are saved by whoever made them."""
        folder = Path(folder)
        self.model.save(folder)
        if self.anonymous is not None:
            self.anonymous.save(folder, ANONYMOUS)
        if self.space is not None:
            self.space.save(folder / VECTORS)
        content = {"name": self.name, "groups": self.groups, "rankers": list(self.rankers)}
        has = {VECTORS: self.space is not None, ANONYMOUS: self.anonymous is not None}
        write_json(folder / DESCRIPTION, content | has)

    @classmethod
    def load(cls, folder: str | Path, rankers: Mapping[str, Ranker] | None = None) -> SP:
        """A saved ranker, given again the rankers that it was fitted with, or with those whose runs are inside.

        Nothing in the folder is executed.
        """
        folder = Path(folder)
        content, needed = _description(folder), ranker_names(folder)
        if rankers is None:
            rankers = {
                label: NeuralRanker(SearchRun.load(run_inside(folder, label)), unknown="model") for label in needed
            }
        name, groups = str(content["name"]), tuple(map(str, content["groups"]))
        has = {key: bool(content[key]) for key in (VECTORS, ANONYMOUS)}
        if list(rankers) != needed:
            fitted_with = ", ".join(needed) or "no other ranker"
            raise SettingsError(f"the ranker in {folder} was fitted with {fitted_with}", "give it the same again")
        space = VectorSpace.load(folder / VECTORS) if has[VECTORS] else None
        anonymous = LambdaMART.load(folder, ANONYMOUS) if has[ANONYMOUS] else None
        return cls(LambdaMART.load(folder), anonymous, groups, space, rankers, name)


def ranker_names(folder: str | Path) -> list[str]:
    """The other rankers that a saved one was fitted with."""
    return [str(label) for label in _description(Path(folder))["rankers"]]


def run_inside(folder: str | Path, label: str | None = None) -> Path:
    """Where the run of another ranker lies inside a blend's; of its only one, if none is named."""
    return Path(folder) / RANKERS / (label or ranker_names(folder)[0])


def _description(folder: Path) -> Mapping[str, Any]:
    path = folder / DESCRIPTION
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        kinds = {"name": str, "groups": list, "rankers": list, VECTORS: bool, ANONYMOUS: bool}
        if not all(isinstance(content[key], kind) for key, kind in kinds.items()):
            raise TypeError(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} is not a saved ranker", "train it again") from error
    return dict(content)


def score_columns(scores: Mapping[str, Float64s], lengths: Int64s) -> FeatureTable:
    """Two features for each ranker: how many results of the list it puts before, and its score standardised there.

    Not the score itself: rankers trained on different parts of a log give scores on different scales.
    """
    columns = {}
    for label, column in scores.items():
        columns[f"{SCORE}.{label}.rank"] = np.where(np.isnan(column), np.nan, ranks_within(column, lengths))
        columns[f"{SCORE}.{label}.standardised"] = standardised(column, lengths)
    return FeatureTable.of(columns, int(lengths.sum()))


def _features(
    log: SearchLog,
    impressions: Int64s,
    cutoffs: Int64s,
    groups: Sequence[str],
    space: VectorSpace | None,
    scores: Mapping[str, Float64s],
) -> FeatureTable:
    profiles = None
    if space is not None and "profile" in groups:
        documents = space.vectors(log).documents
        profiles = Profiles(documents, {scale: user_vectors(log, documents, cutoffs, scale) for scale in NEAREST})
    table = build_features(log, impressions, cutoffs, groups, profiles=profiles)
    return FeatureTable.beside([table, score_columns(scores, log.lengths[impressions])])


def _judged(
    log: SearchLog,
    split: str,
    cutoffs: Int64s,
    groups: tuple[str, ...],
    space: VectorSpace | None,
    scores: Mapping[str, Float64s],
) -> LabelledLists:
    impressions = log.judged(split)
    rows = log.rows(impressions)
    of_rows = {label: column[rows] for label, column in scores.items()}
    features = _features(log, impressions, cutoffs, groups, space, of_rows)
    return LabelledLists(features, log.satisfied[rows], log.lengths[impressions])


def _only(lists: LabelledLists, groups: Sequence[str]) -> LabelledLists:
    return replace(lists, features=lists.features.select(lambda column: column.split(".")[0] in groups))


def _check(log: SearchLog, rankers: Mapping[str, Ranker], scores: Mapping[str, Float64s]) -> None:
    if set(rankers) != set(scores):
        raise SettingsError("the blend's rankers and scores have different names", "give one column for each ranker")
    for label, column in scores.items():
        if column.shape != log.document.shape:
            remedy = f"give one number for each of the log's {len(log.document)} results"
            raise SettingsError(f"the scores {label!r} have shape {column.shape}", remedy)
        if np.isinf(column).any():
            raise SettingsError(f"the scores {label!r} are not finite", "train that ranker with a lower learning rate")
