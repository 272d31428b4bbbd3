"""Times: seconds since 1970 or ISO 8601 outside, int64 microseconds since 1970 (UTC) inside.

`parse_time` reads what people and programs send us, `log_time` what foreign logs hold.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from capse.errors import DataError

SECOND = 1_000_000  # microseconds
DAY = 86_400 * SECOND
EARLIEST = 631_152_000 * SECOND  # 1990-01-01: an earlier time in a log of clicks is a clock's error

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SECONDS_BELOW = 1e11  # a larger count would be a year after 5138: it is milliseconds (from 1973), or smaller units
_REMEDY = "give seconds since 1970 as a number, or ISO 8601 text such as 2024-05-01T09:00:00Z"

# What the counts of foreign logs are in, by their size.
_MICROSECONDS_PER_UNIT = ((_SECONDS_BELOW, SECOND), (1e14, 1_000), (1e17, 1))
_NANOSECONDS_BELOW = 1e20


def parse_time(value: object, name: str = "time") -> int:
    """Microseconds since 1970 from a number of seconds (fractions allowed) or from ISO 8601; without a zone it is UTC.

    >>> parse_time(1477001540.25), parse_time("2016-10-20T22:12:20.25Z"), parse_time("2016-10-21 00:12:20.25+02:00")
    (1477001540250000, 1477001540250000, 1477001540250000)
    >>> parse_time(1477001540250)
    Traceback (most recent call last):
    capse.errors.DataError: time is 1477001540250, which can only be milliseconds: divide it by 1,000 to give seconds
    """
    if isinstance(value, str):
        moment = _iso_8601(value.strip())
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        if _SECONDS_BELOW <= value < math.inf:
            raise DataError(f"{name} is {_short(value)}, which can only be {_smaller_unit(value)}")
        moment = round(value * SECOND) if 0 <= value < _SECONDS_BELOW else None
    else:
        moment = None
    if moment is None or moment < 0:
        raise DataError(f"{name} is {_short(value)}", _REMEDY)
    return moment


def to_seconds(microseconds: int) -> float:
    """What `parse_time` takes back to the same microsecond, for times until 2100 and beyond."""
    return microseconds / SECOND


def log_time(value: Any) -> int | None:
    """A time in a foreign log: also milli-, micro- and nanoseconds since 1970, known by their size; None if no time.

    Numbers may be written as text.

    >>> log_time(1477001540), log_time("1477001540.25"), log_time(1477001540250)
    (1477001540000000, 1477001540250000, 1477001540250000)
    >>> log_time("2016-10-20T22:12:20Z"), log_time("2016-10-20"), log_time("yesterday"), log_time(float("nan"))
    (1477001540000000, 1476921600000000, None, None)
    """
    if isinstance(value, str):
        value = value.strip()
        try:
            return _known_by_size(int(value) if value.isdecimal() else float(value))
        except ValueError:
            return _iso_8601(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _known_by_size(value)
    return None


def _iso_8601(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
        return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        return None


def _known_by_size(number: int | float) -> int | None:
    size = abs(number)
    for limit, factor in _MICROSECONDS_PER_UNIT:
        if size < limit:
            return round(number * factor)
    return int(number // 1000) if size < _NANOSECONDS_BELOW else None


def _smaller_unit(number: int | float) -> str:
    for limit, unit, factor in ((1e14, "milliseconds", 10**3), (1e17, "microseconds", 10**6)):
        if number < limit:
            return f"{unit}: divide it by {factor:,} to give seconds"
    return f"nanoseconds or nonsense: {_REMEDY}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
