"""Table 4 and Figure 4: rankers of search logs, from the records that `capse_paper.recorded.rankings` describes.

Ties count in expectation. A row says whose history it had: ``prequential``, all clicks before an impression, or
``frozen``, those before the test period.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any

import numpy as np

from capse.arrays import Float64s
from capse.evaluation.paired import compare
from capse_paper.findings import paper
from capse_paper.recorded.rankings import CurveRecord, SearchRecord, read_curves, read_records
from capse_paper.recorded.runs import Results, aggregate

Row = dict[str, Any]

SEARCH17, GITSEARCH = "search17", "gitsearch"
HISTORIES = ("prequential", "frozen")
NAMES = {
    "se": "SE",
    "ci": "CI",
    "pclick": "P-Click",
    "session-refinding": "session re-finding",
    "user-refinding": "user re-finding",
    "click-through": "click-through",
    "document-only": "document only",
    "sp": "SP",
    "transe-vu2017": "TransE (Vu et al. 2017)",
    "transe": "TransE",
    "convkb": "ConvKB",
    "capse": "CapsE",
    "blend": "blend",
    "history": "trees on rank and history",
    "history-blend": "the same and CapsE",
}
EXPECTED_ON_GITSEARCH = ("se", "ci", "pclick", "sp", "transe", "convkb", "capse", "blend", "history", "history-blend")
AGAINST = ("se", "ci")  # what every row is tested against
WITHOUT = {"blend": "sp", "history-blend": "history"}  # a blend is also tested against the same without the score

Key = tuple[str, str, str, str]  # log, method, settings, history


def table4(results: Results) -> list[Row]:
    """The paper's rows on SEARCH17, those of ours that it does not have, and all methods on gitsearch."""
    recorded: dict[Key, list[SearchRecord]] = {}
    for record in read_records(results.folder):
        key = (record.log, record.method, record.settings, record.history)
        recorded.setdefault(key, []).append(record)
    planned: list[Key] = [(SEARCH17, method, "paper", HISTORIES[0]) for method in paper.SEARCH]
    planned += [
        (GITSEARCH, method, "paper" if method in AGAINST else "own", history)
        for history, method in product(HISTORIES, EXPECTED_ON_GITSEARCH)
        if (GITSEARCH, method, "paper", history) not in recorded
    ]
    keys = dict.fromkeys([*planned, *recorded])
    return [_row(key, recorded) for key in sorted(keys, key=_place)]


def figure4(results: Results) -> list[Row]:
    """Validation MRR of CapsE by epoch, a row for each N of the paper; ``ours`` is the best of the means over seeds."""
    curves = [curve for curve in read_curves(results.folder) if (curve.log, curve.method) == (GITSEARCH, "capse")]
    rows = []
    for filters in paper.FILTERS:
        for settings in sorted({curve.settings for curve in curves if curve.filters == filters}) or ["paper"]:
            chosen = [curve for curve in curves if (curve.filters, curve.settings) == (filters, settings)]
            rows.append(_curve_row(filters, settings, sorted(chosen, key=lambda curve: curve.seed)))
    return rows


def _row(key: Key, recorded: Mapping[Key, Sequence[SearchRecord]]) -> Row:
    log, method, settings, history = key
    records = sorted(recorded.get(key, []), key=lambda record: record.seed)
    printed = paper.SEARCH.get(method, {}) if log == SEARCH17 else {}
    return {
        "model": NAMES.get(method, method),
        "dataset": log,
        "settings": settings,
        "recipe": records[0].recipe if records else None,
        "start": None,
        "beside": None,
        "history": history,
        "paper": dict(printed),
        "ours": aggregate({record.seed: {"expected": record.metrics} for record in records}),
        "against": _tests(key, records, recorded),
        "runs": [record.path for record in records],
    }


def _tests(
    key: Key, records: Sequence[SearchRecord], recorded: Mapping[Key, Sequence[SearchRecord]]
) -> dict[str, Row] | None:
    """Paired t-tests of the reciprocal ranks, each list's averaged over seeds, against other rows with this history."""
    log, method, _, history = key
    others = (*AGAINST, WITHOUT[method]) if method in WITHOUT else AGAINST
    found = {}
    for other in others:
        beside = [
            record
            for (of, name, _, kind), rows in recorded.items()
            if (of, name, kind) == (log, other, history) and name != method
            for record in rows
        ]
        if records and beside:
            found[NAMES[other]] = asdict(compare(_mean_lists(records), _mean_lists(beside)))
    return found or None


def _mean_lists(records: Sequence[SearchRecord]) -> Float64s:
    return np.asarray(np.mean([record.reciprocal_ranks for record in records], axis=0))


def _curve_row(filters: int, settings: str, curves: Sequence[CurveRecord]) -> Row:
    validated: dict[int, dict[int, float]] = {}  # epoch -> seed -> MRR
    for curve in curves:
        for line in curve.lines:
            if "validation" in line:
                validated.setdefault(line["epoch"], {})[curve.seed] = line["validation"]["mrr"]
    means = {epoch: statistics.fmean(found.values()) for epoch, found in sorted(validated.items())}
    best = max(means, key=means.__getitem__, default=None)
    seeds = {} if best is None else validated[best]
    return {
        "model": "CapsE",
        "dataset": GITSEARCH,
        "settings": settings,
        "recipe": curves[0].recipe if curves else None,
        "start": None,
        "beside": None,
        "split": "valid",
        "filters": filters,
        "best_epoch": best,
        "paper": {},
        "ours": aggregate({seed: {"expected": {"mrr": value}} for seed, value in sorted(seeds.items())}),
        "curve": [{"epoch": epoch, "mrr": mean} for epoch, mean in means.items()],
        "runs": [curve.path for curve in curves],
    }


def _place(key: Key) -> tuple[Any, ...]:
    log, method, settings, history = key
    logs, methods = [SEARCH17, GITSEARCH], list(NAMES)
    known = methods.index(method) if method in methods else len(methods)
    return (logs.index(log) if log in logs else 2, log, history != HISTORIES[0], known, method, settings)
