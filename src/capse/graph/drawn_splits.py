"""Which triples of a graph on disk are held out: those that `splits.split_graph` holds out, in a tenth of its memory.

The same order is drawn and the same rule holds, but triples are looked at a chunk at a time, and what is remembered of
each is its place in the order (four bytes) and where it went (one).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from capse.errors import SettingsError
from capse.graph.encoding import IntTriples
from capse.graph.splits import Positions, wanted_sizes

_CHUNK = 1 << 20  # triples
TRAIN, VALID, TEST = 0, 1, 2

Splits = npt.NDArray[np.uint8]


def draw_splits(
    triples: IntTriples,
    entities: int,
    relations: int,
    valid: float,
    test: float,
    seed: int = 0,
    allow_unseen: bool = False,
) -> Splits:
    """The split (n,) of each triple (n, 3), by number."""
    wanted_valid, wanted_test = wanted_sizes(len(triples), valid, test)
    random = np.random.default_rng(seed)
    order = np.arange(len(triples), dtype=np.int32)
    random.shuffle(order)  # what `permutation` does, with half of its memory
    wanted = wanted_valid + wanted_test
    if allow_unseen:
        held_out = np.arange(len(triples) - wanted, len(triples))
    else:
        held_out = _Holding(triples, order, entities, relations).hold_out(wanted)
    held_out = random.permutation(held_out)
    splits = np.full(len(triples), TRAIN, np.uint8)
    splits[order[held_out[:wanted_valid]]] = VALID
    splits[order[held_out[wanted_valid:]]] = TEST
    return splits


class _Holding:
    """Who holds on to which triple; see `splits.hold_out`, which says the rule."""

    def __init__(self, triples: IntTriples, order: npt.NDArray[np.int32], entities: int, relations: int) -> None:
        self.triples, self.order, self.entities, self.relations = triples, order, entities, relations
        self.held = np.zeros(len(triples), bool)  # by place in the order

    def hold_out(self, wanted: int) -> Positions:
        rounds, count = [np.empty(0, np.int64)], 0
        while count < wanted:
            spare = self._spare(wanted - count)
            if len(spare) == 0:
                raise SettingsError(
                    f"{wanted:,} triples were to be held out, but after {count:,} each one left has an entity or "
                    "relation that no other has",
                    "hold out fewer, or allow unseen ones (--allow-unseen)",
                )
            rounds.append(spare)
            self.held[spare] = True
            count += len(spare)
        return np.concatenate(rounds)

    def _chunks(self) -> Iterator[tuple[Positions, IntTriples]]:
        """Places in the order of triples that are not held out, and the triples."""
        for start in range(0, len(self.order), _CHUNK):
            places = start + np.flatnonzero(~self.held[start : start + _CHUNK])
            yield places, self.triples[self.order[places]]

    def _spare(self, wanted: int) -> Positions:
        """The last places whose triples nobody holds on to, as many as are wanted or there are."""
        entity_count, relation_count = np.zeros(self.entities, np.int64), np.zeros(self.relations, np.int64)
        for _, (heads, relations, tails) in ((places, rows.T) for places, rows in self._chunks()):
            np.add.at(entity_count, heads, 1)
            np.add.at(entity_count, tails[heads != tails], 1)
            relation_count += np.bincount(relations, minlength=self.relations)
        last = len(self.order)
        entity_holds, relation_holds = np.full(self.entities, last), np.full(self.relations, last)

        def ranks(places: Positions, rows: IntTriples) -> tuple[Positions, npt.NDArray[np.bool_]]:
            heads, relations, tails = rows.T
            may = (entity_count[heads] > 1) & (entity_count[tails] > 1) & (relation_count[relations] > 1)
            return places - np.where(may, 0, last), may

        for places, rows in self._chunks():
            rank, _ = ranks(places, rows)
            np.minimum.at(entity_holds, rows[:, 0], rank)
            np.minimum.at(entity_holds, rows[:, 2], rank)
            np.minimum.at(relation_holds, rows[:, 1], rank)
        found: list[Positions] = []
        for places, rows in self._chunks():
            rank, may = ranks(places, rows)
            heads, relations, tails = rows.T
            holds = (entity_holds[heads] == rank) | (entity_holds[tails] == rank) | (relation_holds[relations] == rank)
            found.append(places[may & ~holds])
            while sum(map(len, found[1:])) >= wanted:
                del found[0]
        return np.concatenate(found)[-wanted:]
