"""Several processes end with the bits of one, whether each has all of the entity table or a share of its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from capse.training.by_rows.learner import Division
from tests.together import ends_of, start_together
from tests.training.by_rows.cases import CASES, end_of
from tests.training.by_rows.in_processes import TYPES, WAYS

QUICK = [case for case in CASES if case not in ("transd", "loops")]


def trained_by(count: int, folder: Path, types: Iterable[str], cases: Iterable[str]) -> Path:
    chosen = ",".join(types), ",".join(cases)
    ends = ends_of(start_together(count, "-m", "tests.training.by_rows.in_processes", folder, *chosen))
    assert [status for status, *_ in ends] == [0] * count, ends
    return folder


def assert_same_bits(case: str, folder: Path, name: str) -> None:
    model, losses = end_of(case, "adagrad", Division(8), TYPES[name])
    for way in WAYS:
        path = folder / f"{case}-{way}-{name}"
        found = load_file(path)
        assert found.keys() == model.state_dict().keys()
        assert all(torch.equal(found[key], x) for key, x in model.state_dict().items()), way
        with safe_open(path, "pt") as file:
            assert json.loads(file.metadata()["losses"]) == losses


@pytest.fixture(scope="module")
def by_two(tmp_path_factory) -> Path:
    return trained_by(2, tmp_path_factory.mktemp("two"), ["float32"], QUICK)


@pytest.mark.parametrize("case", QUICK)
def test_two_processes_end_with_the_bits_of_one(by_two: Path, case: str) -> None:
    assert_same_bits(case, by_two, "float32")


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_so_do_more_and_in_double_precision(tmp_path: Path, count: int) -> None:
    trained_by(count, tmp_path, TYPES, CASES)
    for case in CASES:
        for name in TYPES:
            assert_same_bits(case, tmp_path, name)
