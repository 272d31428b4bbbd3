"""Where people look, estimated from clicks: beside the equations written out, and beside what was planted."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from capse.cli import main
from capse.errors import DataError, SettingsError
from capse.search.bias import cascade_model, position_model
from capse.search.bias.cascade_model import CascadeModel
from capse.search.bias.position_model import PositionModel
from capse.search.bias.report import estimate
from capse.search.bias.settings import PositionBias, inverse
from capse.search.logs.search_log import SearchLog
from capse.search.logs.simulation import SimulationSettings, simulate

ROUNDS = 30


@pytest.fixture
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (position_model, cascade_model):
        monkeypatch.setattr(module, "ROUNDS", ROUNDS)
        monkeypatch.setattr(module, "CHANGE", 0.0)


def showings(log: SearchLog) -> list[list[tuple[tuple[int, int], int, bool]]]:
    """For each list its (pair, place, clicked) in the order of places."""
    lists = []
    for impression in range(len(log)):
        rows = range(log.offsets[impression], log.offsets[impression + 1])
        one = [
            ((int(log.query[impression]), int(log.document[row])), int(log.position[row]) - 1, bool(log.clicked[row]))
            for row in rows
        ]
        lists.append(sorted(one, key=lambda shown: shown[1]))
    return lists


def plain_position(log: SearchLog) -> dict[int, float]:
    """Expectation maximisation, one showing after the other."""
    shown = [one for each in showings(log) for one in each]
    places: Any = defaultdict(set)
    clicks: Any = defaultdict(int)
    for pair, place, clicked in shown:
        places[pair].add(place)
        clicks[pair] += clicked
    shown = [one for one in shown if len(places[one[0]]) > 1 and clicks[one[0]]]
    theta: Any = defaultdict(lambda: 0.5)
    gamma: Any = defaultdict(lambda: 0.5)
    for _ in range(ROUNDS):
        looked: Any = defaultdict(list)
        attracted: Any = defaultdict(list)
        for pair, place, clicked in shown:
            t, g = theta[place], gamma[pair]
            looked[place].append(1.0 if clicked else t * (1 - g) / (1 - t * g))
            attracted[pair].append(1.0 if clicked else g * (1 - t) / (1 - t * g))
        theta.update({place: float(np.mean(values)) for place, values in looked.items()})
        gamma.update({pair: float(np.mean(values)) for pair, values in attracted.items()})
    falling = never_rising(theta, {place: len(values) for place, values in looked.items()})
    most = max(falling.values())
    return {place: value / most for place, value in falling.items()}


def never_rising(values: dict[int, float], weights: dict[int, int]) -> dict[int, float]:
    """Isotonic regression by its formula: the least, over beginnings, of the greatest mean over ends."""
    places = sorted(values)

    def mean(first: int, last: int) -> float:
        part = [place for place in places if first <= place <= last]
        return sum(values[place] * weights[place] for place in part) / sum(weights[place] for place in part)

    return {place: min(max(mean(i, j) for j in places if j >= place) for i in places if i <= place) for place in places}


def plain_cascade(log: SearchLog) -> tuple[float, dict[tuple[int, int], float]]:
    """The same for the cascade: continuation and attractions."""
    lists = showings(log)
    average = np.mean([clicked for each in lists for _, _, clicked in each])
    gamma: Any = defaultdict(lambda: average)
    going_on = 0.5
    for _ in range(ROUNDS):
        looks: Any = defaultdict(float)
        clicks: Any = defaultdict(float)
        after: list[float] = []
        for each in lists:
            last = max((number for number, one in enumerate(each) if one[2]), default=None)
            below = 1.0
            if last is not None:
                kept = math.prod(1 - gamma[pair] for pair, _, _ in each[last + 1 :])
                below = going_on * kept / (1 - going_on + going_on * kept)
                after += [1.0] * (sum(one[2] for one in each) - 1) + [below] * (last + 1 < len(each))
            for number, (pair, _, clicked) in enumerate(each):
                looks[pair] += 1.0 if last is None or number <= last else below
                clicks[pair] += clicked
        going_on = float(np.mean(after))
        average = sum(clicks.values()) / sum(looks.values())
        gamma.update({pair: (clicks[pair] + average) / (looks[pair] + 1) for pair in looks})
    return going_on, gamma


@pytest.fixture(scope="module")
def small() -> SearchLog:
    return simulate(SimulationSettings(users=10, topics=4, documents=30, impressions=400, meanings=2)).log


@pytest.mark.usefixtures("few_rounds")
def test_position_is_the_plain_em(small: SearchLog) -> None:
    found = PositionModel.fit(small, np.arange(len(small)))
    expected = plain_position(small)
    np.testing.assert_allclose(found.looked, [expected[place] for place in range(10)], rtol=1e-9)


@pytest.mark.usefixtures("few_rounds")
def test_cascade_is_the_plain_em(small: SearchLog, busy_log: Callable[[int], SearchLog]) -> None:
    for log in (small, busy_log(0), busy_log(1)):
        found = CascadeModel.fit(log, np.arange(len(log)))
        going_on, gamma = plain_cascade(log)
        assert found.continuation == pytest.approx(going_on, rel=1e-9)
        looked = found.of(log)
        for impression, each in enumerate(showings(log)):
            chance = 1.0
            for pair, place, _ in each:
                row = log.offsets[impression] + place
                assert looked[row] == pytest.approx(chance, rel=1e-9)
                chance *= 1 - gamma[pair] * (1 - going_on)


@pytest.mark.parametrize("eta", [0.0, 1.0])
def test_planted_position_bias_is_found(eta: float) -> None:
    """Within .05 of the truth; the figures of five seeds are in results/position-bias.json."""
    log = simulate(SimulationSettings(users=100, impressions=8_000, position_bias=eta)).log
    np.testing.assert_allclose(estimate(log, "position").looked, np.arange(1, 11.0) ** -eta, atol=0.05)


@pytest.mark.parametrize("continuation", [0.2, 0.6])
def test_a_planted_cascade_is_found(continuation: float) -> None:
    simulated = simulate(
        SimulationSettings(users=100, impressions=4_000, examination="cascade", continuation=continuation)
    )
    log, found = simulated.log, estimate(simulated.log, "cascade")
    truth = [simulated.looked_at[log.position == place].mean() for place in range(1, 11)]
    np.testing.assert_allclose(found.looked, truth, atol=0.05)
    assert found.continuation == pytest.approx(continuation, abs=0.05)


def test_users_look_as_was_planted() -> None:
    """The share of clicks on wanted results, over .9, is how often they were looked at."""
    for settings in (
        SimulationSettings(impressions=6_000, position_bias=1.0),
        SimulationSettings(impressions=6_000, examination="cascade", continuation=0.3),
    ):
        simulated = simulate(settings)
        for place in range(1, 11):
            rows = (simulated.log.position == place) & simulated.wanted
            seen = simulated.log.clicked[rows].mean() / 0.9
            assert seen == pytest.approx(simulated.looked_at[rows].mean(), abs=0.06)


def test_a_log_whose_results_never_move_tells_nothing() -> None:
    records = [
        {"time": time, "user": "ada", "query": "q", "results": ["a", "b", "c"], "clicks": ["a"]} for time in range(50)
    ]
    log = SearchLog.from_records(records)
    with pytest.raises(DataError, match="hardly shows the same results for the same query at different places"):
        PositionModel.fit(log, np.arange(len(log)))


@pytest.mark.parametrize(("swaps", "enough"), [(9, False), (10, True)])
def test_twenty_showings_at_a_place_are_enough_to_speak_of_it(swaps: int, enough: bool) -> None:
    orders = [["a", "b"], ["b", "a"]] * swaps
    records = [
        {"time": time, "user": "ada", "query": "q", "results": order, "clicks": order[:1]}
        for time, order in enumerate(orders)
    ]
    log = SearchLog.from_records(records)
    with nullcontext() if enough else pytest.raises(DataError, match="hardly shows"):
        assert len(PositionModel.fit(log, np.arange(len(log))).looked) == 2


def test_propensities_are_estimated_on_the_lists_that_are_named(small: SearchLog) -> None:
    train = small.of_split("train")
    cut = PositionModel.fit(small, train).looked
    assert not np.array_equal(cut, PositionModel.fit(small, np.arange(len(small))).looked)


@pytest.mark.parametrize("clip", [0.5, -1.0, math.nan, math.inf])
def test_a_clip_that_is_none_is_refused(clip: float) -> None:
    with pytest.raises(SettingsError, match=r"bias\.clip is .*: choose 1 or more"):
        PositionBias("position", clip=clip)


@pytest.mark.parametrize("model", ["1, nan", "1, -0.5", "1, 0", "1, 1.5", "positon", ""])
def test_propensities_that_are_none_are_refused(model: str) -> None:
    with pytest.raises(SettingsError, match=r"bias\.model"):
        PositionBias(model)


def test_a_click_counts_for_all_that_nobody_saw_up_to_the_clip() -> None:
    np.testing.assert_array_equal(inverse(np.array([1.0, 0.5, 0.01]), 10.0), [1, 2, 10])


@pytest.mark.parametrize("looked", [0.0, -0.5, math.nan, math.inf])
def test_no_weight_is_made_of_what_is_no_probability(looked: float) -> None:
    with pytest.raises(DataError, match="above 0 and up to 1"):
        inverse(np.array([1.0, looked]), 10.0)


def test_the_command_says_what_it_found(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    simulate(SimulationSettings(impressions=800)).write_jsonl(tmp_path / "raw")
    with pytest.raises(SystemExit) as exit:
        main(["search", "propensities", "--log", str(tmp_path / "raw"), "--json"])
    assert exit.value.code in (None, 0)
    found = json.loads(capsys.readouterr().out)
    assert found["shown"] == [800] * 10
    assert found["position"]["looked"][0] == 1.0
    assert found["cascade"]["looked"][0] == 1.0
    assert 0 < found["cascade"]["continuation"] < 1
