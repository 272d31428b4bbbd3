"""The paper's claims, checked on recorded results: each true, false or, while something is missing, unknown.

A claim is a list of comparisons, and holds if all of them hold. In a comparison the first must have the higher MRR and
no lower Hits@10, in the mean over seeds; every tie policy has a verdict of its own, and the realistic one counts. The
same rule is applied to the figures that the paper prints, to show that it is fair to the paper. A difference that seeds
alone could make is called close; that changes no verdict, but is said beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capse.evaluation.metrics import POLICIES
from capse_paper.findings import paper
from capse_paper.findings.rows import Pick, table3
from capse_paper.plans.graphs import FB15K237, ITERATIONS, WN18RR, Plan, Settings, find, needed
from capse_paper.recorded.runs import Ours, Results, of_groups, ours

METRICS = ("mrr", "hits@10")
RARE = ("1-3", "4-10")  # how often the answer occurs in training; one that never occurs has no trained vector
OTHERS = ("DISTMULT", "ComplEx", "ConvE")
CLOSE = 2.0  # standard errors

Found = Ours | None
Printed = Mapping[str, float | None] | None


@dataclass(frozen=True)
class Comparison:
    """The first is said to be better than the second."""

    what: str
    first: Found
    second: Found
    paper: tuple[Printed, Printed] = (None, None)
    metrics: Sequence[str] = METRICS

    def holds(self, policy: str) -> bool | None:
        if self.first is None or self.second is None:
            return None
        means = [{m: found[policy][m]["mean"] for m in self.metrics} for found in (self.first, self.second)]
        return _better(means[0], means[1])

    def is_close(self, policy: str, metric: str | None = None) -> bool | None:
        """Whether the difference, of the metric that decides unless one is named, is below two standard errors of it.

        Unknown with less than two seeds of either.
        """
        if self.first is None or self.second is None:
            return None
        first, second = (found[policy][metric or self.metrics[0]] for found in (self.first, self.second))
        if first["std"] is None or second["std"] is None:
            return None
        error = math.hypot(*(each["std"] / math.sqrt(len(each["seeds"])) for each in (first, second)))
        return bool(abs(first["mean"] - second["mean"]) < CLOSE * error)

    def holds_in_paper(self) -> bool | None:
        first, second = self.paper
        return None if first is None or second is None else _better(first, second)

    def to_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "holds": {policy: self.holds(policy) for policy in POLICIES},
            "close": {policy: self.is_close(policy) for policy in POLICIES},
            "paper": {"holds": self.holds_in_paper(), "first": self.paper[0], "second": self.paper[1]},
            "first": self._shown(self.first),
            "second": self._shown(self.second),
        }

    def _shown(self, found: Found) -> Found:
        return found and {policy: {m: found[policy][m] for m in self.metrics} for policy in POLICIES}


@dataclass(frozen=True)
class Claim:
    """Something that the paper says, about CapsE with certain settings."""

    name: str
    text: str
    settings: Settings
    comparisons: Sequence[Comparison]

    def holds(self, policy: str = "realistic") -> bool | None:
        return _all(comparison.holds(policy) for comparison in self.comparisons)

    def close(self, policy: str = "realistic") -> int:
        """How many comparisons are close."""
        return sum(comparison.is_close(policy) is True for comparison in self.comparisons)

    def holds_in_paper(self) -> bool | None:
        return _all(comparison.holds_in_paper() for comparison in self.comparisons)

    def to_json(self) -> dict[str, Any]:
        return {
            "claim": self.name,
            "text": self.text,
            "settings": self.settings,
            "holds": self.holds(),
            "by_policy": {policy: self.holds(policy) for policy in POLICIES},
            "close": self.close(),
            "paper": self.holds_in_paper(),
            "comparisons": [comparison.to_json() for comparison in self.comparisons],
        }


def claims(results: Results, plan: Plan) -> list[Claim]:
    """All claims about the paper's form of CapsE, then about each other form that has a run."""
    found = [*_about(results, plan, "paper"), _one_iteration(results, plan, "paper")]
    others: tuple[Settings, ...] = ("released", "own")
    for form in others:
        experiments = [each for dataset in paper.DATASETS for each in find(plan, "CapsE", dataset, form)]
        if any(results.records(experiment) for experiment in experiments):
            found += _about(results, plan, form)
        if any(results.records(each) for each in needed(plan, "table3") if each.settings == form):
            found.append(_one_iteration(results, plan, form))
    return found


def _about(results: Results, plan: Plan, form: Settings) -> list[Claim]:
    def look(model: str, dataset: str, pick: Pick) -> Found:
        """A model with the same settings as CapsE has here, or else with the first that the plan has for it."""
        experiments = find(plan, model, dataset, form) or find(plan, model, dataset)
        return ours([record for each in experiments[:1] for record in results.records(each)], pick)[0]

    def side(first: str, second: str, side: str, category: str) -> Comparison:
        pick = of_groups("category", [category], side)
        found = [look(model, FB15K237, pick) for model in (first, second)]
        printed = [paper.by_category(model, side, category) for model in (first, second)]
        return Comparison(f"{side} of {category}", found[0], found[1], (printed[0], printed[1]))

    def relation(name: str) -> Comparison:
        pick = of_groups("relation", [f"_{name}"], "both")
        printed = paper.by_relation("CapsE", name), paper.by_relation("ConvKB", name)
        return Comparison(name, look("CapsE", WN18RR, pick), look("ConvKB", WN18RR, pick), printed)

    def rare(second: str, dataset: str) -> Comparison:
        pick = of_groups("frequency", RARE, "both")
        what = f"against {second}, {paper.DATASETS[dataset]}"
        return Comparison(what, look("CapsE", dataset, pick), look(second, dataset, pick))

    def claim(name: str, text: str, comparisons: Sequence[Comparison]) -> Claim:
        return Claim(name, text, form, comparisons)

    many = (("head", "M-1"), ("tail", "1-M"), ("head", "M-M"), ("tail", "M-M"))
    one = (("head", "1-1"), ("head", "1-M"), ("tail", "1-1"), ("tail", "M-1"))
    return [
        claim(
            "many",
            "CapsE is better than ConvKB on the side with many entities (FB15k-237)",
            [side("CapsE", "ConvKB", *place) for place in many],
        ),
        claim(
            "one",
            "ConvKB is better than CapsE on the side with one entity (FB15k-237)",
            [side("ConvKB", "CapsE", *place) for place in one],
        ),
        claim(
            "symmetric",
            "CapsE is better than ConvKB on the four symmetric relations of WN18RR",
            [relation(name) for name in paper.SYMMETRIC],
        ),
        claim(
            "rare",
            "CapsE is better than ConvKB where the answer is rare (1 to 10 training triples)",
            [rare("ConvKB", dataset) for dataset in paper.DATASETS],
        ),
        claim(
            "rare-others",
            "CapsE is better than DISTMULT, ComplEx and ConvE where the answer is rare (1 to 10 training triples)",
            [rare(second, dataset) for dataset in paper.DATASETS for second in OTHERS],
        ),
    ]


def _one_iteration(results: Results, plan: Plan, form: Settings) -> Claim:
    shown = table3(results, plan) if needed(plan, "table3") else []
    rows = {(row["m"], row["epoch"]): row for row in shown if row["settings"] == form}
    comparisons = [
        Comparison(
            f"m = 1 against m = {m}, epoch {epoch}",
            rows[1, epoch]["ours"],
            rows[m, epoch]["ours"],
            (rows[1, epoch]["paper"], rows[m, epoch]["paper"]),
            metrics=("hits@10",),
        )
        for epoch in paper.EPOCHS
        for m in ITERATIONS[1:]
        if rows
    ]
    return Claim("routing", "One routing iteration is best at every validation (WN18RR)", form, comparisons)


def _better(first: Mapping[str, float | None], second: Mapping[str, float | None]) -> bool:
    """Every comparison here is of figures that are there; a lone metric must be higher."""
    pairs = {metric: (first[metric] or 0.0, second[metric] or 0.0) for metric in METRICS if metric in first}
    deciding = "mrr" if "mrr" in pairs else "hits@10"
    return pairs[deciding][0] > pairs[deciding][1] and all(a >= b for a, b in pairs.values())


def _all(verdicts: Iterable[bool | None]) -> bool | None:
    """False if any is, unknown if any is (or there are none), true otherwise."""
    known = list(verdicts)
    if False in known:
        return False
    return None if None in known or not known else True
