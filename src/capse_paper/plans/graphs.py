"""Which training runs the paper's tables and figures need, and with which settings: one line each.

Runs of an experiment lie in ``<results>/runs/<name>/seed-<n>``. ``PLAN`` is what ``capse reproduce`` shows and trains.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from capse.errors import SettingsError, UnknownNameError
from capse_paper.plans.ablation import ABLATION
from capse_paper.plans.experiment import FB15K237 as FB15K237
from capse_paper.plans.experiment import WN18RR as WN18RR
from capse_paper.plans.experiment import WORDS
from capse_paper.plans.experiment import Experiment as Experiment
from capse_paper.plans.experiment import Settings as Settings
from capse_paper.plans.refinements import REFINEMENTS

ITERATIONS = (1, 3, 5, 7)  # the routing iterations m of Table 3
PARTS = ("table1", "table2", "table3", "table4", "figure2", "figure3", "figure4", "ablation", "claims", "all")
OF_SEARCH = ("table4", "figure4")  # made of records of rankers, not of these runs


Plan = Sequence[Experiment]


def _on_both(
    name: str, model: str, settings: Settings, recipe: str, start: str | None = None, beside: str | None = None
) -> list[Experiment]:
    """The same on both data sets; ``{}`` in a name is the data set's."""
    return [
        Experiment(
            f"{name}-{data}",
            model,
            data,
            settings,
            recipe.format(data),
            start=start and start.format(data),
            beside=beside and beside.format(data),
        )
        for data in (WN18RR, FB15K237)
    ]


def _routed(name: str, settings: Settings, m: int, *overrides: str) -> Experiment:
    """CapsE with N = 50 and m routing iterations, for Table 3."""
    return Experiment(
        f"{name}-m{m}-wn18rr",
        "CapsE",
        WN18RR,
        settings,
        f"{name}-wn18rr",
        ("model.filters=50", f"model.routing={m}", *overrides),
        start="transe-wn18rr",
        routing=m,
    )


def _kbgan(model: str, data: str) -> list[Experiment]:
    """What is kept and what generates, each alone, then one against the other; and another TransE against it."""
    alone, generator = f"kbgan-{model.lower()}-{data}", f"kbgan-distmult-{data}"
    return [
        Experiment(alone, f"{model} before KBGAN", data, "paper", alone),
        Experiment(generator, "KBGAN's generator", data, "paper", generator),
        Experiment(
            f"kbgan-{data}", "KBGAN", data, "paper", f"kbgan-{data}", start=alone, adversary=generator, against=alone
        ),
        Experiment(
            f"kbgan-own-{data}",
            "KBGAN",
            data,
            "own",
            f"kbgan-own-{data}",
            start=f"transe-own-{data}",
            adversary=generator,
            against=f"transe-own-{data}",
        ),
    ]


PLAN: Plan = (
    *_on_both("distmult", "DISTMULT", "own", "distmult-{}"),
    Experiment("complex-wn18rr", "ComplEx", WN18RR, "own", "complex-wn18rr"),
    Experiment("complex-fb15k-237", "ComplEx", FB15K237, "own", "complex"),
    *_on_both("conve", "ConvE", "own", "conve-{}"),
    *_kbgan("TransE", WN18RR),
    *_kbgan("TransD", FB15K237),
    Experiment("transe-wn18rr", "TransE", WN18RR, "paper", "transe-wn18rr", files=WORDS),
    Experiment("transe-fb15k-237", "TransE", FB15K237, "paper", "transe-fb15k-237"),
    *_on_both("transe-own", "TransE", "own", "transe-own-{}"),
    *_on_both("convkb", "ConvKB", "paper", "convkb-{}", start="transe-{}"),
    *_on_both("convkb-released", "ConvKB", "released", "convkb-released-{}", start="transe-{}"),
    *_on_both("capse", "CapsE", "paper", "capse-{}", start="transe-{}"),
    *_on_both("capse-released", "CapsE", "released", "capse-released-{}", start="transe-{}"),
    *_on_both("capse-own", "CapsE", "own", "capse-own-{}", start="distmult-{}", beside="transe-{}"),
    Experiment(
        "complex-capse-wn18rr",
        "Capsules from ComplEx",
        WN18RR,
        "own",
        "complex-capse-wn18rr",
        start="complex-wn18rr",
        beside="transe-wn18rr",
        against="complex-wn18rr",
    ),
    *REFINEMENTS,
    *(_routed("capse", "paper", m) for m in ITERATIONS),
    *(_routed("capse-released", "released", m, "training.epochs=50") for m in ITERATIONS),
)


def plan_of(part: str) -> Plan:
    """The plan that a part is made of: the ablation, which is not the paper's, has one of its own."""
    return ABLATION if part == "ablation" else PLAN


def named(plan: Plan, name: str) -> Experiment:
    """The experiment of that name.

    >>> named(PLAN, "capse-wn18rr").start
    'transe-wn18rr'
    """
    known = {experiment.name: experiment for experiment in plan}
    if name not in known:
        raise UnknownNameError("experiment", name, known, f"choose from {', '.join(known)}")
    return known[name]


def find(plan: Plan, model: str, dataset: str, settings: Settings | None = None) -> list[Experiment]:
    """The experiments of Table 2 with that model on that data set.

    >>> [experiment.name for experiment in find(PLAN, "CapsE", "wn18rr")]
    ['capse-wn18rr', 'capse-released-wn18rr', 'capse-own-wn18rr']
    """
    return [
        experiment
        for experiment in plan
        if (experiment.model, experiment.dataset, experiment.routing) == (model, dataset, None)
        and settings in (None, experiment.settings)
    ]


def needed(plan: Plan, part: str) -> list[Experiment]:
    """The experiments that a table or a figure is made of.

    >>> [experiment.name for experiment in needed(PLAN, "table3")][:4]
    ['capse-m1-wn18rr', 'capse-m3-wn18rr', 'capse-m5-wn18rr', 'capse-m7-wn18rr']
    """
    if part not in PARTS:
        raise UnknownNameError("table or figure", part, PARTS, f"choose from {', '.join(PARTS)}")
    compared = {"figure2": FB15K237, "figure3": WN18RR}
    if part in compared:
        return [experiment for model in ("CapsE", "ConvKB") for experiment in find(plan, model, compared[part])]
    if part == "table2":
        return [experiment for experiment in plan if experiment.routing is None]
    if part == "table3":
        return [experiment for experiment in plan if experiment.routing is not None]
    return [] if part in ("table1", *OF_SEARCH) else list(plan)


def choose(plan: Plan, part: str, only: Sequence[str] | None = None) -> list[Experiment]:
    """The experiments of a table or a figure, or those ``only`` among them.

    >>> [experiment.name for experiment in choose(PLAN, "table3", ["capse-m5-wn18rr"])]
    ['capse-m5-wn18rr']
    """
    shown = needed(plan, part)
    if not only:
        return shown
    chosen = [named(plan, name) for name in dict.fromkeys(only)]
    for experiment in chosen:
        if experiment not in shown:
            remedy = f"choose from {', '.join(each.name for each in shown)}" if shown else "nothing is trained for it"
            raise SettingsError(f"{part} does not show {experiment.name}, which --only names", remedy)
    return chosen


def with_starts(plan: Plan, chosen: Iterable[Experiment]) -> list[Experiment]:
    """The chosen experiments, each after the one that it starts from.

    >>> [experiment.name for experiment in with_starts(PLAN, needed(PLAN, "figure3")[:1])]
    ['transe-wn18rr', 'capse-wn18rr']
    """
    ordered: dict[str, Experiment] = {}
    for experiment in chosen:
        before = with_starts(plan, [named(plan, start) for start in experiment.needs])
        ordered |= {each.name: each for each in (*before, experiment)}
    return list(ordered.values())
