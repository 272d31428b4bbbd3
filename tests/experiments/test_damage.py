"""Every file of a run, with a flipped bit or cut short: refused by name, never evaluated."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import capse
from capse.errors import RunError
from capse.experiments.halving import tune_within
from capse.experiments.search.methods import METHODS
from capse.experiments.tune import tune
from capse.graph.dataset import Graph
from capse.runs.folder import RunFolder
from capse.search.logs.search_log import SearchLog
from capse.search.logs.simulation import SimulationSettings, simulate

QUICK = capse.Training(epochs=1, batch_size=16, device="cpu")
FEW, MANY = 5, 65
KINDS = ["graph", "refined", "rules", "updated", "search", "blend"]
MAY_BE_DELETED = {"calibration.json", "metrics.jsonl", "results.json"}


@pytest.fixture(scope="module")
def log() -> SearchLog:
    return simulate(SimulationSettings(users=6, topics=4, documents=40, impressions=120, days=30)).log


@pytest.fixture(scope="module")
def runs(planted: Graph, log: SearchLog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    capse.fit(planted, capse.DistMult(dim=8), out=folder / "graph", training=QUICK).calibrate()
    vectors = capse.VectorSettings(source="encoder", dimensions=8)
    capse.fit_search(log, "transe", out=folder / "search", training=QUICK, vectors=vectors)
    recipe = METHODS["blend"].resolve("transe", ["training.epochs=1"])
    METHODS["blend"].train(log, recipe, out=folder / "blend")
    capse.refine(folder / "graph", out=folder / "refined")
    rules = capse.fit(planted, capse.Rules(), out=folder / "rules")
    rules.updated([("a new town", "lies in", "region 0")]).save(folder / "updated")
    return folder


def damaged(content: bytes, times: int) -> Iterator[bytes]:
    """The content with a flipped bit, and cut short."""
    random = Random(0)
    for _ in range(times):
        place = random.randrange(len(content))
        yield content[:place] + bytes([content[place] ^ 1 << random.randrange(8)]) + content[place + 1 :]
        yield content[: random.randrange(len(content))]


def check_every_damage(run: Path, times: int) -> None:
    capse.load(run)
    files = [path for path in sorted(run.rglob("*")) if path.is_file() and path.parent.name != "checkpoints"]
    assert {"manifest.json", "recipe.yaml", "results.json"} < {file.name for file in files}
    for file in files:
        whole = file.read_bytes()
        for content in damaged(whole, times):
            file.write_bytes(content)
            with pytest.raises(RunError) as error:
                capse.load(run)
            assert str(file) in error.value.message, error.value.message
            assert "\n" not in str(error.value)
        file.unlink()
        if file.name not in MAY_BE_DELETED:
            with pytest.raises(RunError):
                capse.load(run)
        file.write_bytes(whole)
    capse.load(run)


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_refused_by_name(runs: Path, kind: str) -> None:
    check_every_damage(runs / kind, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_much_damage_is_refused_by_name(runs: Path, kind: str) -> None:
    check_every_damage(runs / kind, MANY)


def test_the_command_line_says_it_in_a_line(runs: Path, tmp_path: Path, run_command) -> None:
    shutil.copytree(runs / "graph", tmp_path / "run")
    file = tmp_path / "run" / "graph" / "test.parquet"
    (content,) = list(damaged(file.read_bytes(), 1))[:1]
    file.write_bytes(content)
    question = ("--head", "town 00", "--relation", "lies in")
    for command in (["evaluate"], ["predict", *question], ["serve"], ["explain", *question, "--tail", "region 0"]):
        status, output, errors = run_command(command[0], tmp_path / "run", *command[1:])
        assert (status, output) == (2, "")
        assert errors.startswith(f"error: {file} is damaged")
        assert errors.count("\n") == 1


@pytest.mark.parametrize("name", ["recipe.yaml", "graph/test.parquet", "vocabulary/entities.parquet"])
def test_a_training_does_not_go_on_with_damaged_inputs(runs: Path, tmp_path: Path, run_command, name: str) -> None:
    shutil.copytree(runs / "graph", tmp_path / "run")
    file = tmp_path / "run" / name
    for content in damaged(file.read_bytes(), FEW):
        file.write_bytes(content)
        status, _, errors = run_command("train", "--resume", "--out", tmp_path / "run")
        assert status == 2
        assert errors.startswith(f"error: {file} is damaged")


@pytest.mark.parametrize("name", ["last.safetensors", "best.safetensors"])
def test_a_damaged_checkpoint_is_refused_by_name(runs: Path, planted: Graph, tmp_path: Path, name: str) -> None:
    shutil.copytree(runs / "graph", tmp_path / "run")
    file = RunFolder(tmp_path / "run").checkpoints / name
    for content in damaged(file.read_bytes(), FEW):
        file.write_bytes(content)
        with pytest.raises(RunError) as error:
            capse.fit(planted, capse.DistMult(dim=8), out=tmp_path / "run", training=QUICK, resume=True)
        assert str(file) in error.value.message


@pytest.mark.parametrize("kind", ["grid", "halving"])
def test_damage_to_a_study_is_refused_by_name(planted: Graph, tmp_path: Path, run_command, kind: str) -> None:
    small = ["model.dim=4", "training.epochs=1", "training.device=cpu"]
    study = tmp_path / "study"
    if kind == "grid":
        tune(planted, {"recipe": "distmult", "grid": {"model.dim": [2]}}, out=study, overrides=small[1:])
    else:
        tune_within(planted, minutes=0.001, out=study, overrides=small)
    names = json.loads((study / "manifest.json").read_text())["files"]
    assert {"study.yaml", "graph/train.parquet", "vocabulary/entities.parquet"} < set(names)
    assert ("halving.json" in names) == (kind == "halving")
    for name in ["manifest.json", *names]:
        whole = (study / name).read_bytes()
        for content in damaged(whole, FEW):
            (study / name).write_bytes(content)
            status, output, errors = run_command("tune", "--resume", "--out", study)
            assert (status, output) == (2, "")
            assert errors.startswith(f"error: {study / name} is damaged"), errors
        (study / name).write_bytes(whole)
    assert run_command("tune", "--resume", "--out", study)[0] == 0


def test_a_model_that_was_lost_is_made_anew(runs: Path, planted: Graph, tmp_path: Path) -> None:
    shutil.copytree(runs / "graph", tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    run.model.write_bytes(b"")
    capse.fit(planted, capse.DistMult(dim=8), out=run.path, training=QUICK, resume=True)
    assert run.model.read_bytes() == RunFolder(runs / "graph").model.read_bytes()
    capse.load(run.path)


def test_a_calibration_that_was_deleted_is_fitted_again(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "graph", tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    run.calibration.unlink()
    predictor = capse.load(run.path)
    assert isinstance(predictor, capse.LinkPredictor)
    predictor.calibrate()
    assert run.calibration.read_bytes() == RunFolder(runs / "graph").calibration.read_bytes()
    capse.load(run.path)
