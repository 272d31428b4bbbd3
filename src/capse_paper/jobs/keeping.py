"""What is kept of a finished run: everything but weights and checkpoints."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from capse.runs.atomic import storage_errors, write_json, write_text
from capse.runs.folder import RunFolder
from capse_paper.recorded.comparisons import COMPARISON
from capse_paper.recorded.runs import EVALUATION, RELEASED

MANY = 1000  # epochs: of a longer history only what was validated is kept


def copy_records(run: Path, results: Path) -> None:
    """Copy what `capse reproduce` reads of ``<out>/runs/<experiment>/seed-<n>`` to the same place in ``results``."""
    source = RunFolder(run)
    target = results.joinpath("runs", *run.parts[-2:])
    with storage_errors(target):
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.recipe, target / source.recipe.name)
    history = source.read_metrics()
    kept = [line for line in history if "validation" in line or len(history) <= MANY]
    write_text(target / source.metrics.name, "".join(json.dumps(line) + "\n" for line in kept))
    for name in (source.results.name, EVALUATION, COMPARISON, RELEASED):
        if (run / name).is_file():
            write_json(target / name, json.loads((run / name).read_text(encoding="utf-8")))
