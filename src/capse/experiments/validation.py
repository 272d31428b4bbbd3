"""What a validation on a graph is made of, and the one number of it that the best epoch is chosen by."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from capse.errors import SettingsError
from capse.evaluation.metrics import METRICS, POLICIES, summarize
from capse.evaluation.ranks import Ranks
from capse.graph.dataset import Graph
from capse.training.settings import Validation
from capse.triples import Triples


class ChosenMetric(NamedTuple):
    """A metric of one side, or of both, under a tie policy."""

    side: str
    policy: str
    metric: str

    @classmethod
    def named(cls, text: str) -> Self:
        """That of a name such as ``mrr``, ``hits@10`` or ``tail.pessimistic.hits@10``.

        >>> ChosenMetric.named("hits@10")
        ChosenMetric(side='both', policy='realistic', metric='hits@10')
        """
        *rest, metric = text.split(".")
        side = next((part for part in rest if part in ("both", "head", "tail")), "both")
        policy = next((part for part in rest if part in POLICIES), "realistic")
        if metric not in METRICS or set(rest) - {side, policy}:
            raise SettingsError(
                f"validation.metric is {text!r}",
                f"name one of {', '.join(METRICS)}, perhaps with a side and a tie policy: tail.pessimistic.mrr",
            )
        return cls(side, policy, metric)

    def judge(self, heads: Ranks, tails: Ranks) -> tuple[float, dict[str, Any]]:
        """The number to be maximised, and all metrics of both sides."""
        summary = {
            "both": summarize(Ranks.concatenate([heads, tails])),
            "head": summarize(heads),
            "tail": summarize(tails),
        }
        value = summary[self.side][self.policy][self.metric]
        return (-value if self.metric == "mr" else value), summary["both"]


def validation_triples(graph: Graph, settings: Validation, seed: int) -> Triples:
    """The validation triples, or as many of them as the settings say: a fixed sample."""
    if not 0 < settings.triples < len(graph.valid):
        return graph.valid
    picked = np.random.default_rng(seed).permutation(len(graph.valid))
    chosen: Triples = graph.valid[np.sort(picked[: settings.triples])]
    return chosen
