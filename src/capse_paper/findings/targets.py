"""The lines that this reproduction set out to reach, and whether it did: test set, realistic ranks, mean over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capse_paper.plans.graphs import FB15K237, WN18RR, Plan, Settings, find
from capse_paper.recorded.runs import Record, Results, of_test_set, ours

WITHIN = 0.003  # a figure this little below its line counts as reached; a mean rank has no such margin


@dataclass(frozen=True)
class Target:
    """What one row is to reach: a mean rank of at most, any other figure of at least so much."""

    model: str
    dataset: str
    settings: Settings
    goals: Mapping[str, float]
    above: bool = False  # the line itself, or a little less, is not enough

    def short_by(self, metric: str, value: float) -> float:
        """How far a figure is on the wrong side of its line; 0 if it is not."""
        goal = self.goals[metric]
        return max(0.0, value - goal if metric == "mr" else goal - value)

    def reached(self, metric: str, value: float) -> bool:
        if self.above:
            return value > self.goals[metric]
        return self.short_by(metric, value) <= (0.0 if metric == "mr" else WITHIN + 1e-9)


def _same(model: str, settings: Settings, wn18rr: float, fb15k237: float) -> list[Target]:
    return [Target(model, data, settings, {"mrr": goal}) for data, goal in ((WN18RR, wn18rr), (FB15K237, fb15k237))]


def _convkb(settings: Settings) -> list[Target]:
    return [
        Target("ConvKB", WN18RR, settings, {"mr": 763, "mrr": 0.253, "hits@10": 0.567}),
        Target("ConvKB", FB15K237, settings, {"mrr": 0.243, "hits@10": 0.421}, above=True),
    ]


def _capse(settings: Settings) -> list[Target]:
    return [
        Target("CapsE", WN18RR, settings, {"mr": 719, "mrr": 0.415, "hits@10": 0.560, "hits@1": 0.337}),
        Target("CapsE", FB15K237, settings, {"mrr": 0.150, "hits@10": 0.356}, above=True),
    ]


def _kbgan(settings: Settings) -> list[Target]:
    return [
        Target("KBGAN", WN18RR, settings, {"mrr": 0.213, "hits@10": 0.481}),
        Target("KBGAN", FB15K237, settings, {"mrr": 0.278, "hits@10": 0.458}),
    ]


_M3GM: tuple[Settings, ...] = ("paper", "own")

TARGETS = (
    Target("TransE", WN18RR, "paper", {"mr": 743, "mrr": 0.245, "hits@10": 0.560}),
    Target("TransE", FB15K237, "paper", {"mr": 347, "mrr": 0.294, "hits@10": 0.465}),
    Target("TransE", FB15K237, "own", {"mr": 347, "mrr": 0.294, "hits@10": 0.465}),
    *_convkb("paper"),
    *_convkb("released"),
    *_capse("paper"),
    *_capse("released"),
    *_kbgan("paper"),
    *_kbgan("own"),
    *(Target("M3GM", WN18RR, form, {"mr": 1864, "mrr": 0.311, "hits@10": 0.533}) for form in _M3GM),
    *_same("CapsE", "own", 0.45, 0.30),
    *_same("DISTMULT", "own", 0.452, 0.343),
    *_same("ComplEx", "own", 0.475, 0.348),
    *_same("ConvE", "own", 0.442, 0.339),
)


def outcomes(results: Results, plan: Plan) -> list[dict[str, Any]]:
    """Each target with what was measured; ``reached`` is None where nothing is recorded."""
    found = []
    for target in TARGETS:
        experiments = find(plan, target.model, target.dataset, target.settings)
        records = [record for experiment in experiments for record in results.records(experiment)]
        lines = {metric: _line(target, metric, records) for metric in target.goals}
        verdicts = [line["reached"] for line in lines.values()]
        found.append(
            {
                "model": target.model,
                "dataset": target.dataset,
                "settings": target.settings,
                "above": target.above,
                "goals": lines,
                "reached": None if None in verdicts else all(verdicts),
            }
        )
    return found


def _line(target: Target, metric: str, records: Sequence[Record]) -> dict[str, Any]:
    """The mean decides; how many seeds reach the line by themselves says how much luck there is in that."""
    measured, _ = ours(records, of_test_set)
    if measured is None:
        nothing = dict.fromkeys(("ours", "short_by", "reached", "seeds_that_reach"))
        return {"goal": target.goals[metric], **nothing}
    spread = measured["realistic"][metric]
    each = [table["realistic"][metric] for table in map(of_test_set, records) if table]
    return {
        "goal": target.goals[metric],
        "ours": spread,
        "short_by": target.short_by(metric, spread["mean"]),
        "reached": target.reached(metric, spread["mean"]),
        "seeds_that_reach": sum(target.reached(metric, value) for value in each),
    }
