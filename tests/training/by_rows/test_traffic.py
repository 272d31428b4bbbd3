"""What a step sends is what the page on several processes says, within 10 %."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capse.models import build_model, entity_width, model_settings
from tests.together import ends_of, start_together
from tests.training.by_rows.traffic_in_processes import BATCH, DIM, FORMS, RELATIONS, SHARED, UNIFORM

SETTINGS = model_settings({"name": "complex", "dim": DIM})
PARTS = 8


def formula(form: str, way: str, count: int) -> float:
    """docs/how-to/several-processes.md, with 4 bytes a number; the graph is so large that few ids occur twice."""
    width = entity_width(SETTINGS)
    dense = sum(x.numel() for x in build_model(SETTINGS, 1, RELATIONS).parameters()) - width
    others, away = count - 1, (count - 1) / count
    share = BATCH / count
    named = {"shared": 2 * share + SHARED.count, "uniform": (2 + UNIFORM.count) * share, "all": 2 * BATCH}[form]
    if form == "all":
        sides = 1 if SETTINGS.reciprocal else 2
        batch = BATCH
        talk = others * PARTS / count * 2 * sides * batch * 4
        rows = away * named * (32 + 8 * width) if way == "rows" else 0.0
        return talk + rows + others * 4 * dense
    rows = away * named * (32 + 8 * width) if way == "rows" else others * named * (24 + 4 * width)
    return rows + others * 4 * dense


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def measured(request, tmp_path_factory) -> tuple[int, list[dict[str, float]]]:
    file = tmp_path_factory.mktemp("traffic") / "sent"
    ends = ends_of(start_together(request.param, "-m", "tests.training.by_rows.traffic_in_processes", file))
    assert [status for status, *_ in ends] == [0] * request.param, ends
    return request.param, [json.loads(Path(f"{file}-{rank}.json").read_text()) for rank in range(request.param)]


@pytest.mark.parametrize("case", [*(f"{form}, rows" for form in FORMS), "shared, data", "uniform, data"])
def test_a_step_sends_what_the_formula_says(measured: tuple[int, list[dict[str, float]]], case: str) -> None:
    count, found = measured
    mean = sum(each[case] for each in found) / count
    form, way = case.split(", ")
    assert mean == pytest.approx(formula(form, way, count), rel=0.1)
