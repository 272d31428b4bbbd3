"""Runs that several processes make: the files, the figures and the bits of one; either goes on with the other's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file

from capse.experiments.fit import fit
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.runs.folder import RunFolder
from tests.experiments.in_processes import MODELS, Stop, said_by, training_of
from tests.together import ends_of, start_together


@pytest.fixture(scope="module")
def alone(tmp_path_factory, one_thread) -> Path:
    """What one process makes, and what it leaves half done."""
    folder = tmp_path_factory.mktemp("alone")
    for model in MODELS:
        assert said_by(*training_of(model, folder / model))[0] == 0
    shutil.copy(folder / "complex" / "recipe.yaml", folder / "recipe.yaml")
    fit("countries", str(folder / "recipe.yaml"), out=folder / "stopped-by-one", listener=Stop(1, 1))
    assert said_by(*training_of("complex", folder / "rows", **{"training.parallel": "rows"}))[0] == 0
    fit("countries", str(folder / "rows" / "recipe.yaml"), out=folder / "shared-by-one", listener=Stop(1, 1))
    return folder


@pytest.fixture(scope="module")
def together(tmp_path_factory, alone: Path) -> Path:
    """What two processes make, and how they go on."""
    folder = tmp_path_factory.mktemp("together")
    for name in ("stopped-by-one", "shared-by-one"):
        shutil.copytree(alone / name, folder / name)
    shutil.copy(alone / "recipe.yaml", folder)
    ends = ends_of(start_together(2, "-m", "tests.experiments.in_processes", folder))
    assert [status for status, *_ in ends] == [0, 0], ends
    assert not ends[1][1], "one process speaks"
    errors = [line for line in ends[0][2].splitlines() if line.startswith("error: ")]
    assert "loss.name=bce" in errors[0]
    assert "bernoulli, uniform or shared), or softmax with negatives.sampler=all" in errors[0]
    assert "capse tune is done by one process" in errors[1]
    return folder


def state(run: Path) -> tuple[dict[str, bytes], list[dict]]:
    clock = ("seconds", "examples_per_second")
    records = [{k: v for k, v in line.items() if k not in clock} for line in RunFolder(run).read_metrics()]
    return {name: x.numpy().tobytes() for name, x in load_file(RunFolder(run).model).items()}, records


@pytest.mark.parametrize("model", MODELS)
def test_two_processes_leave_the_run_of_one(alone: Path, together: Path, model: str) -> None:
    assert state(together / model) == state(alone / model)
    names = [sorted(path.name for path in (folder / model).rglob("*")) for folder in (alone, together)]
    assert names[0] == names[1]
    assert (together / model / "recipe.yaml").read_text() == (alone / model / "recipe.yaml").read_text()


def test_two_go_on_with_what_one_began(alone: Path, together: Path) -> None:
    assert state(together / "stopped-by-one") == state(alone / "complex")


def test_one_goes_on_with_what_two_began(alone: Path, together: Path, tmp_path: Path) -> None:
    run = shutil.copytree(together / "stopped-by-two", tmp_path / "run")
    assert len(RunFolder(run).read_metrics()) == 1
    fit("countries", out=run, resume=True)
    assert state(run) == state(alone / "complex")


def test_two_that_share_the_table_end_as_one_does(alone: Path, together: Path, tmp_path: Path) -> None:
    one, two = state(alone / "rows"), state(together / "rows")
    assert two == one
    assert one[0] == state(alone / "complex")[0]
    LinkPredictor.load(together / "rows")  # which checks all that a file says of itself
    run = shutil.copytree(together / "shared-by-two", tmp_path / "run")
    pieces = [path.name for path in (run / "checkpoints").glob("last-*")]
    assert len(pieces) == 2
    fit("countries", out=run, resume=True)
    assert state(run) == one
    assert not list((run / "checkpoints").glob("last-*")), "what is not of the last checkpoint is deleted"
    assert state(together / "shared-by-one") == one


@pytest.mark.parametrize("exact", [[], ["--exact"]])
def test_two_processes_say_what_one_says_of_a_model(alone: Path, together: Path, exact: list[str]) -> None:
    status, output = said_by("evaluate", alone / "complex", "--json", "--among", "sampled:20", *exact)
    assert status == 0
    one, two = json.loads(output), json.loads((together / f"evaluated{''.join(exact)}.json").read_text())
    assert {**one, "seconds": 0} == {**two, "seconds": 0}


def test_what_cannot_be_divided_is_refused_and_nothing_written(together: Path) -> None:
    assert json.loads((together / "refused.json").read_text()) == [2, 2]
    assert not (together / "bce").exists()
    assert not (together / "tune").exists()
