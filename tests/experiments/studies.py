"""Small grids, and what of a study is compared."""

from __future__ import annotations

import dataclasses

from capse.experiments.tune import StudyListener

QUICK = {
    "model.dim": 4,
    "training.epochs": 2,
    "training.batch_size": 16,
    "validation.every": 1,
    "training.device": "cpu",
}


def quick(grid, **more):
    return {"recipe": "transe", "set": QUICK, "grid": grid, **more}


RATES = quick({"training.learning_rate": [0.001, 0.01], "training.seed": [0, 1]})
DRAWN = quick({"training.learning_rate": {"low": 1e-4, "high": 0.1, "log": True}, "loss.margin": [1, 2]})


class Stop(StudyListener):
    """Ctrl-C at the first report of one trial's progress."""

    def __init__(self, done):
        self.done = done

    def progress(self, done, total):
        if self.done < done < self.done + 1:
            raise KeyboardInterrupt


def states(folder, state_of):
    return [state_of(run) for run in sorted((folder / "trials").glob("[0-9]*[0-9]"))]


def kept(outcomes):
    """All but the clock and the folder."""
    return [dataclasses.replace(outcome, seconds=0, run="") for outcome in outcomes]
