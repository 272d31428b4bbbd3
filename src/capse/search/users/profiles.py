"""User vectors: what a user found satisfying, the recent more than the old (Vu et al., ECIR 2015).

With v_1, v_2, ... the vectors of the user's satisfied documents, the most recent first, and α = 0.9,

    v_u = Σ_t α^(t − 1) v_t / Σ_t α^(t − 1)

over the clicks of the same session, of the same calendar day (UTC), or over all of them; ``nearest`` is the session's
where it has a click, else the day's, else the long-term one. A click updates it by S ← v + α S, Z ← 1 + α Z,
v_u = S / Z. The user's latest 200 clicks count: an older one would have a weight below 1e-9.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Literal, get_args

import numba
import numpy as np

from capse.arrays import Bools, Float32s, Int32s, Int64s
from capse.runs.settings import check_key
from capse.search.logs.history import Clicks, count_before
from capse.search.logs.search_log import SearchLog
from capse.search.times import DAY

Scale = Literal["session", "daily", "long", "nearest"]
OneScale = Literal["session", "daily", "long"]
NEAREST: tuple[OneScale, ...] = get_args(OneScale)  # from the narrowest to the widest

DECAY = 0.9
REMEMBERED = 200  # a user's satisfied clicks that anything is made of, the latest


def profile_vector(vectors: Float32s, decay: float = DECAY) -> Float32s:
    """The vector (k,) of the documents of some clicks (c, k), the latest last.

    >>> profile_vector(np.eye(2, dtype=np.float32)).round(4)
    array([0.4737, 0.5263], dtype=float32)
    """
    total = np.zeros(vectors.shape[1])
    weight = _fold(vectors, decay, total)
    return np.asarray(total / (weight or 1.0), np.float32)


@numba.njit(cache=True)
def _fold(vectors: Any, decay: float, total: Any) -> float:
    weight = 0.0
    for click in range(len(vectors)):
        for place in range(len(total)):
            total[place] = vectors[click, place] + decay * total[place]
        weight = 1 + decay * weight
    return weight


def profile_key(scale: OneScale, user: str, session: str, time: int) -> tuple[str, ...]:
    """Which profile a click at ``time`` (microseconds) goes into, and which one an impression then asks for."""
    if scale == "session":
        return scale, user, session
    if scale == "daily":
        return scale, user, str(time // DAY)
    return scale, user


def user_vectors(
    log: SearchLog, documents: Float32s, cutoffs: Int64s, scale: Scale = "long", decay: float = DECAY
) -> tuple[Float32s, Bools]:
    """For each impression the vector (n, k) of its user from clicks strictly before its cutoff, and (n,) if any was."""
    check_key(scale, list(get_args(Scale)), "scale")
    scales = NEAREST if scale == "nearest" else (scale,)
    vectors = np.zeros((len(log), documents.shape[1]), np.float32)
    known = np.zeros(len(log), bool)
    clicks = Clicks.of(log)
    for one in scales:
        _fill(vectors, known, log, clicks, documents, cutoffs, one, decay)
    return vectors, known


def _fill(
    vectors: Float32s,
    known: Bools,
    log: SearchLog,
    clicks: Clicks,
    documents: Float32s,
    cutoffs: Int64s,
    scale: OneScale,
    decay: float,
) -> None:
    """Give a vector of this scale to the impressions that have none yet: profile after profile, each in time order."""
    asking = np.flatnonzero(~known)
    clickers = log.impression[clicks.rows]
    keys = np.concatenate([_keys(log, clickers, clicks.time, scale), _keys(log, asking, log.time[asking], scale)])
    times = np.concatenate([clicks.time, cutoffs[asking]])
    is_click = np.arange(len(keys)) < len(clickers)
    numbers = np.concatenate([log.document[clicks.rows], asking])
    users = log.user[np.concatenate([clickers, asking])]
    place = _places(log.user[clickers], users, times, is_click)
    order = np.lexsort((is_click, times, keys))  # stable; in the same instant an impression comes before a click
    profile, current = _Growing(documents, decay), None
    columns = (column[order].tolist() for column in (keys, is_click, numbers, place))
    for key, click, number, at in zip(*columns, strict=True):
        if key != current:
            profile, current = _Growing(documents, decay), key
        if click:
            profile.add(number, at)
        elif (vector := profile.since(at - REMEMBERED)) is not None:
            vectors[number], known[number] = vector, True


def _places(clickers: Int32s, users: Int32s, times: Int64s, is_click: Bools) -> Int64s:
    """For each click its place among its user's, for each impression how many its user's clicks before it were."""
    clicks = np.flatnonzero(is_click)
    order = np.argsort(clickers, kind="stable")
    starts = np.searchsorted(clickers[order], clickers[order])
    places = count_before(clickers, times[clicks], users, times)
    places[clicks[order]] = np.arange(len(clicks)) - starts
    return places


class _Growing:
    """A profile that clicks are added to: running sums, and the clicks for when the first of them are forgotten."""

    def __init__(self, documents: Float32s, decay: float) -> None:
        self.documents, self.decay = documents, decay
        self.total, self.weight = np.zeros(documents.shape[1]), 0.0
        self.clicked: list[int] = []  # documents
        self.places: list[int] = []  # of the clicks among their user's, ascending

    def add(self, document: int, place: int) -> None:
        self.total, self.weight = self.documents[document] + self.decay * self.total, 1 + self.decay * self.weight
        self.clicked.append(document)
        self.places.append(place)

    def since(self, place: int) -> Float32s | None:
        """The vector of the clicks from a place on; None where there is none."""
        start = bisect_left(self.places, place)
        if start == len(self.places):
            return None
        if start == 0:
            return np.asarray(self.total / self.weight, np.float32)
        return profile_vector(self.documents[self.clicked[start:]], self.decay)


def _keys(log: SearchLog, impressions: Int64s, times: Int64s, scale: OneScale) -> Int64s:
    """A number for each ``profile_key``."""
    users = log.user[impressions].astype(np.int64)
    if scale == "session":
        return users * len(log.sessions) + log.session[impressions]
    if scale == "daily":
        return users * 10**9 + times // DAY
    return users
