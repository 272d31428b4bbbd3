"""What is kept of a run, and a plan that is stopped by the clock."""

from __future__ import annotations

import json
import signal

import pytest

from capse_paper.jobs.deadline import interrupted_after
from capse_paper.jobs.keeping import MANY, copy_records
from capse_paper.jobs.training import missing_jobs
from capse_paper.plans.graphs import Experiment
from capse_paper.recorded.runs import Results

pytestmark = pytest.mark.usefixtures("one_thread")
TRANSE = Experiment(
    "transe-tiny", "TransE", "countries", "paper", "demo-transe", ("model.dim=6", "training.epochs=1"), seeds=(0,)
)


@pytest.fixture
def run(tmp_path):
    (job,) = missing_jobs([TRANSE], [TRANSE], tmp_path / "out")
    job.run()
    return job.folder


def test_what_is_kept_is_what_is_read_and_no_weights(run, tmp_path):
    copy_records(run, tmp_path / "kept")
    names = {path.name for path in (tmp_path / "kept" / "runs" / "transe-tiny" / "seed-0").iterdir()}
    assert names == {"recipe.yaml", "results.json", "metrics.jsonl", "evaluation.json"}
    ours, theirs = (Results(tmp_path / name).records(TRANSE) for name in ("kept", "out"))
    assert ours == theirs


def test_of_a_long_history_what_was_validated_is_kept(run, tmp_path):
    lines = [{"epoch": 1, "validation": {}}] + [{"epoch": n + 2} for n in range(MANY)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    copy_records(run, tmp_path / "kept")
    kept = (tmp_path / "kept" / "runs" / "transe-tiny" / "seed-0" / "metrics.jsonl").read_text()
    assert kept == '{"epoch": 1, "validation": {}}\n'


def test_the_clock_interrupts_as_ctrl_c_does_and_no_later_code():
    with pytest.raises(KeyboardInterrupt), interrupted_after(0.0001):
        signal.pause()
    with interrupted_after(10), interrupted_after(None):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
