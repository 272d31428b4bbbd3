"""Times in the forms that logs write them, as microseconds since 1970 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

# An epoch count is read by its size: below 1e11 as seconds (until the year 5138), then as ever smaller units.
_MICROSECONDS_PER_UNIT = ((1e11, 1_000_000), (1e14, 1_000), (1e17, 1))
_NANOSECONDS_BELOW = 1e20


def parse_time(value: Any) -> int | None:
    """Microseconds since 1970 from epoch seconds, milli-, micro- or nanoseconds, or from ISO 8601; None if neither.

    A time without a zone is taken as UTC. Numbers may be written as text.

    >>> parse_time(1477001540), parse_time("1477001540.25"), parse_time(1477001540250)
    (1477001540000000, 1477001540250000, 1477001540250000)
    >>> parse_time("2016-10-20T22:12:20Z"), parse_time("2016-10-21 00:12:20+02:00"), parse_time("2016-10-20")
    (1477001540000000, 1477001540000000, 1476921600000000)
    >>> parse_time("yesterday"), parse_time(float("nan")), parse_time(True)
    (None, None, None)
    """
    if isinstance(value, str):
        return _from_text(value.strip())
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _from_number(value)
    return None


def _from_text(text: str) -> int | None:
    try:
        return _from_number(int(text) if text.isdecimal() else float(text))
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
        return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        return None


def _from_number(number: int | float) -> int | None:
    size = abs(number)
    for limit, factor in _MICROSECONDS_PER_UNIT:
        if size < limit:
            return round(number * factor)
    return int(number // 1000) if size < _NANOSECONDS_BELOW else None
