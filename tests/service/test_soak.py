"""The service for long: short forms for `make test-slow`, the hour and the hundred kills for `make soak`."""

from __future__ import annotations

import pytest

from benchmarks.service_kills import kills
from benchmarks.service_soak import mixed_load, small_blend
from capse.search.logs.simulation import SimulationSettings


@pytest.fixture(scope="module")
def blend(tmp_path_factory):
    """A blend, and the log that it was trained on."""
    run = tmp_path_factory.mktemp("soak") / "run"
    return run, small_blend(run, SimulationSettings(impressions=600, documents=250))


@pytest.mark.parametrize(
    ("seconds", "growth"),
    [pytest.param(20, 1.25, marks=pytest.mark.slow), pytest.param(3_600, 1.05, marks=pytest.mark.soak)],
)
def test_mixed_load_is_answered_and_memory_stays_flat(blend, tmp_path, seconds, growth):
    run, log = blend
    found = mixed_load(run, log, tmp_path, seconds)
    assert set(found["statuses"]) == {"200"}
    assert found["wrong_answers"] == []
    assert found["last_quarter_over_second"] < growth, found["resident_megabytes_by_quarter"]
    kinds = {"event", "rerank 10", "rerank 200", "delete"}
    assert kinds <= set(found["milliseconds"]), "all of them were sent"


@pytest.mark.parametrize("count", [pytest.param(4, marks=pytest.mark.slow), pytest.param(100, marks=pytest.mark.soak)])
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_workers_that_are_killed_lose_nothing_and_store_nothing_twice(blend, tmp_path, request, database, count):
    url = str(tmp_path / "capse.db")
    if database == "postgresql":
        url = request.getfixturevalue("postgres").new_database()
    found = kills(blend[0], tmp_path, url, count)
    assert found["lost"] == found["stored_twice"] == found["never_sent"] == 0, found
    assert found["states_other_than_folded_from_the_beginning"] == 0, found
    assert found["journal_as_folded_from_the_beginning"], found
    assert found["sent_again"] >= count / 2, "they were in the middle of a stream"
    assert found["acknowledged"] == found["stored"]
