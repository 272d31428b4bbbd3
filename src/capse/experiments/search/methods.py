"""The rankers that can be had by name, and how each is made from a log.

A method is a function of a log and a seed. It looks at the training and validation periods only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from capse.errors import UnknownNameError
from capse.experiments.search.blend import Train, cross_fit, fit_blend
from capse.search.baselines import CI, SE, ClickThrough, PClick, Refinding
from capse.search.features import GROUPS
from capse.search.history import cutoffs
from capse.search.lambdamart import LambdaMARTSettings
from capse.search.lists import Ranker
from capse.search.log import SearchLog
from capse.search.personalised import SP
from capse.search.popularity import DocumentOnly
from capse.search.vectors import VectorSettings, VectorSpace, build_vectors

Method = Callable[[SearchLog, int], Ranker]

HISTORY = ("rank", "history", "profile", "context")  # features without the texts and without other people's clicks

BASELINES: dict[str, Ranker] = {
    "se": SE(),
    "ci": CI(),
    "pclick": PClick(),
    "session-refinding": Refinding("session"),
    "user-refinding": Refinding("user"),
    "click-through": ClickThrough(),
    "document-only": DocumentOnly(),
}


def baseline(name: str) -> Ranker:
    """A ranker that needs no training.

    >>> baseline("ci")
    CI(name='ci')
    """
    if name not in BASELINES:
        raise UnknownNameError("baseline", name, BASELINES, f"choose from {', '.join(BASELINES)}")
    return BASELINES[name]


def fit_sp(
    log: SearchLog,
    seed: int = 0,
    *,
    settings: LambdaMARTSettings | None = None,
    groups: Sequence[str] = GROUPS,
    space: VectorSpace | None = None,
) -> SP:
    """SP with topics of its own, or those of ``space``."""
    space = space or build_vectors(log, VectorSettings())
    return SP.fit(log, cutoffs(log), replace(settings or LambdaMARTSettings(), seed=seed), groups, space=space)


def fit_blend_of(
    log: SearchLog,
    train: Train,
    seed: int = 0,
    *,
    label: str = "capse",
    settings: LambdaMARTSettings | None = None,
    space: VectorSpace | None = None,
) -> SP:
    """SP with the scores of one more ranker, which ``train`` makes from a log."""
    space = space or build_vectors(log, VectorSettings())
    settings = replace(settings or LambdaMARTSettings(), seed=seed)
    return fit_blend(log, {label: cross_fit(log, train)}, settings, space=space)
