"""A run that is stopped anywhere goes on with the same bits as if it had not been."""

from __future__ import annotations

import os
import shutil
import signal

import pytest
import torch

from capse.errors import RunError
from capse.experiments import fit as fit_module
from capse.experiments.engine import Listener
from capse.experiments.fit import fit
from capse.experiments.recipe import Recipe
from capse.graph.dataset import Graph
from capse.models import TripleModel
from capse.runs.folder import RunFolder
from capse.runs.tensors import save_tensors

COMMON = ["training.epochs=4", "training.batch_size=16", "validation.every=2", "training.device=cpu"]
CASES = {  # model and settings: different state in model and optimiser
    "transe, sgd": ("transe", ["model.dim=4", "optimizer.name=sgd", "training.learning_rate=0.05"]),
    "distmult, adagrad": ("distmult", ["model.dim=4"]),
    "conve, dropout, batch norm, adamw, cosine": (
        "conve",
        [
            "model.dim=6", "model.height=2", "model.filters=2", "optimizer.name=adamw", "optimizer.schedule=cosine",
            "optimizer.embedding_decay=0.1", "optimizer.weight_decay=0.2", "training.batch_size=24",
        ],
    ),
    "capse from transe, replacement": (
        "capse",
        ["model.dim=4", "model.filters=5", "training.draw=replacement", "training.learning_rate=0.01"],
    ),
    "transe against complex": (
        "transe",
        ["model.dim=4", "model.bounded=all", "adversary.model=complex", "adversary.dim=3", "adversary.candidates=4"],
    ),
    "convkb, shared, dropout": (
        "convkb",
        ["model.dim=4", "model.filters=5", "model.dropout=0.4", "negatives.sampler=shared", "negatives.count=4"],
    ),
}  # fmt: skip


class Stop(Listener):
    """Raises KeyboardInterrupt after so many steps."""

    def __init__(self, steps):
        self.left = steps

    def step(self, report):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def transe(small, tmp_path_factory):
    path = tmp_path_factory.mktemp("transe") / "run"
    fit(
        small,
        Recipe.resolve(model="transe", overrides=["model.dim=4", "training.epochs=2", "training.device=cpu"]),
        out=path,
    )
    return path


@pytest.fixture(scope="module")
def train(small, transe):
    """Trains a case into a folder."""

    def call(case, out, *, resume=False, listener=None, graph=small, extra=()):
        model, settings = CASES[case]
        start = [f"start.run={transe}"] if "from transe" in case else []
        return fit(
            graph,
            Recipe.resolve(model=model, overrides=[*COMMON, *settings, *start, *extra]),
            out=out,
            resume=resume,
            listener=listener,
        )

    return call


@pytest.fixture(scope="module")
def whole(train, tmp_path_factory, state_of):
    """The state of each case's uninterrupted run."""
    states = {}

    def state(case):
        if case not in states:
            path = tmp_path_factory.mktemp("whole") / "run"
            train(case, path)
            states[case] = state_of(path)
        return states[case]

    return state


@pytest.mark.parametrize("case", CASES)
def test_stopped_at_any_step(train, whole, state_of, tmp_path, case):
    """Again and again, after one step more each time: in the middle and at the end of epochs."""
    expected = whole(case)
    for steps in range(1, 8):
        with pytest.raises(KeyboardInterrupt):
            train(case, tmp_path / "run", resume=True, listener=Stop(steps if steps < 4 else 1))
        if steps == 3:
            torch.rand(5)
    train(case, tmp_path / "run", resume=True)
    assert state_of(tmp_path / "run") == expected


def interrupt_at(monkeypatch, owner, name, call):
    """Let the n-th call of a method begin with Ctrl-C."""
    real, calls = getattr(owner, name), []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGINT)
        return real(*arguments)

    monkeypatch.setattr(owner, name, interrupted)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (TripleModel, "constrain"),  # between the optimiser's step and its being counted
        (RunFolder, "append_metrics"),  # between the end of an epoch and its line of metrics
    ],
)
@pytest.mark.parametrize("call", [2, 4])
def test_a_signal_waits_for_a_step_and_its_record_to_be_whole(
    train, whole, state_of, tmp_path, monkeypatch, owner, name, call
):
    case = "distmult, adagrad"
    expected, before = whole(case), signal.getsignal(signal.SIGINT)
    interrupt_at(monkeypatch, owner, name, call)
    with pytest.raises(KeyboardInterrupt):
        train(case, tmp_path / "run")
    monkeypatch.undo()
    assert signal.getsignal(signal.SIGINT) is before
    train(case, tmp_path / "run", resume=True)
    assert state_of(tmp_path / "run") == expected


@pytest.mark.parametrize("which", [1, 2])
def test_stopped_while_it_validates(train, whole, state_of, tmp_path, monkeypatch, which):
    """The validation is repeated: else an epoch would never be compared with the best one."""
    case = "distmult, adagrad"
    validations = []

    def rank_split(*arguments, **options):
        validations.append(arguments)
        if len(validations) == which:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    real = rank_split
    monkeypatch.setattr(fit_module, "rank_split", rank_split)
    with pytest.raises(KeyboardInterrupt):
        train(case, tmp_path / "run")
    monkeypatch.undo()
    train(case, tmp_path / "run", resume=True)
    assert state_of(tmp_path / "run") == whole(case)


def test_stopped_at_every_write(train, state_of, tmp_path, monkeypatch):
    """KeyboardInterrupt at the n-th rename, for every n: checkpoints, best weights, metrics, the folder itself."""
    case = "distmult, adagrad"
    extra = ["training.checkpoint_seconds=0", "training.epochs=2", "training.batch_size=64"]
    train(case, tmp_path / "whole", extra=extra)
    expected = state_of(tmp_path / "whole")
    real = os.replace
    for n in range(1, 200):
        calls: list[int] = []

        def stop(*arguments, calls=calls, n=n):
            calls.append(arguments)
            if len(calls) == n:
                raise KeyboardInterrupt
            return real(*arguments)

        monkeypatch.setattr(os, "replace", stop)
        try:
            train(case, tmp_path / "run", extra=extra)
            finished = True
        except KeyboardInterrupt:
            finished = False
        finally:
            monkeypatch.undo()
        train(case, tmp_path / "run", extra=extra, resume=True)
        assert state_of(tmp_path / "run") == expected, f"call {n}"
        assert not list(tmp_path.rglob("*.part")), f"call {n}"
        shutil.rmtree(tmp_path / "run")
        if finished:
            break
    assert 10 < n < 199


def test_resuming_a_finished_run_changes_nothing(train, whole, state_of, tmp_path):
    case = "transe, sgd"
    train(case, tmp_path / "run")
    heard = []

    class Ear(Listener):
        def step(self, report):
            heard.append(report)

    train(case, tmp_path / "run", resume=True, listener=Ear())
    assert heard == []
    assert state_of(tmp_path / "run") == whole(case)


def test_resuming_nothing_begins_anew(train, whole, state_of, tmp_path):
    train("transe, sgd", tmp_path / "run", resume=True)
    assert state_of(tmp_path / "run") == whole("transe, sgd")


def test_half_a_line_of_metrics_and_half_a_file_are_cleared_away(train, whole, state_of, tmp_path):
    case = "transe, sgd"
    with pytest.raises(KeyboardInterrupt):
        train(case, tmp_path / "run", listener=Stop(8))
    run = RunFolder(tmp_path / "run")
    with run.metrics.open("a") as file:
        file.write('{"epoch": 9, "loss": 0.5}\n{"epoch": 3, "lo')
    (run.checkpoints / ".last.safetensors.x1y2.part").write_bytes(b"half")
    train(case, tmp_path / "run", resume=True)
    assert state_of(tmp_path / "run") == whole(case)
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["best.safetensors", "last.safetensors"]


def test_the_run_it_started_from_may_be_gone(small, transe, tmp_path, state_of):
    """What was taken over is in the checkpoint."""
    shutil.copytree(transe, tmp_path / "source")
    options = [*COMMON, "model.dim=4", "model.filters=3", f"start.run={tmp_path / 'source'}"]
    fit(small, Recipe.resolve(model="capse", overrides=options), out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fit(small, Recipe.resolve(model="capse", overrides=options), out=tmp_path / "run", listener=Stop(5))
    shutil.rmtree(tmp_path / "source")
    fit(small, Recipe.resolve(model="capse", overrides=options), out=tmp_path / "run", resume=True)
    assert state_of(tmp_path / "run") == state_of(tmp_path / "whole")


@pytest.fixture
def stopped(train, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train("transe, sgd", tmp_path / "run", listener=Stop(5))
    return RunFolder(tmp_path / "run")


@pytest.mark.parametrize(
    ("option", "section"),
    [
        ("training.seed=1", "training"),
        ("training.epochs=9", "training"),
        ("training.precision=bf16", "training"),
        ("model.dim=5", "model"),
        ("loss.margin=2", "loss"),
        ("negatives.count=2", "negatives"),
        ("optimizer.name=adam", "optimizer"),
        ("regularizer.l2=0.1", "regularizer"),
        ("validation.metric=hits@1", "validation"),
        ("start.normalise=false", "start"),
    ],
)
def test_other_settings_are_refused(train, stopped, option, section):
    with pytest.raises(RunError, match=f"was begun with other settings in '{section}': resume it with the recipe"):
        train("transe, sgd", stopped.path, resume=True, extra=[option])


def test_where_it_runs_may_change(train, stopped, whole, state_of):
    train("transe, sgd", stopped.path, resume=True, extra=["training.checkpoint_seconds=0", "training.device=auto"])
    assert state_of(stopped.path) == whole("transe, sgd")


@pytest.mark.parametrize("checkpoint", [True, False])
def test_other_data_of_the_same_name_is_refused(train, small, stopped, checkpoint):
    if not checkpoint:
        shutil.rmtree(stopped.checkpoints)
    fewer = Graph("small", small.entities, small.relations, small.train[:-1], small.valid, small.test)
    with pytest.raises(RunError, match="other data"):
        train("transe, sgd", stopped.path, resume=True, graph=fewer)


def test_a_run_begun_without_a_checkpoint_goes_on_from_its_start(train, stopped, whole, state_of):
    shutil.rmtree(stopped.checkpoints)
    train("transe, sgd", stopped.path, resume=True)
    assert state_of(stopped.path) == whole("transe, sgd")


def shorten(path):
    path.write_bytes(path.read_bytes()[:-1])


def flip(path):
    content = bytearray(path.read_bytes())
    content[-5] ^= 4
    path.write_bytes(content)


def not_finite(path):
    save_tensors(path, {"model.entities": torch.tensor([float("nan")])}, {})


def of_another_run(path):
    save_tensors(path, {"model.entities": torch.ones(1)}, {"fingerprint": "other"})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shorten, "is damaged or not a capse file"),
        (flip, "is damaged"),
        (lambda path: path.write_bytes(b""), "is damaged or not a capse file"),
        (not_finite, "holds NaN or infinity in 'model.entities'"),
        (of_another_run, "belongs to other data or other settings"),
    ],
)
def test_a_damaged_checkpoint_is_refused_and_the_remedy_works(train, stopped, whole, state_of, damage, message):
    last = stopped.checkpoints / "last.safetensors"
    damage(last)
    with pytest.raises(RunError) as error:
        train("transe, sgd", stopped.path, resume=True)
    assert message in str(error.value)
    assert str(last) in str(error.value)
    if "delete the checkpoints folder; --resume then begins anew" in str(error.value):
        shutil.rmtree(stopped.checkpoints)
        train("transe, sgd", stopped.path, resume=True)
        assert state_of(stopped.path) == whole("transe, sgd")


def test_damaged_best_weights_are_refused(train, tmp_path):
    train("transe, sgd", tmp_path / "run")
    best = tmp_path / "run" / "checkpoints" / "best.safetensors"
    shorten(best)
    with pytest.raises(RunError, match=r"best\.safetensors is damaged"):
        train("transe, sgd", tmp_path / "run", resume=True)
    best.unlink()
    with pytest.raises(RunError, match=r"best\.safetensors is missing"):
        train("transe, sgd", tmp_path / "run", resume=True)
