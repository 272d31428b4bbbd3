"""capse search train: learn from a log how to rank for each user."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from capse.cli.options import Resume, Settings, command_app
from capse.cli.output import echo
from capse.cli.stopping import resumable
from capse.experiments.search.methods import BEST, METHODS

app = command_app("Learn from a log how to rank for each user.")


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
    settings: Settings = None,
    resume: Resume = False,
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
    with (
        resumable(run.recipe, "capse", "search", "train", "--resume", "--log", log, "--out", out),
        ListProgress(chosen.epochs(resolved), "mrr") as progress,
    ):
        chosen.train(open_log(log), resolved, out=out, resume=resume, listener=progress)
    echo(str(out))
