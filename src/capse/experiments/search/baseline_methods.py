"""The baselines as search methods: they learn nothing."""

from __future__ import annotations

from typing import Any

from capse.experiments.search.methods import SearchMethod
from capse.search.evaluation.judged_lists import Ranker
from capse.search.evaluation.popularity import DocumentOnly
from capse.search.logs.search_log import SearchLog
from capse.search.rankers.baselines import CI, SE, ClickThrough, PClick, Refinding


class Baseline(SearchMethod):
    """A ranker that is the same for every log."""

    def __init__(self, name: str, ranker: Ranker) -> None:
        super().__init__(name)
        self.ranker = ranker

    def fit(self, log: SearchLog, recipe: Any = None, **options: Any) -> Ranker:
        return self.ranker


SE_METHOD = Baseline("se", SE())
CI_METHOD = Baseline("ci", CI())
PCLICK_METHOD = Baseline("pclick", PClick())
SESSION_REFINDING = Baseline("session-refinding", Refinding("session"))
USER_REFINDING = Baseline("user-refinding", Refinding("user"))
CLICK_THROUGH = Baseline("click-through", ClickThrough())
DOCUMENT_ONLY = Baseline("document-only", DocumentOnly())
