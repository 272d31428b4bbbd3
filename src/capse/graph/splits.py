"""Dividing triples into train, valid and test by chance, without asking about what training never saw."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from capse.errors import SettingsError
from capse.graph.encoding import IntTriples

if TYPE_CHECKING:
    from capse.graph.dataset import Graph

Positions = npt.NDArray[np.int64]


def split_graph(graph: Graph, valid: float, test: float, seed: int = 0, allow_unseen: bool = False) -> Graph:
    """Divide the triples of ``graph.train`` anew; ``valid`` and ``test`` are fractions of them.

    Every entity and relation keeps a triple in train unless ``allow_unseen``. The sizes are exact, and the same triples
    and seed give the same split.

    >>> from capse.graph.dataset import Graph
    >>> pairs = [(str(head), "less_than", str(tail)) for head in range(5) for tail in range(head + 1, 5)]
    >>> parts = split_graph(Graph.from_triples(pairs), valid=0.1, test=0.2)
    >>> len(parts.train), len(parts.valid), len(parts.test)
    (7, 1, 2)
    """
    triples = graph.train
    wanted_valid, wanted_test = wanted_sizes(len(triples), valid, test)
    random = np.random.default_rng(seed)
    order = random.permutation(len(triples))
    wanted = wanted_valid + wanted_test
    if allow_unseen:
        held_out = np.arange(len(triples) - wanted, len(triples))
    else:
        held_out = hold_out(triples[order], wanted, len(graph.entities), len(graph.relations))
    held_out = random.permutation(held_out)
    rows = {
        "train": np.sort(np.delete(order, held_out)),
        "valid": np.sort(order[held_out[:wanted_valid]]),
        "test": np.sort(order[held_out[wanted_valid:]]),
    }
    weights = graph.weights.get("train")
    return replace(
        graph,
        columns=None,
        train=triples[rows["train"]],
        valid=triples[rows["valid"]],
        test=triples[rows["test"]],
        weights={} if weights is None else {split: weights[places] for split, places in rows.items()},
    )


def wanted_sizes(triples: int, valid: float, test: float) -> tuple[int, int]:
    """How many of so many triples validate and test."""
    if not (valid >= 0 and test >= 0 and valid + test < 1):
        raise SettingsError(
            f"valid {valid} and test {test} do not leave a training set", "give fractions whose sum is less than 1"
        )
    return round(valid * triples), round(test * triples)


def hold_out(triples: IntTriples, wanted: int, entities: int, relations: int) -> Positions:
    """Positions of ``wanted`` triples, as late as possible, without which the rest still has every entity and relation.

    Fails only if no single triple more could be spared by those that are left.
    """
    held_out = np.empty(0, np.int64)
    kept = np.arange(len(triples))
    while len(held_out) < wanted:
        spare = np.flatnonzero(_spare(triples[kept], entities, relations))[len(held_out) - wanted :]
        if len(spare) == 0:
            raise SettingsError(
                f"{wanted:,} triples were to be held out, but after {len(held_out):,} each one left has an entity or "
                "relation that no other has",
                "hold out fewer, or allow unseen ones (--allow-unseen)",
            )
        held_out = np.concatenate([held_out, kept[spare]])
        kept = np.delete(kept, spare)
    return held_out


def _spare(triples: IntTriples, entities: int, relations: int) -> npt.NDArray[np.bool_]:
    """Which triples can leave all at once.

    A triple may leave if others have its entities and its relation too. So that not all of those leave together, each
    entity and relation holds on to one triple: one that has to stay anyway, else the first. Nobody then holds the last
    triple that may leave, so there is a spare one whenever there can be.
    """
    heads, relation_ids, tails = triples.T
    entity_count = np.bincount(heads, minlength=entities) + np.bincount(tails[heads != tails], minlength=entities)
    relation_count = np.bincount(relation_ids, minlength=relations)
    may_leave = (entity_count[heads] > 1) & (entity_count[tails] > 1) & (relation_count[relation_ids] > 1)
    rank = np.arange(len(triples)) - np.where(may_leave, 0, len(triples))
    entity_holds = np.full(entities, len(triples))
    relation_holds = np.full(relations, len(triples))
    np.minimum.at(entity_holds, heads, rank)
    np.minimum.at(entity_holds, tails, rank)
    np.minimum.at(relation_holds, relation_ids, rank)
    held = (entity_holds[heads] == rank) | (entity_holds[tails] == rank) | (relation_holds[relation_ids] == rank)
    return np.asarray(may_leave & ~held)
