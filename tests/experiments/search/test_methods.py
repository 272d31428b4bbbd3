"""Search methods by name: ours, and one of another package that is trained, saved and evaluated by the commands."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capse.cli import main
from capse.errors import SettingsError, UnknownNameError
from capse.experiments.search.methods import METHODS, load_search_run, method_of, trainable
from capse.search.evaluation.evaluate import evaluate
from capse.search.logs.history import cutoffs
from capse.search.logs.simulation import SimulationSettings, simulate
from capse.search.rankers.neural import NeuralRanker

# Learns how often each document was clicked; its one setting is how much that weighs beside the engine's order.
COUNTS = """
import json
from dataclasses import dataclass

import numpy as np

from capse.errors import SettingsError
from capse.experiments.search.methods import SearchMethod

@dataclass
class Counts:
    clicks: dict
    weight: float

    def score(self, log, impressions, cutoffs):
        rows = log.rows(impressions)
        clicks = [self.clicks.get(log.documents.ids[document], 0) for document in log.document[rows]]
        return self.weight * np.array(clicks, float) - log.position[rows]

class CountsMethod(SearchMethod):
    learns = True

    def resolve(self, recipe=None, overrides=()):
        return float(dict(option.split("=") for option in overrides).get("weight", 1))

    def fit(self, log, recipe=None, *, seed=None, listener=None):
        rows = log.rows(log.judged("train"))
        clicked = log.document[rows[log.satisfied[rows]]]
        found = np.bincount(clicked, minlength=len(log.documents)).tolist()
        return Counts(dict(zip(log.documents.ids, found)), self.resolve() if recipe is None else recipe)

    def save(self, ranker, folder, recipe=None):
        (folder / "clicks.json").write_text(json.dumps(ranker.clicks))

    def settings(self, ranker, recipe=None):
        return {"weight": ranker.weight}

    def load(self, run):
        import yaml
        weight = yaml.safe_load((run / "recipe.yaml").read_text())["weight"]
        return Counts(json.loads((run / "clicks.json").read_text()), weight)

METHOD = CountsMethod("counts")
"""


@pytest.fixture
def counts(install_package: Callable[[str, str, str], None], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another package, which registers the method ``counts``."""
    install_package("capse.search_methods", "counts = registered_counts:METHOD", COUNTS)
    monkeypatch.delitem(METHODS.__dict__, "outside", raising=False)
    monkeypatch.setattr(METHODS, "_loaded", dict(METHODS._loaded))
    yield
    METHODS.__dict__.pop("outside", None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log") / "made"
    simulate(SimulationSettings(users=10, documents=60, impressions=200)).write_jsonl(folder)
    return folder


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as exit:
        main([str(argument) for argument in arguments])
    return int(exit.value.code or 0)


@pytest.mark.usefixtures("counts")
def test_a_method_of_another_package_is_trained_and_evaluated(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert call("search", "train", "--method", "counts", "--log", folder, "--out", run, "--set", "weight=3") == 0
    assert method_of(run) == "counts"
    ranker: Any = load_search_run(run)
    assert ranker.weight == 3
    capsys.readouterr()
    assert call("search", "evaluate", "--method", "counts", "--log", folder, "--run", run, "--json") == 0
    kept = json.loads(capsys.readouterr().out)
    assert call("search", "evaluate", "--method", "counts", "--log", folder, "--set", "weight=3", "--json") == 0
    anew = json.loads(capsys.readouterr().out)
    assert (kept["method"], kept["mrr"]) == ("counts", anew["mrr"])


@pytest.mark.usefixtures("counts")
@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_the_commands_name_it(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    importlib.reload(importlib.import_module(f"capse.cli.search.{command}"))  # its help is written at import
    assert call("search", command, "--help") == 0
    assert "counts" in capsys.readouterr().out
    assert call("search", command, "--method", "x", "--log", folder, *(["--out", "out"] * (command == "train"))) == 2
    assert "choose one of se, ci," in (line := capsys.readouterr().err)
    assert "counts" in line


@pytest.mark.parametrize("name", METHODS)
def test_each_method_says_what_it_is(name: str) -> None:
    method = METHODS[name]
    assert method.name == name
    if not method.learns:
        with pytest.raises(SettingsError, match="has no recipe"):
            method.resolve("capse")


@pytest.mark.parametrize("name", [name for name in METHODS if not METHODS[name].learns])
def test_what_learns_nothing_is_ready_at_once(name: str) -> None:
    log = simulate(SimulationSettings(users=5, documents=40, impressions=60)).log
    assert evaluate(METHODS[name].fit(log), log, beside=False).mrr > 0
    with pytest.raises(SettingsError, match="runs are of sp, forests, capsules, transe, convkb, capse, blend"):
        trainable(name)


def test_an_unknown_method_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'pclick'"):
        METHODS["pclik"]


def test_a_neural_run_is_opened_by_its_model(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = [word for change in ("training.epochs=0", "vectors.dimensions=8") for word in ("--set", change)]
    assert call("search", "train", "--method", "transe", "--log", folder, "--out", out, *options) == 0
    ranker = load_search_run(out)
    assert isinstance(ranker, NeuralRanker)
    assert ranker.name == method_of(out) == "transe"
    log = simulate(SimulationSettings(users=10, documents=60, impressions=200)).log
    assert np.isfinite(ranker.score(log, log.judged("test"), cutoffs(log))).all()
