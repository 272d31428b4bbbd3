"""New facts and new entities without training again.

A fact about entities that the run knows is from then on known, and shown and filtered as such; no vector moves. An
entity that the run does not know gets a vector from its facts (`fold_in`). All other numbers of the model stay what
they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from capse.arrays import Int64s
from capse.errors import DataError, RunError, UnknownNameError
from capse.graph.dataset import Graph
from capse.graph.encoding import distinct, weights_of
from capse.graph.fold_in import FoldIn, fold_in
from capse.graph.readers import format_of
from capse.graph.readers.memory import labelled_rows, weight_column
from capse.graph.readers.rows import checked_labels
from capse.graph.refinement.refined_model import RefinedModel
from capse.graph.vocabulary import Vocabulary
from capse.models import TripleModel, build_model
from capse.models.rules import RuleModel
from capse.triples import HEAD, TAIL, TripleIndex, Triples

if TYPE_CHECKING:
    from capse.graph.link_prediction.predictor import LinkPredictor

_REMEDY = "give columns head, relation and tail"


@dataclass(frozen=True)
class NewFacts:
    """Facts to add, checked against a graph; ids from the graph's number of entities on are of ``labels``."""

    triples: Int64s  # (n, 3)
    labels: list[str]  # of new entities
    repeated: int = 0  # facts that stood there twice


@dataclass(frozen=True)
class Described:
    """A new entity by something else than its facts."""

    name: str
    vector: torch.Tensor  # (width,) where it begins, and stays if it has no facts


def updated(
    predictor: LinkPredictor,
    facts: Any,
    settings: FoldIn | None = None,
    *,
    skip_known: bool = False,
    described: Mapping[str, Described] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> LinkPredictor:
    """A predictor that knows the facts, a file or by labels, and their new entities; the given one stays as it is.

    A fact that is known already is an error, unless ``skip_known`` leaves it out. New entities that are ``described``,
    by label, need no fact.
    """
    described = described or {}
    new = check_facts(predictor.graph, facts, skip_known=skip_known, required=not described)
    labels = list(dict.fromkeys([*new.labels, *described]))
    return with_facts(predictor, replace(new, labels=labels), settings, progress, described)


def check_facts(graph: Graph, facts: Any, *, skip_known: bool = False, required: bool = True) -> NewFacts:
    """The facts of a file or by labels or names, none of them known, all of known relations."""
    new: dict[str, int] = {}
    rows: dict[tuple[int, int, int], None] = {}
    repeated = 0
    for where, labels in _labelled(facts):
        triple = _encoded(graph, where, labels, new)
        if max(triple[HEAD], triple[TAIL]) < len(graph.entities):
            known = bool(graph.known.contains(*np.array([triple]).T)[0])
            if known and not skip_known:
                raise DataError(f"{where}: ({', '.join(labels)}) is a known fact already", "remove it")
            if known:
                continue
        repeated += triple in rows
        rows[triple] = None
    if not rows and required:
        raise DataError("there is no new fact", "give some that the run does not know")
    ordered = list(new)
    return NewFacts(np.array(list(rows), np.int64).reshape(-1, 3), ordered, repeated)


def with_facts(
    predictor: LinkPredictor,
    new: NewFacts,
    settings: FoldIn | None = None,
    progress: Callable[[int, int], None] | None = None,
    described: Mapping[str, Described] | None = None,
) -> LinkPredictor:
    """A predictor that knows new facts and their entities, all of which are folded in together."""
    check_grows(predictor.model)
    graph = predictor.graph
    train = TripleIndex(graph.train, len(graph.entities), len(graph.relations))
    first, told = len(graph.entities), described or {}
    begin = {first + i: told[label].vector for i, label in enumerate(new.labels) if label in told}
    vectors = fold_in(predictor.model, new.triples, train, settings, progress, begin)
    return with_vectors(predictor, new, vectors, {label: one.name for label, one in told.items()})


def check_grows(model: TripleModel) -> None:
    """A RunError for a model that cannot take new entities."""
    if isinstance(model, RefinedModel):
        raise RunError("a refined run takes no new facts", "update the run that was refined, and refine it again")
    if model.settings is None:
        raise RunError("this model does not say what its settings are", "make it with build_model")


def with_vectors(
    predictor: LinkPredictor, new: NewFacts, vectors: torch.Tensor, names: Mapping[str, str] | None = None
) -> LinkPredictor:
    """A predictor that knows new facts, and their entities by the vectors (n, width) that they were given."""
    from capse.graph.link_prediction.predictor import LinkPredictor

    model, graph = predictor.model, predictor.graph
    entities, place = _with_labels(graph.entities, new.labels, names or {})
    grown = _grown(graph, entities, place, new.triples)
    table = torch.empty(len(entities), model.entities.shape[1], dtype=model.entities.dtype, device=model.device)
    table[torch.from_numpy(place)] = torch.cat([model.entities.detach(), vectors.to(model.device)])
    larger = _larger(model, table, grown)
    return LinkPredictor(larger.to(model.device), grown, predictor.folder)


def _with_labels(before: Vocabulary, labels: Sequence[str], names: Mapping[str, str]) -> tuple[Vocabulary, Int64s]:
    """A vocabulary with new labels, and the id there of each old label and of each new one."""
    named = {} if before.names is None else dict(zip(before.labels, before.names, strict=True))
    entities = Vocabulary.of([*before.labels, *labels], {**named, **names}, before.kind)
    places = {label: i for i, label in enumerate(entities.labels)}
    return entities, np.array([places[label] for label in (*before.labels, *labels)], np.int64)


def _grown(graph: Graph, entities: Vocabulary, place: Int64s, facts: Int64s) -> Graph:
    def moved(triples: Triples) -> Any:
        rows = np.asarray(triples, np.int64).copy()
        rows[:, [HEAD, TAIL]] = place[rows[:, [HEAD, TAIL]]]
        return distinct(rows.astype(np.int32), len(entities), len(graph.relations))

    every = {"valid": graph.valid, "test": graph.test, "train": np.concatenate([graph.train.astype(np.int64), facts])}
    splits = {split: moved(triples) for split, triples in every.items()}
    index = TripleIndex(graph.train[:0], len(entities), len(graph.relations))
    weights = {}
    for split, given in graph.weights.items():
        added = np.ones(len(every[split]) - len(given), np.float32)  # a new fact weighs 1
        rows = every[split].astype(np.int64)
        rows[:, [HEAD, TAIL]] = place[rows[:, [HEAD, TAIL]]]
        weights[split] = weights_of(splits[split], rows.astype(np.int32), np.concatenate([given, added]), index)
    return Graph(graph.name, entities, graph.relations, **splits, weights=weights, values=graph.values)


def _larger(model: TripleModel, table: torch.Tensor, graph: Graph) -> TripleModel:
    """The same model with another entity table."""
    assert model.settings is not None
    larger = build_model(model.settings, len(graph.entities), len(graph.relations))
    state = dict(model.state_dict()) | {"entities": table}
    if isinstance(model, RuleModel):
        state["facts"] = torch.from_numpy(graph.train.astype(np.int64))
    larger.load_state_dict(state)
    return larger.eval()


def _labelled(facts: Any) -> Iterator[tuple[str, list[str]]]:
    if isinstance(facts, str | Path):
        file = Path(facts)
        source = format_of(file)
        rows: Iterable[tuple[str, Sequence[object]]] = (
            (f"{file}, {source.unit} {number}", fields) for number, fields in source.rows(file)
        )
    else:
        rows = ((f"fact {number}", row) for number, row in enumerate(labelled_rows("facts", facts), start=1))
    for where, fields in rows:
        yield where, checked_labels(where, fields, _REMEDY)
    weights = source.read(file).weights if isinstance(facts, str | Path) else weight_column(facts)
    if weights is not None:
        raise DataError("the new facts have weights, which only training heeds", "leave their column out")


def _encoded(graph: Graph, where: str, labels: Sequence[str], new: dict[str, int]) -> tuple[int, int, int]:
    head, relation, tail = labels
    try:
        place = graph.relations.id(relation)
    except UnknownNameError as error:
        raise DataError(f"{where}: {error.message}", error.remedy or "relations cannot be added") from error
    ids = []
    for label in (head, tail):
        known = graph.entities.find(label)
        ids.append(new.setdefault(label, len(graph.entities) + len(new)) if known is None else known)
    return ids[0], place, ids[1]
