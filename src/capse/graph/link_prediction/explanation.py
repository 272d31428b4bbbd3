"""What in the graph speaks for a prediction: the dimensions that carry its score, and the training facts near it.

It describes what the model computed and what it was trained on. It is no proof that the fact holds.

* **Dimensions.** Where a score is a sum over dimensions, or rises with one, the summands; see
  `capse.models.base.Scorer.contributions`. For CapsE dimension i is first-layer capsule i and adds c_i û_i·s/‖s‖ to the
  length ‖s‖ of the output capsule.
* **Carriers.** For each of the strongest dimensions the training facts of the relation to which it adds the most, with
  the same sign: a dimension has no name, but it can be told by what else it carries.
* **Motifs.** Of a refined run: which motifs moved the answer, and by how much; dimensions are those of the run's model.
* **Nearest facts.** The training facts (h', r, t') of the same relation whose mean similarity
  (cos(h, h') + cos(t, t')) / 2 is the highest, cos between rows of the entity table.
* **Links.** Training facts that join the two entities themselves, the same relation the other way round among them.
* **Rules** that say the triple, each with the training facts that it rests on; see `supporting_rules`.
* **Removals.** Training facts without which the answer would be less probable, by an estimate; see `influence`.
* **Paths.** Entities that training facts join to both, those with the fewest facts first: they say the most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from capse.arrays import Float64s
from capse.evaluation.ranks import NonFiniteScoreError
from capse.graph.dataset import SPLITS, Graph
from capse.graph.link_prediction.calibration import Calibration
from capse.graph.link_prediction.influence import without_each
from capse.graph.link_prediction.supporting_rules import in_words
from capse.graph.refinement.reasons import Moved, why_moved
from capse.graph.refinement.refined_model import RefinedModel
from capse.triples import HEAD, RELATION, TAIL, Triples

if TYPE_CHECKING:
    from capse.graph.link_prediction.predictor import LinkPredictor

NOTE = "This describes what the model computed and which training facts lie near. It is no proof that the fact holds."

_LOOKED_AT = 256  # training facts of a relation that dimensions are compared on
_CARRIERS = 3  # dimensions that are told in terms of facts
_LIKE = 2  # such facts for each

Asked = Literal["head", "tail"]


@dataclass(frozen=True)
class Fact:
    """A triple by labels and by names."""

    head: str
    relation: str
    tail: str
    head_name: str
    relation_name: str
    tail_name: str

    @classmethod
    def of(cls, graph: Graph, triple: Sequence[int]) -> Fact:
        head, relation, tail = map(int, triple)
        entities, relations = graph.entities, graph.relations
        labels = entities.labels[head], relations.labels[relation], entities.labels[tail]
        return cls(*labels, entities.name(head), relations.name(relation), entities.name(tail))

    def __str__(self) -> str:
        return f"{self.head_name} — {self.relation_name} — {self.tail_name}"


@dataclass(frozen=True)
class NearFact:
    """A training fact of the same relation, and how alike its entities are to those explained; 1 is the same."""

    fact: Fact
    similarity: float  # the mean of the two below
    head_similarity: float
    tail_similarity: float


@dataclass(frozen=True)
class FactPath:
    """An entity that training facts join to both sides."""

    through: str  # its label
    name: str
    facts: int  # how many training facts it is in
    from_head: Fact  # joins it to the head, in either direction
    to_tail: Fact


@dataclass(frozen=True)
class RuleSupport:
    """A rule of the graph that says the triple."""

    rule: str  # in words
    confidence: float  # the share of the pairs that its body joins for which it is right, among training facts
    support: int  # how many these are
    facts: list[Fact]  # from the head to the tail, one way that the rule takes


@dataclass(frozen=True)
class Removal:
    """A training fact without which the answer would be less probable, by an estimate."""

    fact: Fact
    change: float  # of the logarithm of the answer's share in the softmax over all entities


@dataclass(frozen=True)
class Dimensions:
    """What each dimension adds; what is positive speaks for the triple."""

    of: str  # what they sum to
    total: float
    values: list[float]

    def strongest(self, count: int) -> list[tuple[int, float]]:
        """The dimensions of the largest values, whatever their sign.

        >>> Dimensions("the score", 1.0, [0.5, -1.5, 2.0]).strongest(2)
        [(2, 2.0), (1, -1.5)]
        """
        order = sorted(range(len(self.values)), key=lambda i: -abs(self.values[i]))
        return [(i, self.values[i]) for i in order[:count]]


@dataclass(frozen=True)
class Carrier:
    """A dimension in terms of facts: those of the same relation that it carries, or speaks against, the most."""

    dimension: int
    value: float  # what it adds here
    like: list[Fact]  # training facts to which it adds the most with the same sign


@dataclass(frozen=True)
class Explanation:
    """What speaks for a triple."""

    fact: Fact
    score: float
    known: str | None  # the split that holds it
    probability: float | None  # None where the run is not calibrated
    head_facts: int  # training facts the head is in; 0 means that the model never saw it
    tail_facts: int
    dimensions: Dimensions | None  # None where the model's score is no sum over dimensions
    nearest: list[NearFact]
    rules: list[RuleSupport]  # the surest first
    links: list[Fact]
    paths: list[FactPath]
    carriers: list[Carrier]  # the strongest dimensions, the strongest first
    removals: list[Removal] | None = None  # what the answer hangs on the most first; None where nobody asked
    moved: Moved | None = None  # of a refined run: which motifs moved the answer
    note: str = NOTE

    def to_json(self) -> dict[str, Any]:
        """What ``capse explain --json`` prints."""
        return asdict(self)


def explain(
    predictor: LinkPredictor,
    *,
    head: str,
    relation: str,
    tail: str,
    asked: Asked = "tail",
    most: int = 5,
    removals: bool = False,
) -> Explanation:
    """Explain the score of a triple given by labels or names, with at most ``most`` facts of each kind.

    ``asked`` says which side was asked for; models with reciprocal relations have a score for each. With ``removals``
    it is estimated which training facts the answer hangs on, which takes longer: up to seconds for large networks.

    >>> from capse import DistMult
    >>> from capse.models import build_model
    >>> from capse.graph.link_prediction.predictor import LinkPredictor
    >>> graph = Graph.from_triples([("berlin", "capital_of", "germany"), ("paris", "capital_of", "france")])
    >>> model = build_model(DistMult(dim=2), entities=4, relations=1)
    >>> why = explain(LinkPredictor(model, graph), head="berlin", relation="capital_of", tail="germany")
    >>> why.known, str(why.nearest[0].fact), len(why.dimensions.values)
    ('train', 'paris — capital_of — france', 2)
    """
    graph = predictor.graph
    (triple,) = predictor.encode([(head, relation, tail)])
    score, dimensions = _carried(predictor, triple, asked)
    moved = None
    if isinstance(predictor.model, RefinedModel):
        moved = why_moved(predictor.model, graph, triple, HEAD if asked == "head" else TAIL, most)
    fact = Fact.of(graph, triple)
    if not np.isfinite(score):
        raise NonFiniteScoreError(score, 0, 0, str(fact))
    calibration = Calibration.load(predictor.folder) if predictor.folder else None
    return Explanation(
        fact=fact,
        score=score,
        known=next((split for split in SPLITS if _same(graph.split(split), triple).any()), None),
        probability=float(calibration.probability(np.array(score))) if calibration else None,
        head_facts=len(_with(graph.train, triple[HEAD])),
        tail_facts=len(_with(graph.train, triple[TAIL])),
        dimensions=dimensions,
        nearest=_nearest(predictor, triple, most),
        rules=_rules(predictor, triple, most),
        links=_links(graph, triple, most),
        paths=_paths(graph, triple, most),
        carriers=_carriers(predictor, triple, asked, dimensions) if dimensions else [],
        removals=_removals(predictor, triple, asked, most) if removals else None,
        moved=moved,
    )


@torch.no_grad()
def _carried(predictor: LinkPredictor, triple: Triples, asked: Asked) -> tuple[float, Dimensions | None]:
    """The score of a triple, and its summands."""
    model = predictor.model
    triples = torch.from_numpy(triple[None]).to(model.device).unbind(1)
    score = float(model.score_answers(HEAD if asked == "head" else TAIL, *triples))
    ids = _as_asked(predictor, triple[None], asked)
    vectors = model.entity(ids[0]), model.relation(ids[1]), model.entity(ids[2])
    parts = model.scorer.contributions(*vectors)
    if parts is None:
        return score, None
    values = parts.values[0].double()
    return score, Dimensions(parts.of, float(values.sum()), values.tolist())


def _as_asked(predictor: LinkPredictor, triples: Triples, asked: Asked) -> tuple[Tensor, Tensor, Tensor]:
    """The columns of triples as the model takes them; one with reciprocal relations is asked for heads as for tails."""
    model = predictor.model
    first, relation, second = torch.from_numpy(triples.T.copy()).to(model.device)
    if model.reciprocal and asked == "head":
        return second, relation + model.relation_count, first
    return first, relation, second


@torch.no_grad()
def _carriers(predictor: LinkPredictor, triple: Triples, asked: Asked, dimensions: Dimensions) -> list[Carrier]:
    train, model = predictor.graph.train, predictor.model
    rows = train[(train[:, RELATION] == triple[RELATION]) & ~_same(train, triple)]
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), _LOOKED_AT)).round().astype(int)]
    heads, relations, tails = _as_asked(predictor, rows, asked)
    parts = model.scorer.contributions(model.entity(heads), model.relation(relations), model.entity(tails))
    assert parts is not None
    added = parts.values.double().cpu().numpy()  # (facts, dimensions)
    carriers = []
    for dimension, value in dimensions.strongest(_CARRIERS):
        with_sign = np.sign(value) * added[:, dimension]
        best = [place for place in np.argsort(-with_sign, kind="stable")[:_LIKE].tolist() if with_sign[place] > 0]
        carriers.append(Carrier(dimension, value, [Fact.of(predictor.graph, rows[place]) for place in best]))
    return carriers


def _nearest(predictor: LinkPredictor, triple: Triples, most: int) -> list[NearFact]:
    train = predictor.graph.train
    rows = train[(train[:, RELATION] == triple[RELATION]) & ~_same(train, triple)]
    to_head, to_tail = (_similarities(predictor.model.entities, triple[side]) for side in (HEAD, TAIL))
    both = (to_head[rows[:, HEAD]] + to_tail[rows[:, TAIL]]) / 2
    best = np.argsort(-both, kind="stable")[:most]  # equals in the order of ids and so of labels
    return [
        NearFact(Fact.of(predictor.graph, row), float(similarity), float(to_head[row[HEAD]]), float(to_tail[row[TAIL]]))
        for row, similarity in zip(rows[best], both[best], strict=True)
    ]


@torch.no_grad()
def _similarities(table: Tensor, entity: int) -> Float64s:
    """The cosine of each row with one of them; 0 for a vector of zeros."""
    lengths = torch.linalg.vector_norm(table, dim=1)
    cosines = (table @ table[entity]) / (lengths * lengths[entity]).clamp(min=1e-12)
    return np.asarray(cosines.clamp(-1, 1).double().cpu())


def _rules(predictor: LinkPredictor, triple: Triples, most: int) -> list[RuleSupport]:
    graph = predictor.graph
    return [
        RuleSupport(in_words(rule, graph), rule.confidence, rule.support, [Fact.of(graph, fact) for fact in facts])
        for rule, facts in predictor._rulebook.supporting(triple, most)
    ]


def _removals(predictor: LinkPredictor, triple: Triples, asked: Asked, most: int) -> list[Removal]:
    train = predictor.graph.train
    places, changes = without_each(predictor.model, train, triple, HEAD if asked == "head" else TAIL)
    order = [place for place in np.argsort(changes, kind="stable")[:most].tolist() if changes[place] < 0]
    return [Removal(Fact.of(predictor.graph, train[places[place]]), float(changes[place])) for place in order]


def _same(rows: Triples, triple: Triples) -> npt.NDArray[np.bool_]:
    head, relation, tail = triple
    same: npt.NDArray[np.bool_] = (rows[:, HEAD] == head) & (rows[:, RELATION] == relation) & (rows[:, TAIL] == tail)
    return same


def _with(rows: Triples, entity: int) -> Triples:
    found: Triples = rows[(rows[:, HEAD] == entity) | (rows[:, TAIL] == entity)]
    return found


def _links(graph: Graph, triple: Triples, most: int) -> list[Fact]:
    rows = _with(graph.train, triple[HEAD])
    rows = rows[rows[:, HEAD] + rows[:, TAIL] - triple[HEAD] == triple[TAIL]]  # the other end; a loop's is its own
    return [Fact.of(graph, row) for row in rows[~_same(rows, triple)][:most]]


def _paths(graph: Graph, triple: Triples, most: int) -> list[FactPath]:
    if triple[HEAD] == triple[TAIL]:
        return []
    of_head, of_tail = (_with(graph.train, triple[side]) for side in (HEAD, TAIL))
    shared = np.intersect1d(of_head[:, [HEAD, TAIL]], of_tail[:, [HEAD, TAIL]])
    middles = np.setdiff1d(shared, triple[[HEAD, TAIL]])
    facts = _facts_of_each(graph)[middles]
    paths = []
    for place in np.argsort(facts, kind="stable")[:most]:
        middle = middles[place]
        joins = [Fact.of(graph, _with(rows, middle)[0]) for rows in (of_head, of_tail)]
        labels = graph.entities.labels[middle], graph.entities.name(middle)
        paths.append(FactPath(*labels, int(facts[place]), *joins))
    return paths


def _facts_of_each(graph: Graph) -> npt.NDArray[np.integer]:
    """In how many training facts each entity is, (E,)."""
    heads, tails = graph.train[:, HEAD], graph.train[:, TAIL]
    others = tails[heads != tails]  # a fact about one entity is one fact
    return np.bincount(heads, minlength=len(graph.entities)) + np.bincount(others, minlength=len(graph.entities))
