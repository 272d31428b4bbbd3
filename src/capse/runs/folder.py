"""A run folder and the names of what is in it."""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capse.errors import RunError, SettingsError
from capse.runs.atomic import atomic_folder, check_free, storage_errors, write_text
from capse.runs.formats import upgraded
from capse.runs.manifest import MANIFEST, check_file, check_files, is_whole
from capse.runs.settings import load_yaml


def is_begun(folder: Path, marker: Path, kind: str, resume: bool) -> bool:
    """Whether a ``kind`` was begun in a folder, as its ``marker`` says; refuses to overwrite one, or anything else."""
    if folder.exists() and not folder.is_dir():
        raise SettingsError(f"{folder} is a file", "choose another --out")
    begun = marker.is_file()
    if begun and not resume:
        raise RunError(f"there is a {kind} in {folder} already", "continue it with --resume, or choose another --out")
    if not begun and folder.is_dir() and any(folder.iterdir()):
        raise RunError(f"{folder} is not empty and not a {kind}", "choose another --out")
    return begun


class RunFolder:
    """``recipe.yaml``, ``model.safetensors``, ``manifest.json`` (checksums of what the run is made of),
    ``metrics.jsonl``, ``results.json``, ``checkpoints/``; of a graph
    ``vocabulary/``, ``graph/`` (the triples it was trained on), ``calibration.json``, ``classifier.json``,
    ``refined.json`` (which weights were refined, if that is what was done); of a log ``vectors/`` (documents and what
    gives new ones theirs), ``users.parquet`` (whom the rows of offsets belong to), ``past/`` (what was clicked and
    shown), ``standing.json`` (where the engine's order stands), and ``lambdamart.txt`` where the model is trees."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.recipe = self.path / "recipe.yaml"
        self.model = self.path / "model.safetensors"
        self.trees = self.path / "lambdamart.txt"
        self.vocabulary = self.path / "vocabulary"
        self.graph = self.path / "graph"
        self.vectors = self.path / "vectors"
        self.users = self.path / "users.parquet"
        self.manifest = self.path / MANIFEST
        self.metrics = self.path / "metrics.jsonl"
        self.results = self.path / "results.json"
        self.calibration = self.path / "calibration.json"
        self.classifier = self.path / "classifier.json"
        self.refined = self.path / "refined.json"
        self.checkpoints = self.path / "checkpoints"
        self.tensorboard = self.path / "tensorboard"
        self.tracking = self.path / "tracking"

    @classmethod
    def temporary(cls) -> RunFolder:
        """A folder that is removed when nothing refers to this object any more."""
        run = cls(tempfile.mkdtemp(prefix="capse-"))
        weakref.finalize(run, shutil.rmtree, run.path, ignore_errors=True)
        return run

    def copy_to(self, path: str | Path) -> RunFolder:
        """All of this run in another folder, whole or not at all."""
        check_free(Path(path))
        with atomic_folder(path) as temporary:
            shutil.copytree(self.path, temporary, dirs_exist_ok=True)
        return RunFolder(path)

    @classmethod
    def open(cls, path: str | Path, command: str = "capse train") -> RunFolder:
        """An existing run that has a model, and whose files are what was written; ``command`` makes such runs."""
        run = cls(path)
        if not run.path.is_dir():
            raise RunError(f"there is no run in {path}", f"train one with '{command} --out', or check the path")
        if not run.recipe.is_file():
            raise RunError(
                f"{path} is not a run: it has no recipe.yaml", f"give the folder named by --out in '{command}'"
            )
        if not (is_whole(run.path, run.model) or is_whole(run.path, run.trees)):
            raise RunError(f"the run in {path} is not finished", f"continue it with '{command} --resume'")
        run.check()
        return run

    def check(self) -> None:
        """Refuse a run with a file that is missing, or that is not what was written."""
        check_files(self.path, required=self._has_manifest(), but=self._deleted())

    def check_inputs(self) -> None:
        """The same of what a training goes on with: it makes the model anew."""
        made_anew = (self.model, self.calibration, self.classifier)
        check_files(self.path, required=self._has_manifest(), but=[*made_anew, *self._deleted()])

    def _deleted(self) -> list[Path]:
        """What is not there and need not be: it can be made again, or nothing is answered with it."""
        return [path for path in (self.calibration, self.classifier, self.metrics, self.results) if not path.is_file()]

    def _has_manifest(self) -> bool:
        return "format" in self.stored_recipe()

    def stored_recipe(self) -> dict[str, Any]:
        """The resolved recipe as it was written, in whatever format that was."""
        check_file(self.path, self.recipe)
        try:
            return load_yaml(self.recipe.read_text(encoding="utf-8"), str(self.recipe))
        except (OSError, UnicodeDecodeError) as error:
            raise RunError(f"{self.recipe} cannot be read ({error})", "restore it, or train the run again") from error

    def read_recipe(self) -> dict[str, Any]:
        """The resolved recipe in today's terms."""
        return upgraded(self.stored_recipe(), str(self.recipe))

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
