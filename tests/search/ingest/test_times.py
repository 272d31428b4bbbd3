"""Times in every form that a log may have them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capse.search.ingest.times import parse_time

zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(1973, 4, 1), datetime(2200, 1, 1), timezones=st.just(UTC))


def microseconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@given(moments, zones, st.sampled_from([" ", "T"]))
def test_iso_8601_in_any_zone(moment, zone, separator):
    assert parse_time(moment.astimezone(zone).isoformat(separator)) == microseconds(moment)


@given(moments)
def test_a_count_since_1970_is_known_by_its_size(moment):
    exact = microseconds(moment)
    assert parse_time(exact) == parse_time(str(exact)) == exact
    assert parse_time(exact * 1_000) == exact  # nanoseconds
    whole = exact // 1_000_000
    assert parse_time(whole) == parse_time(str(whole)) == whole * 1_000_000
    assert parse_time(exact // 1_000) == exact // 1_000 * 1_000
    assert parse_time(exact / 1e6) == pytest.approx(exact, abs=2)


@given(st.text() | st.floats() | st.integers() | st.none() | st.booleans() | st.lists(st.integers()))
def test_anything_is_a_time_or_none(value):
    found = parse_time(value)
    assert found is None or abs(found) < 2**63


@pytest.mark.parametrize("value", ["", "soon", "2024-13-01", "1e400", "9" * 5_000, True, [], {}, float("inf"), 10**30])
def test_these_are_none(value):
    assert parse_time(value) is None
