"""capse train: train a model on a graph."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from capse.cli.output import echo

app = typer.Typer(short_help="Train a model on a graph.", rich_markup_mode=None, add_completion=False)


@app.command()
def train(
    out: Annotated[Path, typer.Option(help="The run folder to write.")],
    recipe: Annotated[str | None, typer.Argument(help="A YAML file, or a name that 'capse recipes' lists.")] = None,
    data: Annotated[str | None, typer.Option(help="A dataset's name, or a folder with train.*")] = None,
    model: Annotated[
        str | None, typer.Option(help="A model's name; its shipped recipe is used if none is given.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one setting; may be repeated."),
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Tell a tracker too: mlflow or wandb, into the run unless told; repeatable."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped or killed.")] = False,
) -> None:
    """Train a model on a graph.

    Where neither a recipe nor a model is named, the best that is known is scaled to the graph and the machine, and
    said. A named model has the settings of its shipped recipe.

    Ctrl-C stops cleanly; --resume goes on and ends with the same weights as if nothing had happened.
    """
    from capse.cli.display import TrainingProgress
    from capse.errors import SettingsError
    from capse.experiments.automatic import choose, explain, explain_sample, sampled_where_large
    from capse.experiments.fit import fit
    from capse.experiments.listening import Listeners
    from capse.experiments.recipe import Recipe
    from capse.experiments.trackers import trackers
    from capse.graph.dataset import as_graph
    from capse.graph.link_prediction.predictor import load_run_graph
    from capse.processes.group import joined
    from capse.runs.folder import RunFolder
    from capse.runs.settings import override

    run, told = RunFolder(out), trackers(track or ())
    begun = resume and run.recipe.is_file()
    if begun:
        run.check_inputs()
    named = Recipe.names_model(recipe, model, settings)
    if begun and recipe is None and not named:
        resolved = Recipe.from_mapping(override(run.stored_recipe(), settings or []))
        named = True
    else:
        resolved = Recipe.resolve(recipe, model=model, overrides=settings)
    source = data or (load_run_graph(run) if begun else resolved.data)
    if source is None:
        raise SettingsError("no data is named", "give --data with a dataset's name or a folder")
    graph = as_graph(source)
    if not named:
        resolved = choose(graph, resolved.training.device).with_settings(recipe, settings)
    lines = [] if named else explain(resolved, graph)
    if named and not begun and Recipe.leaves_negatives(recipe, settings):
        sampled = sampled_where_large(resolved, len(graph.entities))
        lines = [] if sampled is resolved else [explain_sample(len(graph.entities))]
        resolved = sampled
    with joined(resolved.training.wait_seconds) as group:
        try:
            with TrainingProgress(resolved.training.epochs, resolved.validation.metric) as progress:
                listener = Listeners([progress, *told] if group.leads else [])
                for line in lines:
                    listener.message(line)
                fit(graph, resolved, out=out, resume=resume, listener=listener)
        except KeyboardInterrupt:
            if not group.leads:
                pass
            elif run.recipe.is_file():
                echo(f"stopped; continue with: capse train --resume --out {shlex.quote(str(out))}", err=True)
            else:
                echo("stopped before the training began", err=True)
            raise typer.Exit(130) from None
    if group.leads:
        echo(str(out))
