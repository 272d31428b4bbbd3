"""What may be decided about a log that is ingested."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields

from capse.errors import SettingsError
from capse.runs.settings import check_choices
from capse.search.satisfaction import SECONDS, Satisfaction, WithoutDwell
from capse.search.times import DAY, log_time


@dataclass(frozen=True)
class IngestSettings:
    """Sessions, satisfied clicks, splits, and what counts as broken."""

    gap_seconds: float = 1800.0
    """A user's silence that ends a session, where the log names none."""
    satisfied_dwell: float = SECONDS
    """A click is satisfied if the user stayed with the document this long (seconds)."""
    satisfied_last: bool = True
    """The last click of a session is satisfied as well."""
    infer_dwell: bool = False
    """Where a click has a time but no dwell, take the time to the next event of the session, a click or an impression.
    An event at the same moment says nothing. A service cannot know it in time, so it does without."""
    without_dwell: WithoutDwell = "all"
    """What is satisfied of clicks whose dwell is not known: all, or the last of each session."""
    valid_share: float = 0.1
    """The share of impressions before the test period that validate, where the log names no splits."""
    test_share: float = 0.1
    """The share of impressions at the end that test, where the log names no splits."""
    max_results: int = 1000
    """Of a longer list the first so many results are kept."""
    earliest: str = "1990-01-01"
    """Earlier times are a clock's error."""
    latest: str | None = None
    """Later times are a clock's error; one day from now if not given."""
    click_within_seconds: float = 86400.0
    """A click that is later after its impression than this is a clock's error."""
    action_within_seconds: float = 30 * 86400.0
    """A cart, a purchase or another event that is later after its impression than this is a clock's error."""
    memory_gib: float = 2.5
    """What the embedded engine may use before it spills to disk beside the output."""

    def __post_init__(self) -> None:
        check_choices(self, "ingest")
        for name in ("valid_share", "test_share"):
            if not 0 <= getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}", "write a share from 0 to below 1")
        if self.valid_share + self.test_share >= 1:
            raise SettingsError("valid_share and test_share leave nothing to train on", "write smaller shares")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in ("valid_share", "test_share") and isinstance(value, (int, float)) and value < 0:
                raise SettingsError(f"{field.name} is {value}", "write a number that is not negative")
        if self.max_results < 1:
            raise SettingsError(f"max_results is {self.max_results}", "write 1 or more")
        if self.memory_gib == 0:
            raise SettingsError("memory_gib is 0", "write 1 or more, as much as can be spared")
        for name in ("earliest", "latest"):
            if getattr(self, name) is not None and log_time(getattr(self, name)) is None:
                raise SettingsError(f"{name} is {getattr(self, name)!r}", "write a date such as 2024-05-01")

    @property
    def rule(self) -> Satisfaction:
        """When a click counts."""
        return Satisfaction(self.satisfied_dwell, self.satisfied_last, self.without_dwell)

    def bounds(self) -> tuple[int, int]:
        """The earliest and the latest time that is believed, in microseconds."""
        earliest, latest = log_time(self.earliest), log_time(self.latest)
        return earliest or 0, time.time_ns() // 1000 + DAY if latest is None else latest
