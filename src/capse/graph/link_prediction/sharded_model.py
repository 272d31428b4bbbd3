"""A model of which each process has the rows of some entities: ranks among all of them, and the file of all of them.

Every process scores all questions against its own blocks of the table and counts who is better and who is equal; the
counts add up. Blocks do not depend on the number of processes, and an entity whose vector is the true one's gets the
true one's score wherever it lies, so neither do ranks.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from capse.evaluation.query_ranks import raise_any
from capse.evaluation.ranks import NonFiniteScoreError, Ranks, rank_scores
from capse.graph.link_prediction.ranking import BYTES_PER_SCORE, MOST_CPU_MEMORY, evaluation_mode
from capse.models import TripleModel
from capse.models.candidates import row_keys
from capse.processes.shards import Shards
from capse.runs.folder import RunFolder
from capse.runs.manifest import entering
from capse.runs.tensors import Pieces, save_tensors
from capse.triples import HEAD, RELATION, TAIL, Answers, TripleIndex, Triples

_ROWS_OF_PIECE = 2**13  # that are on their way at a time: several copies of them are in memory


class ShardedModel:
    """A model with this process's share of the entity table."""

    def __init__(self, model: TripleModel, shards: Shards) -> None:
        self.model, self.shards, self.group = model, shards, shards.group

    @torch.no_grad()
    def rank(self, triples: Triples, known: TripleIndex) -> tuple[Ranks, Ranks]:
        """Filtered ranks of the true head and the true tail of each triple (n, 3), in every process."""
        with evaluation_mode(self.model):
            equals = _EqualRows(self.model.entities.detach())
            heads, tails = (self._rank_side(triples, known, free, equals) for free in (HEAD, TAIL))
        return heads, tails

    def _rank_side(self, triples: Triples, known: TripleIndex, free: int, equals: _EqualRows) -> Ranks:
        counts = np.zeros((len(triples), 3), np.int64)  # greater, equal, competitors
        error: NonFiniteScoreError | None = None
        order = np.argsort(triples[:, RELATION], kind="stable")  # some models project all entities once per relation
        size = max(1, MOST_CPU_MEMORY // (BYTES_PER_SCORE * self.model.entity_count))
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            scores = self._scores(triples[rows], free, equals)
            others = self._not_competing(triples[rows], known, free)
            true = np.full(len(rows), scores.shape[1] - 1)
            try:
                found = rank_scores(scores, true, others)
            except NonFiniteScoreError as raised:
                error = error or NonFiniteScoreError(raised.score, int(rows[raised.row]), raised.candidate)
                continue  # the others wait for this one in the next exchange
            counts[rows] = np.column_stack([found.greater, found.equal, found.candidates - 1])
        raise_any(error, self.group)
        greater, equal, competitors = self.group.total(torch.from_numpy(counts)).numpy().T.copy()
        return Ranks(greater, equal, competitors + 1)

    def _scores(self, triples: Triples, free: int, equals: _EqualRows) -> Tensor:
        """(B, C + 1): the scores of this process's entities, and of the true one, wherever it lies."""
        model, own = self.model, self.shards.own
        heads, relations, tails = torch.from_numpy(triples.astype(np.int64)).to(model.device).unbind(1)
        given, true = (tails, heads) if free == HEAD else (heads, tails)
        ids, places = torch.cat([given, true]).unique(return_inverse=True)
        of_given, of_true = self.shards.rows(model.entities.detach(), ids)[places].split(len(given))
        scores = torch.cat([self._of_block(number, free, given, of_given, relations) for number in self._blocks], 1)
        here = ((true >= own.start) & (true < own.stop)).nonzero()[:, 0]
        true_scores = scores.new_zeros(len(true))
        true_scores[here] = scores[here, true[here] - own.start]
        true_scores = self.group.total(true_scores)
        if model.loops is None:  # else equal vectors need not have equal scores
            row, column = equals.to(of_true)
            scores[row, column] = true_scores[row]
        return torch.cat([scores, true_scores[:, None]], 1)

    @property
    def _blocks(self) -> range:
        return self.shards.own_blocks

    def _of_block(self, number: int, free: int, given: Tensor, vectors: Tensor, relations: Tensor) -> Tensor:
        block = self.shards.block(self.model.entities, number)
        return self.model.score_block(free, given, vectors, relations, block, self.shards.blocks.start(number))

    def _not_competing(self, triples: Triples, known: TripleIndex, free: int) -> Answers:
        """Of this process's entities the known answers, the true one among them, by their places."""
        heads, relations, tails = triples.astype(np.int64).T
        answers = known.heads(relations, tails) if free == HEAD else known.tails(heads, relations)
        row = np.repeat(np.arange(len(triples)), np.diff(answers.offsets))
        pairs = np.unique(
            np.column_stack([np.append(row, np.arange(len(triples))), np.append(answers.entities, triples[:, free])]),
            axis=0,
        )
        pairs = pairs[(pairs[:, 1] >= self.shards.own.start) & (pairs[:, 1] < self.shards.own.stop)]
        offsets = np.searchsorted(pairs[:, 0], np.arange(len(triples) + 1)).astype(np.int64)
        return Answers(offsets, pairs[:, 1] - self.shards.own.start)

    def save(self, run: RunFolder) -> None:
        """Write the whole model into a run that has everything else; the first process does, from what all send."""
        shape = self.model.entity_count, self.model.entities.shape[1]
        if self.group.leads:
            with entering(run.path, run.model):
                table = Pieces(self.model.entities.dtype, shape, self._all_rows())
                save_tensors(run.model, {**self.model.state_dict(), "entities": table}, {})
        else:
            for _ in self._all_rows():
                pass

    def _all_rows(self) -> Iterator[Tensor]:
        """In the first process: all rows, in their order, a piece at a time. In others: as many empty ones."""
        values, own = self.model.entities.detach(), self.shards.own
        for owner in range(self.group.size):
            rows = self.shards.blocks.rows(owner, self.group.size)
            for start in range(rows.start, rows.stop, _ROWS_OF_PIECE):
                piece = values[:0]
                if owner == self.group.rank:
                    piece = values[start - own.start : min(start + _ROWS_OF_PIECE, rows.stop) - own.start]
                yield self.group.exchange([piece if to == 0 else values[:0] for to in range(self.group.size)])[owner]


class _EqualRows:
    """Finds the rows of a table (n, k) that are equal to given ones, by a hash of their bits."""

    def __init__(self, table: Tensor) -> None:
        self.table = table
        self.keys, self.places = row_keys(table).sort()

    def to(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Which given row (m,) is equal to which row of the table (m,)."""
        keys = row_keys(rows)
        first = torch.searchsorted(self.keys, keys)
        counts = torch.searchsorted(self.keys, keys, right=True) - first
        given = torch.arange(len(rows), device=rows.device).repeat_interleave(counts)
        inside = torch.arange(len(given), device=rows.device) - (counts.cumsum(0) - counts)[given]
        found = self.places[first[given] + inside]
        same = (self.table[found] == rows[given]).all(1)
        return given[same], found[same]
