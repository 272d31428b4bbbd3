"""Times as people send them, and in every form that a log may have them."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capse.errors import DataError
from capse.search.times import log_time, parse_time, to_seconds

zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(1973, 4, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
anything = st.text() | st.floats() | st.integers() | st.none() | st.booleans() | st.lists(st.integers())


def microseconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@given(moments, zones, st.sampled_from([" ", "T"]))
def test_iso_8601_in_any_zone(moment: datetime, zone: timezone, separator: str) -> None:
    text = moment.astimezone(zone).isoformat(separator)
    assert parse_time(text) == log_time(text) == microseconds(moment)


@given(moments)
def test_a_count_in_a_log_is_known_by_its_size(moment: datetime) -> None:
    exact = microseconds(moment)
    assert log_time(exact) == log_time(str(exact)) == exact
    assert log_time(exact * 1_000) == exact  # nanoseconds
    whole = exact // 1_000_000
    assert log_time(whole) == log_time(str(whole)) == parse_time(whole) == whole * 1_000_000
    assert log_time(exact // 1_000) == exact // 1_000 * 1_000
    assert log_time(exact / 1e6) == pytest.approx(exact, abs=2)


@given(st.integers(0, microseconds(datetime(2106, 1, 1, tzinfo=UTC))))
def test_seconds_keep_every_microsecond(exact: int) -> None:
    assert parse_time(to_seconds(exact)) == exact


@given(anything)
def test_anything_is_a_time_or_refused(value: object) -> None:
    found = log_time(value)
    assert found is None or abs(found) < 2**63
    with suppress(DataError):
        assert 0 <= parse_time(value) < 2**63


@pytest.mark.parametrize("value", ["", "soon", "2024-13-01", "1e400", "9" * 5_000, True, [], {}, float("inf"), 10**30])
def test_these_are_no_times(value: object) -> None:
    assert log_time(value) is None
    with pytest.raises(DataError, match="give seconds since 1970 as a number, or ISO 8601 text"):
        parse_time(value)


@pytest.mark.parametrize("value", [-1, -0.1, float("nan"), "1969-12-31T23:59:59Z", "1700000000", None, 10**18])
def test_these_are_refused(value: object) -> None:
    with pytest.raises(DataError, match="give seconds since 1970 as a number, or ISO 8601 text"):
        parse_time(value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1_700_000_000_000, "click: time is 1700000000000, which can only be milliseconds: divide it by 1,000"),
        (1.7e15, "which can only be microseconds: divide it by 1,000,000"),
        (1_700_000_000_000_000_000, "which can only be nanoseconds or nonsense: give seconds since 1970"),
    ],
)
def test_a_smaller_unit_is_named(value: float, words: str) -> None:
    with pytest.raises(DataError, match=words):
        parse_time(value, "click: time")
