"""capse demo: the paper's way to train, end to end, on the embedded graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capse.cli.options import command_app
from capse.cli.output import echo

if TYPE_CHECKING:
    from capse.experiments.recipe import Recipe
    from capse.reports.recorded import RecordedRun

RECIPES = {"transe": "demo-transe", "capse": "demo-capse"}
WORDING = {
    "borders": "Which country borders {}?",
    "clock": "Which clock does {} use?",
    "language": "Which language is spoken in {}?",
    "located in": "Which part of the world is {} in?",
    "time zone": "Which time zone is {} in?",
}

app = command_app("Train TransE, then CapsE from it, on the embedded graph.")


@app.command()
def demo(out: Annotated[Path, typer.Option(help="The folder for both runs and the report.")] = Path("demo")) -> None:
    """Train TransE, then CapsE from it, on the embedded graph; show figures and predictions, and write a report.

    Takes about a minute. Run again, it uses the finished runs, and goes on with one that was stopped.
    """
    from capse.experiments.recipe import Recipe
    from capse.reports.recorded import record_runs
    from capse.reports.report import write_report

    transe, capse = out / "transe", out / "capse"
    with one_thread():
        _train(Recipe.resolve(RECIPES["transe"]), transe)
        recipe = Recipe.resolve(RECIPES["capse"])
        _train(replace(recipe, start=replace(recipe.start, run=str(transe))), capse)
        runs = record_runs([transe, capse], wording=WORDING)
    _show(runs)
    write_report(runs, out / "report.html")
    echo(f"\nThe whole report, with figures: {out / 'report.html'}")


@contextmanager
def one_thread() -> Iterator[None]:
    """Figures that do not hang on the number of cores; and steps this small crawl when threads wait for busy cores."""
    import numba
    import torch

    before = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        numba.set_num_threads(before[1])


def _train(recipe: Recipe, folder: Path) -> None:
    from capse.cli.display import TrainingProgress
    from capse.experiments.fit import fingerprint, fit
    from capse.experiments.recipe import Recipe
    from capse.graph.dataset import load_graph
    from capse.graph.link_prediction.predictor import load_run_graph
    from capse.runs.folder import RunFolder

    graph = load_graph("countries")
    run = RunFolder(folder)
    with TrainingProgress(recipe.training.epochs, recipe.validation.metric) as progress:
        if run.results.is_file():
            trained = fingerprint(Recipe.resolve(run.recipe), load_run_graph(run))
            if trained == fingerprint(recipe, graph):
                progress.message(f"{folder} is there already and is used as it is")
                return
        progress.message(f"training {folder}")
        try:
            fit(graph, recipe, out=folder, resume=True, listener=progress)
        except KeyboardInterrupt:
            progress.message("stopped; the same command goes on from here")
            raise typer.Exit(130) from None


def _show(runs: list[RecordedRun]) -> None:
    """Figures and examples on standard output."""
    from capse.cli.display import say, show_metrics
    from capse.evaluation.paired import compare
    from capse.reports.figures import POLICIES
    from capse.reports.text import difference_sentence, ties_sentence

    first, last = runs[0], runs[-1]
    rows = {f"{run.name}, {policy}": run.evaluation.metrics["both"][policy] for run in runs for policy in POLICIES}
    title = f"{last.graph.name}, test: {last.evaluation.triples:,} triples, both sides, filtered ranks"
    show_metrics(title, rows)
    for run in runs:
        low, high = run.evaluation.intervals["both"]["realistic"]["mrr"]
        echo(f"{run.name}: realistic MRR, 95 % bootstrap interval {low:.4f} to {high:.4f}.")
        echo(ties_sentence(run.name, run.tied))
        for warning in run.evaluation.warnings:
            say(f"warning: {run.name}: {warning}")
    comparison = compare(last.reciprocal_ranks, first.reciprocal_ranks)
    echo(difference_sentence(last.name, first.name, comparison))
    echo(f"\nTest queries drawn with a fixed seed, and the best predictions of {last.name} that training lacks:")
    for example in last.examples:
        guesses = ", ".join(f"{guess.name}{' (true)' if guess.true else ''}" for guess in example.guesses)
        verdict = "right" if example.guesses[0].true else "wrong"
        echo(f"  {example.question}\n    {verdict}: {guesses}; held out: {example.answer}, rank {example.rank:g}")
