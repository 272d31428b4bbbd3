"""How the figures of a reproduction were made: the protocol, and every run with its settings, machine and time."""

from __future__ import annotations

import yaml

from capse.evaluation.intervals import RESAMPLES
from capse.experiments.plan import Experiment
from capse.reports.html import Markup, definitions, details, element, join, section, table
from capse.reports.reproduction.collect import Reproduction
from capse.reports.reproduction.recorded import Record, departures
from capse.reports.words import choice_sentence, machine_name, origin_pairs


def protocol(found: Reproduction) -> Markup:
    """In plain words."""
    seeds = sorted({record.seed for _, record in _records(found)})
    points = [
        "Every test triple asks two questions: which head, and which tail? All entities are candidates. Ranks are "
        "filtered: other answers known to be true, from whichever split, do not compete.",
        "Test triples with an entity that training never saw are included (210 of WN18RR's 3,134, 28 of FB15k-237's "
        "20,466).",
        "A tie is a wrong candidate with exactly the true one's score; the true answer is scored by the same code as "
        "its competitors. Optimistic puts ties behind the true answer, pessimistic before it, realistic takes the mean "
        "of these two ranks, expected averages each metric over all orders of the ties. Realistic is the result.",
        "MR is the mean rank (lower is better), MRR the mean of 1/rank, Hits@k the share of ranks up to k.",
        "The epoch that is reported was chosen on the validation set, filtered with training and validation triples "
        "only; the test set had no part in it. The paper's settings are those it states; TransE's, which it does not "
        "state, follow Nguyen et al. 2016 and 2018 as far as is known.",
        f"Seeds: {', '.join(map(str, seeds)) or 'none recorded yet'}. Figures are means over all recorded seeds of a "
        "row, with the standard deviation (n − 1) where there are two or more.",
        "With the paper's and the released settings, CapsE and ConvKB start from the run of the same seed of the "
        "TransE that follows the protocol. What rows of our own start from is said beside their settings below.",
        f"Intervals come from {RESAMPLES:,} bootstrap samples of the test triples of one run: they say what another "
        "test set of the same kind might give, the deviation over seeds what another seed might.",
        "Seconds are those of the training alone; runs that shared a machine slowed each other down.",
    ]
    return section("How this was measured", element("ul", *(element("li", point) for point in points)))


def runs(found: Reproduction) -> Markup:
    """Every recorded run, then the settings of each experiment."""
    groups, settings, absent = [], [], []
    for experiment in found.plan:
        records = found.results.records(experiment)
        if not records:
            absent.append(experiment.name)
            continue
        title = f"{experiment.name}: {experiment.model}, {experiment.settings} settings, recipe {experiment.recipe}"
        groups.append((title, [_line(record) for record in records]))
        settings.append(details(f"Settings of {experiment.name}", *_settings(experiment, records)))
    header = ["seed", "epochs", "kept", "MRR optimistic", "realistic", "pessimistic", "95 % of realistic"]
    header += ["training s", "ranking s", "machine", "commit"]
    missing = f"Planned and not recorded: {', '.join(absent)}." if absent else "Everything planned is recorded."
    departed = "Not all runs are as planned:" if found.departures else "No recorded run departs from the plan."
    return section(
        "Runs, settings and origin",
        element("p", f"{missing} Paths are relative to {found.results.folder.name}/. {departed}"),
        element("ul", *(element("li", line) for line in found.departures)) if found.departures else Markup(""),
        table("Every recorded run, test set", header, *groups) if groups else element("p", "No run is recorded."),
        *settings,
    )


def _line(record: Record) -> tuple[str, ...]:
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


def _settings(experiment: Experiment, records: list[Record]) -> list[Markup]:
    first = records[0]
    notes = [
        f"Seed {record.seed} differs from the plan's recipe: {'; '.join(departed)}."
        for record in records
        if (departed := departures(experiment, record))
    ]
    if experiment.starts:
        notes.append(f"Starts from {' and '.join(experiment.starts.values())}, same seed.")
    if experiment.overrides:
        notes.append(f"The recipe with {', '.join(experiment.overrides)}.")
    return [
        *(element("p", note) for note in notes),
        element("p", f"Seed {first.seed}: {choice_sentence(first.results, first.recipe['validation'])}"),
        definitions([("run", first.folder), *origin_pairs(first.results)]),
        element("pre", join([yaml.safe_dump(first.recipe, sort_keys=False, allow_unicode=True)])),
    ]


def _records(found: Reproduction) -> list[tuple[Experiment, Record]]:
    return [(experiment, record) for experiment in found.plan for record in found.results.records(experiment)]
