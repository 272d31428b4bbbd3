"""Which rankers Table 4 shows on which log, and which trainings Figure 4: one line each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from capse.errors import UnknownNameError
from capse.search.logs.history import HistoryKind
from capse_paper.plans.graphs import Settings

SEARCH17, GITSEARCH = "search17", "gitsearch"
BOTH: tuple[HistoryKind, ...] = ("prequential", "frozen")


@dataclass(frozen=True)
class SearchExperiment:
    """A ranker on a log, made once per seed and evaluated with each kind of history."""

    log: str  # a folder below $CAPSE_DATA
    method: str
    settings: Settings = "own"
    recipe: str | None = None  # a shipped one
    seeds: tuple[int, ...] = (0,)
    histories: tuple[HistoryKind, ...] = BOTH

    @property
    def name(self) -> str:
        return f"{self.log}-{self.method}-{self.settings}"


@dataclass(frozen=True)
class CurveExperiment:
    """CapsE with N filters, trained once per seed for as long as two cores have time, validated every epoch."""

    filters: int  # N
    log: str = GITSEARCH
    method: str = "capse"
    settings: Settings = "own"
    recipe: str = "capse"
    overrides: tuple[str, ...] = ("vectors.dimensions=50", "training.epochs=10", "validation.patience=0")
    seeds: tuple[int, ...] = (0,)

    @property
    def name(self) -> str:
        return f"{self.log}-{self.method}-{self.settings}-n{self.filters}"


AnyExperiment = TypeVar("AnyExperiment", SearchExperiment, CurveExperiment)
SearchPlan = Sequence[SearchExperiment]
CurvePlan = Sequence[CurveExperiment]

_UNTRAINED = ("pclick", "session-refinding", "user-refinding", "click-through", "document-only")
_FIVE = (0, 1, 2, 3, 4)

SEARCH_PLAN: SearchPlan = (
    *(SearchExperiment(SEARCH17, method, "paper", histories=("prequential",)) for method in ("se", "ci")),
    *(SearchExperiment(SEARCH17, method, histories=("prequential",)) for method in _UNTRAINED),
    *(SearchExperiment(GITSEARCH, method, "paper") for method in ("se", "ci")),
    *(SearchExperiment(GITSEARCH, method) for method in _UNTRAINED),
    SearchExperiment(GITSEARCH, "sp", seeds=_FIVE),
    *(SearchExperiment(GITSEARCH, method, recipe=method, seeds=_FIVE) for method in ("transe", "convkb", "capse")),
    *(SearchExperiment(GITSEARCH, method, seeds=_FIVE) for method in ("blend", "history", "history-blend")),
)

CURVE_PLAN: CurvePlan = tuple(CurveExperiment(filters) for filters in (50, 100, 200, 400, 500))


def choose(plan: Sequence[AnyExperiment], only: Sequence[str] | None = None) -> list[AnyExperiment]:
    """The experiments of a plan, or those ``only`` among them.

    >>> [experiment.method for experiment in choose(SEARCH_PLAN, ["gitsearch-sp-own"])]
    ['sp']
    """
    known = {experiment.name: experiment for experiment in plan}
    for name in only or ():
        if name not in known:
            raise UnknownNameError("experiment", name, known, f"choose from {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(only)] if only else list(plan)
