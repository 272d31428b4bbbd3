"""What is remembered of one user between two clicks: sums, not a history that has to be read again.

`capse.search.users.profiles` says how clicks become a user's vector. Here its running sums are kept at every scale: a
click costs one addition and a question one division, however long the user has been there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from capse.arrays import Float32s
from capse.errors import RunError, SettingsError
from capse.runs.settings import Section, check_choices, check_key
from capse.search.users.profiles import DECAY, NEAREST, OneScale, Profile, Scale, profile_key

REMEMBERED = 50  # satisfied documents that are remembered by their ids, the latest
# Profiles of the latest sessions and days that are kept: people leave some open and come back, but not to all.
KEPT: Mapping[OneScale, int] = {"session": 4, "daily": 2, "long": 1}

_DAMAGED = "remove it; it grows again with the next clicks"


@dataclass(frozen=True)
class ProfileSettings(Section):
    """How a user becomes a vector."""

    scale: Scale = "long"  # of the clicks that count; nearest: the session's, else the day's, else all
    decay: float = DECAY  # of each click's weight for every later one
    user: Literal["profile", "offset", "trained"] = "offset"
    """`profile`: the live profile; `offset`: the same plus an offset learned for every user of the training period;
    `trained`: the paper's way, a vector that starts as the profile at the end of training, is trained, and then follows
    no click"""

    def __post_init__(self) -> None:
        check_choices(self, "profile")
        if not 0 < self.decay <= 1:
            raise SettingsError(f"profile.decay is {self.decay}", "write a number above 0 and up to 1")


@dataclass(frozen=True, slots=True)
class PastDocument:
    """A document that the user found satisfying."""

    id: str
    session: str
    time: int  # microseconds since 1970


@dataclass
class UserState:
    """One user's profiles at every scale, and the last documents.

    >>> state = UserState.empty(2)
    >>> state.click("d1", np.array([1, 0], np.float32), "s1", 1_000_000)
    >>> state.click("d2", np.array([0, 1], np.float32), "s2", 2_000_000)
    >>> state.profile("s2", 3_000_000, "session")
    (array([0., 1.], dtype=float32), True)
    >>> state.profile("s3", 3_000_000, "long")[0].round(4), [document.id for document in state.recent]
    (array([0.4737, 0.5263], dtype=float32), ['d1', 'd2'])
    >>> UserState.from_mapping(state.to_mapping()) == state
    True
    """

    width: int
    decay: float = DECAY
    recent: list[PastDocument] = field(default_factory=list)  # the latest last
    # By scale, then by session or day; the one clicked in most lately last.
    profiles: dict[OneScale, dict[str, Profile]] = field(default_factory=lambda: {scale: {} for scale in NEAREST})

    @classmethod
    def empty(cls, width: int, decay: float = DECAY) -> UserState:
        return cls(width, decay)

    def click(self, document: str, vector: Float32s | None, session: str, time: int) -> None:
        """Take in a satisfied click, the most recent; without a vector the document is remembered by its id alone."""
        self.recent.append(PastDocument(document, session, time))
        del self.recent[:-REMEMBERED]
        if vector is None:
            return
        if vector.shape != (self.width,):
            raise SettingsError(
                f"the vector of {document!r} has shape {vector.shape}, the user's profile {self.width} numbers",
                "learn with the run that the profile was made for",
            )
        for scale, kept in KEPT.items():
            profiles, name = self.profiles[scale], _name(scale, session, time)
            profile = profiles.pop(name, None) or Profile.empty(self.width, self.decay)
            profile.add(vector)
            profiles[name] = profile
            while len(profiles) > kept:
                del profiles[next(iter(profiles))]

    def profile(self, session: str, time: int, scale: Scale = "nearest") -> tuple[Float32s, bool]:
        """The user's vector (k,) at a moment of a session, and whether any click is in it."""
        check_key(scale, list(get_args(Scale)), "scale")
        for one in NEAREST if scale == "nearest" else (scale,):
            profile = self.profiles[one].get(_name(one, session, time))
            if profile is not None:
                return profile.vector, True
        return np.zeros(self.width, np.float32), False

    def to_mapping(self) -> dict[str, Any]:
        """The state as values that JSON can hold; nothing is rounded, and no order of keys matters."""
        profiles = {
            scale: [{"name": name, "total": one.total.tolist(), "weight": one.weight} for name, one in of.items()]
            for scale, of in self.profiles.items()
        }
        recent = [asdict(document) for document in self.recent]
        return {"width": self.width, "decay": self.decay, "recent": recent, "profiles": profiles}

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> UserState:
        """What `to_mapping` gave."""
        try:
            state = cls(int(values["width"]), float(values["decay"]))
            for row in values["recent"]:
                state.recent.append(PastDocument(str(row["id"]), str(row["session"]), int(row["time"])))
            for scale in NEAREST:
                for row in values["profiles"][scale]:
                    profile = Profile.from_mapping({**row, "decay": state.decay})
                    if profile.total.shape != (state.width,):
                        raise ValueError(f"{profile.total.shape} is not the width")
                    state.profiles[scale][str(row["name"])] = profile
        except (KeyError, TypeError, ValueError) as error:
            raise RunError("what is stored of a user is damaged", _DAMAGED) from error
        return state

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserState) and self.to_mapping() == other.to_mapping()


def _name(scale: OneScale, session: str, time: int) -> str:
    """Which of the user's profiles of a scale a click or a question belongs to."""
    return profile_key(scale, "", session, time)[-1]
