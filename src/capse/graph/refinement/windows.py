"""The best answers of many questions, which may change places, and how their two scores become one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from capse.arrays import Bools, Float64s, Int64s
from capse.graph.refinement.features import Features
from capse.kernels.motifs.scoring import Motifs, weigh
from capse.triples import Answers

_GAP = 1e-6  # between what is put above and what is put below, relative to their size


class Questions(NamedTuple):
    """B questions, all for tails or all for heads."""

    relations: Int64s  # (B,)
    nodes: Int64s  # (B,) the entity that is given
    of_heads: bool

    def edges(self, rows: Int64s, answers: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        """Heads, relations and tails of questions with answers."""
        nodes, relations = self.nodes[rows], self.relations[rows]
        return (answers, relations, nodes) if self.of_heads else (nodes, relations, answers)


class Window(NamedTuple):
    """Answers of B questions that may change places, those of one question after the other."""

    rows: Int64s  # (n,) the question
    entities: Int64s  # (n,)
    scores: Float64s  # (n,) of the run that is refined
    first: Bools  # (n,) whether the rule of symmetric relations puts it first


def open_window(scores: Tensor, questions: Questions, features: Features, *, top: int, rule: bool) -> Window:
    """The answers that score above the ``top`` + 1st of those that are no training facts.

    So no more than ``top`` answers that are new, none of a tie without the others of it, and training facts among them.
    With ``rule`` those that it puts first are always among them.
    """
    inside = torch.ones_like(scores, dtype=torch.bool)
    if scores.shape[1] > top:
        known = features.index.heads(questions.relations, questions.nodes) if questions.of_heads else (
            features.index.tails(questions.nodes, questions.relations)
        )  # fmt: skip
        new = scores.clone()
        new[_places(known, scores)] = -torch.inf
        inside = scores > new.topk(top + 1).values[:, -1:]
    first = torch.zeros_like(inside)
    if rule:
        first[_places(_put_first(questions, features), scores)] = True
        inside |= first
    places = inside.nonzero(as_tuple=True)
    rows, entities = (place.cpu().numpy() for place in places)
    return Window(rows, entities, scores[places].double().cpu().numpy(), first[places].cpu().numpy())


def _put_first(questions: Questions, features: Features) -> Answers:
    """The answers t of (s, r, ?) for which (t, r, s) is a training fact and r goes both ways."""
    relations, nodes = questions.relations, questions.nodes
    found = features.index.tails(nodes, relations) if questions.of_heads else features.index.heads(relations, nodes)
    lengths = np.diff(found.offsets)
    goes = features.symmetric[relations]
    entities = found.entities[np.repeat(goes, lengths)]
    return Answers(np.concatenate([[0], np.cumsum(np.where(goes, lengths, 0))]).astype(np.int64), entities)


def _places(answers: Answers, scores: Tensor) -> tuple[Tensor, Tensor]:
    rows = np.repeat(np.arange(len(answers)), np.diff(answers.offsets))
    return torch.from_numpy(rows).to(scores.device), torch.from_numpy(answers.entities).to(scores.device)


def of_motifs(window: Window, questions: Questions, motifs: Motifs, weights: Float64s) -> Float64s:
    """w·Δf (n,) of the answers in a window."""
    return weigh(motifs, weights, *questions.edges(window.rows, window.entities))


def joined(window: Window, of_motifs: Float64s, keep: Float64s, weight: Float64s, rows: int) -> Float64s:
    """keep·score + weight·motifs (n,), each factor (n,); what the rule puts first is lifted above the rest."""
    scores = keep * window.scores + weight * of_motifs
    if window.first.any():
        highest = _extreme(np.maximum, scores, window.rows, ~window.first, rows, -np.inf)
        lowest = _extreme(np.minimum, scores, window.rows, window.first, rows, np.inf)
        scores[window.first] += lift(highest, lowest)[window.rows[window.first]]
    return scores


def lift(below: Float64s, above: Float64s) -> Float64s:
    """How far (B,) to move apart what is to lie above and the highest of what is to lie below; 0 where it does, or
    where one of the two is empty."""
    there = np.isfinite(below) & np.isfinite(above)
    gap = np.where(there, below, 0) - np.where(there, above, 0)
    far = gap + _GAP * (1 + np.abs(np.where(there, below, 0)))
    return np.where(there & (gap >= 0), far, 0.0)


def lowest_of(window: Window, scores: Float64s, rows: int) -> Float64s:
    """The lowest score (B,) in each question's window; ∞ where that is empty."""
    return _extreme(np.minimum, scores, window.rows, np.ones(len(scores), np.bool_), rows, np.inf)


def _extreme(ufunc: np.ufunc, scores: Float64s, rows: Int64s, chosen: Bools, count: int, start: float) -> Float64s:
    found = np.full(count, start)
    ufunc.at(found, rows[chosen], scores[chosen])
    return found
