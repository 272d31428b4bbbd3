"""The leak control: with labels that mean nothing, nothing can be better than chance.

Topics fitted on the relevant documents only, a profile that holds the answer, a count over the whole log: each tells a
ranker what it must not know, and none shows in a good result. So the labels are shuffled within each list and the
*whole* pipeline runs again, from the topics to the scores. What is then above chance came from the labels themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from capse.errors import SettingsError
from capse.evaluation.paired import PairedComparison, compare
from capse.search.evaluation.evaluate import SearchEvaluation
from capse.search.evaluation.judged_lists import LABELS, shuffle_within_lists
from capse.search.logs.search_log import SearchLog

ALARM = 0.01  # the p-value below which 'above chance' is called a leak


@dataclass(frozen=True)
class LeakControl:
    """A pipeline's MRR on shuffled labels, beside the chance of the same lists; means over the shuffles."""

    method: str
    shuffles: int
    mrr: float
    chance: float
    excess: PairedComparison  # MRR minus chance, list by list

    @property
    def leaks(self) -> bool:
        return self.excess.difference > 0 and self.excess.p_value < ALARM

    @property
    def warning(self) -> str:
        """One line, empty where nothing leaks."""
        if not self.leaks:
            return ""
        return (
            f"{self.method} leaks labels: with labels shuffled within each list its MRR is {self.mrr:.4f}, and chance "
            f"{self.chance:.4f} (p = {self.excess.p_value:.2g}); its result cannot be trusted"
        )

    def to_json(self) -> dict[str, Any]:
        values = {"method": self.method, "shuffles": self.shuffles, "mrr": self.mrr, "chance": self.chance}
        return values | asdict(self.excess) | {"leaks": self.leaks, "warning": self.warning}


def shuffle_labels(log: SearchLog, seed: int) -> SearchLog:
    """The same log with what was clicked shuffled within every list, all splits included.

    A list keeps its documents and positions, its number of clicks and of satisfied clicks, and their times; only which
    documents they fell on is drawn at random.
    """
    return shuffle_within_lists(log, LABELS, seed)


def leak_control(
    log: SearchLog, pipeline: Callable[[SearchLog], SearchEvaluation], seeds: Sequence[int] = (0,)
) -> LeakControl:
    """Run a pipeline on logs with shuffled labels, one for each seed, and test its MRR against chance.

    ``pipeline`` fits everything that it evaluates, topics and vectors included, on the log that it is given; what it
    fitted before on the true labels would hide a leak or feign one. Every shuffle leaves the same lists to judge, so a
    list's excess over chance is averaged over shuffles before the t-test. Those excesses are uncorrelated where nothing
    leaks, since a list's labels are drawn independently of all that came before it.
    """
    if not len(seeds):
        raise SettingsError("a leak control without a seed runs nothing", "give at least one")
    evaluations = [pipeline(shuffle_labels(log, seed)) for seed in seeds]
    excess = np.mean([evaluation.lists.mrr - evaluation.chance.mrr for evaluation in evaluations], axis=0)
    return LeakControl(
        method=evaluations[0].method,
        shuffles=len(seeds),
        mrr=float(np.mean([evaluation.mrr for evaluation in evaluations])),
        chance=float(evaluations[0].chance.mrr.mean()),
        excess=compare(excess, np.zeros(len(excess))),
    )
