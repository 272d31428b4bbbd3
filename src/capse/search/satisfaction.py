"""When a click counts: one rule for logs that are ingested and for events that a service is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SECONDS = 30.0

WithoutDwell = Literal["all", "last"]


@dataclass(frozen=True)
class Satisfaction:
    """A click is satisfied by a dwell of 30 s or more, or as the last of its session (Vu et al., ECIR 2015).

    Where nobody knows how long the user stayed it counts too: that is no sign against it.

    >>> rule = Satisfaction()
    >>> rule.counts(None, last=False), rule.counts(12.0, last=False), rule.counts(12.0, last=True)
    (True, False, True)
    >>> print(rule)
    satisfied is a click with a dwell of 30 s or more, the last of its session, or one whose dwell is not known
    """

    seconds: float = SECONDS  # the least dwell
    last: bool = True  # the last click of a session counts, however short
    without_dwell: WithoutDwell = "all"  # which clicks count whose dwell is not known: all, or the last of each session

    def counts(self, dwell: float | None, *, last: bool) -> bool:
        """Whether a click counts of which so much is known; ``last`` says that its session has none later (yet)."""
        if dwell is None:
            return last or self.without_dwell == "all"
        return dwell >= self.seconds or (last and self.last)

    def __str__(self) -> str:
        parts = [f"a click with a dwell of {self.seconds:g} s or more"]
        if self.last:
            parts.append("the last of its session")
        if self.without_dwell == "all":
            parts.append("one whose dwell is not known")
        elif not self.last:
            parts.append("the last of its session where its dwell is not known")
        return "satisfied is " + (", ".join(parts[:-1]) + ", or " + parts[-1] if parts[1:] else parts[0])
