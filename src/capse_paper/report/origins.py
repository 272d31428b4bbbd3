"""Every recorded run with its settings, machine and time."""

from __future__ import annotations

from typing import Any

from capse.reports.text import choice_sentence, machine_name
from capse_paper.findings.collect import Reproduction
from capse_paper.plans.graphs import Experiment
from capse_paper.recorded.runs import Record, departures

Recorded = list[tuple[Experiment, list[Record]]]


def run_table(found: Reproduction) -> list[tuple[str, list[tuple[str, ...]]]]:
    """A group of rows for each experiment."""
    return [
        (f"{each.name}: {each.model}, {each.settings} settings, recipe {each.recipe}", [_row(one) for one in records])
        for each, records in _recorded(found)
    ]


def run_settings(found: Reproduction) -> list[dict[str, Any]]:
    """For each experiment its first run, how its epoch was chosen, and where its runs depart from the plan."""
    return [
        {
            "experiment": experiment,
            "first": records[0],
            "choice": choice_sentence(records[0].results, records[0].recipe["validation"]),
            "departed": [(one.seed, lines) for one in records if (lines := departures(experiment, one))],
        }
        for experiment, records in _recorded(found)
    ]


def _recorded(found: Reproduction) -> Recorded:
    runs = [(experiment, found.results.records(experiment)) for experiment in found.plan]
    return [(experiment, records) for experiment, records in runs if records]


def _row(record: Record) -> tuple[str, ...]:
    results, evaluation = record.results, record.evaluation
    figures = ["not evaluated", "", "", ""]
    if evaluation:
        policies = ("optimistic", "realistic", "pessimistic")
        figures = [f"{evaluation['metrics']['both'][policy]['mrr']:.4f}" for policy in policies]
        figures.append("{:.4f} to {:.4f}".format(*evaluation["intervals"]["both"]["realistic"]["mrr"]))
    return (
        str(record.seed),
        str(results["epochs"]),
        str(results["best_epoch"]),
        *figures,
        f"{results['training_seconds']:,.0f}",
        f"{evaluation['seconds']:,.1f}" if evaluation else "",
        machine_name(results),
        str(results["commit"] or "not known"),
    )
