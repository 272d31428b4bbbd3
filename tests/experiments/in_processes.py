"""Commands and trainings that each process of a group does, in a FOLDER."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

from capse import cli
from capse.experiments.engine import Listener, StepReport, StopTraining
from capse.experiments.fit import fit
from capse.processes.group import Group, joined

MODELS: dict[str, dict[str, object]] = {
    "complex": {"negatives.sampler": "shared", "negatives.count": 20, "optimizer.name": "adagrad"},
    "capse": {"model.filters": 3},
}
COMMON = {
    "model.dim": 8,
    "training.epochs": 2,
    "training.batch_size": 600,
    "training.learning_rate": 0.01,
    "training.parts": 8,
    "training.device": "cpu",
    "negatives.sampler": "uniform",
    "loss.relation_weight": 0,
    "optimizer.name": "adam",
    "optimizer.embedding_decay": 0,
    "optimizer.weight_decay": 0,
    "validation.every": 1,
    "validation.triples": 20,
}


class Stop(Listener):
    """Ends a training after a step of an epoch."""

    def __init__(self, epoch: int, step: int) -> None:
        self.after = epoch, step

    def step(self, report: StepReport) -> None:
        if (report.epoch, report.step) == self.after:
            raise StopTraining


def training_of(model: str, out: Path, *more: str, **settings: object) -> list[str]:
    """The arguments of ``capse train``."""
    chosen = {**COMMON, **MODELS[model], **settings}
    options = [part for key, value in chosen.items() for part in ("--set", f"{key}={value}")]
    return ["train", "--data", "countries", "--model", model, "--out", str(out), *options, *more]


def said_by(*arguments: object) -> tuple[int, str]:
    """The exit status and the output of a command."""
    with redirect_stdout(StringIO()) as output:
        try:
            cli.main([str(argument) for argument in arguments])
        except SystemExit as stop:
            return int(stop.code or 0), output.getvalue()
    raise AssertionError("a command exits")


def do_all(folder: Path, group: Group) -> None:
    for model in MODELS:
        assert said_by(*training_of(model, folder / model))[0] == 0
    assert said_by(*training_of("complex", folder / "rows", **{"training.parallel": "rows"}))[0] == 0
    fit("countries", str(folder / "rows" / "recipe.yaml"), out=folder / "shared-by-two", listener=Stop(2, 1))
    shared = fit("countries", out=folder / "shared-by-one", resume=True)
    assert len(shared.predict(head=shared.graph.entities.labels[0], relation="borders")) == 10, "of all entities"
    for exact in ([], ["--exact"]):
        status, output = said_by("evaluate", folder / "complex", "--json", "--among", "sampled:20", *exact)
        if group.leads:
            (folder / f"evaluated{''.join(exact)}.json").write_text(output)
    fit("countries", str(folder / "recipe.yaml"), out=folder / "stopped-by-two", listener=Stop(2, 1))
    fit("countries", out=folder / "stopped-by-one", resume=True)
    status, _ = said_by(*training_of("complex", folder / "bce", **{"loss.name": "bce", "negatives.sampler": "all"}))
    status_of_tune, _ = said_by("tune", folder / "grid.yaml", "--out", folder / "tune")
    if group.leads:
        (folder / "refused.json").write_text(json.dumps([status, status_of_tune]))


if __name__ == "__main__":
    # Others than the first wait for torchrun, which is not here.
    with mock.patch("capse.cli.wait_for_first_rank"), joined(60) as everyone:
        do_all(Path(sys.argv[1]), everyone)
