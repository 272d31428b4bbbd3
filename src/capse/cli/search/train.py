"""capse search train: learn from a log how to rank for each user."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from capse.cli.output import echo
from capse.experiments.search.methods import BEST, METHODS

app = typer.Typer(short_help="Learn from a log how to rank for each user.", rich_markup_mode=None, add_completion=False)


@app.command()
def train(
    log: Annotated[Path, typer.Option(help="An ingested log, or a folder with a log in a known format.")],
    out: Annotated[Path, typer.Option(help="The run folder to write.")],
    recipe: Annotated[str | None, typer.Argument(help="A YAML file or the name of a shipped search recipe.")] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help=f"One that learns: {', '.join(METHODS)}; {BEST}, the best, if neither it nor RECIPE is given."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one setting; may be repeated."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped or killed.")] = False,
) -> None:
    """Learn from what was clicked, and what was shown beside it, how to rank for each user.

    SP is trees over features of text, clicks and topics; forests, the best, is the mean of five SPs; the blend is that
    with CapsE's score among the features; capsules are one network over the same features and topics. CapsE, ConvKB and
    TransE score (query, user, document). Where a method is not above the engine on the validation lists, the engine's
    order stands, and that is said.

    The run holds all that re-ranking needs: the documents' words and vectors, and what was clicked until the test
    period. Ctrl-C stops cleanly; --resume goes on with CapsE, ConvKB and TransE, and ends with the same weights.
    """
    from capse.cli.search.progress import ListProgress
    from capse.experiments.search.methods import trainable
    from capse.experiments.search.neural_methods import NeuralMethod
    from capse.runs.folder import RunFolder
    from capse.search.ingest import open_log

    run = RunFolder(out)
    goes_on = resume and method is None and recipe is None and run.recipe.is_file()
    if goes_on:
        run.check_inputs()
    chosen = trainable(method or BEST) if not goes_on and (method or not recipe) else NeuralMethod()
    resolved = chosen.resolve(run.recipe if goes_on else recipe, settings or [])
    try:
        with ListProgress(chosen.epochs(resolved), "mrr") as progress:
            chosen.train(open_log(log), resolved, out=out, resume=resume, listener=progress)
    except KeyboardInterrupt:
        if run.recipe.is_file():
            again = shlex.join(["capse", "search", "train", "--resume", "--log", str(log), "--out", str(out)])
            echo(f"stopped; continue with: {again}", err=True)
        else:
            echo("stopped; nothing was written", err=True)
        raise typer.Exit(130) from None
    echo(str(out))
