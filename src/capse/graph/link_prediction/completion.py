"""What completes a triple: the best heads, tails or relations for one query, or for a file of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from capse.arrays import Float64s
from capse.errors import SettingsError
from capse.evaluation.ranks import NonFiniteScoreError
from capse.graph.dataset import Graph
from capse.graph.link_prediction.calibration import Calibration
from capse.graph.link_prediction.candidates import Candidates
from capse.graph.link_prediction.queries import FREE, Queries, encode_query, read_queries
from capse.graph.link_prediction.ranking import BYTES_PER_SCORE, MOST_CPU_MEMORY
from capse.graph.vocabulary import Vocabulary
from capse.runs.atomic import atomic_path
from capse.triples import HEAD, RELATION, TAIL, Ids

if TYPE_CHECKING:
    from capse.graph.link_prediction.predictor import LinkPredictor

SCHEMA = pa.schema(
    [
        ("head", pa.string()),  # the query, by labels; a head or a tail that it asks for is null
        ("relation", pa.string()),  # of the query; the answer where it asks for a relation
        ("tail", pa.string()),
        ("rank", pa.int32()),
        ("entity", pa.string()),  # the answer; null where the query asks for a relation
        ("name", pa.string()),
        ("score", pa.float64()),
        ("known", pa.bool_()),
        ("probability", pa.float64()),  # null where the run is not calibrated, and of relations
    ]
)
_MOST_PREDICTIONS = 2**19  # held at a time, and in one row group of the output


@dataclass(frozen=True)
class Prediction:
    """An entity that may complete a triple."""

    entity: str  # its label
    name: str
    score: float
    known: bool  # the completed triple is in some split of the run's graph
    probability: float | None = None  # see calibration.py; None where the run is not calibrated

    def to_json(self) -> dict[str, Any]:
        """What ``capse predict --json`` prints."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class PredictedRelation:
    """A relation that may hold between two entities."""

    relation: str  # its label
    name: str
    score: float
    known: bool  # the completed triple is in some split of the run's graph

    def to_json(self) -> dict[str, Any]:
        """What ``capse predict --json`` prints."""
        return asdict(self)


def predict(
    predictor: LinkPredictor,
    *,
    relation: str | None = None,
    head: str | None = None,
    tail: str | None = None,
    top: int = 10,
    new: bool = False,
    among: Candidates | None = None,
) -> list[Prediction] | list[PredictedRelation]:
    """The ``top`` answers that best complete (head, relation, ?), (?, relation, tail) or (head, ?, tail), best first.

    Labels or names will do. Answers of equal score are ordered by label. With ``new``, known facts are left out;
    with ``among`` only those candidates may answer, who are entities.

    >>> import torch
    >>> from capse.graph.dataset import Graph
    >>> from capse.graph.link_prediction.predictor import LinkPredictor
    >>> from capse import DistMult
    >>> from capse.models import build_model
    >>> graph = Graph.from_triples([("berlin", "capital_of", "germany"), ("paris", "capital_of", "france")])
    >>> model = build_model(DistMult(dim=1), entities=4, relations=1)
    >>> _ = model.entities.data.copy_(torch.tensor([[1.0], [2.0], [4.0], [2.0]]))
    >>> _ = model.relations.data.fill_(1)
    >>> for answer in predict(LinkPredictor(model, graph), relation="capital_of", head="berlin", top=3):
    ...     print(answer.entity, answer.score, answer.known)
    germany 4.0 True
    france 2.0 False
    paris 2.0 False
    """
    if [head, relation, tail].count(None) != 1:
        raise SettingsError("a query has two of head, relation and tail", "give two; the third is what is asked for")
    if among is not None and relation is None:
        raise SettingsError("candidates are entities, and a relation is asked for", "leave them out")
    query = np.array([encode_query(predictor.graph, head, relation, tail)], np.int32)
    table = _table(predictor, query, top, new, among)
    if relation is None:
        return [PredictedRelation(**row) for row in table.select(["relation", "name", "score", "known"]).to_pylist()]
    return [Prediction(**row) for row in table.select(["entity", "name", "score", "known", "probability"]).to_pylist()]


def predict_file(
    predictor: LinkPredictor,
    queries: str | Path,
    out: str | Path,
    *,
    top: int = 10,
    new: bool = False,
    among: Candidates | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Complete a file of queries (see `read_queries`) into a Parquet file with the columns of ``SCHEMA``.

    Completions are those of `predict` (up to the rounding of matrix products, which may depend on how many are made at
    once), in the order of the queries. The output is there whole or not at all, and memory does not grow with it:
    queries are completed in blocks, each distinct query of a block once. Returns the number of queries; ``progress`` is
    told how many are done, and that number.
    """
    if Path(out).suffix.lower() != ".parquet" or Path(out).is_dir():
        raise SettingsError(f"{out} is no name for a Parquet file", "let it end in .parquet")
    asked = read_queries(Path(queries), predictor.graph)
    if among is not None and (asked[:, RELATION] == FREE).any():
        raise SettingsError(f"candidates are entities, and {queries} asks for relations", "leave one or the other out")
    size = max(1, _MOST_PREDICTIONS // max(1, min(top, len(predictor.graph.entities))))
    done = 0

    def advance(completed: int) -> None:
        nonlocal done
        done += completed
        if progress:
            progress(done, len(asked))

    with atomic_path(out) as temporary, pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as writer:
        for start in range(0, len(asked), size):
            writer.write_table(_table(predictor, asked[start : start + size], top, new, among, advance))
    return len(asked)


def _table(
    predictor: LinkPredictor,
    queries: Queries,
    top: int,
    new: bool,
    among: Candidates | None = None,
    advance: Callable[[int], None] = lambda completed: None,
) -> pa.Table:
    """The best completions of queries (n, 3), one query after the other, as a table of ``SCHEMA``."""
    if top < 1:
        raise SettingsError(f"the {top} best predictions are asked for", "ask for 1 or more")
    graph = predictor.graph
    calibration = Calibration.load(predictor.folder) if predictor.folder else None
    completions = complete(predictor, [Query(h, r, t, top, new, among) for h, r, t in queries.tolist()], advance)
    counts = [len(best.answers) for best in completions]
    asked = np.repeat(queries, counts, axis=0)
    answers, scores, known = (np.concatenate(parts) for parts in zip(*completions, strict=True))
    of_relations = asked[:, RELATION] == FREE
    probabilities = calibration.probability(scores) if calibration else np.full(len(scores), np.nan)
    columns = {
        "head": _labels(graph.entities, asked[:, HEAD]),
        "relation": _labels(graph.relations, np.where(of_relations, answers, asked[:, RELATION])),
        "tail": _labels(graph.entities, asked[:, TAIL]),
        "rank": np.concatenate([np.arange(1, count + 1) for count in counts]),
        "entity": _labels(graph.entities, np.where(of_relations, FREE, answers)),
        "name": [
            (graph.relations if is_relation else graph.entities).name(i)
            for i, is_relation in zip(answers, of_relations, strict=True)
        ],
        "score": scores,
        "known": known,
        "probability": np.where(of_relations, np.nan, probabilities),
    }
    return pa.table(
        [pa.array(columns[field.name], field.type, from_pandas=field.name == "probability") for field in SCHEMA],
        schema=SCHEMA,
    )


def _labels(vocabulary: Vocabulary, ids: Ids) -> list[str | None]:
    labels = vocabulary.labels
    return [None if i == FREE else labels[i] for i in ids]


class Query(NamedTuple):
    """A triple by ids, with FREE for what is asked for, and how many completions of it are wanted."""

    head: int
    relation: int
    tail: int
    top: int = 10
    new: bool = False  # leave known facts out
    among: Candidates | None = None  # who may answer; everybody if not given


class Completions(NamedTuple):
    """The entities that best complete a query, or the relations where it asks for those, best first."""

    answers: npt.NDArray[np.intp]  # (n,) ids
    scores: Float64s  # (n,)
    known: npt.NDArray[np.bool_]  # (n,)


def complete(
    predictor: LinkPredictor,
    queries: Sequence[Query],
    advance: Callable[[int], None] = lambda completed: None,
) -> list[Completions]:
    """The best completions of each query; queries that differ in ``top`` or ``new`` alone are scored once.

    ``advance`` is told how many queries each step has completed.
    """
    ids = np.array([query[:3] for query in queries], np.int32).reshape(-1, 3)
    distinct, row_of = np.unique(ids, axis=0, return_inverse=True)
    members: list[list[int]] = [[] for _ in distinct]
    for place, row in enumerate(row_of.ravel()):
        members[row].append(place)
    found: dict[int, Completions] = {}
    for part, table in _scored(predictor, distinct):
        for row, candidates in zip(part, table, strict=True):
            facts = _facts(predictor.graph, distinct[row])
            for place in members[row]:
                allowed = _allowed(candidates, distinct[row], queries[place].among)
                width = min(queries[place].top, len(candidates))
                chosen = _highest(allowed, width, facts if queries[place].new else None)
                found[place] = Completions(chosen, candidates[chosen].astype(np.float64), np.isin(chosen, facts))
        advance(sum(len(members[row]) for row in part))
    return [found[place] for place in range(len(queries))]


@torch.no_grad()
def _scored(predictor: LinkPredictor, queries: Queries) -> Iterator[tuple[Ids, npt.NDArray[np.floating]]]:
    """All queries in blocks of bounded memory: their rows (n,), and the scores (n, C) of all candidates as answers."""
    for free in (HEAD, RELATION, TAIL):
        size = max(1, MOST_CPU_MEMORY // (BYTES_PER_SCORE * len(_candidates(predictor.graph, free))))
        rows = np.flatnonzero(queries[:, free] == FREE)
        # By relation: some models project all candidates once per relation.
        rows = rows[np.argsort(queries[rows, RELATION], kind="stable")]
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            yield part, _scores(predictor, queries[part], free)


def _allowed(scores: npt.NDArray[np.floating], query: Queries, among: Candidates | None) -> npt.NDArray[np.floating]:
    """The scores with −∞ for whoever may not answer."""
    if among is None:
        return scores
    head, relation, tail = query.tolist()
    ids = among.of(head, relation, tail, HEAD if head == FREE else TAIL)
    allowed = np.full_like(scores, -np.inf)
    allowed[ids] = scores[ids]
    return allowed


def _facts(graph: Graph, query: Queries) -> Ids:
    """The known answers to a query (3,)."""
    head, relation, tail = (query[side : side + 1] for side in (HEAD, RELATION, TAIL))
    if relation[0] == FREE:
        return graph.known.between(head, tail).entities
    found = graph.known.heads(relation, tail) if head[0] == FREE else graph.known.tails(head, relation)
    return found.entities


def _candidates(graph: Graph, free: int) -> Vocabulary:
    return graph.relations if free == RELATION else graph.entities


def _scores(predictor: LinkPredictor, queries: Queries, free: int) -> npt.NDArray[np.floating]:
    """The scores (n, C) of all candidates as answers."""
    model, graph = predictor.model, predictor.graph
    heads, relations, tails = torch.from_numpy(queries.astype(np.int64)).to(model.device).unbind(1)
    if free == RELATION:
        answers = model.score_relations(heads, tails)
    else:
        answers = model.score_heads(relations, tails) if free == HEAD else model.score_tails(heads, relations)
    scores: npt.NDArray[np.floating] = answers.cpu().numpy()
    answering = None if free == RELATION else getattr(model, "answering", None)
    own = range(scores.shape[1]) if answering is None else answering
    finite = np.isfinite(scores[:, own.start : own.stop])
    if not finite.all():
        row, candidate = (int(place) for place in np.argwhere(~finite)[0] + [0, own.start])
        head, relation, tail = np.where(queries[row] == FREE, candidate, queries[row])
        what = f"({graph.entities.labels[head]}, {graph.relations.labels[relation]}, {graph.entities.labels[tail]})"
        raise NonFiniteScoreError(float(scores[row, candidate]), row, candidate, what)
    return scores


def _highest(scores: npt.NDArray[np.floating], top: int, without: Ids | None = None) -> npt.NDArray[np.intp]:
    """Where the ``top`` highest scores stand, best first, equals in their order: that of ids and so of labels.

    >>> scores = np.array([1.0, 3.0, 9.0, 3.0, 2.0, 1.0])
    >>> _highest(scores, top=4, without=np.array([2]))
    array([1, 3, 4, 0])
    """
    if without is not None and len(without):
        scores = scores.copy()
        scores[without] = -np.inf
    least = np.partition(scores, -top)[-top]
    contenders = np.flatnonzero((scores >= least) & (scores > -np.inf))
    return contenders[np.argsort(-scores[contenders], kind="stable")[:top]]
