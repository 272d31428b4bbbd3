"""The rows of each table and figure as plain data: what ``capse reproduce --json`` prints.

Every row has ``model``, ``dataset``, ``settings``, ``recipe``, ``start`` and ``beside`` (the experiments that it starts
from), ``paper``, ``ours`` and ``runs``; what else it has says which cell it is. ``paper`` is what the paper prints for
that model and data set, whichever settings the row has. A row that is compared triple by triple with the run that it
started from has ``paired``, by seed, and one whose negatives another run chose ``adversary``, the experiment;
one that refines another's runs has ``refines``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from capse.graph.benchmarks import find_dataset
from capse.graph.dataset import load_graph
from capse.graph.statistics import CATEGORIES, describe
from capse_paper.findings import paper
from capse_paper.findings.search_rows import figure4, table4
from capse_paper.plans.ablation import ABLATION
from capse_paper.plans.graphs import FB15K237, ITERATIONS, WN18RR, Experiment, Plan, Settings, find, needed
from capse_paper.recorded.runs import Record, Results, Table, of_groups, of_released, of_test_set, of_validation, ours

Row = dict[str, Any]
Pick = Callable[[Record], Table | None]
COMPARED = ("CapsE", "ConvKB")  # in Figures 2 and 3


def table1() -> list[Row]:
    """Sizes and relation categories of the data, counted anew; ``ours`` is None while a data set is not here."""
    rows: list[Row] = []
    for dataset, sizes in paper.STATISTICS.items():
        printed: dict[str, Any] = dict(sizes)
        if dataset in paper.CATEGORY_RELATIONS:
            printed["category_relations"] = paper.CATEGORY_RELATIONS[dataset]
            printed["category_test_share"] = paper.CATEGORY_SHARES[dataset]
        nobody = {"model": None, "dataset": dataset, "settings": None, "recipe": None, "start": None, "beside": None}
        rows.append({**nobody, "paper": printed, "ours": _counted(dataset), "runs": []})
    return rows


def table2(results: Results, plan: Plan) -> list[Row]:
    """Every row of the paper, what belongs beside it, and rows of ours that it does not have; test set, both sides."""
    rows = []
    for dataset in paper.DATASETS:
        for model, printed in paper.RESULTS.items():
            beside = paper.BESIDE.get(model, {})
            shown = {model: printed} | {name: figures for name, figures in beside.items() if dataset in figures}
            for name, figures in shown.items():
                experiments = find(plan, name, dataset)
                rows += [_row(results, each, figures[dataset], of_test_set) for each in experiments] or [
                    _nothing(name, dataset, figures[dataset])
                ]
                if name == "M3GM":
                    rows += [_as_released(results, experiment) for experiment in experiments]
    others = [experiment for experiment in needed(plan, "table2") if experiment.dataset not in paper.DATASETS]
    return rows + [_row(results, experiment, {}, of_test_set) for experiment in others]


def table3(results: Results, plan: Plan) -> list[Row]:
    """Hits@10 on WN18RR's validation set by form of CapsE, routing iterations m and epoch."""
    experiments = {(experiment.settings, experiment.routing): experiment for experiment in needed(plan, "table3")}
    forms: list[Settings] = list(dict.fromkeys(settings for settings, _ in experiments)) or ["paper"]
    rows = []
    for settings in forms:
        for m in ITERATIONS:
            for epoch, printed in zip(paper.EPOCHS, paper.ROUTING[m], strict=True):
                experiment, where = experiments.get((settings, m)), {"split": "valid", "m": m, "epoch": epoch}
                if experiment:
                    rows.append(_row(results, experiment, {"hits@10": printed}, of_validation(epoch), **where))
                else:
                    rows.append(_nothing("CapsE", WN18RR, {"hits@10": printed}, **where))
    return rows


def ablation(results: Results) -> list[Row]:
    """What our capsules consist of, in the order of its plan; test set, both sides."""
    return [_row(results, experiment, {}, of_test_set) for experiment in ABLATION]


def figure2(results: Results, plan: Plan) -> list[Row]:
    """Heads and tails by relation category on FB15k-237."""
    return [
        _row(
            results,
            experiment,
            paper.by_category(experiment.model, side, category),
            of_groups("category", [category], side),
            category=category,
            side=side,
        )
        for side in paper.BY_CATEGORY
        for category in CATEGORIES
        for experiment in _compared(plan, FB15K237)
    ]


def figure3(results: Results, plan: Plan) -> list[Row]:
    """Both sides by relation on WN18RR, with the share of the test triples."""
    rows = []
    for relation, printed in paper.SHARES.items():
        for experiment in _compared(plan, WN18RR):
            figures = {**paper.by_relation(experiment.model, relation), "share": printed}
            row = _row(results, experiment, figures, of_groups("relation", [f"_{relation}"], "both"), relation=relation)
            evaluations = [record.evaluation for record in results.records(experiment) if record.evaluation]
            groups = [each["breakdowns"]["relation"].get(f"_{relation}") for each in evaluations]
            shares = [group["share"] for group in groups if group]
            rows.append({**row, "share": shares[0] if shares else None})
    return rows


ROWS: dict[str, Callable[[Results, Plan], list[Row]]] = {
    "table1": lambda results, plan: table1(),
    "table2": table2,
    "table3": table3,
    "table4": lambda results, plan: table4(results),
    "figure2": figure2,
    "figure3": figure3,
    "figure4": lambda results, plan: figure4(results),
    "ablation": lambda results, plan: ablation(results),
}


def _compared(plan: Plan, dataset: str) -> list[Experiment]:
    return [experiment for model in COMPARED for experiment in find(plan, model, dataset)]


def _row(results: Results, experiment: Experiment, printed: Mapping[str, Any], pick: Pick, **where: Any) -> Row:
    found, runs = ours(results.records(experiment), pick)
    who = {key: getattr(experiment, key) for key in ("model", "dataset", "settings", "recipe", "start", "beside")}
    paired = {str(record.seed): record.comparison for record in results.records(experiment) if record.comparison}
    more: Row = {"adversary": experiment.adversary} if experiment.adversary else {}
    more |= {"refines": experiment.refines} if experiment.refines else {}
    more |= {"paired": paired} if experiment.against else {}
    return {**who, **where, "paper": dict(printed), "ours": found, "runs": runs, **more}


def _as_released(results: Results, experiment: Experiment) -> Row:
    """The same runs with the candidates of the released evaluation, under a name of its own."""
    row = _row(results, experiment, {}, of_released)
    return {**row, "model": "M3GM, released protocol", "paper": dict.fromkeys(("mr", "mrr", "hits@10"))}


def _nothing(model: str, dataset: str, printed: Mapping[str, Any], **where: Any) -> Row:
    who = {"model": model, "dataset": dataset, "settings": "paper", "recipe": None, "start": None, "beside": None}
    return {**who, **where, "paper": dict(printed), "ours": None, "runs": []}


def _counted(dataset: str) -> dict[str, Any] | None:
    if find_dataset(dataset) is None:
        return None
    found = describe(load_graph(dataset))
    return {
        "entities": found.entities,
        "relations": found.relations,
        **found.triples,
        "category_relations": found.category_relations,
        "category_test_share": found.category_test_share,
    }
