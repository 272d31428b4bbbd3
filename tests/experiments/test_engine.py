"""The run engine keeps what settings promise, for graphs and for search logs alike.

One test walks through every setting of ``training`` and ``validation``: a new one fails it until it has a check here.
"""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import capse
from capse.errors import RunError, SettingsError
from capse.experiments.engine import Listener, StepReport
from capse.graph.dataset import Graph
from capse.runs.folder import RunFolder
from capse.search.logs.search_log import SearchLog
from capse.search.logs.simulation import SimulationSettings, simulate
from capse.search.vectors.vector_space import VectorSpace, build_vectors
from capse.training.checkpoints import Checkpoints
from capse.training.settings import Training, ValidationPlan

QUICK = Training(epochs=3, batch_size=16, learning_rate=0.05, device="cpu")
VECTORS = capse.VectorSettings(source="encoder", dimensions=8)


@pytest.fixture(scope="module")
def log() -> SearchLog:
    return simulate(SimulationSettings(users=6, topics=4, documents=40, impressions=120, days=30)).log


@pytest.fixture(scope="module")
def space(log: SearchLog) -> VectorSpace:
    return build_vectors(log, VECTORS)


class Side:
    """Trains on a graph or on a log, in a folder of its own at a time."""

    def __init__(self, name: str, graph: Graph, log: SearchLog, space: VectorSpace, folder: Path) -> None:
        self.name, self.graph, self.log, self.space, self.folder = name, graph, log, space, folder

    def train(
        self, out: str = "run", *, every: int = 1, patience: int = 0, metric: str = "mrr", **more: Any
    ) -> RunFolder:
        options = {name: more.pop(name) for name in ("resume", "listener") if name in more}
        settings: dict[str, Any] = {"every": every, "patience": patience, "metric": metric}
        training = replace(QUICK, **more)
        run = RunFolder(self.folder / out)
        if self.name == "graph":
            validation = capse.Validation(**settings)
            capse.fit(
                self.graph, capse.DistMult(dim=8), out=run.path, training=training, validation=validation, **options
            )
        else:
            capse.fit_search(
                self.log,
                capse.ConvKB(dim=8, filters=4, dropout=0.2),  # a step that torch takes, and no kernel of ours
                out=run.path,
                training=training,
                validation=capse.SearchValidation(**settings),
                vectors=VECTORS,
                space=None if options.get("resume") else self.space,
                **options,
            )
        return run

    def value(self, record: dict[str, Any], metric: str = "mrr") -> float:
        found = record["validation"]
        return float((found["realistic"] if self.name == "graph" else found)[metric])


@pytest.fixture(params=["graph", "search"])
def side(request: pytest.FixtureRequest, small: Graph, log: SearchLog, space: VectorSpace, tmp_path: Path) -> Side:
    return Side(request.param, small, log, space, tmp_path)


class Ear(Listener):
    """Hears every step, and is told what to do at one of them."""

    def __init__(self, at: int = 0, action: Callable[[], None] = lambda: None) -> None:
        self.at, self.action = at, action
        self.heard, self.reports = list[str](), list[StepReport]()

    def message(self, text: str) -> None:
        self.heard.append(text)

    def step(self, report: StepReport) -> None:
        self.reports.append(report)
        if len(self.reports) == self.at:
            self.action()


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def results_of(run: RunFolder) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(run.results.read_text(encoding="utf-8"))
    return content


def check_epochs(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [record["epoch"] for record in side.train().read_metrics()] == [1, 2, 3]
    untrained = side.train("untrained", epochs=0)
    assert (untrained.read_metrics(), results_of(untrained)["epochs"]) == ([], 0)
    capse.load(untrained.path)


def check_batch_size(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    ear = Ear()
    side.train(batch_size=7, epochs=1, listener=ear)
    examples = sum(report.examples for report in ear.reports)
    assert len(ear.reports) == ear.reports[0].steps == math.ceil(examples / 7)
    assert max(report.examples for report in ear.reports) <= 7


def check_learning_rate(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [side.train(str(rate), learning_rate=rate) for rate in (0.01, 0.02)]
    assert [run.read_metrics()[0]["learning_rate"] for run in runs] == [0.01, 0.02]
    assert runs[0].model.read_bytes() != runs[1].model.read_bytes()


def check_seed(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again, other = (side.train(str(n), seed=seed) for n, seed in enumerate((1, 1, 2)))
    assert first.model.read_bytes() == again.model.read_bytes() != other.model.read_bytes()


def check_draw(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    ears = {draw: Ear() for draw in ("shuffle", "replacement")}
    for draw, ear in ears.items():
        side.train(draw, draw=draw, batch_size=9, epochs=1, listener=ear)
    assert {report.examples for report in ears["replacement"].reports} == {9}
    shuffled = {report.examples for report in ears["shuffle"].reports}
    assert max(shuffled) - min(shuffled) <= 1
    assert max(shuffled) <= 9


def check_device(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    for device in ("cuda:7", "nonsense", "meta"):
        with pytest.raises(RunError, match=f"there is no device '{device}' here: choose cpu"):
            side.train(device=device)
    assert not list(side.folder.iterdir())
    places = []
    real = torch.nn.Module.to
    monkeypatch.setattr(
        torch.nn.Module, "to", lambda self, *to, **more: (places.append(to[0]), real(self, *to, **more))[1]
    )
    side.train(device="cpu")
    assert torch.device("cpu") in places


def check_precision(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = torch.set_float32_matmul_precision
    monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda name: (asked.append(name), real(name))[1])
    plain, rough = (side.train(name, precision=name) for name in ("float32", "bf16"))
    assert plain.model.read_bytes() != rough.model.read_bytes()
    assert all(tensor.dtype == torch.float32 for tensor in load_file(rough.model).values())
    assert "high" not in asked
    side.train("tf32", precision="tf32")
    assert "high" in asked


def check_checkpoint_seconds(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = []
    real = Checkpoints.save
    monkeypatch.setattr(Checkpoints, "save", lambda *given: (saved.append(1), real(*given))[1])
    ear = Ear()
    side.train("often", checkpoint_seconds=0.0, listener=ear)
    assert len(saved) > len(ear.reports)
    saved.clear()
    side.train("seldom", checkpoint_seconds=1e9)
    assert len(saved) == 1


def check_tensorboard(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert not side.train("without").tensorboard.exists()
    run = side.train("with", tensorboard=True)
    events = EventAccumulator(str(run.tensorboard)).Reload()
    assert {"training/loss", "training/learning_rate", "training/examples_per_second"} <= set(events.Tags()["scalars"])
    tag = "validation/realistic/mrr" if side.name == "graph" else "validation/mrr"
    shown = [event.value for event in events.Scalars(tag)]
    assert shown == pytest.approx([side.value(record) for record in run.read_metrics()], rel=1e-6)


def check_parts(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    if side.name == "search":
        with pytest.raises(SettingsError, match=r"leave optimizer\.rows and training\.parts out"):
            side.train(parts=2)
        return
    divided, again, whole = (side.train(name, parts=n) for name, n in (("2", 2), ("again", 2), ("0", 0)))
    assert divided.model.read_bytes() == again.model.read_bytes() != whole.model.read_bytes()
    with pytest.raises(SettingsError, match=r"training\.parts is 3: choose a power of 2"):
        side.train(parts=3)


def check_parallel(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process has the whole table either way; see tests/experiments/test_processes.py."""
    runs = [side.train(table, parallel=table) for table in ("data", "rows")]
    assert runs[0].model.read_bytes() == runs[1].model.read_bytes()


def check_wait_seconds(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process waits for nobody."""
    side.train(wait_seconds=1e-3)
    with pytest.raises(SettingsError, match=r"training\.wait_seconds is 0"):
        side.train("never", wait_seconds=0.0)


def check_every(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    records = side.train("second", every=2, epochs=5).read_metrics()
    assert [record["epoch"] for record in records if "validation" in record] == [2, 4, 5]
    never = side.train("never", every=0)
    assert not any("validation" in record for record in never.read_metrics())
    assert (results_of(never)["best_epoch"], *results_of(never)["best_validation"].values()) == (3, None)


def check_metric(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    run = side.train(metric="hits@1", epochs=6)
    values = [side.value(record, "hits@1") for record in run.read_metrics()]
    assert results_of(run)["best_validation"] == {"hits@1": max(values)}
    assert results_of(run)["best_epoch"] == values.index(max(values)) + 1


def check_patience(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    run = side.train(patience=2, epochs=200, learning_rate=0.5)
    values = [side.value(record) for record in run.read_metrics()]
    assert len(values) == values.index(max(values)) + 3 < 200


SETTINGS = [field.name for kind in (Training, ValidationPlan) for field in fields(kind)]


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_setting_holds_on_both_sides(side: Side, setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    globals()[f"check_{setting}"](side, monkeypatch)


@pytest.mark.parametrize("step", [1, 4, 8])
def test_ctrl_c_leaves_a_run_that_ends_with_the_same_bits(side: Side, step: int) -> None:
    whole = side.train("whole")
    with pytest.raises(KeyboardInterrupt):
        side.train("run", listener=Ear(step, interrupt))
    assert not RunFolder(side.folder / "run").model.exists()
    ear = Ear()
    run = side.train("run", resume=True, listener=ear)
    assert any(text.startswith("resuming after epoch") for text in ear.heard)
    assert run.model.read_bytes() == whole.model.read_bytes()
    losses = [[record["loss"] for record in each.read_metrics()] for each in (run, whole)]
    assert losses[0] == losses[1]


def test_what_may_change_when_a_run_goes_on_and_what_may_not(side: Side) -> None:
    with pytest.raises(KeyboardInterrupt):
        side.train(listener=Ear(4, interrupt))
    with pytest.raises(RunError, match="was begun with other settings in 'training'"):
        side.train(resume=True, learning_rate=0.1)
    with pytest.raises(RunError, match="was begun with other settings in 'validation'"):
        side.train(resume=True, patience=1)
    with pytest.raises(RunError, match=r"there is a run in .* already: continue it with --resume"):
        side.train()
    side.train(resume=True, checkpoint_seconds=0.0, device="auto")


def test_the_record_of_a_finished_run_stays_when_it_is_resumed(side: Side) -> None:
    before = side.train().results.read_bytes()
    assert side.train(resume=True).results.read_bytes() == before


def test_a_run_that_is_being_trained_is_not_joined(side: Side) -> None:
    refused = []

    def join() -> None:
        with pytest.raises(RunError, match=f"another process is training the run in {side.folder / 'run'}: wait until"):
            side.train(resume=True)
        refused.append(True)

    run = side.train(listener=Ear(4, join))
    assert refused
    assert [record["epoch"] for record in run.read_metrics()] == [1, 2, 3]
    assert run.model.read_bytes() == side.train("alone").model.read_bytes()
