"""capse tune: find a model and settings for a graph, within a time or in a grid, and keep the best recipe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from capse.cli.options import command_app
from capse.cli.output import echo
from capse.cli.stopping import resumable

app = command_app("Find a model and settings for a graph.")


@app.command()
def tune(
    out: Annotated[Path, typer.Option(help="The study folder to write.")],
    grid: Annotated[str | None, typer.Argument(help="A YAML file, or a name that 'capse recipes' lists.")] = None,
    data: Annotated[str | None, typer.Option(help="A dataset's name, or a folder with train.* and valid.*")] = None,
    fixed: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Fix one setting in every trial; may be repeated."),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="How long to try models and settings without a grid; 15 by default.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="How many trials to train at a time, each in a process.")] = 1,
    sampler: Annotated[
        str | None, typer.Option(help="grid tries every combination; random and tpe draw trials, with Optuna.")
    ] = None,
    trials: Annotated[int | None, typer.Option(help="How many trials to draw, in all.")] = None,
    storage: Annotated[
        str | None, typer.Option(metavar="URL", help="A database in which machines share drawn trials.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a study, or join it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print how the trials ended as JSON, best first.")] = False,
) -> None:
    """Find a model and settings for a graph, chosen on the validation set, and keep the best run and its recipe.

    Without a grid, models and settings that carry over are tried within --minutes: each for a little while, the best
    third goes on, and so on until one is left, which is trained to its end if there is time.

    With a grid, all of its trials are trained.

    Every trial is a run of its own. Ctrl-C stops cleanly; --resume goes on: trials that have ended are kept, half-done
    ones go on from their checkpoints, failed ones of a grid are tried again; drawn ones stay failed.
    """
    from capse.cli.study_display import StudyProgress, show_failures, show_outcomes
    from capse.errors import SettingsError
    from capse.experiments.halving import is_halving, tune_within
    from capse.experiments.study import StudyFolder
    from capse.experiments.tune import tune
    from capse.reports.study import write_study_page

    study, search = StudyFolder(out), {"sampler": sampler, "trials": trials, "storage": storage}
    within = grid is None and (is_halving(study) or not study.file.is_file())
    of_grid = jobs > 1 or any(search.values())
    if within and of_grid:
        raise SettingsError("--jobs, --sampler, --trials and --storage are about a grid", "name one, or leave them out")
    if minutes is not None and not within:
        raise SettingsError("--minutes is for a study without a grid", "leave out --minutes, or the grid")
    at_a_time = ["--jobs", jobs] if jobs > 1 else []
    with (
        resumable(study.file, "capse", "tune", "--resume", "--out", out, *at_a_time),
        StudyProgress() as progress,
    ):
        if within:
            outcomes = tune_within(data, minutes=minutes, out=out, overrides=fixed, resume=resume, listener=progress)
        else:
            outcomes = tune(
                data, grid, out=out, overrides=fixed, search=search, jobs=jobs, resume=resume, listener=progress
            )
    page = write_study_page(study, outcomes) if outcomes else None
    if as_json:
        echo(json.dumps([outcome.to_json() for outcome in outcomes], ensure_ascii=False))
    elif outcomes:
        show_outcomes(outcomes)
        echo(f"the best recipe: {study.best}")
        echo(f"the best run: {outcomes[0].run}")
        echo(f"table and curves: {page}")
    show_failures(outcomes)
