"""Is this fact true? Probabilities and thresholds for each relation, chosen on the validation set.

A *classifier* is fitted to the scores of validation triples and of as many false ones: hard negatives, other answers of
the same relation (`hard_negatives`), or those of a file. What it says holds for such a mix and no other.

* **Probabilities.** p(s) = 1 / (1 + exp(−(a_r·s + b_r))), with slope and intercept of each relation drawn towards those
  of all relations: a normal prior around (a, b), whose strength is chosen by the likelihood of held-out fifths. A
  relation that the validation set lacks has (a, b) itself.
* **Decisions.** True is what scores at least the threshold of its relation: the one that judges most of its validation
  triples rightly, or where p is one half, whichever way does better on held-out fifths.

Socher et al., Reasoning With Neural Tensor Networks, NeurIPS 2013 (thresholds for each relation); Platt 1999; Safavi
and Koutra, CoDEx, EMNLP 2020 (hard negatives).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from capse.arrays import Bools, Float64s, Int64s
from capse.errors import RunError, SettingsError
from capse.evaluation.choosing import LEAST_FOR_A_THRESHOLD, choose, sigmoid
from capse.evaluation.judgements import Judgements
from capse.graph.link_prediction.hard_negatives import hard_negatives
from capse.runs.atomic import write_json
from capse.runs.folder import RunFolder
from capse.runs.manifest import entering, is_whole
from capse.triples import RELATION, TripleIndex, Triples

if TYPE_CHECKING:
    from capse.graph.link_prediction.predictor import LinkPredictor

HARD = "hard negatives: other answers of the same relation, on the same side, that make no known triple"


@dataclass(frozen=True)
class Classifier:
    """What decides whether a triple is true, and what it was chosen on."""

    slope: float  # a, of all relations, over scores
    intercept: float  # b
    slopes: list[float]  # a_r, by relation id
    intercepts: list[float]  # b_r
    threshold: float  # one for all
    thresholds: list[float]  # by relation id
    prior: float  # how strongly relations are drawn together
    triples: int  # true ones that it was chosen on, with as many false ones
    negatives: str  # what the false ones were
    seed: int
    held_out: dict[str, Any]  # how such a choice does on fifths of these triples that it did not see

    def probability(self, scores: Float64s, relations: Int64s) -> Float64s:
        """The chance that triples with these scores (n,) and relations (n,) are true, in a mix as that chosen on."""
        return sigmoid(np.array(self.slopes)[relations] * scores + np.array(self.intercepts)[relations])

    def decide(self, scores: Float64s, relations: Int64s, *, simply: bool = False) -> Bools:
        """Whether they are true by the thresholds of their relations, or ``simply`` by one for all."""
        return np.asarray(scores >= (self.threshold if simply else np.array(self.thresholds)[relations]))

    def judge(self, scores: Float64s, relations: Int64s, true: Bools) -> Judgements:
        """How good that is where the truth is known."""
        said, simply = self.decide(scores, relations), self.decide(scores, relations, simply=True)
        return Judgements.of(scores, self.probability(scores, relations), said, simply, true)

    def save(self, run: RunFolder) -> None:
        with entering(run.path, run.classifier):
            write_json(run.classifier, asdict(self))

    @classmethod
    def load(cls, run: RunFolder) -> Classifier | None:
        """What ``save`` wrote, or None for a run without one."""
        if not is_whole(run.path, run.classifier):
            return None
        try:
            values = json.loads(run.classifier.read_text(encoding="utf-8"))
            return cls(**values)
        except (OSError, ValueError, TypeError, SettingsError) as error:
            raise RunError(f"{run.classifier} is damaged", "remove it; it is fitted again when it is needed") from error


def fit_classifier(
    predictor: LinkPredictor, negatives: Triples | None = None, *, seed: int = 0, named: str = HARD
) -> Classifier:
    """Choose probabilities and thresholds on the validation triples and on false ones, (n, 3) by ids.

    Without ``negatives`` they are hard ones, made with ``seed``; a fact of the test set may be among them, as nobody
    who chooses knows it. ``named`` says in words what given ones are.
    """
    graph = predictor.graph
    valid = graph.valid.astype(np.int64)
    if negatives is None:
        known = TripleIndex(np.concatenate([graph.train, graph.valid]), len(graph.entities), len(graph.relations))
        false, found = hard_negatives(graph, valid, known, seed)
        valid, negatives = valid[found], false[found]
    if len(valid) < LEAST_FOR_A_THRESHOLD or not len(negatives):
        raise SettingsError(
            f"{graph.name} has {len(valid)} validation triples with a false one beside, too few to choose on",
            "train on data with a larger file valid.tsv",
        )
    triples = np.concatenate([valid, negatives])
    true = np.arange(len(triples)) < len(valid)
    scores = judged_scores(predictor, triples)
    choice = choose(scores, triples[:, RELATION], true, len(graph.relations), seed)
    return Classifier(
        slope=choice.curves.slope,
        intercept=choice.curves.intercept,
        slopes=choice.curves.slopes.tolist(),
        intercepts=choice.curves.intercepts.tolist(),
        threshold=choice.threshold,
        thresholds=choice.thresholds.tolist(),
        prior=choice.prior,
        triples=len(valid),
        negatives=named,
        seed=seed,
        held_out=choice.held_out.to_json(),
    )


def judged_scores(predictor: LinkPredictor, triples: Triples) -> Float64s:
    """The scores (n,) that triples (n, 3) are judged by: the mean of both directions where relations are reciprocal."""
    heads, relations, tails = triples.T
    scores = predictor.score_ids(np.ascontiguousarray(triples, np.int64)).astype(np.float64)
    if predictor.model.reciprocal:
        turned = np.stack([tails, relations + len(predictor.graph.relations), heads], axis=1).astype(np.int64)
        scores = (scores + predictor.score_ids(turned)) / 2
    return scores


@dataclass(frozen=True)
class Verdict:
    """What a classifier says of a triple, given by labels."""

    head: str
    relation: str
    tail: str
    score: float
    probability: float  # in a mix as that which the classifier was chosen on
    true: bool  # by the threshold of its relation
    known: bool  # a split of the run's graph holds it


def verdicts(predictor: LinkPredictor, classifier: Classifier, triples: Int64s) -> list[Verdict]:
    """A verdict for each triple (n, 3) by ids."""
    graph = predictor.graph
    scores, relations = judged_scores(predictor, triples), triples[:, RELATION]
    said = classifier.decide(scores, relations).tolist()
    probabilities = classifier.probability(scores, relations).tolist()
    known = graph.known.contains(*triples.T).tolist()
    entities, names = graph.entities.labels, graph.relations.labels
    rows = zip(triples.tolist(), scores.tolist(), probabilities, said, known, strict=True)
    return [Verdict(entities[h], names[r], entities[t], s, p, true, known) for (h, r, t), s, p, true, known in rows]
