"""The bar: what it says of speed and of the time left is one estimate."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest
from rich.console import Console

from capse.cli import display
from capse.cli.display import TrainingProgress
from capse.training.loop import StepReport


class Clock:
    """Steps of 10 ms, but every hundredth waits 3 s, as for a validation."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def tick(self, step: int) -> None:
        self.now += 3.0 if step % 100 == 0 else 0.01


def test_rate_and_time_left_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, output = Clock(), io.StringIO()
    monkeypatch.setattr(display, "errors", Console(file=output, force_terminal=True, width=120))
    monkeypatch.setattr("capse.cli.display.time.monotonic", clock)
    progress = TrainingProgress(epochs=10, metric="mrr")
    bar = progress.bar
    monkeypatch.setattr(bar, "get_time", clock)
    checked = 0
    for epoch in range(1, 11):
        for step in range(1, 101):
            clock.tick(step)
            progress.step(StepReport(epoch, step, steps=100, examples=128 if step < 100 else 28, epochs=10))
            (task,) = bar.tasks
            text = str(display._Rate().render(task))
            if not text or not task.time_remaining:
                continue
            rate = float(text.removesuffix(" triples/s").replace(",", ""))
            left = (task.total - task.completed) * (99 * 128 + 28) / 100
            assert rate * task.time_remaining == pytest.approx(left, rel=0.1, abs=rate)  # the time is whole seconds
            checked += 1
    assert checked > 50


@pytest.mark.parametrize(
    ("given", "found"), [({}, "1000"), ({"GOMP_SPINCOUNT": "5"}, "5"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None")]
)
def test_waiting_threads_leave_busy_cores_alone_unless_told_otherwise(given: dict[str, str], found: str) -> None:
    """OpenMP reads it when torch is loaded: the command line must not have done so by then."""
    code = "import os, sys, capse.cli; print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)"
    kept = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run([sys.executable, "-c", code], env=kept | given, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [found, "False"]
