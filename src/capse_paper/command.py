"""capse reproduce: the paper's tables and figures, from recorded runs or trained anew."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capse.cli.options import command_app
from capse.cli.output import echo

if TYPE_CHECKING:
    from capse_paper.findings.collect import Reproduction
    from capse_paper.plans.graphs import Experiment, Plan

app = command_app("The paper's tables and figures, from recorded runs or trained anew.")


@app.command()
def reproduce(
    part: Annotated[str, typer.Argument(help="table1 to table4, figure2 to figure4, ablation, claims, or all.")],
    results: Annotated[Path, typer.Option(help="The folder with the recorded runs.")] = Path("results"),
    out: Annotated[
        Path | None, typer.Option(help="Where figures, report and, with --run, runs go; as --results if not given.")
    ] = None,
    run: Annotated[bool, typer.Option("--run", help="Train what is missing in --out first, then show that.")] = False,
    seeds: Annotated[str | None, typer.Option(help="With --run: these seeds, e.g. 0,1; else the plan's.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="With --run: this experiment only; may be repeated.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="With --run: stop cleanly after so long; the same command goes on.")
    ] = None,
    records: Annotated[
        Path | None,
        typer.Option(help="With --run: copy what is kept of finished runs, all but weights, to this folder."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """Show the paper's tables and figures beside what was recorded, all tie policies side by side.

    A figure is written as PNG and SVG, `all` writes report.html too. With --run, a training that was stopped goes on.
    """
    from capse.errors import SettingsError
    from capse_paper.findings.collect import collect
    from capse_paper.plans.graphs import OF_SEARCH, choose, plan_of
    from capse_paper.recorded.runs import Results

    of_search = part in OF_SEARCH
    plan = plan_of(part)
    chosen = [] if of_search else choose(plan, part, only)  # or a name is wrong, and is said to be before all else
    if not run and any(option is not None for option in (seeds, only, minutes, records)):
        raise SettingsError(
            "--seeds, --only, --minutes and --records are for --run", "give --run too, or leave them out"
        )
    target = out or results
    if run and of_search:
        _rank(part, target, _numbers(seeds), only)
    elif run:
        _train(plan, chosen, target, _numbers(seeds), minutes, records)
    found = collect(Results(target if run else results), plan, part)
    if part == "table1":
        _check_data(found)
    echo(json.dumps(found.to_json(part), ensure_ascii=False) if as_json else _text(found))
    if as_json:
        for line in found.departures:
            echo(line, err=True)
    for path in _write(found, part, target):
        echo(str(path), err=as_json)


def _train(
    plan: Plan,
    chosen: list[Experiment],
    out: Path,
    seeds: list[int] | None,
    minutes: float | None,
    records: Path | None,
) -> None:
    from capse.cli.display import TrainingProgress
    from capse_paper.jobs.deadline import interrupted_after
    from capse_paper.jobs.keeping import copy_records
    from capse_paper.jobs.training import missing_jobs

    jobs = missing_jobs(plan, chosen, out, seeds)
    with interrupted_after(minutes):
        for number, job in enumerate(jobs, start=1):
            settings = job.recipe
            with TrainingProgress(settings.training.epochs, settings.validation.metric) as progress:
                progress.message(f"{number} of {len(jobs)}: {job.folder}")
                try:
                    job.run(progress)
                except KeyboardInterrupt:
                    progress.message("stopped; the same command goes on from here")
                    raise typer.Exit(130) from None
            if records is not None:
                copy_records(job.folder, records)


def _rank(part: str, out: Path, seeds: list[int] | None, only: list[str] | None) -> None:
    from capse_paper.jobs.curves import CurveJob, missing_curves
    from capse_paper.jobs.ranking import SearchJob, missing_jobs
    from capse_paper.plans.rankers import CURVE_PLAN, SEARCH_PLAN, choose

    jobs: Sequence[SearchJob | CurveJob] = (
        missing_curves(choose(CURVE_PLAN, only), out, seeds)
        if part == "figure4"
        else missing_jobs(choose(SEARCH_PLAN, only), out, seeds)
    )
    for number, job in enumerate(jobs, start=1):
        echo(f"{number} of {len(jobs)}: {job.name}", err=True)
        job.run()


def _text(found: Reproduction) -> str:
    from capse_paper.report.blocks import blocks, claim_block, grid_block, target_block

    shown = [block for part, rows in found.rows.items() for block in blocks(part, rows)]
    shown += [claim_block(claim) for claim in found.claims]
    if found.outcomes:
        shown.append(target_block(found.outcomes))
    shown += [grid_block(grid) for grid in found.grids]
    texts = [block.to_text() for block in shown]
    if found.departures:
        texts.append("\n".join(found.departures))
    return "\n\n".join(texts)


def _write(found: Reproduction, part: str, folder: Path) -> list[Path]:
    from capse_paper.report.figures import FIGURES, save_figure
    from capse_paper.report.page import write_report

    drawn = [name for name in FIGURES if name in found.rows]
    paths = [path for name in drawn for path in save_figure(name, found.rows[name], folder / "figures")]
    if part == "all":
        write_report(found, folder / "report.html")
        paths.append(folder / "report.html")
    return paths


def _check_data(found: Reproduction) -> None:
    from capse.errors import DataError

    absent = [row["dataset"] for row in found.rows["table1"] if row["ours"] is None]
    if absent:
        get = ", ".join(f"'capse data get {name}'" for name in absent)
        raise DataError(f"not here to be counted: {', '.join(absent)}", f"call {get}, or set CAPSE_DATA")


def _numbers(text: str | None) -> list[int] | None:
    from capse.errors import SettingsError

    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise SettingsError(f"--seeds is {text!r}", "write whole numbers with commas between, e.g. 0,1,2")
    return [int(part) for part in parts]
