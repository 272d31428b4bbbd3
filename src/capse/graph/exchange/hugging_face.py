"""A run in Hugging Face's folder layout: model.safetensors, config.json and a model card.

The folder is a run as well: `capse.load` opens it, from a clone of the hub or from wherever it was copied to.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import yaml

import capse
from capse.errors import RunError
from capse.runs.atomic import atomic_folder, check_free, write_json, write_text
from capse.runs.folder import RunFolder

_KEPT = ("recipe", "model", "manifest", "vocabulary", "graph", "calibration", "classifier", "results")


def write_hugging_face(run: RunFolder, folder: str | Path, licence: str | None = None) -> None:
    """Write a new folder, whole or not at all; checkpoints and the log of the training stay behind."""
    check_free(Path(folder))
    recipe = run.read_recipe()
    record = json.loads(run.results.read_text(encoding="utf-8")) if run.results.is_file() else {}
    with atomic_folder(folder) as temporary:
        for name in _KEPT:
            source: Path = getattr(run, name)
            if source.is_dir():
                shutil.copytree(source, temporary / source.name)
            elif source.is_file():
                shutil.copyfile(source, temporary / source.name)
        sizes = _sizes(run)
        config = {
            "model_type": "capse",
            "architectures": [recipe["model"]["name"]],
            "library_name": "capse",
            "library_version": capse.__version__,
            **{f"num_{kind}": size for kind, size in sizes.items()},
            "model": recipe["model"],
        }
        write_json(temporary / "config.json", config)
        write_text(temporary / "README.md", model_card(recipe, record, sizes, licence))


def model_card(recipe: dict[str, Any], record: dict[str, Any], sizes: dict[str, int], licence: str | None) -> str:
    """The card, of nothing but what the run's recipe and record say."""
    name, data = str(recipe["model"]["name"]), str(recipe.get("data"))
    header = {
        "library_name": "capse",
        "tags": ["knowledge-graph", "link-prediction", "knowledge-graph-embedding", name],
        **({"license": licence} if licence else {}),
    }
    lines = [
        "---",
        yaml.safe_dump(header, sort_keys=False).strip(),
        "---",
        "",
        f"# {name} on {data}",
        "",
        f"A knowledge-graph embedding of {sizes['entities']:,} entities and {sizes['relations']:,} relations, made",
        f"with [capse](https://aclanthology.org/N19-1226) {capse.__version__}.",
        "",
        "```python",
        "import capse",
        "",
        'run = capse.load("path/to/this/folder")',
        'for answer in run.predict(relation="...", head="...", top=10, new=True):',
        "    print(answer.name, answer.score)",
        "```",
        "",
        "## How it was made",
        "",
        *_record_rows(record),
        "",
        "Every setting:",
        "",
        "```yaml",
        yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True).strip(),
        "```",
        "",
        "## What it is not",
        "",
        "A score says how well a triple fits what the model was trained on. It is no proof that the fact holds. The",
        "training facts are in `graph/`; their licence is that of the data.",
        "",
    ]
    return "\n".join(lines)


def _record_rows(record: dict[str, Any]) -> list[str]:
    """What the record of the training says, as a table; a line where there is none."""
    known = {
        "epochs": record.get("epochs"),
        "best epoch": record.get("best_epoch"),
        "command": f"`{record['command']}`" if record.get("command") else None,
        "commit": record.get("commit"),
        "date": record.get("date"),
    }
    for metric, value in (record.get("best_validation") or {}).items():
        known[f"best validation {metric}"] = None if value is None else f"{value:.4f}"
    rows = [f"| {key} | {value} |" for key, value in known.items() if value is not None]
    return ["| | |", "| --- | --- |", *rows] if rows else ["Nothing was recorded."]


def _sizes(run: RunFolder) -> dict[str, int]:
    import pyarrow.parquet as pq

    try:
        return {
            kind: pq.read_metadata(run.vocabulary / f"{kind}.parquet").num_rows for kind in ("entities", "relations")
        }
    except OSError as error:
        raise RunError(f"{run.path} is no run on a graph", "give a run of 'capse train'") from error
