"""Ranks of the validation set by a refined model, without asking the run that it refines twice; and the choice of α."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from capse.arrays import Bools, Float64s, Int64s
from capse.evaluation.metrics import Summary, summarize
from capse.evaluation.ranks import Ranks, rank_scores
from capse.experiments.refine_recipe import RefineRecipe
from capse.experiments.validation import ChosenMetric, validation_triples
from capse.graph.dataset import Graph
from capse.graph.link_prediction.ranking import BYTES_PER_SCORE, MOST_CPU_MEMORY
from capse.graph.refinement.refined_model import RefinedModel
from capse.graph.refinement.windows import Questions, Window, joined, of_motifs, open_window
from capse.triples import HEAD, RELATION, TAIL, TripleIndex, Triples

ALPHAS = np.linspace(0, 1, 21)  # α that are tried


class Competition(NamedTuple):
    """Who stands against the true answers of n triples on one side, as the run itself scores them."""

    window: Window  # of Q questions
    questions: Questions
    relations: Int64s  # (n,) of the triples
    scores: Float64s  # (n,) of the true answers
    places: Int64s  # (n,) where each stands in the window; −1 where it is not there
    triples: Int64s  # (m,) a triple, and
    rivals: Int64s  # (m,) the place of a competitor of its true answer in the window
    ranks: Ranks  # by the run itself

    def refined(self, by_motifs: Float64s, keep: Float64s, weight: Float64s) -> Ranks:
        """The ranks with keep_r and weight_r, (R,) each."""
        of_entry = self.questions.relations[self.window.rows]
        scores = joined(self.window, by_motifs, keep[of_entry], weight[of_entry], len(self.questions.nodes))
        inside = self.places >= 0
        true = np.where(inside, scores[self.places] if len(scores) else 0.0, self.scores)
        # All that is in the window stands above what is not; what was not above it before is there by the rule.
        against = np.where(inside[self.triples], scores[self.rivals], self.window.scores[self.rivals])
        higher = self._count(against > true[self.triples])
        same = self._count(against == true[self.triples])
        lower = self._count(against < true[self.triples])
        greater = np.where(inside, higher, self.ranks.greater + lower + same)
        return Ranks(greater, np.where(inside, same, self.ranks.equal - same), self.ranks.candidates)

    def _count(self, chosen: Bools) -> Int64s:
        return np.bincount(self.triples[chosen], minlength=len(self.places))


class RefinedValidator:
    """Filtered ranks on the validation set; where α is to be chosen, the best on it is set first.

    The filter is made of training and validation triples only: a choice must not know the test set.
    """

    def __init__(
        self,
        model: RefinedModel,
        graph: Graph,
        recipe: RefineRecipe,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        self.metric = ChosenMetric.named(recipe.validation.metric)
        self.model = model
        triples = validation_triples(graph, recipe.validation, recipe.training.seed)
        known = TripleIndex(np.concatenate([graph.train, graph.valid]), len(graph.entities), len(graph.relations))
        self.sides: list[list[Competition]] = [[], []]
        done = 0
        for side, free in enumerate((HEAD, TAIL)):
            for competition in _compete(model, triples, free, known):
                self.sides[side].append(competition)
                done += len(competition.places)
                progress(done, 2 * len(triples))

    def of_the_run(self) -> Summary:
        """What the run that is refined reaches by itself."""
        return summarize(Ranks.concatenate([each.ranks for side in self.sides for each in side]))

    def __call__(self) -> tuple[float, dict[str, Any]]:
        by_motifs = [[self._of_motifs(each) for each in side] for side in self.sides]
        if self.model.refinement.alpha != "sum":
            self._choose_alpha(by_motifs)
        factors = self.model.motifs.keep.cpu().numpy(), self.model.motifs.weight.cpu().numpy()
        heads, tails = (
            Ranks.concatenate([each.refined(motifs, *factors) for each, motifs in zip(side, found, strict=True)])
            for side, found in zip(self.sides, by_motifs, strict=True)
        )
        return self.metric.judge(heads, tails)

    def _of_motifs(self, competition: Competition) -> Float64s:
        return of_motifs(competition.window, competition.questions, self.model.prepared, self.model.weights)

    def _choose_alpha(self, by_motifs: list[list[Float64s]]) -> None:
        """The α of greatest realistic MRR, the smallest of equals, for all relations or for each."""
        relations = self.model.relation_count
        gains = np.zeros((len(ALPHAS), relations))
        for number, alpha in enumerate(ALPHAS):
            factors = np.full(relations, 1 - alpha), np.full(relations, alpha)
            for side, found in zip(self.sides, by_motifs, strict=True):
                for each, motifs in zip(side, found, strict=True):
                    reciprocal = 1 / each.refined(motifs, *factors).realistic
                    gains[number] += np.bincount(each.relations, weights=reciprocal, minlength=relations)
        shared = ALPHAS[gains.sum(1).argmax()]
        alphas = np.full(relations, shared)
        if self.model.refinement.alpha == "relation":
            alphas = np.where(gains.any(0), ALPHAS[gains.argmax(0)], shared)  # none has a triple of its own: as all
        self.model.motifs.keep.copy_(torch.from_numpy(1 - alphas))
        self.model.motifs.weight.copy_(torch.from_numpy(alphas))


@torch.no_grad()
def _compete(model: RefinedModel, triples: Triples, free: int, known: TripleIndex) -> Iterator[Competition]:
    """The competitions of one side, in parts whose scores are of bounded memory."""
    chosen = model.refinement
    given = HEAD + TAIL - free
    ordered: Int64s = triples[np.lexsort((triples[:, given], triples[:, RELATION]))].astype(np.int64)
    size = max(1, MOST_CPU_MEMORY // (BYTES_PER_SCORE * known.entities))
    for start in range(0, len(ordered), size):
        part: Int64s = ordered[start : start + size]
        pairs, inverse = np.unique(part[:, [RELATION, given]], axis=0, return_inverse=True)
        rows: Int64s = inverse.ravel().astype(np.int64)
        asked_for: Int64s = np.ascontiguousarray(pairs.T)
        questions = Questions(asked_for[0], asked_for[1], free == HEAD)
        asked = [torch.from_numpy(ids).to(model.device) for ids in questions[:2]]
        scores = model.base_scores(*asked, of_heads=questions.of_heads)
        excluded = (
            known.heads(questions.relations, questions.nodes)
            if free == HEAD
            else known.tails(questions.nodes, questions.relations)
        )
        ranks = rank_scores(scores, part[:, free], excluded, rows=rows)
        window = open_window(scores, questions, model.features, top=chosen.top, rule=chosen.symmetric)
        true = scores[torch.from_numpy(rows).to(scores.device), torch.from_numpy(part[:, free]).to(scores.device)]
        key = window.rows * known.entities + window.entities  # ascending
        wanted = rows * known.entities + part[:, free]
        at = np.searchsorted(key, wanted)
        there = key[np.minimum(at, len(key) - 1)] == wanted if len(key) else np.zeros(len(wanted), np.bool_)
        competes = ~known.contains(*questions.edges(window.rows, window.entities))
        offsets = np.searchsorted(window.rows, np.arange(len(pairs) + 1))
        lengths = np.diff(offsets)[rows]
        owners = np.repeat(np.arange(len(part)), lengths)
        rivals = np.arange(len(owners)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + offsets[rows][owners]
        kept = competes[rivals]
        yield Competition(
            window,
            questions,
            part[:, RELATION],
            true.double().cpu().numpy(),
            np.where(there, at, -1),
            owners[kept],
            rivals[kept],
            ranks,
        )
