"""capse search rollback and capse search propensities."""

from __future__ import annotations

import json

import pytest

from capse.runs.versions import Versions
from capse.search.logs.simulation import SimulationSettings, simulate


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    simulate(SimulationSettings(users=12, documents=40, impressions=600)).write_jsonl(folder)
    return folder


def test_a_run_without_versions_cannot_be_rolled_back(run_command, tmp_path):
    status, output, errors = run_command("search", "rollback", tmp_path / "run")
    assert (status, output) == (2, "")
    assert errors == f"error: {tmp_path / 'run'} has no versions: 'capse search retrain' makes them\n"


def test_a_version_that_is_not_there_is_named(run_command, tmp_path):
    versions = Versions(tmp_path / "run")
    (versions.folder / "0001").mkdir(parents=True)
    status, output, errors = run_command("search", "rollback", tmp_path / "run", "--to", "0007")
    assert (status, output, errors.count("\n")) == (2, "", 1)
    assert "0007" in errors


def test_propensities_fall_from_place_to_place(run_command, log):
    status, output, errors = run_command("search", "propensities", "--log", log, "--json")
    assert status == 0, errors
    found = json.loads(output)
    for model in ("position", "cascade"):
        looked = found[model]["looked"]
        assert looked[0] == 1
        assert sorted(looked, reverse=True) == looked
    table = run_command("search", "propensities", "--log", log, "--model", "position")[1]
    assert "how likely each place is looked" in table
    assert "cascade" not in table


def test_an_unknown_model_of_propensities_is_one_line(run_command, log):
    status, output, errors = run_command("search", "propensities", "--log", log, "--model", "places")
    assert (status, output) == (2, "")
    assert errors.startswith("error: unknown model 'places'")
