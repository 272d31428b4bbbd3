"""capse refine: re-rank a finished run by the shape of the graph around its answers."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from capse.cli.output import echo

app = typer.Typer(
    short_help="Re-rank a finished run by the shape of the graph around its answers.",
    rich_markup_mode=None,
    add_completion=False,
)


@app.command()
def refine(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run on a graph, of any model.")],
    out: Annotated[Path, typer.Option(help="The run folder to write.")],
    recipe: Annotated[
        str | None, typer.Option(help="A YAML file, or a refinement that 'capse recipes' lists; one for any run else.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one setting; may be repeated."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped or killed.")] = False,
) -> None:
    """Re-rank a finished run by the shape of the graph around its answers (M3GM).

    Weights of motifs, such as two relations that hold both ways or a path that closes, are fitted against the run,
    which stays as it is. What is written is a run like any other, with a copy of the old one's weights: evaluate,
    predict, explain, serve and report take it. Ctrl-C stops cleanly, --resume goes on.
    """
    from capse.cli.display import RefiningProgress
    from capse.experiments.refine import refine as fit_motifs
    from capse.runs.folder import RunFolder

    try:
        with RefiningProgress() as progress:
            fit_motifs(run, recipe, out=out, overrides=settings or (), resume=resume, listener=progress)
    except KeyboardInterrupt:
        if RunFolder(out).recipe.is_file():
            again = f"capse refine {shlex.quote(str(run))} --resume --out {shlex.quote(str(out))}"
            echo(f"stopped; continue with: {again}", err=True)
        else:
            echo("stopped before the first step", err=True)
        raise typer.Exit(130) from None
    echo(str(out))
