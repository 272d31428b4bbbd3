"""SP, the learned re-ranker of Bennett et al. (2012) and Vu et al. (2015), and the blend of it with other scores.

Both are LambdaMART over `capse.search.features`; the blend adds columns for the scores of other rankers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from capse.errors import RunError, SettingsError
from capse.runs.atomic import write_json
from capse.search.baselines import in_engine_order
from capse.search.feature_table import FeatureTable, Float32s, Float64s, ranks_within, standardised
from capse.search.features import GROUPS, WITHOUT_USER, build_features
from capse.search.features.profile import Profiles
from capse.search.lambdamart import JudgedLists, LambdaMART, LambdaMARTSettings
from capse.search.lists import Ranker
from capse.search.log import Int64s, SearchLog
from capse.search.profiles import NEAREST, user_vectors


@dataclass(frozen=True)
class SP:
    """LambdaMART over rank, text, clicks, profiles and context. Fit one with `SP.fit`."""

    model: LambdaMART
    anonymous: LambdaMART  # the same, fitted without the groups of features that know the user
    groups: tuple[str, ...]
    vectors: Float32s | None = field(default=None, repr=False)  # (D, k) topics of documents, for the group 'profile'
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
        vectors: Float32s | None = None,
    ) -> SP:
        """Learn from the judged lists of the training split; the validation split says when to stop."""
        return cls._fit(log, cutoffs, settings, tuple(groups), vectors, {}, {}, "sp")

    @classmethod
    def _fit(
        cls,
        log: SearchLog,
        cutoffs: Int64s,
        settings: LambdaMARTSettings | None,
        groups: tuple[str, ...],
        vectors: Float32s | None,
        rankers: Mapping[str, Ranker],
        extra: Mapping[str, Float64s],
        name: str,
    ) -> SP:
        splits = []
        for split in ("train", "valid"):
            impressions = log.judged(split)
            rows, lengths = log.rows(impressions), log.lengths[impressions]
            features = _features(log, impressions, cutoffs, groups, vectors)
            scores = {label: column[rows] for label, column in extra.items()}
            for label, column in scores.items():
                if not np.isfinite(column).all():
                    remedy = "score every judged list of the training and validation splits"
                    raise SettingsError(f"the extra scores {label!r} are not finite in the {split} split", remedy)
            table = FeatureTable.beside([features, score_columns(scores, lengths)])
            splits.append(JudgedLists(table, log.satisfied[rows], lengths))
        train, valid = splits
        kept = tuple(group for group in groups if group in WITHOUT_USER) or groups
        without = [
            replace(lists, features=lists.features.select(lambda column: column.split(".")[0] in kept))
            for lists in splits
        ]
        model = LambdaMART.fit(train, valid, settings)
        anonymous = LambdaMART.fit(without[0], without[1], settings)
        return cls(model, anonymous, groups, vectors, dict(rankers), name)

    def score(self, log: SearchLog, impressions: Int64s, cutoffs: Int64s) -> Float64s:
        """Scores aligned with ``log.rows(impressions)``; results that tie follow the engine's order."""
        features = _features(log, impressions, cutoffs, self.groups, self.vectors)
        scores = {label: ranker.score(log, impressions, cutoffs) for label, ranker in self.rankers.items()}
        table = FeatureTable.beside([features, score_columns(scores, log.lengths[impressions])])
        return in_engine_order(self.model.predict(table), log.position[log.rows(impressions)])

    def without_user(self) -> SP:
        """The ranker that was fitted without what knows the user: history, profile, context and other rankers."""
        kept = tuple(group for group in self.groups if group in WITHOUT_USER) or self.groups
        return replace(
            self, model=self.anonymous, groups=kept, vectors=None, rankers={}, name=f"{self.name} without user"
        )

    def save(self, folder: str | Path) -> None:
        """Write the trees; document vectors and other rankers are saved by whoever made them."""
        folder = Path(folder)
        self.model.save(folder)
        self.anonymous.save(folder, "without_user")
        content = {
            "name": self.name,
            "groups": list(self.groups),
            "vectors": self.vectors is not None,
            "rankers": list(self.rankers),
        }
        write_json(folder / "ranker.json", content)

    @classmethod
    def load(
        cls, folder: str | Path, *, vectors: Float32s | None = None, rankers: Mapping[str, Ranker] | None = None
    ) -> SP:
        """A saved ranker, given again the vectors and rankers that it was fitted with."""
        path = Path(folder) / "ranker.json"
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            name, groups, needed = str(content["name"]), tuple(content["groups"]), list(content["rankers"])
            had_vectors = bool(content["vectors"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path} is not a saved ranker", "train it again") from error
        rankers = dict(rankers or {})
        if list(rankers) != needed or (vectors is not None) != had_vectors:
            wanted = (
                ", ".join([*(["document vectors"] if had_vectors else []), *needed]) or "neither vectors nor rankers"
            )
            raise SettingsError(f"the ranker {path} was fitted with {wanted}", "give it the same again")
        return cls(LambdaMART.load(folder), LambdaMART.load(folder, "without_user"), groups, vectors, rankers, name)


@dataclass(frozen=True)
class Blend(SP):
    """SP with the scores of other rankers among its features."""

    name: str = "blend"

    @classmethod
    def fit_with(
        cls,
        log: SearchLog,
        cutoffs: Int64s,
        rankers: Mapping[str, Ranker],
        extra: Mapping[str, Float64s],
        settings: LambdaMARTSettings | None = None,
        groups: Sequence[str] = GROUPS,
        *,
        vectors: Float32s | None = None,
    ) -> SP:
        """Learn how far to trust ``rankers`` from the scores ``extra`` that they gave to all result rows (m,).

        The scores of training rows must come from rankers that have not seen those rows. A ranker scores what it was
        trained on far better than anything else; trees that see such scores trust it blindly, and fail where it
        matters. ``rankers`` themselves score everything later. Only rows of judged training and validation lists are
        read.
        """
        if set(rankers) != set(extra):
            raise SettingsError(
                "the blend's rankers and scores have different names", "give one column for each ranker"
            )
        for label, column in extra.items():
            if column.shape != log.document.shape:
                remedy = f"give one number for each of the log's {len(log.document)} results"
                raise SettingsError(f"the extra scores {label!r} have shape {column.shape}", remedy)
        return cls._fit(log, cutoffs, settings, tuple(groups), vectors, rankers, extra, "blend")


def _features(
    log: SearchLog, impressions: Int64s, cutoffs: Int64s, groups: Sequence[str], vectors: Float32s | None
) -> FeatureTable:
    if vectors is None or "profile" not in groups:
        return build_features(log, impressions, cutoffs, groups)
    users = {str(scale): user_vectors(log, vectors, cutoffs, scale) for scale in NEAREST}
    return build_features(log, impressions, cutoffs, groups, profiles=Profiles(vectors, users))


def score_columns(scores: Mapping[str, Float64s], lengths: Int64s) -> FeatureTable:
    """Three features for each ranker: its score, how many results it puts before, the score standardised."""
    columns = {}
    for label, column in scores.items():
        columns[f"score.{label}"] = column
        columns[f"score.{label}.rank"] = ranks_within(column, lengths)
        columns[f"score.{label}.standardised"] = standardised(column, lengths)
    return FeatureTable.of(columns, int(lengths.sum()))
