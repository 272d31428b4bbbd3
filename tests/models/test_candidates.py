"""Scores of a table by shares: whoever has which rows, the bits are the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from capse import ComplEx
from capse.models import build_model, candidates
from capse.models.candidates import repeated_rows, rows_of_shard, score_rows

ROWS = 1_000


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "ROWS_OF_BLOCK", 96)


@pytest.fixture
def table() -> Tensor:
    """Of 1,000 rows some hundred are the same few vectors, wherever the blocks end."""
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(ROWS, 33, generator=generator)
    table[::7] = table[torch.arange(len(table[::7])) % 3]
    return table


@pytest.fixture
def score() -> Callable[[Tensor], Tensor]:
    questions = torch.randn(5, 33, generator=torch.Generator().manual_seed(1))
    return lambda rows: questions @ rows.T


@pytest.mark.parametrize("shares", [2, 3, 20])
def test_shares_have_the_bits_of_the_whole(table: Tensor, score: Callable[[Tensor], Tensor], shares: int) -> None:
    repeated = repeated_rows(table)
    whole = score_rows(score, table, range(ROWS), repeated)
    found = torch.full_like(whole, -torch.inf)
    for number in range(shares):
        own = rows_of_shard(ROWS, number, shares)
        part = score_rows(score, table, own, repeated)
        assert (part[:, : own.start] == -torch.inf).all()
        assert (part[:, own.stop :] == -torch.inf).all()
        found = found.maximum(part)
    assert torch.equal(found, whole)
    torch.testing.assert_close(whole, score(table))


def test_rows_with_one_vector_tie(table: Tensor, score: Callable[[Tensor], Tensor]) -> None:
    scores = score_rows(score, table, range(ROWS), repeated_rows(table))
    assert len(scores[:, ::7].unique(dim=1).T) == 3


def test_the_rows_with_one_vector_are_found() -> None:
    table = torch.arange(20.0).view(10, 2)
    assert repeated_rows(table) is None
    table[8], table[3, 0], table[3, 1] = table[1], -0.0, 0.0
    table[0] = 0.0
    found = repeated_rows(table)
    assert found is not None
    assert found.rows.tolist() == [0, 1, 3, 8]
    assert found.vectors.tolist() == [[0, 0], [2, 3]]
    assert found.places.tolist() == [0, 1, 0, 1]


def test_a_model_scores_its_rows_of_shard_the_answers_and_all_relations() -> None:
    model = build_model(ComplEx(dim=8), ROWS, 4)
    ask = torch.tensor([1, 2]), torch.tensor([0, 3])
    with torch.no_grad():
        whole = model.score_tails(*ask), model.score_heads(ask[1], ask[0])
        model.answering = rows_of_shard(ROWS, 1, 3)
        part = model.score_tails(*ask), model.score_heads(ask[1], ask[0])
        assert model.score_relations(*ask).shape == (2, 4)
    own = slice(model.answering.start, model.answering.stop)
    for every, some in zip(whole, part, strict=True):
        assert torch.equal(some[:, own], every[:, own])
        assert int(torch.isfinite(some).sum()) == 2 * len(model.answering)
