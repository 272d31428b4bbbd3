"""Sums over parts: the same to the last bit however the parts are divided."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from capse.processes.blocks import Blocks
from capse.processes.sums import Node, Rows, add_rows, add_up, nodes_of


def rows_of(part: int) -> Rows | None:
    generator = torch.Generator().manual_seed(part)
    ids = torch.randint(9, (4,), generator=generator).unique()
    return None if part == 3 else Rows(ids, torch.randn(len(ids), 2, generator=generator))


@given(parts=st.sampled_from([1, 2, 8, 16]), processes=st.integers(1, 16))
def test_a_sum_does_not_know_how_many_processes_made_it(parts: int, processes: int) -> None:
    leaves = {(part, 1): rows_of(part) for part in range(parts)}
    sent: dict[Node, Rows | None] = {}
    for rank in range(min(processes, parts)):
        nodes = nodes_of(Blocks(0, parts).of(rank, min(processes, parts)))
        sent |= {node: add_up(leaves, node, add_rows) for node in nodes}
    found, alone = (add_up(known, (0, parts), add_rows) for known in (sent, leaves))
    assert found is not None
    assert alone is not None
    assert torch.equal(found.ids, alone.ids)
    assert torch.equal(found.values, alone.values)
    table = torch.zeros(9, 2, dtype=torch.float64)
    for rows in leaves.values():
        if rows is not None:
            table.index_add_(0, rows.ids, rows.values.double())
    torch.testing.assert_close(table[alone.ids], alone.values.double(), rtol=1e-5, atol=1e-6)
    assert not table.index_fill(0, alone.ids, 0).any()


@given(size=st.integers(0, 50), count=st.sampled_from([1, 2, 8]), processes=st.integers(1, 8))
def test_blocks_cover_everything_once(size: int, count: int, processes: int) -> None:
    blocks = Blocks(size, count)
    assert [i for block in range(count) for i in blocks.span(block)] == list(range(size))
    owned = [blocks.rows(rank, processes) for rank in range(processes)]
    assert [i for rows in owned for i in rows] == list(range(size))
    assert blocks.bounds(processes) == [rows.start for rows in owned] + [size]


def test_a_part_that_nobody_sent_is_named() -> None:
    with pytest.raises(KeyError, match="part 1"):
        add_up({(0, 1): 1.0}, (0, 2), lambda a, b: a + b)
