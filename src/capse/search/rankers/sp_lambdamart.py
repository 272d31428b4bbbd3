"""SP, the learned re-ranker of Bennett et al. (2012) and Vu et al. (2015), and the blend of it with other rankers.

Both are LambdaMART over `capse.search.features`; a blend has the scores of other rankers among its features. A capsule
network over the same features, and topics, takes the place of the trees where one is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from capse.arrays import Float64s, Int64s
from capse.errors import RunError, SettingsError
from capse.runs.atomic import atomic_path, write_json
from capse.search.bias.settings import PositionBias
from capse.search.evaluation.judged_lists import Ranker
from capse.search.features import GROUPS, WITHOUT_USER, log_features
from capse.search.features.feature_table import FeatureTable, ranks_within, standardised
from capse.search.features.item_fields import KnownFields
from capse.search.features.text_match import TextMatch
from capse.search.logs.actions import EventWeights
from capse.search.logs.documents import Documents
from capse.search.logs.field_values import Column, from_arrow, to_arrow
from capse.search.logs.history import earlier_clicks
from capse.search.logs.search_log import SearchLog
from capse.search.rankers.baselines import SE, in_engine_order
from capse.search.rankers.capsule_network import CapsuleNetwork, is_network_saved_in
from capse.search.rankers.lambdamart import LabelledLists, LambdaMART, LambdaMARTSettings
from capse.search.rankers.list_vectors import ListVectors
from capse.search.rankers.neural import NeuralRanker
from capse.search.rankers.search_run import SearchRun
from capse.search.rankers.standing import Standing
from capse.search.rankers.training_past import TrainingPast
from capse.search.vectors.vector_space import VectorSpace

Featured = Callable[[Int64s], FeatureTable]  # the features of some impressions of a log
Train = Callable[[LabelledLists, LabelledLists], CapsuleNetwork]  # on training lists, measured on validation lists

SCORE = "score"  # the group of what other rankers say
VECTORS, DESCRIPTION, RANKERS = "vectors", "ranker.json", "rankers"  # in a saved ranker's folder
CATALOGUE = "catalogue.parquet"  # the documents' titles and words
ITEMS = "items.parquet"  # the documents' fields, in the same order
ANONYMOUS = "without_user"  # the stem of the trees without the user


@dataclass(frozen=True)
class SP:
    """LambdaMART over rank, text, clicks, profiles, context and what other rankers say. Fit one with `SP.fit`."""

    model: LambdaMART | CapsuleNetwork
    anonymous: LambdaMART | CapsuleNetwork | None  # without what knows the user; None where nothing is left then
    groups: tuple[str, ...]
    space: VectorSpace | None = field(default=None, repr=False)  # topics, for the group 'profile'
    rankers: Mapping[str, Ranker] = field(default_factory=dict, repr=False)  # whose scores are features too
    name: str = "sp"
    standing: Standing = field(default_factory=Standing)
    past: TrainingPast = field(default_factory=TrainingPast.empty, repr=False)
    text: TextMatch = field(default_factory=lambda: TextMatch(Documents([], [], [], [])), repr=False)
    known: KnownFields = field(default_factory=KnownFields)
    items: Mapping[str, Column] = field(default_factory=dict, repr=False)  # fields of the text's documents

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
        bias: PositionBias | None = None,
        events: EventWeights | None = None,
        train_network: Train | None = None,
    ) -> SP:
        """Learn from the judged lists of the training split; the validation split says when to stop.

        With ``rankers`` it becomes a blend: ``scores`` (m,) are what each of them says of the log's results. Those of
        a training list must come from a ranker that has not seen it (`capse.experiments.search.cross_fitting`): a
        ranker scores what it was trained on far better than anything else, and trees that see such scores trust it
        blindly. NaN stands for 'not scored'; a training or validation list has either all scores or none.

        Where the log has events that are no clicks, a result's grade is what its user did, weighed by ``events``.

        With a ``bias`` every click counts for its inverse propensity, in training and where validation decides. With
        ``train_network`` a network learns instead of trees, which also sees the vectors of the ``space``.
        """
        rankers, scores = dict(rankers or {}), dict(scores or {})
        _check(log, rankers, scores)
        text, known = TextMatch(log.documents.counted()), KnownFields.of(log)
        weights = None if bias is None else bias.weights(log, log.of_split("train"))
        features = _features_of(log, cutoffs, tuple(groups), space, scores, text, known)
        gains = log.actions.gains(log.satisfied, events or EventWeights()) if known.kinds else None
        vectors = None if train_network is None else partial(_vectors, log, cutoffs, space)
        train, valid = (_judged(log, split, features, weights, gains, vectors) for split in ("train", "valid"))
        model: LambdaMART | CapsuleNetwork
        anonymous: LambdaMART | CapsuleNetwork | None
        if train_network is None:
            model, anonymous = _trees(train, valid, settings or LambdaMARTSettings())
        else:
            model = train_network(train, valid)
            anonymous = model.without_user()
        name, past = "blend" if rankers else "sp", TrainingPast.of(log, known.schema.most_days)
        standing = Standing(
            _engine(log, weights, gains),
            model.validation_mrr,
            anonymous.validation_mrr if anonymous else None,
            metric="MRR" if gains is None else "graded NDCG",
        )
        items = log.fields.item
        return cls(model, anonymous, tuple(groups), space, rankers, name, standing, past, text, known, items)

    def score(self, log: SearchLog, impressions: Int64s, cutoffs: Int64s) -> Float64s:
        """Scores aligned with ``log.rows(impressions)``; results that tie follow the engine's order."""
        scores = {label: ranker.score(log, impressions, cutoffs) for label, ranker in self.rankers.items()}
        text = self.text if self.text.documents.ids == log.documents.ids else TextMatch(log.documents)
        self.check_fields(log)
        features = _features(log, impressions, cutoffs, self.groups, self.space, scores, text, self.known)
        position, lengths = log.position[log.rows(impressions)], log.lengths[impressions]
        vectors = _vectors(log, cutoffs, self.space, impressions) if self.sees_vectors else None
        found = in_engine_order(self._predict(features, vectors, lengths), position)
        known = earlier_clicks(log, impressions, cutoffs) > 0
        return self.standing.applied(found, position.astype(np.float64), known, lengths)

    def check_fields(self, log: SearchLog) -> None:
        """Refuse a log whose fields are others than those that were learned from."""
        if differences := log.fields.schema.differences(self.known.schema):
            raise SettingsError(
                f"the log has other fields than the run was trained with: {differences[0]}",
                "ingest it with the schema of then, or train a run on it",
            )

    @property
    def trees(self) -> LambdaMART:
        """Its trees, where it is no network."""
        assert isinstance(self.model, LambdaMART)
        return self.model

    @property
    def sees_vectors(self) -> bool:
        """Whether it is a network, which sees topics as well as features."""
        return isinstance(self.model, CapsuleNetwork)

    def score_list(
        self,
        features: FeatureTable,
        scores: Mapping[str, Float64s],
        positions: Sequence[int],
        vectors: ListVectors | None = None,
    ) -> Float64s:
        """The same for one list with these features, whatever the engine's standing."""
        lengths = np.array([len(positions)])
        table = FeatureTable.beside([features, score_columns(scores, lengths)])
        return in_engine_order(self._predict(table, vectors, lengths), np.array(positions))

    def _predict(self, features: FeatureTable, vectors: ListVectors | None, lengths: Int64s) -> Float64s:
        if not isinstance(self.model, CapsuleNetwork):
            return self.trees.predict(features)
        assert vectors is not None
        return self.model.predict(features, vectors, lengths)

    def without_user(self) -> Ranker:
        """Trees that were fitted without what knows the user: history, profile, context and other rankers.

        Of a network the same one, from which these are kept.
        """
        if self.anonymous is None:
            return SE()  # nothing is left to go by
        name = f"{self.name} for anyone"
        if self.sees_vectors:
            return replace(self, model=self.anonymous, name=name, standing=Standing())
        groups = tuple(group for group in self.groups if group in WITHOUT_USER)
        return replace(
            self, model=self.anonymous, groups=groups, space=None, rankers={}, name=name, standing=Standing()
        )

    def save(self, folder: str | Path) -> None:
        """Write the trees, the vectors, the catalogue's words and the past; other rankers save themselves."""
        folder = Path(folder)
        self.text.documents.save(folder / CATALOGUE)
        self.past.save(folder)
        self.standing.save(folder)
        if self.items:
            table = {"document": pa.array(self.text.documents.ids, pa.string())} | to_arrow(self.items)
            with atomic_path(folder / ITEMS) as temporary:
                pq.write_table(pa.table(table), temporary)
        self.model.save(folder)
        has_trees_of_anyone = isinstance(self.anonymous, LambdaMART)
        if isinstance(self.anonymous, LambdaMART):
            self.anonymous.save(folder, ANONYMOUS)
        if self.space is not None:
            self.space.save(folder / VECTORS)
        content = {"name": self.name, "groups": self.groups, "rankers": list(self.rankers)}
        has = {VECTORS: self.space is not None, ANONYMOUS: has_trees_of_anyone}
        said = {"fields": self.known.to_mapping()} if self.known else {}
        write_json(folder / DESCRIPTION, content | has | said)

    @classmethod
    def load(cls, folder: str | Path, rankers: Mapping[str, Ranker] | None = None) -> SP:
        """A saved ranker, given again the rankers that it was fitted with, or with those whose runs are inside.

        Nothing in the folder is executed.
        """
        folder = Path(folder)
        content, needed = _description(folder), ranker_names(folder)
        if not (folder / CATALOGUE).exists():  # its features counted what nobody knows of a list that is served
            raise RunError(f"{folder} is of capse 0.1.0, which alone can use it", "train it again: capse search train")
        if rankers is None:
            rankers = {
                label: NeuralRanker(SearchRun.load(run_inside(folder, label)), ranks="model") for label in needed
            }
        name, groups = str(content["name"]), tuple(map(str, content["groups"]))
        has = {key: bool(content[key]) for key in (VECTORS, ANONYMOUS)}
        if list(rankers) != needed:
            fitted_with = ", ".join(needed) or "no other ranker"
            raise SettingsError(f"the ranker in {folder} was fitted with {fitted_with}", "give it the same again")
        space = VectorSpace.load(folder / VECTORS) if has[VECTORS] else None
        model, anonymous = _load_models(folder, has[ANONYMOUS])
        text = TextMatch(Documents.load(folder / CATALOGUE))
        past, standing = TrainingPast.load(folder), Standing.load(folder)
        known = KnownFields.from_mapping(content["fields"]) if "fields" in content else KnownFields()
        items = _items(folder / ITEMS, known) if known.schema.item else {}
        return cls(model, anonymous, groups, space, rankers, name, standing, past, text, known, items)


def _load_models(
    folder: Path, has_trees_of_anyone: bool
) -> tuple[LambdaMART | CapsuleNetwork, LambdaMART | CapsuleNetwork | None]:
    if is_network_saved_in(folder):
        network = CapsuleNetwork.load(folder)
        return network, network.without_user()
    return LambdaMART.load(folder), LambdaMART.load(folder, ANONYMOUS) if has_trees_of_anyone else None


def _items(path: Path, known: KnownFields) -> Mapping[str, Column]:
    try:
        return from_arrow(known.schema.item, pq.read_table(path))
    except (OSError, pa.ArrowException, KeyError) as error:
        raise RunError(f"{path} is missing or damaged", "train the run again") from error


def is_saved_in(folder: str | Path) -> bool:
    """Whether a folder is that of a saved ranker."""
    return (Path(folder) / DESCRIPTION).is_file()


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
    text: TextMatch,
    known: KnownFields,
    learning: bool = False,
) -> FeatureTable:
    vectors = space.vectors(log).documents if space is not None and "profile" in groups else None
    table = log_features(log, impressions, cutoffs, groups, text=text, vectors=vectors, known=known, learning=learning)
    return FeatureTable.beside([table, score_columns(scores, log.lengths[impressions])])


def _judged(
    log: SearchLog,
    split: str,
    features: Featured,
    weights: Float64s | None,
    gains: Float64s | None = None,
    vectors: Callable[[Int64s], ListVectors] | None = None,
) -> LabelledLists:
    """The lists of a split that have a satisfied click; with ``weights`` (m,) each of them once for every click."""
    impressions = log.judged(split)
    rows = log.rows(impressions)
    lists = LabelledLists(
        features(impressions),
        log.satisfied[rows],
        log.lengths[impressions],
        gains=None if gains is None else gains[rows],
        vectors=None if vectors is None else vectors(impressions),
    )
    return lists if weights is None else lists.per_click(weights[rows])


def _features_of(
    log: SearchLog,
    cutoffs: Int64s,
    groups: tuple[str, ...],
    space: VectorSpace | None,
    scores: Mapping[str, Float64s],
    text: TextMatch,
    known: KnownFields,
) -> Featured:
    def features(impressions: Int64s) -> FeatureTable:
        rows = log.rows(impressions)
        of_rows = {label: column[rows] for label, column in scores.items()}
        return _features(log, impressions, cutoffs, groups, space, of_rows, text, known, learning=True)

    return features


def _engine(log: SearchLog, weights: Float64s | None, gains: Float64s | None) -> float | None:
    """The engine's quality on the validation lists."""
    if not len(log.judged("valid")):
        return None

    def place(impressions: Int64s) -> FeatureTable:
        position = log.position[log.rows(impressions)].astype(np.float64)
        return FeatureTable.of({"position": position}, len(position))

    lists = _judged(log, "valid", place, weights, gains)
    return lists.quality(-lists.features.values[:, 0].astype(np.float64))


def _trees(
    train: LabelledLists, valid: LabelledLists, settings: LambdaMARTSettings
) -> tuple[LambdaMART, LambdaMART | None]:
    """Trees over all features, and over those that know no user, where there are any."""
    model, anonymous = LambdaMART.fit(train, valid, settings), None
    if any(name.split(".")[0] in WITHOUT_USER for name in train.features.names):
        one = replace(settings, forests=1)  # for comparison only
        anonymous = LambdaMART.fit(_only(train, WITHOUT_USER), _only(valid, WITHOUT_USER), one)
    return model, anonymous


def _vectors(log: SearchLog, cutoffs: Int64s, space: VectorSpace | None, impressions: Int64s) -> ListVectors:
    if space is None:
        raise SettingsError("a network is to see topics, and there is no space of them", "give one")
    return ListVectors.of_log(log, impressions, cutoffs, space)


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
