"""Recorded results of rankers: one JSON file for each log, method, settings, history and seed.

<results>/search/<log>/<method>-<settings>/<history>-seed-<n>.json   what ``capse search evaluate --json`` prints,
                                                                     and where it comes from
<results>/search/<log>/curves/<method>-<settings>-n<N>-seed-<n>.json the validation figures after each epoch
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capse.errors import RunError
from capse.runs.atomic import write_text
from capse.runs.records import provenance
from capse.search.evaluation.evaluate import SearchEvaluation
from capse.search.evaluation.list_metrics import NAMES
from capse.search.logs.history import HistoryKind
from capse_paper.plans.graphs import Settings

FOLDER, CURVES = "search", "curves"
_ORIGIN = ("command", "commit", "date", "machine", "versions")
_REMEDY = "restore it, or delete it and record it again"


@dataclass(frozen=True)
class SearchRecord:
    """One evaluation of one ranker."""

    path: str  # below the folder of the results
    log: str
    method: str
    settings: str
    history: str
    seed: int
    recipe: str | None  # a shipped recipe's name
    metrics: Mapping[str, float]
    reciprocal_ranks: Sequence[float]  # what each list contributes to the MRR
    content: Mapping[str, Any]  # the whole file


@dataclass(frozen=True)
class CurveRecord:
    """The validation figures of one training, line by line as in metrics.jsonl."""

    path: str
    log: str
    method: str
    settings: str
    filters: int  # N
    seed: int
    recipe: str | None
    lines: Sequence[Mapping[str, Any]]  # 'epoch', and 'validation' with 'mrr' where the validation set was looked at


def record_path(log: str, method: str, settings: Settings, history: HistoryKind, seed: int) -> Path:
    """Where a record lies below the folder of the results."""
    return Path(FOLDER, log, f"{method}-{settings}", f"{history}-seed-{seed}.json")


def curve_path(log: str, method: str, settings: Settings, filters: int, seed: int) -> Path:
    return Path(FOLDER, log, CURVES, f"{method}-{settings}-n{filters}-seed-{seed}.json")


def write_record(
    results: str | Path,
    evaluation: SearchEvaluation,
    *,
    settings: Settings,
    seed: int = 0,
    recipe: str | None = None,
    resolved: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
) -> Path:
    """Record an evaluation of a test set, made by a method whose name ``evaluation.method`` is.

    ``recipe`` is a shipped recipe's name and ``resolved`` what it came to; ``training`` is what the run's
    ``results.json`` says of epochs and time, if it was trained.
    """
    path = Path(results) / record_path(evaluation.log, evaluation.method, settings, evaluation.history, seed)
    content = evaluation.to_json() | {
        "settings": settings,
        "seed": seed,
        "recipe": recipe,
        "resolved": resolved,
        "training": training,
    }
    _write(path, content | provenance(), "reciprocal_ranks", [round(rank, 6) for rank in evaluation.lists.mrr.tolist()])
    return path


def write_curve(
    results: str | Path,
    log: str,
    method: str,
    filters: int,
    lines: Sequence[Mapping[str, Any]],
    *,
    settings: Settings,
    seed: int = 0,
    recipe: str | None = None,
    resolved: Mapping[str, Any] | None = None,
) -> Path:
    """Record the lines of a run's metrics.jsonl."""
    path = Path(results) / curve_path(log, method, settings, filters, seed)
    content = {"log": log, "method": method, "settings": settings, "filters": filters, "seed": seed, "recipe": recipe}
    _write(path, content | {"resolved": resolved} | provenance(), "lines", list(lines))
    return path


def read_records(results: str | Path) -> list[SearchRecord]:
    """All recorded evaluations, by path."""
    found = sorted(Path(results, FOLDER).glob("*/*/*-seed-*.json"))
    return [_record(Path(results), path) for path in found if path.parent.name != CURVES]


def read_curves(results: str | Path) -> list[CurveRecord]:
    """All recorded learning curves, by path."""
    return [_curve(Path(results), path) for path in sorted(Path(results, FOLDER).glob(f"*/{CURVES}/*.json"))]


def _write(path: Path, content: Mapping[str, Any], name: str, values: Sequence[Any]) -> None:
    """Indented JSON, but for one long list that stands in a line of its own."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    listed = json.dumps(values, allow_nan=False)
    write_text(path, f'{text.removesuffix("}").rstrip()},\n  "{name}": {listed}\n}}\n')


def _record(results: Path, path: Path) -> SearchRecord:
    with _reading(path):
        content = _content(path)
        record = SearchRecord(
            path=path.relative_to(results).as_posix(),
            **{key: str(content[key]) for key in ("log", "method", "settings", "history")},
            seed=int(content["seed"]),
            recipe=content["recipe"],
            metrics={name: float(content[name]) for name in NAMES},
            reciprocal_ranks=[float(value) for value in content["reciprocal_ranks"]],
            content=content,
        )
        whole = len(record.reciprocal_ranks) == int(content["impressions"])
    if not whole:
        raise RunError(f"{path} has not one reciprocal rank for each impression", _REMEDY)
    _check_place(path, Path(f"{record.method}-{record.settings}", f"{record.history}-seed-{record.seed}.json"), record)
    return record


def _curve(results: Path, path: Path) -> CurveRecord:
    with _reading(path):
        content = _content(path)
        for line in content["lines"]:
            int(line["epoch"]), float(line["validation"]["mrr"] if "validation" in line else 0)
        curve = CurveRecord(
            path=path.relative_to(results).as_posix(),
            **{key: str(content[key]) for key in ("log", "method", "settings")},
            filters=int(content["filters"]),
            seed=int(content["seed"]),
            recipe=content["recipe"],
            lines=content["lines"],
        )
    name = f"{curve.method}-{curve.settings}-n{curve.filters}-seed-{curve.seed}.json"
    _check_place(path, Path(CURVES, name), curve)
    return curve


def _content(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for key in _ORIGIN:
        content[key]
    return content


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except KeyError as error:
        raise RunError(f"{path} is incomplete: it has no {error.args[0]}", _REMEDY) from error
    except (OSError, ValueError, TypeError) as error:
        raise RunError(f"{path} is damaged", _REMEDY) from error


def _check_place(path: Path, name: Path, record: SearchRecord | CurveRecord) -> None:
    """What a file is called and what it holds must agree, or a row would show another's figures."""
    place = Path(FOLDER, record.log) / name
    if record.path != place.as_posix():
        raise RunError(f"{path} holds what belongs in {place}", "move it there")
