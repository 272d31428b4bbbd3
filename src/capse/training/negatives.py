"""Corrupted triples: a head or a tail replaced by another entity, never giving a known triple.

*uniform* replaces either side with equal chance. *bernoulli* (Wang et al., AAAI 2014) replaces the head of relation r
with probability tph / (tph + hpt), where tph is the mean number of tails per head and hpt of heads per tail, so that
the side with many right answers is left alone more often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from capse.errors import DataError, SettingsError
from capse.runs.settings import Section
from capse.triples import HEAD, RELATION, TAIL, Answers, TripleIndex, Triples

_ROUNDS = 16  # of redrawing before the entities that remain are listed


@dataclass(frozen=True)
class Negatives(Section):
    """What a true triple is scored against.

    ``bernoulli`` and ``uniform`` corrupt it ``count`` times; ``shared`` draws ``count`` entities for the whole batch
    and tries each in place of the tail and of the head; ``all`` takes every entity.
    """

    sampler: Literal["bernoulli", "uniform", "shared", "all"] = "bernoulli"  # all goes with softmax, bce and kl
    count: int = 1  # how many; means nothing to all
    filtered: bool = True  # never a training triple; false, for bernoulli and uniform: whatever is drawn
    one_side: bool = False  # with bernoulli and uniform: the same side in all corrupted versions of a triple

    def __post_init__(self) -> None:
        if self.count < 1:
            raise SettingsError(f"negatives.count is {self.count}", "draw 1 negative or more")
        if self.sampler in ("shared", "all"):
            for key, usual in (("filtered", True), ("one_side", False)):
                if getattr(self, key) != usual:
                    chosen = f"negatives.{key} is {getattr(self, key)} with negatives.sampler={self.sampler}"
                    raise SettingsError(chosen, "leave it out, or choose the sampler bernoulli or uniform")


class Corruptor:
    """Draws corrupted triples on the device of the batch it is given."""

    def __init__(
        self,
        index: TripleIndex,
        head_chance: Tensor,
        device: torch.device,
        *,
        filtered: bool = True,
        one_side: bool = False,
    ) -> None:
        """``head_chance`` (R,) is the probability of replacing the head."""
        self.filtered, self.one_side = filtered, one_side
        self.index = index
        self.entities = index.entities
        self.relations = index.relations
        self.keys = torch.from_numpy(index.keys).to(device)
        self.head_chance = head_chance.to(device)

    def corrupt(self, batch: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Heads and tails (B, count) of corrupted versions of the triples in ``batch`` (B, 3)."""
        heads, relations, tails = (column.repeat_interleave(count) for column in batch.unbind(1))
        replace_head = self._sides(batch[:, RELATION], count, generator)
        drawn = self._draw(len(heads), generator)
        found = torch.where(replace_head, drawn, heads), torch.where(replace_head, tails, drawn)
        if self.filtered:
            self._redraw_known(found, (heads, relations, tails), replace_head, generator)
        return found[0].view(-1, count), found[1].view(-1, count)

    def _sides(self, relations: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """(B · count,): whether the head is replaced, for relations (B,)."""
        each = relations if self.one_side else relations.repeat_interleave(count)
        replaced = torch.rand(len(each), device=each.device, generator=generator) < self.head_chance[each]
        return replaced.repeat_interleave(count) if self.one_side else replaced

    def _redraw_known(
        self,
        found: tuple[Tensor, Tensor],
        originals: tuple[Tensor, Tensor, Tensor],
        replace_head: Tensor,
        generator: torch.Generator,
    ) -> None:
        """Replace those among the corrupted heads and tails ``found`` that make a known triple, in place."""
        (heads, tails), (original_heads, relations, original_tails) = found, originals
        bad = self.known(heads, relations, tails).nonzero().squeeze(1)
        for _ in range(_ROUNDS):
            if not len(bad):
                break
            drawn = self._draw(len(bad), generator)
            heads[bad] = torch.where(replace_head[bad], drawn, original_heads[bad])
            tails[bad] = torch.where(replace_head[bad], original_tails[bad], drawn)
            bad = bad[self.known(heads[bad], relations[bad], tails[bad])]
        for i in bad.tolist():
            first = bool(replace_head[i])
            heads[i], tails[i] = self._unknown(
                int(original_heads[i]), int(relations[i]), int(original_tails[i]), first, generator
            )

    def known(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Which triples, of any shapes that broadcast, are known."""
        keys = (heads * self.relations + relations) * self.entities + tails
        found = torch.searchsorted(self.keys, keys).clamp_(max=len(self.keys) - 1)
        return self.keys[found] == keys

    def known_tails(self, heads: Tensor, relations: Tensor, candidates: Tensor) -> Tensor:
        """(B, C): which candidates (C,) are known tails of heads (B,) and relations (B,)."""
        if self.keys.device.type != "cpu":
            return self.known(heads[:, None], relations[:, None], candidates)
        return _among(self.index.tails(heads.numpy(), relations.numpy()), candidates)

    def known_heads(self, relations: Tensor, tails: Tensor, candidates: Tensor) -> Tensor:
        """(B, C): which candidates (C,) are known heads of relations (B,) and tails (B,)."""
        if self.keys.device.type != "cpu":
            return self.known(candidates, relations[:, None], tails[:, None])
        return _among(self.index.heads(relations.numpy(), tails.numpy()), candidates)

    def _draw(self, count: int, generator: torch.Generator) -> Tensor:
        return torch.randint(self.entities, (count,), device=self.keys.device, generator=generator)

    def _unknown(
        self, head: int, relation: int, tail: int, head_first: bool, generator: torch.Generator
    ) -> tuple[int, int]:
        """A corruption from the list of all that are not known, on the other side if the first has none."""
        everyone = torch.arange(self.entities, device=self.keys.device)
        for replace_head in (head_first, not head_first):
            if float(self.head_chance[relation]) == float(not replace_head):
                continue  # this side is never replaced
            heads = everyone if replace_head else torch.full_like(everyone, head)
            tails = torch.full_like(everyone, tail) if replace_head else everyone
            free = everyone[~self.known(heads, torch.full_like(everyone, relation), tails)]
            if len(free):
                pick = int(torch.randint(len(free), (1,), device=free.device, generator=generator))
                return (int(free[pick]), tail) if replace_head else (head, int(free[pick]))
        raise DataError(
            f"relation number {relation} connects every entity with entity {head} and with entity {tail}, "
            "so no corrupted triple is false",
            "leave this relation out, or train with negatives.sampler=all",
        )


def _among(answers: Answers, candidates: Tensor) -> Tensor:
    """(B, C): which candidates (C,) are answers. To list the answers is quicker than to look each pair up."""
    distinct, place = candidates.unique(return_inverse=True)
    columns = np.searchsorted(distinct.numpy(), answers.entities)
    columns[columns == len(distinct)] = 0
    found = distinct.numpy()[columns] == answers.entities
    rows = np.repeat(np.arange(len(answers)), np.diff(answers.offsets))
    mask = np.zeros((len(answers), len(distinct)), np.bool_)
    mask[rows[found], columns[found]] = True
    return torch.from_numpy(mask)[:, place]


def head_chances(triples: Triples, relations: int, sampler: Literal["bernoulli", "uniform"]) -> Tensor:
    """(R,): the probability that the head, not the tail, of a relation's triple is replaced."""
    if sampler == "uniform":
        return torch.full((relations,), 0.5)

    def distinct(side: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """(R,): how many different entities stand on that side of a relation's triples."""
        entities = int(triples[:, side].max()) + 1
        pairs = np.sort(triples[:, RELATION].astype(np.int64) * entities + triples[:, side])
        return np.bincount(pairs[np.diff(pairs, prepend=-1) > 0] // entities, minlength=relations)

    heads, tails = distinct(HEAD), distinct(TAIL)
    # With n triples tph = n / heads and hpt = n / tails, so that tph / (tph + hpt) = tails / (heads + tails).
    return torch.from_numpy(np.where(heads > 0, tails / np.maximum(heads + tails, 1), 0.5)).float()
