"""Whoever says that nothing has changed is believed; nobody else is."""

from __future__ import annotations

import pytest
import torch

from capse import CapsE
from capse.errors import CapseError
from capse.kernels.frozen import frozen
from capse.models import build_model


@pytest.mark.usefixtures("one_thread")
def test_a_table_is_looked_at_again_unless_it_is_said_to_be_unchanged():
    model = build_model(CapsE(dim=4, filters=3), entities=50, relations=2).eval()
    ask = torch.tensor([0]), torch.tensor([1])
    with torch.no_grad():
        first = model.score_tails(*ask)
        with frozen():
            assert torch.equal(model.score_tails(*ask), first)
        model.entities.numpy()[7] *= 3  # torch does not notice
        with frozen():
            assert torch.equal(model.score_tails(*ask), first)
        now = model.score_tails(*ask)
        assert not torch.equal(now, first)
        with frozen():
            assert torch.equal(model.score_tails(*ask), now)
        model.entities.numpy()[7] = float("nan")
        with pytest.raises(CapseError, match="NaN"):
            model.score_tails(*ask)
