"""A run folder and the names of what is in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capse.errors import RunError
from capse.runs.atomic import storage_errors, write_text


class RunFolder:
    """``recipe.yaml``, ``model.safetensors``, ``metrics.jsonl``, ``results.json``, ``checkpoints/``; of a graph
    ``vocabulary/``, ``graph/`` (the triples it was trained on), ``calibration.json``; of a log ``vectors/`` (documents
    and what gives new ones theirs), ``users.parquet`` (whom the rows of offsets belong to)."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.recipe = self.path / "recipe.yaml"
        self.model = self.path / "model.safetensors"
        self.vocabulary = self.path / "vocabulary"
        self.graph = self.path / "graph"
        self.vectors = self.path / "vectors"
        self.users = self.path / "users.parquet"
        self.metrics = self.path / "metrics.jsonl"
        self.results = self.path / "results.json"
        self.calibration = self.path / "calibration.json"
        self.checkpoints = self.path / "checkpoints"
        self.tensorboard = self.path / "tensorboard"

    @classmethod
    def open(cls, path: str | Path, command: str = "capse train") -> RunFolder:
        """An existing run that has a model; ``command`` is what makes such runs."""
        run = cls(path)
        if not run.path.is_dir():
            raise RunError(f"there is no run in {path}", f"train one with '{command} --out', or check the path")
        if not run.recipe.is_file():
            raise RunError(
                f"{path} is not a run: it has no recipe.yaml", f"give the folder named by --out in '{command}'"
            )
        if not run.model.is_file():
            raise RunError(f"the run in {path} is not finished", f"continue it with '{command} --resume'")
        return run

    def read_metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl; a last line cut off by a kill is left out."""
        return list(self._metric_lines())

    def _metric_lines(self) -> Iterator[dict[str, Any]]:
        if not self.metrics.is_file():
            return
        for line in self.metrics.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                return

    def append_metrics(self, record: dict[str, Any]) -> None:
        with storage_errors(self.metrics), self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def remove_leftovers(self) -> None:
        """Delete the half-written files that a killed run could not delete."""
        with storage_errors(self.path):
            for folder in (self.path, self.checkpoints):
                for part in folder.glob(".*.part"):
                    part.unlink(missing_ok=True)

    def keep_metrics_up_to(self, epoch: int) -> None:
        """Forget what a killed run wrote after its last checkpoint."""
        kept = [record for record in self._metric_lines() if record["epoch"] <= epoch]
        write_text(self.metrics, "".join(json.dumps(record) + "\n" for record in kept))
