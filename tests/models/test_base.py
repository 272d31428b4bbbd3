"""What all models share: settings that are checked, tables, and the distinct rows that are scored once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from capse import CapsE, ComplexCapsE, TransE
from capse.errors import CapseError
from capse.models import build_model
from capse.models.candidates import distinct_rows


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: TransE(dim=0), r"model\.dim is 0: choose a size of 1 or more"),
        (lambda: TransE(norm=3), r"model\.norm"),  # type: ignore[arg-type] # that is the mistake
        (lambda: CapsE(variant="papr"), r"model\.variant"),  # type: ignore[arg-type]
        (lambda: CapsE(filters=0), r"model\.filters is 0: choose 1 filter or more"),
        (lambda: ComplexCapsE(dropout=1.0), r"model\.dropout is 1\.0: choose a share from 0 up to, but not, 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused_where_they_are_written(make: Any, says: str) -> None:
    with pytest.raises(CapseError, match=says):
        make()


def test_the_least_that_makes_sense_is_taken() -> None:
    assert CapsE(dim=1, filters=1).dim == 1


@pytest.mark.parametrize(("reciprocal", "rows"), [(False, 3), (True, 6)])
def test_the_tables_that_are_trained(reciprocal: bool, rows: int) -> None:
    model = build_model(TransE(dim=4, reciprocal=reciprocal), 5, 3)
    entities, relations = model.tables
    assert entities is model.entities
    assert relations is model.relations
    assert (entities.shape, relations.shape) == ((5, 4), (rows, 4))
    assert model.device == torch.device("cpu")


def test_distinct_rows_in_order_of_first_appearance() -> None:
    table = torch.tensor([[2.0, 0.0], [1.0, 1.0], [2.0, -0.0], [0.0, 5.0], [1.0, 1.0]])
    rows, place = distinct_rows(table)
    assert rows.tolist() == [[2, 0], [1, 1], [0, 5]]
    assert place.tolist() == [0, 1, 0, 2, 1]
    np.testing.assert_array_equal(rows[place].numpy(), table.numpy())


def test_scores_follow_a_table_that_has_changed() -> None:
    """What was remembered of a table's distinct rows is forgotten with the table."""
    model = build_model(TransE(dim=2), 3, 1)
    with torch.no_grad():
        model.entities.copy_(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
        model.relations.zero_()
        ask = torch.tensor([0]), torch.tensor([0])
        assert model.score_tails(*ask).tolist() == [[0.0, 0.0, -2.0]]
        model.entities[1] = torch.tensor([0.0, 2.0])
        assert model.score_tails(*ask).tolist() == [[0.0, -3.0, -2.0]]
