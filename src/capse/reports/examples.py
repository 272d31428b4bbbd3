"""A few test questions and what a model answers, drawn by a rule and not by their result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from capse.graph.dataset import Graph
from capse.graph.link_prediction.evaluation import LinkPredictionResult
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.triples import HEAD, RELATION, TAIL

QUESTIONS = 5
GUESSES = 3
SEED = 0


@dataclass(frozen=True)
class Guess:
    """An answer of the model that training did not contain."""

    name: str
    true: bool  # it is a fact of the graph


@dataclass(frozen=True)
class Example:
    """A question made from a test triple whose tail is kept back."""

    question: str
    answer: str  # the tail that was kept back; there may be other true ones
    rank: float  # its realistic, filtered rank
    guesses: tuple[Guess, ...]  # the model's best, first first


def draw_questions(graph: Graph) -> list[int]:
    """Rows of the test split: one triple, drawn with a fixed seed, of each of the most frequent relations.

    >>> train = [("a", "likes", "b"), ("b", "likes", "c"), ("a", "knows", "c"), ("b", "is", "c")]
    >>> test = [("a", "likes", "c"), ("c", "likes", "a"), ("b", "likes", "a"), ("c", "knows", "b")]
    >>> graph = Graph.from_triples(train, test=test)
    >>> [graph.relations.labels[graph.test[row, RELATION]] for row in draw_questions(graph)]
    ['likes', 'knows']
    """
    generator = np.random.default_rng(SEED)
    relations = graph.test[:, RELATION]
    counts = np.bincount(relations, minlength=len(graph.relations))
    common = [relation for relation in np.argsort(-counts, kind="stable")[:QUESTIONS] if counts[relation]]
    return [int(generator.choice(np.flatnonzero(relations == relation))) for relation in common]


def ask(predictor: LinkPredictor, result: LinkPredictionResult, wording: Mapping[str, str]) -> tuple[Example, ...]:
    """The drawn questions, asked to a model whose ranks on the test split are known.

    ``wording`` has, for the label of a relation, a question with ``{}`` for the head.
    """
    return tuple(_ask(predictor, result, row, wording) for row in draw_questions(predictor.graph))


def _ask(predictor: LinkPredictor, result: LinkPredictionResult, row: int, wording: Mapping[str, str]) -> Example:
    graph = predictor.graph
    triple = graph.test[row]
    head, answer = (graph.entities.name(triple[side]) for side in (HEAD, TAIL))
    relation, named = graph.relations.labels[triple[RELATION]], graph.relations.name(triple[RELATION])
    trained = set(graph.known_in_train.tails(triple[:1], triple[1:2]).entities.tolist())
    best = predictor.predict(relation=relation, head=graph.entities.labels[triple[HEAD]], top=GUESSES + len(trained))
    unseen = [guess for guess in best if graph.entities.id(guess.entity) not in trained]
    return Example(
        question=wording[relation].replace("{}", head) if relation in wording else f"{head} · {named} · ?",
        answer=answer,
        rank=float(result.tails.realistic[row]),
        guesses=tuple(Guess(guess.name, guess.known) for guess in unseen[:GUESSES]),
    )
