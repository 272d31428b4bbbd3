"""A new run from the newest traffic, compared with the one in service, and handed over only if it is better.

Both rank the same lists, the newest of the log, which neither has learned from. They were shown in the order of the run
in service, and their clicks favour it: so a click counts for the inverse of how likely its place was looked at, as if
all had been (`capse.search.evaluation.inverse_propensity`). Whether the new one is better is asked of users, not of
lists: users are drawn again with all their lists, and in a share of these draws that is given (19 of 20, say) its MRR
must be the higher one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from capse.arrays import Float64s, Int64s
from capse.errors import DataError, SettingsError
from capse.experiments.search.methods import load_search_run
from capse.runs.versions import Versions
from capse.search.bias.settings import NONE, POSITION, PositionBias
from capse.search.evaluation.inverse_propensity import WeightedClicks
from capse.search.evaluation.judged_lists import JudgedLists, Ranker, shuffled
from capse.search.logs.history import cutoffs
from capse.search.logs.search_log import SPLITS, SearchLog
from capse.search.rankers.forgetting import forget_in_run
from capse.search.rankers.search_run import SearchRun
from capse.search.rankers.training_past import TrainingPast

LEAST_LISTS = 20  # that a comparison is made on
_DRAWS = 2_000

Train = Callable[[SearchLog, Path], None]  # leaves a run in a folder


@dataclass(frozen=True)
class Verdict:
    """How a new run did beside the one in service."""

    version: str
    lists: int  # the newest, with a satisfied click
    users: int
    new: float  # MRR of satisfied clicks
    served: float
    engine: float
    better_in: float  # share of draws of users in which the new run's MRR is the higher one
    handed_over: bool
    bias: str  # the model by which clicks were weighed; none: each counts for one

    def __str__(self) -> str:
        said = "handed over" if self.handed_over else "not handed over"
        return (
            f"{said}: on the {self.lists:,} newest lists of {self.users:,} users the new run has an MRR of "
            f"{self.new:.4f}, the one in service {self.served:.4f}, the engine {self.engine:.4f}; "
            f"the new one is better in {self.better_in:.0%} of draws of users"
            + ("; clicks count as they are" if self.bias == NONE else "")
        )


def retrain(
    run: str | Path,
    log: SearchLog,
    train: Train,
    *,
    served_log: SearchLog | None = None,
    confidence: float = 0.95,
    keep: int = 5,
    bias: PositionBias | None = None,
    forgotten: Callable[[str], bool] = lambda user: False,
) -> Verdict:
    """Train on a log, compare on its test split with the run in service, and put the better one in service.

    ``served_log`` is the same log with the fields that the run in service was trained with, where those are others.
    Of the versions ``keep`` are kept. ``bias`` says how clicks are weighed, by their places unless it is given. Nobody
    who is ``forgotten`` stays in the new run.
    """
    if not 0.5 <= confidence < 1:
        raise SettingsError(f"--confidence is {confidence:g}", "write a share from 0.5 to below 1")
    if keep < 2:
        raise SettingsError(f"--keep is {keep}", "keep 2 versions or more, to be able to roll back")
    served, versions = load_search_run(run), Versions(run)
    newest, theirs = (newest_lists(one, _until(served)) for one in (log, served_log or log))
    with versions.held():
        versions.adopt()
        path = versions.next_path()
        try:
            train(newest, path)
            verdict = compare(load_search_run(path), served, newest, theirs, path.name, confidence, bias)
            if verdict.handed_over:
                forget_in_run(path, forgotten)
                versions.put_in_service(path.name, "handed over", **_figures(verdict))
                versions.keep(keep)
            else:
                versions.note(path.name, "not handed over", **_figures(verdict))
            return verdict
        finally:
            if versions.current != path.name:
                shutil.rmtree(path, ignore_errors=True)


def compare(
    new: Ranker,
    served: Ranker,
    log: SearchLog,
    served_log: SearchLog,
    version: str,
    confidence: float,
    bias: PositionBias | None = None,
) -> Verdict:
    """Both on the test lists of a log; clicks count as they are where it does not tell how places are looked at."""
    judged, their = (JudgedLists(shuffled(one), one.judged("test"), cutoffs(one)) for one in (log, served_log))
    bias = bias or PositionBias(POSITION)
    try:
        weights = bias.weights(judged.log, np.arange(len(log)))
    except DataError:
        bias, weights = PositionBias(), None
    counts = np.ones(len(judged.rows)) if weights is None else weights[judged.rows]
    owners = log.user[judged.impressions].astype(np.int64)
    clicks = WeightedClicks(judged.relevant, judged.lengths, counts, owners)
    ours, theirs = judged.scores(new), their.scores(served)
    after, before, engine = map(clicks.snips_mrr, (ours, theirs, -judged.position))
    share = better_in(clicks.differences(ours, theirs), owners)
    handed_over = share >= confidence and after > before
    users = len(np.unique(owners))
    return Verdict(version, len(owners), users, after, before, engine, share, handed_over, bias.model)


def better_in(differences: Float64s, users: Int64s, seed: int = 0) -> float:
    """The share of draws of users in which the mean difference is above zero.

    >>> better_in(np.array([0.1, 0.2, 0.1]), np.array([0, 1, 2])), better_in(np.zeros(3), np.arange(3))
    (1.0, 0.0)
    """
    _, number = np.unique(users, return_inverse=True)
    sums = np.bincount(number, differences)
    draws = np.random.default_rng(seed).multinomial(len(sums), np.full(len(sums), 1 / len(sums)), _DRAWS)
    return float((draws @ sums > 0).mean())


def newest_lists(log: SearchLog, known_until: int) -> SearchLog:
    """The log with those test lists only that came after a moment: what came before, the run in service may know."""
    test = SPLITS.index("test")
    seen = (log.split == test) & (log.time < known_until)
    fresh = replace(log, split=np.where(seen, SPLITS.index("valid"), log.split).astype(np.int8))
    if (found := len(fresh.judged("test"))) < LEAST_LISTS:
        raise DataError(
            f"{found} of the newest lists have a satisfied click and are newer than the run in service",
            f"wait until there are {LEAST_LISTS}, or test on a larger share: --set ingest.test_share=0.3",
        )
    return fresh


def _until(ranker: Ranker) -> int:
    """Until when a run knows what was clicked."""
    of_trees, inside = getattr(ranker, "past", None), getattr(ranker, "run", None)
    past = inside.past if isinstance(inside, SearchRun) else of_trees
    return past.until if isinstance(past, TrainingPast) else 0


def _figures(verdict: Verdict) -> dict[str, Any]:
    return {name: value for name, value in asdict(verdict).items() if name not in ("version", "handed_over")}
