"""Whether the files of a recorded run hold what tables, figures and report are made of, asked once when it is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from capse.errors import RunError
from capse.evaluation.metrics import METRICS, POLICIES

REMEDY = "restore it, or delete the folder and train again"
_SIDES = {"relation": ("both",), "category": ("head", "tail"), "frequency": ("both",)}  # those that are shown
_RESULTS = ("command", "commit", "date", "machine.processor", "machine.threads", "versions")
_RESULT_NUMBERS = ("epochs", "best_epoch", "training_seconds")
_INTERVAL = ("intervals", "both", "realistic", "mrr")


def check_recipe(path: Path, recipe: Any) -> None:
    """Raise, naming the file and the key, unless a resolved recipe says what is asked of it."""
    for key in ("data", "training.seed", "validation.metric", "validation.every"):
        _find(path, recipe, key.split("."))


def check_results(path: Path, results: Any, metric: str) -> None:
    """The same for what training leaves; ``metric`` is the one that the epoch was chosen by."""
    for key in (*_RESULTS, *_RESULT_NUMBERS):
        _find(path, results, key.split("."))
    _find(path, results, ["best_validation", metric])
    _numbers(path, results, ([key] for key in _RESULT_NUMBERS))
    if not isinstance(results["versions"], Mapping):
        raise _wrong(path, ["versions"])


def check_history(path: Path, history: Iterable[Any]) -> None:
    """The same for the lines that training writes, one for each epoch."""
    for number, line in enumerate(history, start=1):
        _numbers(path, line, [["epoch"]], f" in line {number}")
        if "validation" in line:
            _numbers(path, line, _table("validation"), f" in line {number}")


def check_evaluation(path: Path, evaluation: Any) -> None:
    """The same for the figures on the test set; a group may be missing, but not a part of a group."""
    _numbers(path, evaluation, [["seconds"], *_table("metrics", "both")])
    interval = _find(path, evaluation, _INTERVAL)
    if not (isinstance(interval, list) and len(interval) == 2 and all(map(_is_number, interval))):
        raise _wrong(path, _INTERVAL)
    for kind, sides in _SIDES.items():
        groups = _find(path, evaluation, ["breakdowns", kind])
        if not isinstance(groups, Mapping):
            raise _wrong(path, ["breakdowns", kind])
        for name in groups:
            place = ("breakdowns", kind, name)
            keys = [[*place, "share"], *(key for side in sides for key in _table(*place, side))]
            _numbers(path, evaluation, keys)


def check_released(path: Path, evaluation: Any) -> None:
    """The same for those with the candidates of M3GM's released evaluation."""
    _numbers(path, evaluation, [["triples"], ["dropped"], *_table("metrics", "both")])


def check_comparison(path: Path, comparison: Any) -> None:
    """The same for a paired test."""
    _numbers(path, comparison, [[key] for key in ("difference", "low", "high", "p_value")])
    if not isinstance(_find(path, comparison, ["against"]), str):
        raise _wrong(path, ["against"])


def _table(*place: str) -> list[list[str]]:
    return [[*place, policy, metric] for policy in POLICIES for metric in METRICS]


def _find(path: Path, content: Any, keys: Sequence[str], where: str = "") -> Any:
    value = content
    for key in keys:
        if not isinstance(value, Mapping) or key not in value:
            raise RunError(f"{path} is incomplete: it has no {'.'.join(keys)}{where}", REMEDY)
        value = value[key]
    return value


def _numbers(path: Path, content: Any, places: Iterable[Sequence[str]], where: str = "") -> None:
    for keys in places:
        if not _is_number(_find(path, content, keys, where)):
            raise _wrong(path, keys, where)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _wrong(path: Path, keys: Sequence[str], where: str = "") -> RunError:
    return RunError(f"{path} is damaged: {'.'.join(keys)}{where} is not what it should be", REMEDY)
