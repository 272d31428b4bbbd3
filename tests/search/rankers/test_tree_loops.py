"""Trees in our own loop give LightGBM's scores, bit by bit, and no damaged text is walked."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capse.search.rankers.tree_loops import Trees, _rounded_down


def grown(seed: int, *, gaps: float, zeros: float, rounds: int = 12) -> tuple[lightgbm.Booster, np.ndarray]:
    """Trees over features with missing values, zeros, and a constant; and other values to score."""
    draw = np.random.default_rng(seed)

    def values(rows: int) -> np.ndarray:
        table = draw.normal(size=(rows, 6)) * 10.0 ** draw.integers(-3, 4, 6)
        table[draw.random(table.shape) < zeros] = 0
        table[draw.random(table.shape) < gaps] = np.nan
        table[:, 5] = 1
        return table.astype(np.float32)

    table = values(400)
    labels = (np.nan_to_num(table[:, 0]) * np.nan_to_num(table[:, 1]) > 0).astype(int)
    options = {"objective": "lambdarank", "min_data_in_leaf": 3, "num_leaves": 15, "verbosity": -1, "num_threads": 1}
    data = lightgbm.Dataset(table, labels, group=[8] * 50)
    return lightgbm.train(options | {"zero_as_missing": seed % 3 == 0}, data, rounds), values(300)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1_000), st.sampled_from([0.0, 0.2]), st.sampled_from([0.0, 0.5]))
def test_scores_are_lightgbms(seed: int, gaps: float, zeros: float) -> None:
    booster, table = grown(seed, gaps=gaps, zeros=zeros)
    trees = Trees.parse(booster.model_to_string())
    assert trees.features == booster.num_feature() == 6
    np.testing.assert_array_equal(trees.predict(table), booster.predict(table, num_threads=1))


@given(st.floats(allow_nan=False), st.floats(allow_nan=False, width=32))
def test_a_threshold_rounded_down_parts_the_same_numbers(threshold: float, number: float) -> None:
    near = _rounded_down(np.array([threshold]))[0]
    with np.errstate(over="ignore"):
        above = np.nextafter(near, np.float32(np.inf))
    for value in (np.float32(number), near, above):
        assert (float(value) <= threshold) == (value <= near)


def test_a_tree_that_is_a_leaf() -> None:
    data = lightgbm.Dataset(np.zeros((20, 1)), np.r_[np.zeros(10), np.ones(10)])
    booster = lightgbm.train({"objective": "regression", "verbosity": -1}, data, 1)
    table = np.ones((3, 1), np.float32)
    np.testing.assert_array_equal(Trees.parse(booster.model_to_string()).predict(table), booster.predict(table))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\nTree=", "\nNone="),
        ("left_child=", "left_child=0 "),
        ("split_feature=", "split_feature=7 "),
        ("right_child=", "right_kind="),
        ("num_cat=0", "num_cat=1"),
        ("leaf_value=", "leaf_value=x "),
        ("max_feature_idx=5", "max_feature_idx=0"),
    ],
)
def test_damaged_text_is_refused(old: str, new: str) -> None:
    text = grown(1, gaps=0, zeros=0, rounds=2)[0].model_to_string()
    with pytest.raises((ValueError, KeyError)):
        Trees.parse(text.replace(old, new))


def test_a_walk_in_circles_is_refused() -> None:
    text = grown(1, gaps=0, zeros=0, rounds=1)[0].model_to_string()
    line = next(line for line in text.splitlines() if line.startswith("left_child="))
    children = line.removeprefix("left_child=").split()
    with pytest.raises(ValueError, match="no node"):
        Trees.parse(text.replace(line, "left_child=" + " ".join(["0", *children[1:]])))
