"""capse search train: learn from a log how to rank for each user."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def train(
    log: Annotated[Path, typer.Option(help="An ingested log, or a folder with a log in a known format.")],
    out: Annotated[Path, typer.Option(help="The run folder to write.")],
    recipe: Annotated[str | None, typer.Argument(help="A YAML file or the name of a shipped search recipe.")] = None,
    method: Annotated[
        str | None,
        typer.Option(help="capse, convkb, transe, sp or blend; its shipped recipe is used if none is given."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one setting; may be repeated."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped or killed.")] = False,
) -> None:
    """Train CapsE, ConvKB or TransE on (query, user, document): what was clicked against what was shown beside it.

    SP is trees over features of text, clicks and topics, the blend SP with CapsE's score among its features; both are
    for evaluation, and are not resumed.

    The run holds all that re-ranking needs, the documents' vectors included. Ctrl-C stops cleanly; --resume goes on and
    ends with the same weights as if nothing had happened.
    """
    from capse.cli.search.progress import ListProgress
    from capse.experiments.search.fit import fit_search
    from capse.experiments.search.recipe import load_search_recipe
    from capse.experiments.search.trees import TREES
    from capse.runs.folder import RunFolder
    from capse.search.ingest import open_log

    if method in TREES:
        _grow(method, log, out, recipe, settings, resume)
        return
    run = RunFolder(out)
    if resume and run.recipe.is_file() and recipe is None and method is None:
        resolved = load_search_recipe(run.recipe, overrides=settings)
    else:
        resolved = load_search_recipe(recipe, method=method, overrides=settings)
    try:
        with ListProgress(resolved.training.epochs, resolved.validation.metric) as progress:
            fit_search(open_log(log), resolved, out=out, resume=resume, listener=progress)
    except KeyboardInterrupt:
        if run.recipe.is_file():
            again = shlex.join(["capse", "search", "train", "--resume", "--log", str(log), "--out", str(out)])
            typer.echo(f"stopped; continue with: {again}", err=True)
        else:
            typer.echo("stopped before the training began", err=True)
        raise typer.Exit(130) from None
    typer.echo(str(out))


def _grow(method: str, log: Path, out: Path, recipe: str | None, settings: list[str] | None, resume: bool) -> None:
    from capse.cli.search.progress import ListProgress
    from capse.errors import SettingsError
    from capse.experiments.search.choice import Choice
    from capse.experiments.search.trees import fit_trees, save_trees
    from capse.runs.atomic import check_free
    from capse.search.ingest import open_log

    if resume:
        raise SettingsError(f"--resume is given with --method {method}", "train it anew, with another --out")
    check_free(out)
    choice = Choice(method, recipe=recipe, overrides=settings or [])
    inside = choice.resolved if method == "blend" else None
    with ListProgress(choice.epochs, "mrr") as progress:
        trees = fit_trees(open_log(log), method, inside.training.seed if inside else 0, inside, progress)
    save_trees(trees, out, inside)
    typer.echo(str(out))
