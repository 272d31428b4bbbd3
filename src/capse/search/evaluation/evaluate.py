"""How good is a ranker, and better than what?

Beside every result stand chance, the engine's own order, a scorer that sees the document alone, and the same ranker
without the user: what a ranker has learned about users is what it gains over these, on the same lists.

A ranker is given a log whose lists are shuffled (`shuffled`), and ties count in expectation (`list_metrics`), so the
order in which a list's documents are stored earns nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from capse.arrays import Bools, Float64s, Int64s
from capse.errors import DataError, SettingsError
from capse.evaluation.clusters import cluster_interval
from capse.evaluation.intervals import bootstrap_interval
from capse.search.bias.settings import PositionBias
from capse.search.evaluation.comparison import ListComparison, compare_lists
from capse.search.evaluation.inverse_propensity import WeightedClicks
from capse.search.evaluation.judged_lists import JudgedLists, Ranker, shuffled
from capse.search.evaluation.list_metrics import NAMES, ListMetrics, click_reciprocal_ranks, expected_chance
from capse.search.evaluation.popularity import DocumentOnly
from capse.search.logs.history import HistoryKind, cutoffs
from capse.search.logs.search_log import SPLITS, SearchLog

EARLIER_CLICKS = {"0": 0, "1-4": 1, "5-19": 5, "20+": 20}  # where each group begins

# What a ranker may offer beside `score`, and the name of what it then gives.
OFFERED = {"without_user": "without_user", "document_only": "own_document_only"}


@dataclass(frozen=True)
class SearchEvaluation:
    """One ranker on the lists of one split, with what each list contributed."""

    method: str
    log: str
    split: str
    history: HistoryKind
    impressions: int  # those with a satisfied click
    unjudged: int  # those without one, which no figure counts
    seconds: float  # scoring
    metrics: dict[str, float]
    intervals: dict[str, list[float]]  # 95 %, low and high, lists being drawn
    intervals_over_users: dict[str, list[float]]  # the same, users being drawn with all their lists
    users: int  # whose lists they are
    per_click: dict[str, float]  # every satisfied click by its own rank, not just the first of its list
    warm: dict[str, float]  # users with an impression in an earlier split
    cold: dict[str, float]  # the others
    with_history: dict[str, float]  # users with a satisfied click before the cutoff
    without_history: dict[str, float]  # the others
    by_earlier_clicks: dict[str, dict[str, float]]
    beside: dict[str, dict[str, float]]
    comparisons: dict[str, ListComparison]  # MRR of this ranker minus that of another
    warnings: list[str]
    unbiased: dict[str, Any] | None  # inverse-propensity figures, where a position bias was given
    judged: Int64s = field(repr=False)  # (impressions,) of the log
    owners: Int64s = field(repr=False)  # (impressions,) the user of each
    lists: ListMetrics = field(repr=False)
    chance: ListMetrics = field(repr=False)

    @property
    def mrr(self) -> float:
        return self.metrics["mrr"]

    def versus(self, other: SearchEvaluation) -> ListComparison:
        """The MRR of this ranker minus the other's, on the same lists."""
        if (self.log, self.split) != (other.log, other.split) or not np.array_equal(self.judged, other.judged):
            raise SettingsError(
                f"{self.method} and {other.method} ranked different lists", "evaluate both on one split"
            )
        return compare_lists(self.lists.mrr, other.lists.mrr, self.owners)

    def to_json(self) -> dict[str, Any]:
        """What ``capse search evaluate --json`` prints."""
        arrays = ("judged", "owners", "lists", "chance")
        values: dict[str, Any] = {}
        for name in (f.name for f in fields(self) if f.name not in arrays):
            values |= self.metrics if name == "metrics" else {name: getattr(self, name)}
        return values | {"comparisons": {name: asdict(found) for name, found in self.comparisons.items()}}


def evaluate(
    ranker: Ranker,
    log: SearchLog,
    split: str = "test",
    *,
    history: HistoryKind = "prequential",
    method: str = "",
    beside: bool = True,
    against: Sequence[SearchEvaluation] = (),
    bias: PositionBias | None = None,
    seed: int = 0,
) -> SearchEvaluation:
    """Rank the lists of a split that have a satisfied click.

    ``method`` is the ranker's name, its own by default. ``beside`` adds what every result should be seen with,
    ``against`` comparisons with rankers evaluated before. ``bias`` adds IPS and SNIPS figures, with propensities that
    are estimated on the splits before this one. ``seed`` is that of the shuffle and of the bootstrap.
    """
    judged = log.judged(split)
    if len(judged) < 2:
        raise DataError(
            f"the {split} split of the log {log.name!r} has {len(judged)} impressions with a satisfied click",
            "choose a split with two or more",
        )
    method = method or str(getattr(ranker, "name", type(ranker).__name__))
    lists = JudgedLists(shuffled(log, seed), judged, cutoffs(log, history, split))
    started = time.perf_counter()
    scores = lists.scores(ranker)
    seconds = time.perf_counter() - started

    found = lists.measure(scores, method)
    by_click = click_reciprocal_ranks(scores, lists.relevant, lists.lengths, method=method)
    owners = log.user[judged].astype(np.int64)
    over_lists = bootstrap_interval(found.table, seed=seed)
    over_users = cluster_interval(found.table, owners, seed=seed)
    earlier, engine = lists.earlier_clicks, lists.measure(-lists.position, "engine")
    warm = _seen_in_earlier_splits(log, split)[judged]
    others = _beside(ranker, lists) if beside else {}
    result = SearchEvaluation(
        method=method,
        log=log.name,
        split=split,
        history=history,
        impressions=len(judged),
        unjudged=len(log.of_split(split)) - len(judged),
        seconds=seconds,
        metrics=found.means(),
        intervals=dict(zip(NAMES, over_lists.T.tolist(), strict=True)),
        intervals_over_users=dict(zip(NAMES, over_users.T.tolist(), strict=True)),
        users=len(np.unique(owners)),
        per_click={"clicks": len(by_click), "mrr": float(by_click.mean())},
        warm=_part(found, engine, warm),
        cold=_part(found, engine, ~warm),
        with_history=_part(found, engine, earlier > 0),
        without_history=_part(found, engine, earlier == 0),
        by_earlier_clicks=_by_earlier_clicks(found, engine, earlier),
        beside={name: metrics.means() for name, metrics in others.items()},
        comparisons={name: compare_lists(found.mrr, other.mrr, owners, seed=seed) for name, other in others.items()},
        warnings=[],
        unbiased=None if bias is None or not bias.corrects else _unbiased(bias, log, lists, scores, seed),
        judged=judged,
        owners=owners,
        lists=found,
        chance=expected_chance(lists.relevant, lists.lengths),
    )
    comparisons = result.comparisons | {other.method: result.versus(other) for other in against}
    return replace(result, comparisons=comparisons, warnings=_warnings(result, lists))


def _unbiased(bias: PositionBias, log: SearchLog, lists: JudgedLists, scores: Float64s, seed: int) -> dict[str, Any]:
    """IPS and SNIPS of a ranker and of the engine, and what the ranker gains over it."""
    weights = bias.weights(lists.log, np.flatnonzero(log.split < max(int(log.split[lists.impressions[0]]), 1)))
    assert weights is not None
    clicks = WeightedClicks(
        lists.relevant, lists.lengths, weights[lists.rows], log.user[lists.impressions].astype(np.int64)
    )
    engine = -lists.position
    return {
        "bias": asdict(bias),
        "clipped": float((weights[lists.rows][lists.relevant] >= bias.clip).mean()),  # share of the clicks
        **clicks.figures(scores, seed=seed),
        "engine": clicks.figures(engine, seed=seed),
        "gain_over_engine": asdict(clicks.gain(scores, engine, seed=seed)),
    }


def _seen_in_earlier_splits(log: SearchLog, split: str) -> Bools:
    """(n,) whether the user of an impression has another in a split before this one."""
    return np.isin(log.user, log.user[log.split < SPLITS.index(split)])


def _part(found: ListMetrics, engine: ListMetrics, chosen: Bools) -> dict[str, float]:
    """Some of the lists, and the engine's MRR on the same."""
    count = int(chosen.sum())
    if not count:
        return {"impressions": 0}
    return {"impressions": count, **found[chosen].means(), "engine_mrr": engine[chosen].means()["mrr"]}


def _by_earlier_clicks(found: ListMetrics, engine: ListMetrics, earlier: Int64s) -> dict[str, dict[str, float]]:
    group = np.searchsorted(list(EARLIER_CLICKS.values()), earlier, side="right") - 1
    return {name: _part(found, engine, group == place) for place, name in enumerate(EARLIER_CLICKS)}


def _beside(ranker: Ranker, lists: JudgedLists) -> dict[str, ListMetrics]:
    found = {
        "chance": expected_chance(lists.relevant, lists.lengths),
        "engine": lists.measure(-lists.position, "engine"),
        "document_only": lists.measure(lists.scores(DocumentOnly()), "document only"),
    }
    for offer, name in OFFERED.items():
        if hasattr(ranker, offer):
            found[name] = lists.measure(lists.scores(getattr(ranker, offer)()), name)
    return found


def _is_to_be_told(verdict: str, name: str) -> bool:
    """What does not beat the rest has learned nothing; what is no better than the engine may still be of use."""
    return "below" in verdict if name == "engine" else verdict != "above"


def _warnings(result: SearchEvaluation, lists: JudgedLists) -> list[str]:
    meaning = {
        "engine": "the engine's own order",
        "chance": "chance",
        "document_only": "a scorer that sees the document alone",
        "without_user": "the same ranker without the user",
    }
    found = [
        f"{result.method} is {verdict} {what}: MRR {result.mrr:.4f} to {result.beside[name]['mrr']:.4f}, "
        f"p = {result.comparisons[name].over_users.p_value:.2g} over users"
        for name, what in meaning.items()
        if name in result.comparisons and _is_to_be_told(verdict := result.comparisons[name].verdict, name)
    ]
    return [*found, *filter(None, [lists.longer_than_a_page()])]
