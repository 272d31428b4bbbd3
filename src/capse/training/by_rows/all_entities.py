"""The softmax over all entities, block by block of the entity table.

Every process scores all questions of the batch against the entities of its own blocks. What a block has to say about a
question is one number, the log of its Σ exp f; from all blocks' numbers follows the softmax's denominator, and from it
the gradient of each score, p − 1 for the answer and p for every other entity, p being its share.
"""

from __future__ import annotations

import torch
from torch import Tensor

from capse.processes.blocks import Blocks
from capse.processes.group import Group
from capse.processes.sums import Rows, add_rows
from capse.training.batches import Epoch
from capse.training.by_rows.entity_table import EntityTable
from capse.training.by_rows.parts import DenseSums, Differentiator, RowSums, add_all
from capse.training.objectives import AllEntitiesObjective, Drawn
from capse.triples import HEAD, RELATION, TAIL


class AgainstAll(Differentiator):
    """A part of the sum is a block of the table, with a part of the batch's penalties."""

    def __init__(self, objective: AllEntitiesObjective, table: EntityTable, parts: int, group: Group) -> None:
        super().__init__(objective, table, parts, group)
        self.objective = objective
        self.sides = (TAIL,) if self.model.reciprocal else (TAIL, HEAD)

    def of(self, epoch: Epoch, step: int, *, bf16: bool) -> tuple[RowSums, DenseSums]:
        batch = epoch.batch(step)
        self.counted = self.parts
        ids = batch[:, [HEAD, TAIL]].unique()
        vectors = self.table.rows(ids)
        places = torch.searchsorted(ids, batch[:, [HEAD, TAIL]].T.contiguous())
        blocks = [_Block(self, batch, vectors, places, block, epoch, step, bf16) for block in self.own]
        logs, answers = self._shared([block.log_sums() for block in blocks])
        share = self._share_of_each(batch)
        rows, dense = {}, {}
        for block in blocks:
            of_vectors, of_block, of_weights = block.gradients(logs, share)
            loss = (share * (logs - answers)).sum() if block.number == 0 else logs.new_zeros(())
            span = self.table.blocks.span(block.number)
            own = Rows(torch.arange(span.start, span.stop, device=ids.device), of_block)
            rows[block.number] = add_rows(Rows(ids, of_vectors), own)
            dense[block.number] = [loss, *of_weights, *block.buffers]
            self._add_extra(batch, ids, vectors, block.number, rows, dense)
        return self.added_up(rows, dense)

    def _share_of_each(self, batch: Tensor) -> Tensor:
        """How much each question (B,) counts in the loss."""
        weights = self.objective.weights_of(batch)
        share = torch.ones(len(batch), device=batch.device) if weights is None else weights
        share = share.to(self.model.relations.dtype) / len(self.sides)
        return share if self.objective.loss.reduction == "sum" else share / len(batch)

    def _shared(self, told: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Of each question (sides, B) the log of Σ exp f over all entities, and the answer's score."""
        every = torch.cat(self.group.gather(torch.stack(told))) if self.group.size > 1 else torch.stack(told)
        return every[:, 0].logsumexp(0), every[:, 1].sum(0)

    def _add_extra(
        self,
        batch: Tensor,
        ids: Tensor,
        vectors: Tensor,
        part: int,
        rows: dict[int, Rows],
        dense: dict[int, list[Tensor]],
    ) -> None:
        """The penalties and the relations' loss of a part of the batch."""
        span = Blocks(len(batch), self.parts).span(part)
        settings = self.objective
        if not span or not (settings.loss.relation_weight or any(settings.regularizer.strengths.values())):
            return
        triples = batch[span.start : span.stop]
        heads, tails = (torch.searchsorted(ids, triples[:, side].contiguous()) for side in (HEAD, TAIL))
        own = vectors.detach().clone().requires_grad_()
        local = torch.stack([heads, triples[:, RELATION], tails], 1)
        nothing = own.new_zeros(())
        drawn = Drawn(local, weights=settings.weights_of(triples))
        loss = settings.total(nothing, drawn, self.model.over(own, self.model.relations), len(triples) / len(batch))
        of_rows, of_weights = self.gradients(loss, own)
        rows[part] = add_rows(rows[part], Rows(ids, of_rows))
        dense[part] = add_all(dense[part], of_weights + [torch.zeros_like(x) for x in dense[part][len(of_weights) :]])


class _Block:
    """All questions of a batch against the entities of one block, scored once and differentiated later."""

    def __init__(
        self,
        of: AgainstAll,
        batch: Tensor,
        vectors: Tensor,
        places: Tensor,
        number: int,
        epoch: Epoch,
        step: int,
        bf16: bool,
    ) -> None:
        model, table, span = of.model, of.table, of.table.blocks.span(number)
        self.number, self.weights = number, of.weights
        self.vectors = vectors.detach().clone().requires_grad_()
        self.candidates = table.block(number).detach().clone().requires_grad_()
        epoch.generator(step)  # the same dropout of the questions in every block
        scores, given, answers = [], {TAIL: HEAD, HEAD: TAIL}, []
        with of.alike() as buffers, torch.autocast(vectors.device.type, torch.bfloat16, enabled=bf16):
            for free in of.sides:
                ids, place = batch[:, given[free]], places[0 if free == TAIL else 1]
                found = model.score_block(
                    free, ids, self.vectors[place], batch[:, RELATION], self.candidates, span.start
                )
                scores.append(found.to(vectors.dtype))
                answers.append(batch[:, free] - span.start)
            self.buffers = buffers()
        self.scores, self.answers = torch.stack(scores), torch.stack(answers)  # (sides, B, C), (sides, B)
        self.here = (self.answers >= 0) & (self.answers < len(self.candidates))

    def log_sums(self) -> Tensor:
        """(2, sides, B): the log of Σ exp f of each question, and its answer's score where that is here, else 0."""
        scores = self.scores.detach()
        answers = scores.new_zeros(self.answers.shape)
        answers[self.here] = scores[self.here].gather(1, self.answers[self.here][:, None])[:, 0]
        return torch.stack([scores.logsumexp(-1), answers])

    def gradients(self, logs: Tensor, share: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Of the loss: by the questions' vectors, by the block's, and by relations and weights."""
        slopes = (self.scores.detach() - logs[..., None]).exp_()
        side, row = self.here.nonzero(as_tuple=True)
        slopes[side, row, self.answers[side, row]] -= 1
        of_vectors, of_block, *of_weights = torch.autograd.grad(
            self.scores,
            [self.vectors, self.candidates, *self.weights],
            slopes.mul_(share[:, None]),
            materialize_grads=True,
        )
        return of_vectors, of_block, of_weights
