"""The metric that the best epoch is chosen by."""

from __future__ import annotations

import pytest

from capse.errors import SettingsError
from capse.experiments.validation import ChosenMetric


def test_a_metric_is_named_with_its_side_and_tie_policy():
    assert ChosenMetric.named("mrr") == ("both", "realistic", "mrr")
    assert ChosenMetric.named("tail.pessimistic.hits@10") == ("tail", "pessimistic", "hits@10")
    assert ChosenMetric.named("optimistic.mr") == ("both", "optimistic", "mr")
    assert ChosenMetric.named("expected.head.hits@1") == ("head", "expected", "hits@1")
    for text in ("", "mr r", "hits@2", "hits", "mrr.tail", "left.mrr", "head.tail.mrr", "tail.tial.mrr"):
        with pytest.raises(SettingsError, match=r"validation\.metric is .*: name one of mr, mrr, hits@1"):
            ChosenMetric.named(text)
