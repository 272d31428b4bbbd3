"""What does not fit is said before it is tried, and what did not fit in a line."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from capse.errors import SettingsError
from capse.runs import memory
from capse.runs.memory import available, check_memory, is_out_of_memory

RunCommand = Callable[..., tuple[int, str, str]]
GIB = 2**30


def test_the_machine_the_container_and_ulimit_are_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    there = available()
    assert there is not None
    assert there == pytest.approx(_of_machine(), rel=0.2)
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("7\n")
    assert available() == pytest.approx(there, rel=0.2)
    (tmp_path / "memory.max").write_text("1007\n")
    assert available() == 1000
    (tmp_path / "memory.max").write_text("3\n")
    assert available() == 0
    (tmp_path / "memory.max").unlink()
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (_virtual() + 5 * 2**20, resource.RLIM_INFINITY))
    assert available() == pytest.approx(5 * 2**20, abs=2**22)


def test_where_nobody_knows_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    monkeypatch.setattr(memory, "_fields", lambda path: {})
    assert available() is None
    check_memory("everything", 2**80, "buy more")


def test_what_does_not_fit_is_refused_with_both_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 2 * GIB)
    check_memory("it", 2 * GIB, "take less")
    with pytest.raises(SettingsError) as error:
        check_memory("it", 3 * GIB, "take less")
    assert str(error.value) == "it takes at least 3.0 GiB of memory, and 2.0 GiB are free: take less"


def test_training_takes_more_than_the_model(
    monkeypatch: pytest.MonkeyPatch, run_command: RunCommand, tmp_path: Path
) -> None:
    """A model of 64 MB fits in 100 MB; its gradients, Adagrad's sums and a checkpoint beside it do not."""
    monkeypatch.setattr(memory, "available", lambda: 100 * 10**6)
    arguments = ("train", "--data", "countries", "--model", "distmult", "--out", tmp_path / "run", "--set")
    status, output, errors = run_command(*arguments, "model.dim=19000")
    assert (status, output) == (2, "")
    (line,) = [line for line in errors.splitlines() if line.startswith("error")]
    assert "with adagrad takes at least" in line
    assert "or set optimizer.name=sgd" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        np.exceptions.AxisError("no"),  # not one
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 3216 bytes"),
        RuntimeError("shape mismatch"),  # not one
    ],
)
def test_running_out_of_memory_is_a_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    def raise_it(*given: object) -> None:
        raise error

    monkeypatch.setattr("capse.graph.dataset.load_graph", raise_it)
    expected = "no" not in str(error) and "mismatch" not in str(error)
    assert is_out_of_memory(error) == expected
    if expected:
        status, output, errors = run_command("data", "info", "countries")
        assert (status, output) == (2, "")
        assert errors.startswith("error: the memory did not suffice: ask for less at a time")
        assert errors.count("\n") == 1


def test_a_tensor_that_cannot_be_is_recognised() -> None:
    with pytest.raises(RuntimeError) as error:
        torch.empty(2**60)
    assert is_out_of_memory(error.value)


def _of_machine() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))


def _virtual() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmSize"))
