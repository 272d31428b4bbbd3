"""User vectors: what a user found satisfying, the recent more than the old (Vu et al., ECIR 2015).

With v_1, v_2, ... the vectors of the user's satisfied documents, the most recent first, and α = 0.9,

    v_u = Σ_t α^(t − 1) v_t / Σ_t α^(t − 1)

over the clicks of the same session, of the same calendar day (UTC), or over all of them; ``nearest`` is the session's
where it has a click, else the day's, else the long-term one. A click updates it by S ← v + α S, Z ← 1 + α Z,
v_u = S / Z.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from capse.arrays import Bools, Float32s, Float64s, Int64s
from capse.errors import RunError
from capse.runs.settings import check_key
from capse.search.logs.history import Clicks
from capse.search.logs.search_log import SearchLog
from capse.search.times import DAY

Scale = Literal["session", "daily", "long", "nearest"]
OneScale = Literal["session", "daily", "long"]
NEAREST: tuple[OneScale, ...] = get_args(OneScale)  # from the narrowest to the widest

DECAY = 0.9


@dataclass
class Profile:
    """The running sums of one user at one scale; before the first click its vector is zero.

    >>> profile = Profile.empty(2)
    >>> profile.add(np.array([1.0, 0.0], np.float32))
    >>> profile.add(np.array([0.0, 1.0], np.float32))
    >>> profile.vector.round(4), profile.known
    (array([0.4737, 0.5263], dtype=float32), True)
    """

    total: Float64s  # (k,) S
    weight: float  # Z
    decay: float

    @classmethod
    def empty(cls, width: int, decay: float = DECAY) -> Profile:
        return cls(np.zeros(width), 0.0, decay)

    @property
    def known(self) -> bool:
        return self.weight > 0

    @property
    def vector(self) -> Float32s:
        return np.asarray(self.total / (self.weight or 1.0), np.float32)

    def add(self, vector: Float32s) -> None:
        """Take in one more satisfied document, the most recent."""
        self.total *= self.decay
        self.total += vector
        self.weight = 1 + self.decay * self.weight

    def to_mapping(self) -> dict[str, Any]:
        """The profile as values that JSON can hold; nothing is rounded."""
        return {"total": self.total.tolist(), "weight": self.weight, "decay": self.decay}

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Profile:
        try:
            profile = cls(np.array(values["total"], np.float64), float(values["weight"]), float(values["decay"]))
        except (KeyError, TypeError, ValueError) as error:
            raise RunError("a stored profile is damaged", "remove it; it grows again with the next clicks") from error
        return profile


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
    order = np.lexsort((is_click, times, keys))  # stable; in the same instant an impression comes before a click
    profile, current = Profile.empty(documents.shape[1], decay), None
    for key, click, number in zip(keys[order].tolist(), is_click[order].tolist(), numbers[order].tolist(), strict=True):
        if key != current:
            profile, current = Profile.empty(documents.shape[1], decay), key
        if click:
            profile.add(documents[number])
        elif profile.known:
            vectors[number], known[number] = profile.vector, True


def _keys(log: SearchLog, impressions: Int64s, times: Int64s, scale: OneScale) -> Int64s:
    """A number for each ``profile_key``."""
    users = log.user[impressions].astype(np.int64)
    if scale == "session":
        return users * len(log.sessions) + log.session[impressions]
    if scale == "daily":
        return users * 10**9 + times // DAY
    return users
