"""A manifest knows every file of a run; whenever a run is killed, its entries are true."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from capse.errors import RunError
from capse.runs.manifest import MANIFEST, check_file, check_files, entering, is_whole, write_manifest


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for name in ("recipe.yaml", "graph/train.parquet", "results.json", "checkpoints/last.safetensors"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    write_manifest(tmp_path)
    return tmp_path


def test_it_has_all_that_is_written_once(run: Path) -> None:
    files = json.loads((run / MANIFEST).read_text(encoding="utf-8"))["files"]
    assert list(files) == ["graph/train.parquet", "recipe.yaml", "results.json"]
    assert files["recipe.yaml"]["size"] == len("recipe.yaml")
    check_files(run, required=True)
    (run / "checkpoints" / "last.safetensors").write_text("changed", encoding="utf-8")
    check_files(run, required=True)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda run: (run / "graph/train.parquet").write_text("graph/train.parquft"), "graph/train.parquet is damaged"),
        (lambda run: (run / "recipe.yaml").write_text(""), "recipe.yaml is damaged"),
        (lambda run: (run / "recipe.yaml").unlink(), "recipe.yaml is missing"),
        (lambda run: (run / MANIFEST).unlink(), "manifest.json is missing"),
        (lambda run: (run / MANIFEST).write_text("[]"), "manifest.json is damaged"),
        (lambda run: (run / MANIFEST).write_bytes(b"\xff"), "manifest.json is damaged"),
        (lambda run: (run / MANIFEST).write_text((run / MANIFEST).read_text() + " "), "manifest.json is damaged"),
    ],
)
def test_what_is_not_as_it_was_written_is_refused(run: Path, damage: Callable[[Path], object], said: str) -> None:
    damage(run)
    with pytest.raises(RunError) as error:
        check_files(run, required=True)
    assert said in str(error.value)
    assert error.value.remedy
    if said.startswith("recipe.yaml"):
        with pytest.raises(RunError, match=said.replace(".", r"\.")):
            check_file(run, run / "recipe.yaml")


def test_an_entry_that_was_changed_is_the_fault_of_the_manifest(run: Path) -> None:
    text = (run / MANIFEST).read_text(encoding="utf-8")
    (run / MANIFEST).write_text(text.replace('"size": 11', '"size": 12'), encoding="utf-8")
    with pytest.raises(RunError, match=r"manifest\.json is damaged"):
        check_file(run, run / "recipe.yaml")


@pytest.mark.parametrize("before", [True, False])
def test_a_kill_while_a_file_is_written_leaves_true_entries(run: Path, before: bool) -> None:
    model = run / "model.safetensors"
    if before:
        with entering(run, model):
            model.write_text("first", encoding="utf-8")
        assert is_whole(run, model)

    def killed() -> None:
        with entering(run, model):
            model.write_text("second", encoding="utf-8")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed()
    assert not is_whole(run, model)
    check_files(run, required=True)
    with entering(run, model):
        model.write_text("third", encoding="utf-8")
    assert is_whole(run, model)
    check_files(run, required=True)


def test_a_run_of_the_first_format_has_none(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    with entering(tmp_path, file):
        file.write_text("weights", encoding="utf-8")
    assert is_whole(tmp_path, file)
    check_files(tmp_path, required=False)
    check_file(tmp_path, file)
    assert not (tmp_path / MANIFEST).exists()


def test_several_files_are_entered_at_once_beside_what_is_entered_meanwhile(run: Path) -> None:
    metrics, results, model = run / "metrics.jsonl", run / "results.json", run / "model.safetensors"
    with entering(run, metrics, results):
        assert not is_whole(run, results)
        metrics.write_text("lines", encoding="utf-8")
        with entering(run, model):
            model.write_text("weights", encoding="utf-8")
        results.unlink()
    assert [is_whole(run, file) for file in (metrics, results, model)] == [True, False, True]
    check_files(run, required=True)
    metrics.write_text("limes", encoding="utf-8")
    with pytest.raises(RunError, match=r"metrics\.jsonl is damaged"):
        check_files(run, required=True)
