"""Which motifs moved an answer, in words.

A motif's share is its weight times what the edge changes, times the factor that the two scores are joined by. What is
the same for every answer of the question moved none of them and is left out: how often the relation occurs, and what
the given entity's other facts of one kind are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from capse.arrays import Float64s, Int64s
from capse.graph.dataset import Graph
from capse.graph.refinement.refined_model import RefinedModel
from capse.graph.refinement.windows import Questions, open_window
from capse.kernels.motifs import keys as k
from capse.kernels.motifs.scoring import Motifs, changes_of
from capse.triples import HEAD, RELATION, TAIL, TripleIndex, Triples

_SLIGHT = 0.01  # of the largest value: what is less is not worth a line
_STARS = {k.OUT_EXACTLY: HEAD, k.OUT_LEAST: HEAD, k.IN_EXACTLY: TAIL, k.IN_LEAST: TAIL}


@dataclass(frozen=True)
class MotifReason:
    """A motif that moved an answer."""

    text: str  # such as 'France borders Spain, so Spain borders France'
    value: float  # what it added to the score

    def __str__(self) -> str:
        return f"{self.text}: {self.value:+.2g}"


@dataclass(frozen=True)
class Moved:
    """What became of an answer of the run that was refined."""

    score: float  # by that run
    keep: float  # how often that counts
    among_best: bool  # whether it is one of the answers that may change places; the others lie below them
    first: bool  # whether it was put first, since the relation goes both ways and is known the other way
    motifs: list[MotifReason]  # those of largest value, whatever their sign


def why_moved(model: RefinedModel, graph: Graph, triple: Triples, free: int, most: int) -> Moved:
    """What moved a triple, by ids, as an answer for the entity in slot ``free``."""
    score, inside, first = _placed(model, triple, free)
    reasons = _reasons(model, graph, triple, free) if inside else []
    reasons.sort(key=lambda reason: -abs(reason.value))
    large = [reason for reason in reasons if abs(reason.value) > _SLIGHT * abs(reasons[0].value)]
    return Moved(score, float(model.motifs.keep[int(triple[RELATION])]), inside, first, large[:most])


@torch.no_grad()
def _placed(model: RefinedModel, triple: Triples, free: int) -> tuple[float, bool, bool]:
    """The run's own score, whether the answer is in the question's window, and whether the rule puts it first."""
    given = HEAD + TAIL - free
    questions = Questions(triple[[RELATION]].astype(np.int64), triple[[given]].astype(np.int64), free == HEAD)
    relation, node = (torch.from_numpy(ids).to(model.device) for ids in questions[:2])
    scores = model.base_scores(relation, node, of_heads=questions.of_heads)
    chosen = model.refinement
    window = open_window(scores, questions, model.features, top=chosen.top, rule=chosen.symmetric)
    place = np.flatnonzero(window.entities == triple[free])
    return float(scores[0, int(triple[free])]), bool(len(place)), bool(window.first[place].any())


def _reasons(model: RefinedModel, graph: Graph, triple: Triples, free: int) -> list[MotifReason]:
    head, relation, tail = (int(part) for part in triple)
    factor = float(model.motifs.weight[relation])
    shares, open_paths = _shares(model.prepared, model.weights, (head, relation, tail))
    keys: Int64s = model.motifs.keys.cpu().numpy()
    words = _Words(graph, model.features.index, (head, relation, tail), free)
    grouped: defaultdict[str, float] = defaultdict(float)
    for place, value in shares.items():
        family, relations = k.parts_of(int(keys[place]), len(graph.relations))
        text = words.stars(_STARS[family]) if family in _STARS else words.of(family, relations)
        if text:
            grouped[text] += factor * value
    if open_paths:
        grouped[f"it makes more paths that others of their kind close, so {words.claim}"] += factor * open_paths
    return [MotifReason(_signed(text, value), value) for text, value in grouped.items() if value]


def _signed(text: str, value: float) -> str:
    return text if value > 0 else text.replace(", so ", ", which speaks against ")


def _shares(motifs: Motifs, weights: Float64s, edge: tuple[int, int, int]) -> tuple[dict[int, float], float]:
    """What each motif adds to w·Δf, by place, and what closures lose that become a smaller share of their paths."""
    found, changed, pairs, totals = changes_of(motifs, edge, weights)
    shares: defaultdict[int, float] = defaultdict(float)
    for place, amount in zip(found.places[:changed], found.amounts[:changed], strict=True):
        shares[int(place)] += float(weights[place] * amount)
    opened = 0.0
    for pair, added in zip(found.pairs[:pairs], found.added[:pairs], strict=True):
        if before := totals.paths[pair]:
            opened += float(totals.weighted[pair] * (1 / (before + added) - 1 / before))
    return shares, opened


class _Words:
    """Sentences about one edge, which is an answer for the entity in slot ``free``."""

    def __init__(self, graph: Graph, index: TripleIndex, edge: tuple[int, int, int], free: int) -> None:
        self.graph, self.index, self.free = graph, index, free
        self.head, self.relation, self.tail = edge
        self.claim = self._fact(*edge)

    def of(self, family: int, relations: tuple[int, ...]) -> str:
        """A motif that is no star; '' where it is the same for every answer."""
        if family == k.LOOP:
            return f"it is the question's own entity, so {self.claim}"
        premises = next(self._premises(family, relations), [])
        return " and ".join(self._fact(*fact) for fact in premises) + f", so {self.claim}" if premises else ""

    def stars(self, side: int) -> str:
        """All stars of the answer together; '' for those of the entity that was given."""
        if side != self.free:
            return ""
        node, verb = (self.head, "starts") if side == HEAD else (self.tail, "ends")
        return f"of what else {verb} at {self._name(node)}, so {self.claim}"

    def _premises(self, family: int, relations: tuple[int, ...]) -> Iterator[list[tuple[int, int, int]]]:
        """Facts that make the motif together with the edge: an example of them first."""
        if family == k.MUTUAL:
            first, second = relations
            yield [(self.tail, second if first == self.relation else first, self.head)]
        elif family == k.PATH:
            yield from self._beside(*relations)
        elif family == k.TRIANGLE:
            for into, out in self._around(relations):
                third = np.intersect1d(self._heads(into, self.head), self._tails(self.tail, out))
                yield from ([(self.tail, out, x), (x, into, self.head)] for x in self._others(third))
        elif family == k.CLOSURE:
            yield from self._closed_by(*relations)

    def _beside(self, first: int, second: int) -> Iterator[list[tuple[int, int, int]]]:
        """The other edge of a path, at the answer's end."""
        if second == self.relation and self.free == HEAD:
            yield from ([(x, first, self.head)] for x in self._others(self._heads(first, self.head)))
        if first == self.relation and self.free == TAIL:
            yield from ([(self.tail, second, x)] for x in self._others(self._tails(self.tail, second)))

    def _closed_by(self, first: int, second: int, third: int) -> Iterator[list[tuple[int, int, int]]]:
        """The two edges that are a closure with this one: it closes their path, or is the path's first or second."""
        s, r, t = self.head, self.relation, self.tail
        if third == r:
            both = np.intersect1d(self._tails(s, first), self._heads(second, t))
            yield from ([(s, first, x), (x, second, t)] for x in self._others(both))
        if first == r:
            both = np.intersect1d(self._tails(t, second), self._tails(s, third))
            yield from ([(t, second, x), (s, third, x)] for x in self._others(both))
        if second == r:
            both = np.intersect1d(self._heads(first, s), self._heads(third, t))
            yield from ([(x, first, s), (x, third, t)] for x in self._others(both))

    def _others(self, entities: Int64s) -> Int64s:
        """Those that are no end of this edge."""
        return np.asarray(entities[(entities != self.head) & (entities != self.tail)], np.int64)

    def _around(self, relations: tuple[int, ...]) -> Iterable[tuple[int, int]]:
        """The relations x→s and t→x of a triangle whose edge s→t is this one, in each rotation that fits."""
        for i in range(3):
            if relations[i] == self.relation:
                yield relations[i - 1], relations[(i + 1) % 3]

    def _heads(self, relation: int, tail: int) -> Int64s:
        return self.index.heads(np.array([relation]), np.array([tail]))[0]

    def _tails(self, head: int, relation: int) -> Int64s:
        return self.index.tails(np.array([head]), np.array([relation]))[0]

    def _name(self, entity: int) -> str:
        return self.graph.entities.name(entity)

    def _fact(self, head: int, relation: int, tail: int) -> str:
        return f"{self._name(head)} {self.graph.relations.name(relation)} {self._name(tail)}"
