"""What was planted in a simulated log is there to be found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from capse.errors import SettingsError
from capse.search.logs.documents import words
from capse.search.logs.search_log import NO_TIME
from capse.search.logs.simulation import Simulated, SimulationSettings, simulate


@pytest.fixture(scope="module")
def simulated() -> Simulated:
    return simulate()


def mean_reciprocal_rank(simulated: Simulated, scores: npt.NDArray[np.float64], split: str = "test") -> float:
    """Of the best satisfied document; no two scores of a list are equal."""
    log = simulated.log
    values = []
    for impression in log.judged(split):
        rows = slice(log.offsets[impression], log.offsets[impression + 1])
        best = scores[rows][log.satisfied[rows]].max()
        values.append(1 / (1 + np.sum(scores[rows] > best)))
    return float(np.mean(values))


def test_the_default_log_has_the_stated_size(simulated: Simulated) -> None:
    log = simulated.log
    assert (len(log), len(log.documents), len(log.users)) == (2_000, 300, 40)
    assert set(log.lengths) == {10}
    assert [len(log.of_split(split)) for split in ("train", "valid", "test")] == [1_400, 200, 400]
    assert len(log.judged("test")) > 200


def test_times_ascend_and_splits_follow_them(simulated: Simulated) -> None:
    log = simulated.log
    assert (np.diff(log.time) >= 0).all()
    assert (np.diff(log.split) >= 0).all()
    assert (log.clicked_at[log.clicked] > log.time[log.impression[log.clicked]]).all()
    assert (log.clicked_at[~log.clicked] == NO_TIME).all()


def test_an_impression_comes_after_the_clicks_of_the_one_before_in_its_session(simulated: Simulated) -> None:
    finished: dict[str, float] = {}
    for record in simulated.records:
        assert record["timestamp"] > finished.get(record["session"], 0)
        ends = [click["time"] + click["dwell"] for click in record["clicks"]]
        finished[record["session"]] = max([record["timestamp"], *ends])


def test_satisfied_clicks_follow_the_papers_rule(simulated: Simulated) -> None:
    log, expected = simulated.log, set()
    sessions: dict[str, list[tuple[float, float, int, str]]] = {}
    for number, record in enumerate(simulated.records):
        for click in record["clicks"]:
            sessions.setdefault(record["session"], []).append((click["time"], click["dwell"], number, click["doc"]))
    for clicks in sessions.values():
        last = max(clicks)
        expected |= {click[2:] for click in clicks if click[1] >= 30 or click is last}
    rows = np.flatnonzero(log.satisfied)
    found = {(int(log.impression[row]), log.documents.ids[log.document[row]]) for row in rows}
    assert found == expected
    assert log.clicked.sum() > len(rows)  # and some clicks were not satisfied


def test_users_click_what_they_are_interested_in(simulated: Simulated) -> None:
    log = simulated.log
    assert simulated.wanted.mean() < 0.4
    assert simulated.wanted[log.satisfied].mean() > 0.9


def test_every_user_has_one_or_two_interests(simulated: Simulated) -> None:
    assert {len(set(topics)) for topics in simulated.interests.values()} == {1, 2}
    assert set(simulated.log.users) == set(simulated.interests)


def test_some_users_are_seen_in_the_test_period_only(simulated: Simulated) -> None:
    log = simulated.log
    cold = set(log.user[log.of_split("test")]) - set(log.user[log.split < 2])
    assert 1 <= len(cold) <= 10


def test_the_planted_interests_rank_far_better_than_the_engine(simulated: Simulated) -> None:
    engine = -simulated.log.position.astype(float)
    oracle = mean_reciprocal_rank(simulated, 100.0 * simulated.wanted + engine)
    chance = mean_reciprocal_rank(simulated, np.random.default_rng(1).random(len(engine)))
    assert chance + 0.1 < mean_reciprocal_rank(simulated, engine) < oracle - 0.2
    assert oracle > 0.8


@pytest.mark.parametrize("eta", [0.0, 1.0])
def test_position_bias_is_as_strong_as_was_set(eta: float) -> None:
    simulated = simulate(SimulationSettings(position_bias=eta, impressions=4_000))
    log = simulated.log
    rates = [log.clicked[simulated.wanted & (log.position == position)].mean() for position in range(1, 11)]
    slope = np.polyfit(np.log(np.arange(1, 11)), np.log(rates), 1)[0]
    assert slope == pytest.approx(-eta, abs=0.1)


def test_a_query_means_several_topics(simulated: Simulated) -> None:
    log = simulated.log
    for query in range(len(log.queries)):
        shown = simulated.document_topics[log.document[log.query[log.impression] == query]]
        shares = np.sort(np.bincount(shown) / len(shown))
        assert shares[-4:].sum() > 0.5  # four topics share a query word
        assert shares[-1] < 0.6


def test_words_tell_the_topic_of_a_document(simulated: Simulated) -> None:
    documents = simulated.log.documents
    vocabulary = {word: number for number, word in enumerate(sorted({w for t in documents.terms if t for w in t}))}
    counts = np.sqrt(documents.counts(vocabulary).toarray())
    similarity = counts @ counts.T
    np.fill_diagonal(similarity, -1)
    nearest = simulated.document_topics[similarity.argmax(1)]
    assert (nearest == simulated.document_topics).mean() > 0.95
    assert all(words(word) == [word] for word in vocabulary)


def test_the_same_seed_gives_the_same_log(simulated: Simulated) -> None:
    again, other = simulate(SimulationSettings()), simulate(SimulationSettings(seed=1))
    assert again.records == simulated.records
    assert again.interests == simulated.interests
    assert again.log.documents == simulated.log.documents
    assert other.records != simulated.records


def test_what_is_written_is_what_was_simulated(tmp_path: Path) -> None:
    simulated = simulate(SimulationSettings(users=5, documents=60, impressions=50))
    simulated.write_jsonl(tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    documents = [json.loads(line) for line in (tmp_path / "documents.jsonl").read_text().splitlines()]
    assert lines == list(simulated.records)
    assert [row["doc"] for row in documents] == simulated.log.documents.ids
    assert [row["terms"] for row in documents] == simulated.log.documents.terms
    assert {"timestamp", "user", "session", "query", "results", "clicks", "split"} <= set(lines[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"users": 0}, "simulation.users is 0"),
        ({"meanings": 21}, "there are 20 topics"),
        ({"results": 400}, "there are 300 documents"),
        ({"noise": -1.0}, "negative"),
    ],
)
def test_settings_that_make_no_world_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        replace(SimulationSettings(), **change)
