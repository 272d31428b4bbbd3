"""Recorded results that were never trained: every figure is planted, so that every mean, gap and verdict is known."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from capse.experiments.recipe import Recipe
from capse.graph.link_prediction.evaluation import FREQUENCY_BUCKETS
from capse.graph.statistics import CATEGORIES
from capse_paper.findings.paper import SHARES
from capse_paper.plans.graphs import PLAN, named
from capse_paper.recorded.runs import Results

TIES = {"optimistic": 0.1, "realistic": 0.0, "pessimistic": -0.1, "expected": 0.02}
ORIGIN = {
    "command": "capse train",
    "commit": "0123456789ab",
    "date": "2026-01-02T03:04:05+00:00",
    "machine": {"processor": "a <processor>", "cores": 2, "threads": 1},
    "versions": {"capse": "0.1.0", "python": "3.11.0", "torch": "2.6.0", "numpy": "2.0.0"},
}


def table(mrr):
    """Metrics under all tie policies that follow from one number."""
    return {
        policy: {
            "mr": 1000 * (1 - mrr) - 100 * tie,
            "mrr": mrr + tie,
            "hits@1": mrr - 0.05 + tie,
            "hits@3": mrr + 0.05 + tie,
            "hits@10": mrr + 0.1 + tie,
        }
        for policy, tie in TIES.items()
    }


def evaluation(dataset, mrr, shift=0.0):
    """One number everywhere but in the first group of each breakdown, which has ``shift`` more."""
    sides = {side: table(mrr) for side in ("both", "head", "tail")}
    shifted = {side: table(mrr + shift) for side in sides}
    relations = {f"_{name}": share for name, share in SHARES.items()} if dataset == "wn18rr" else {"r": 1.0}

    def groups(shares, sides_of):
        return {
            name: {"triples": 10, "share": share, **(sides_of(shifted if place == 0 else sides))}
            for place, (name, share) in enumerate(shares.items())
        }

    return {
        "dataset": dataset,
        "split": "test",
        "triples": 100,
        "unseen_triples": 3,
        "seconds": 2.0,
        "filtered": True,
        "metrics": sides,
        "intervals": {"both": {policy: {"mrr": [mrr + tie - 0.01, mrr + tie + 0.01]} for policy, tie in TIES.items()}},
        "breakdowns": {
            "relation": groups(relations, dict),
            "category": groups(dict.fromkeys(CATEGORIES, 0.25), dict),
            "frequency": groups(dict.fromkeys(FREQUENCY_BUCKETS, 1 / 6), lambda s: {"both": s["both"]}),
        },
        "warnings": [],
    }


@dataclass(frozen=True)
class Writer:
    """Writes planted runs into a results folder."""

    folder: Path

    def add(self, name, seed=0, mrr=0.25, *, shift=0.0, validations=(), evaluated=True, **changes):
        """A run of the plan's experiment; ``validations`` are validation MRRs at epochs 10, 20, ..."""
        experiment = named(PLAN, name)
        overrides = [*experiment.overrides, f"training.seed={seed}"]
        starts = experiment.starts.items()
        overrides += [f"{setting}=/elsewhere/runs/{start}/seed-{seed}" for setting, start in starts]
        overrides += [f"{key.replace('__', '.')}={value}" for key, value in changes.items()]
        recipe = Recipe.resolve(experiment.recipe, data=experiment.dataset, overrides=overrides)
        folder = self.folder / "runs" / name / f"seed-{seed}"
        folder.mkdir(parents=True)
        (folder / "recipe.yaml").write_text(recipe.to_yaml())
        results = {"model": recipe.model_name, "dataset": experiment.dataset, "epochs": 50, "best_epoch": 40}
        results |= {"best_validation": {recipe.validation.metric: 0.5}, "training_seconds": 60.0 + seed, **ORIGIN}
        (folder / "results.json").write_text(json.dumps(results))
        lines = [
            {"epoch": 10 * place, "loss": 1.0, "validation": table(mrr)} for place, mrr in enumerate(validations, 1)
        ]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        if evaluated:
            (folder / "evaluation.json").write_text(json.dumps(evaluation(experiment.dataset, mrr, shift)))
        return folder


@pytest.fixture
def writer(tmp_path):
    (tmp_path / "results" / "runs").mkdir(parents=True)
    return Writer(tmp_path / "results")


@pytest.fixture
def planted_results(writer):
    """A few rows: two seeds of TransE and CapsE on WN18RR, single seeds elsewhere, most of the plan not recorded."""
    plant(writer)
    return Results(writer.folder)


def plant(writer):
    for seed in (0, 1):
        writer.add("transe-wn18rr", seed, 0.24 + 0.02 * seed)
        writer.add("capse-wn18rr", seed, 0.40 + 0.02 * seed)
    writer.add("convkb-wn18rr", mrr=0.25)
    writer.add("distmult-wn18rr", mrr=0.30)
    writer.add("capse-fb15k-237", mrr=0.45, shift=0.2)
    writer.add("capse-released-fb15k-237", mrr=0.42)
    writer.add("convkb-fb15k-237", mrr=0.24)
    for m, best in ((1, 0.4), (3, 0.3)):
        writer.add(f"capse-m{m}-wn18rr", mrr=best, validations=[best + 0.01 * place for place in range(5)])
