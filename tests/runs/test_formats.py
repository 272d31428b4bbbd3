"""Formats of recipes and runs: no number is the first; a newer one is refused; old settings are put in today's terms.

What was CapsE's ``variant: scaled`` is a model of its own: old recipes and runs are told so, once, and work.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import capse
from capse import CapsE, Recipe, ScaledCapsE, SearchRecipe
from capse.errors import CapseError, RunError, SettingsError
from capse.experiments.base_recipe import BaseRecipe
from capse.experiments.grid import load_grid
from capse.experiments.shipped import KINDS, recipe_values, shipped
from capse.models import model_settings
from capse.runs import formats
from capse.runs.formats import FORMAT, upgraded
from capse.runs.manifest import write_manifest

# As a run of the first format has it: every setting of the old class, defaults included.
SAVED = {
    "name": "capse", "dim": 6, "reciprocal": False, "filters": 4, "capsule_dim": 3, "routing": 2, "readout": "length",
    "distance_dims": 0, "distance_weight": 0.5, "dropout": 0.1,
}  # fmt: skip


@pytest.mark.parametrize("kind", [Recipe, SearchRecipe])
def test_recipes_carry_the_number_and_are_read_without_it(kind: type[BaseRecipe]) -> None:
    recipe = kind.resolve("transe")
    values = recipe.to_mapping()
    assert values["format"] == FORMAT == 2
    assert recipe.to_yaml().startswith("format: 2\n")
    del values["format"]
    assert kind.from_mapping(values) == recipe


def test_shipped_recipes_and_grids_carry_the_number() -> None:
    for kind in KINDS:
        for name in shipped(kind):
            assert recipe_values(kind, name)["format"] == FORMAT, name


def test_grids_carry_the_number() -> None:
    grid = load_grid({"format": FORMAT, "recipe": "transe", "grid": {"model.dim": [1, 2]}})
    assert grid.to_yaml().startswith("format: 2\n")


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (3, f"has format 3, and capse {capse.__version__} reads up to format 2: install a capse newer than"),
        ("2", "format is '2' in a file: write 'format: 2', or leave it out"),
        (0, "format is 0 in a file"),
        (True, "format is True in a file"),
    ],
)
def test_a_number_that_cannot_be_read(number: object, message: str) -> None:
    with pytest.raises(RunError) as error:
        upgraded({"format": number}, "a file")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_step_is_taken_where_it_belongs_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections without a number are of format 1; each step leads from one format to the next."""
    steps = [lambda sections, n=n: {**sections, "steps": [*sections.get("steps", []), n]} for n in (1, 2)]
    monkeypatch.setattr(formats, "_STEPS", steps)
    monkeypatch.setattr(formats, "FORMAT", 3)
    taken = [
        upgraded(number, "a file").get("steps", []) for number in ({}, {"format": 1}, {"format": 2}, {"format": 3})
    ]
    assert taken == [[1, 2], [1, 2], [2], []]


def test_a_run_and_a_recipe_of_a_newer_version_say_which_is_needed(tmp_path: Path) -> None:
    run = capse.fit("countries", capse.DistMult(dim=2), training=capse.Training(epochs=0), out=tmp_path / "run")
    assert run.folder is not None
    text = run.folder.recipe.read_text(encoding="utf-8")
    run.folder.recipe.write_text(text.replace("format: 2", "format: 7"), encoding="utf-8")
    write_manifest(run.folder.path)
    for action in (
        lambda: capse.load(tmp_path / "run"),
        lambda: capse.load_recipe(tmp_path / "run" / "recipe.yaml"),
        lambda: capse.fit("countries", capse.DistMult(dim=2), out=tmp_path / "run", resume=True),
    ):
        with pytest.raises(CapseError, match=r"recipe\.yaml has format 7, .*: install a capse newer than|format 7"):
            action()


def test_the_scaled_variant_is_its_own_model(caplog: pytest.LogCaptureFixture) -> None:
    formats._say_once.cache_clear()
    section = {**SAVED, "variant": "scaled", "filter_start": "distance"}
    for _ in range(2):
        assert model_settings(section) == ScaledCapsE(
            dim=6, filters=4, capsule_dim=3, routing=2, filter_start="distance", dropout=0.1
        )
    (record,) = caplog.records
    assert record.getMessage().startswith("model.variant=scaled is deprecated: write model.name=scaled-capse")


def test_the_papers_forms_leave_out_what_meant_nothing_to_them(caplog: pytest.LogCaptureFixture) -> None:
    section = {**SAVED, "variant": "released", "filter_start": "normal"}
    expected = CapsE(dim=6, filters=4, capsule_dim=3, routing=2, variant="released", dropout=0.1)
    assert model_settings(section) == expected
    assert not caplog.records


@pytest.mark.parametrize(
    "wrong",
    [{"distance_dims": 3}, {"variant": "scaled", "readout": "sigmoid"}, {"variant": "scaled", "norm": 1}],
    ids=str,
)
def test_what_meant_something_is_not_dropped(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match="unknown setting"):
        model_settings({**SAVED, **wrong})


def test_the_command_line_says_it_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "capse", "train", "--model", "capse", "--data", "countries"]
    options = ["model.variant=scaled", "training.epochs=0", "model.dim=4", "model.filters=3"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "run"), *(word for option in options for word in ("--set", option))],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "deprecated" in line] == [
        "model.variant=scaled is deprecated: write model.name=scaled-capse and leave the variant out"
    ]
    assert "name: scaled-capse" in (tmp_path / "run" / "recipe.yaml").read_text(encoding="utf-8")
