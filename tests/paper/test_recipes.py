"""The recipes and grids of the paper's package are found by name, and say what the paper says."""

from __future__ import annotations

from typing import Any

from capse.experiments.grid import load_grid
from capse.experiments.shipped import KINDS, shipped


def test_all_that_are_named_after_data_or_the_paper_come_with_its_package():
    for kind in KINDS:
        for name, one in shipped(kind).items():
            of_the_paper = name.endswith(("-wn18rr", "-fb15k-237", "-paper")) or name.startswith("m3gm-")
            assert (one.package == "capse_paper") == of_the_paper, name
            assert one.about, f"{name} does not say in its first line what it is"


def test_the_paper_s_grids():
    """Section 3.1: N and the learning rate as listed for ConvKB, m as listed for CapsE; chosen by Hits@10."""
    filters, rates = (50, 100, 200, 400), (1e-5, 5e-5, 1e-4)
    assert [name for name in shipped("grid") if name.endswith("-paper")] == ["capse-paper", "convkb-paper"]
    convkb, capse = load_grid("convkb-paper"), load_grid("capse-paper")
    assert convkb.space == {"model.filters": filters, "training.learning_rate": rates}
    assert capse.space == {"model.routing": (1, 3, 5, 7), **convkb.space}
    assert (convkb.total, capse.total) == (12, 48)
    for grid, name, epochs in ((convkb, "convkb", 100), (capse, "capse", 50)):
        recipe = grid.recipe
        assert (recipe.model_name, recipe.training.epochs, recipe.training.batch_size) == (name, epochs, 128)
        assert (recipe.model.dim, recipe.validation.every, grid.metric) == (100, 10, "hits@10")
    model: Any = capse.recipe.model
    assert (model.capsule_dim, model.variant) == (10, "paper")
