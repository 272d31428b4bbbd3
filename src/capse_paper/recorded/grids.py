"""Recorded grids, ``<results>/studies/<name>``: which trials of `capse tune` ended, and what they reached.

Of a study's folder ``study.yaml``, ``trials.jsonl`` and each trial's ``results.json`` are kept.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capse.errors import RunError
from capse.experiments.grid import load_grid
from capse.experiments.study import StudyFolder
from capse.reports.text import machine_name
from capse_paper.recorded import checks


@dataclass(frozen=True)
class RecordedGrid:
    """A grid as far as it was gone through."""

    name: str
    dataset: str
    start: str | None  # the run that every trial starts from
    total: int  # trials of the whole grid
    trials: list[dict[str, Any]]  # those that ended with a figure, best first, each with the machine that trained it

    def to_json(self) -> dict[str, Any]:
        return {
            "grid": self.name,
            "dataset": self.dataset,
            "start": self.start,
            "total": self.total,
            "trials": self.trials,
        }


def recorded_grids(results: str | Path) -> list[RecordedGrid]:
    """All grids in a folder of results, by name."""
    return [_read(StudyFolder(path.parent)) for path in sorted(Path(results).glob("studies/*/study.yaml"))]


def _read(study: StudyFolder) -> RecordedGrid:
    grid = load_grid(study.file)
    try:
        ended = [json.loads(line) for line in study.table.read_text(encoding="utf-8").splitlines()]
        trials = [trial for trial in ended if trial["value"] is not None]  # the others failed
        for trial in trials:
            results = json.loads(study.run(trial["trial"]).results.read_text(encoding="utf-8"))
            trial["machine"] = machine_name(results)
    except (OSError, ValueError, KeyError) as error:
        raise RunError(f"the recorded study in {study.path} is damaged", checks.REMEDY) from error
    return RecordedGrid(study.path.name, str(grid.recipe.data), grid.recipe.start.run, grid.total, trials)
