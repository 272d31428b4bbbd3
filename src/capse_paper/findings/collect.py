"""Everything that is shown about a reproduction, worked out once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from capse_paper.findings.claims import Claim, claims
from capse_paper.findings.rows import ROWS, Row
from capse_paper.findings.targets import outcomes
from capse_paper.plans.graphs import Plan, needed, plan_of
from capse_paper.recorded.grids import RecordedGrid, recorded_grids
from capse_paper.recorded.runs import Results, departing


@dataclass(frozen=True)
class Reproduction:
    """Rows of each table and figure, the paper's claims, the lines that were to be reached, and the paper's grids."""

    results: Results
    plan: Plan
    rows: dict[str, list[Row]]  # by part
    claims: list[Claim]
    outcomes: list[dict[str, Any]]
    grids: list[RecordedGrid]
    departures: list[str]  # a line for each run behind them whose settings are not the plan's

    def to_json(self, part: str) -> Any:
        """What ``capse reproduce PART --json`` prints."""
        if part == "claims":
            return [claim.to_json() for claim in self.claims]
        if part != "all":
            return self.rows[part]
        grids = [grid.to_json() for grid in self.grids]
        return {**self.rows, "claims": self.to_json("claims"), "targets": self.outcomes, "grids": grids}


def collect(results: Results, plan: Plan, part: str = "all") -> Reproduction:
    """Read what a part needs."""
    experiments = needed(plan, part)  # or it is no part of the paper
    wanted = [name for name in ROWS if part == name or (part == "all" and _is_recorded(results, name))]
    return Reproduction(
        results,
        plan,
        rows={name: ROWS[name](results, plan) for name in wanted},
        claims=claims(results, plan) if part in ("claims", "all") else [],
        outcomes=outcomes(results, plan) if part == "all" else [],
        grids=recorded_grids(results.folder) if part == "all" else [],
        departures=departing(results, experiments),
    )


def _is_recorded(results: Results, part: str) -> bool:
    """Whether the report shows a part: the paper's always, the ablation where something of it is recorded."""
    return part != "ablation" or any(results.records(experiment) for experiment in plan_of(part))
