"""capse refine: re-rank a finished run by the shape of the graph around its answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from capse.cli.options import Resume, Settings, command_app
from capse.cli.output import echo
from capse.cli.stopping import resumable

app = command_app("Re-rank a finished run by the shape of the graph around its answers.")


@app.command()
def refine(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run on a graph, of any model.")],
    out: Annotated[Path, typer.Option(help="The run folder to write.")],
    recipe: Annotated[
        str | None, typer.Option(help="A YAML file, or a refinement that 'capse recipes' lists; one for any run else.")
    ] = None,
    settings: Settings = None,
    resume: Resume = False,
) -> None:
    """Re-rank a finished run by the shape of the graph around its answers (M3GM).

    Weights of motifs, such as two relations that hold both ways or a path that closes, are fitted against the run,
    which stays as it is. What is written is a run like any other, with a copy of the old one's weights: evaluate,
    predict, explain, serve and report take it. Ctrl-C stops cleanly, --resume goes on.
    """
    from capse.cli.display import RefiningProgress
    from capse.experiments.refine import refine as fit_motifs
    from capse.runs.folder import RunFolder

    with (
        resumable(RunFolder(out).recipe, "capse", "refine", run, "--resume", "--out", out),
        RefiningProgress() as progress,
    ):
        fit_motifs(run, recipe, out=out, overrides=settings or (), resume=resume, listener=progress)
    echo(str(out))
