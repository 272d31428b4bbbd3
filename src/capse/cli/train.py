"""capse train: train a model on a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from capse.cli.options import Resume, Settings, command_app
from capse.cli.output import echo
from capse.cli.stopping import resumable

app = command_app("Train a model on a graph.")


@app.command()
def train(
    out: Annotated[Path, typer.Option(help="The run folder to write.")],
    recipe: Annotated[str | None, typer.Argument(help="A YAML file, or a name that 'capse recipes' lists.")] = None,
    data: Annotated[str | None, typer.Option(help="A dataset's name, or a folder with train.*")] = None,
    model: Annotated[
        str | None, typer.Option(help="A model's name; its shipped recipe is used if none is given.")
    ] = None,
    settings: Settings = None,
    track: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Tell a tracker too: mlflow or wandb, into the run unless told; repeatable."),
    ] = None,
    resume: Resume = False,
) -> None:
    """Train a model on a graph.

    Where neither a recipe nor a model is named, the best that is known is scaled to the graph and the machine, and
    said. A named model has the settings of its shipped recipe.

    Ctrl-C stops cleanly; --resume goes on and ends with the same weights as if nothing had happened.
    """
    from capse.cli.display import TrainingProgress
    from capse.errors import SettingsError
    from capse.experiments.automatic import choose, explain, sampled_where_large
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
        resolved, named = Recipe.from_mapping(override(run.stored_recipe(), settings or [])), True
    else:
        resolved = Recipe.resolve(recipe, model=model, overrides=settings)
    source = data or (load_run_graph(run) if begun else resolved.data)
    if source is None:
        raise SettingsError("no data is named", "give --data with a dataset's name or a folder")
    graph, lines = as_graph(source), list[str]()
    if not named:
        resolved = choose(graph, resolved.training.device).with_settings(recipe, settings)
        lines = explain(resolved, graph)
    elif not begun and Recipe.leaves_negatives(recipe, settings):
        resolved, lines = sampled_where_large(resolved, graph)
    with (
        joined(resolved.training.wait_seconds) as group,
        resumable(run.recipe, "capse", "train", "--resume", "--out", out, aloud=group.leads),
        TrainingProgress(resolved.training.epochs, resolved.validation.metric) as progress,
    ):
        listener = Listeners([progress, *told] if group.leads else [])
        for line in lines:
            listener.message(line)
        fit(graph, resolved, out=out, resume=resume, listener=listener)
    if group.leads:
        echo(str(out))
