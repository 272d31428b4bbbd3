"""capse search simulate: a made-up log with planted interests."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from capse.cli.options import command_app
from capse.cli.output import echo

app = command_app("Write a made-up log with planted interests, to try things on.")


@app.command()
def simulate(
    out: Annotated[Path, typer.Option(help="The new folder for log.jsonl and documents.jsonl.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="simulation.KEY=VALUE", help="Change one setting; may be repeated."),
    ] = None,
) -> None:
    """Write a made-up log with planted interests, position bias and dwell times, for `capse search ingest` to read.

    The same settings, the seed among them, give the same log.
    """
    from capse.cli.search.settings import settings_of
    from capse.runs.atomic import atomic_folder, check_free
    from capse.search.logs.simulation import SimulationSettings, simulate

    chosen = settings_of(SimulationSettings, "simulation", settings)
    check_free(out)
    simulated = simulate(chosen)
    with atomic_folder(out) as folder:
        simulated.write_jsonl(folder)
    log = simulated.log
    echo(f"{out}: {len(log):,} impressions of {len(log.users):,} users, {len(log.documents):,} documents")
