"""A shop with planted tastes: trees that see fields and events rank what is wanted above those that do not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks.search_shop import GROUPS, without_everything, without_field, without_kind
from benchmarks.shop_world import Shop, make_shop
from capse.errors import SettingsError
from capse.search.evaluation.list_metrics import graded_ndcg
from capse.search.logs.history import cutoffs
from capse.search.logs.search_log import SearchLog
from capse.search.rankers.lambdamart import LambdaMARTSettings
from capse.search.rankers.sp_lambdamart import SP

SETTINGS = LambdaMARTSettings(trees=40, leaves=15, learning_rate=0.15, least_documents=20, patience=0)
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def shop() -> Shop:
    return make_shop(7, users=40, items=150, lists=1_500, results=8)


def fitted(log: SearchLog) -> SP:
    return SP.fit(log, cutoffs(log), SETTINGS, GROUPS)


def found(shop: Shop, log: SearchLog) -> float:
    """NDCG of the test lists by what was planted."""
    test = log.of_split("test")
    scores = fitted(log).score(log, test, cutoffs(log))
    wanted = shop.wanted[log.rows(test)].reshape(len(test), -1)
    worth = np.maximum(wanted - np.median(wanted, axis=1, keepdims=True), 0).ravel()
    return float(graded_ndcg(scores, worth, log.lengths[test]).mean())


def test_fields_and_events_find_what_is_wanted(shop: Shop) -> None:
    whole = found(shop, shop.log)
    assert whole > found(shop, without_everything(shop.log)) + 0.05
    assert whole > found(shop, without_field("item.brand", "result")(shop.log)) + 0.01


def test_a_saved_run_knows_fields_and_kinds_and_refuses_another_schema(shop: Shop, tmp_path: Path) -> None:
    ranker = fitted(shop.log)
    ranker.save(tmp_path)
    loaded = SP.load(tmp_path)
    test = shop.log.of_split("test")[:50]
    expected = ranker.score(shop.log, test, cutoffs(shop.log))
    np.testing.assert_array_equal(loaded.score(shop.log, test, cutoffs(shop.log)), expected)
    assert loaded.known.to_mapping() == ranker.known.to_mapping()
    other: Callable[[], object] = partial(loaded.score, without_field("item.price")(shop.log), test, cutoffs(shop.log))
    with pytest.raises(SettingsError, match=r"other fields .* item.price is not there instead of number"):
        other()
    fewer = without_kind("like")(shop.log)
    assert len(loaded.score(fewer, test, cutoffs(fewer))) == len(expected), "a kind that nobody sent has no events"
