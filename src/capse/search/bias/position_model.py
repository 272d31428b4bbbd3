"""The position-based model (Craswell et al., WSDM 2008): a click is a look at place k and an attraction of the pair.

    P(click on document d for query q at place k) = θ_k γ_qd

A pair that the engine shows at several places tells the θ apart from the γ, without an experiment. Both are found by
expectation maximisation, each γ freely for its pair (Wang et al., WSDM 2018, have a regression there):

    P(looked | no click) = θ (1 − γ) / (1 − θ γ)        θ_k = mean of P(looked) over what was shown at place k
    P(attracted | no click) = γ (1 − θ) / (1 − θ γ)     γ_qd = mean of P(attracted) over the pair's showings

Nobody looks further down more often, so the θ are pooled where they would rise (isotonic regression, weighted by
showings): what rises is noise, and would count double once all are told relative to the highest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.isotonic import isotonic_regression

from capse.arrays import Float64s, Int64s
from capse.errors import DataError
from capse.search.bias.shown_pairs import PairCounts
from capse.search.logs.search_log import SearchLog

ROUNDS = 2_000  # at most
CHANGE = 1e-6  # of every θ in a round, below which the search ends
FEWEST = 20  # showings of telling pairs at a place, below which nothing is claimed of it


@dataclass(frozen=True)
class PositionModel:
    """With which probability each place is looked at, relative to the place that is looked at most."""

    looked: Float64s  # (places,) from the first; a place beyond them is looked at like the last

    def of(self, log: SearchLog) -> Float64s:
        """(m,) for every result of a log."""
        return self.looked[np.minimum(log.rank - 1, len(self.looked) - 1)]

    @classmethod
    def fit(cls, log: SearchLog, impressions: Int64s) -> PositionModel:
        """Estimated from the clicks on these lists."""
        counts = PairCounts.of(log, log.rows(impressions)).telling()
        shown = np.bincount(counts.place, counts.shown)
        known = np.flatnonzero(shown >= FEWEST)
        if len(known) < 2:
            raise DataError(
                f"the log {log.name!r} hardly shows the same results for the same query at different places",
                "take more of it, or give the propensities of an experiment between commas",
            )
        theta = _maximise(counts, len(shown))
        theta[known] = isotonic_regression(theta[known], sample_weight=shown[known], increasing=False)
        nearest = known[np.maximum(np.searchsorted(known, np.arange(len(shown)), side="right") - 1, 0)]
        return cls(np.minimum(theta[nearest] / theta[known].max(), 1.0))


def _maximise(counts: PairCounts, places: int) -> Float64s:
    """(places,) θ up to a common factor."""
    pair, place, shown, clicked = counts.pair, counts.place, counts.shown, counts.clicked
    missed = shown - clicked
    of_place = np.maximum(np.bincount(place, shown, places), 1)
    of_pair = np.bincount(pair, shown)
    theta, gamma = np.full(places, 0.5), np.full(len(of_pair), 0.5)
    for _ in range(ROUNDS):
        t, g = theta[place], gamma[pair]
        unseen = missed / np.maximum(1 - t * g, 1e-12)
        before, theta = theta, np.bincount(place, clicked + unseen * t * (1 - g), places) / of_place
        gamma = np.bincount(pair, clicked + unseen * g * (1 - t)) / of_pair
        if np.abs(theta - before).max() < CHANGE:
            break
    return theta
