"""capse search evaluate: how good is a ranker, and better than what?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from capse.cli.output import echo
from capse.experiments.search.methods import METHODS

if TYPE_CHECKING:
    from capse.search.evaluation.evaluate import SearchEvaluation
    from capse.search.logs.history import HistoryKind

app = typer.Typer(
    short_help="Rank the lists of a log with a method, beside all that it should be seen with.",
    rich_markup_mode=None,
    add_completion=False,
)


@app.command()
def evaluate(
    log: Annotated[Path, typer.Option(help="An ingested log, or a folder with a log in a known format.")],
    method: Annotated[str, typer.Option(help=f"{', '.join(METHODS)}.")],
    run: Annotated[
        Path | None, typer.Option(help="A run of 'capse search train'; without one, the method is trained first.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="What to train it with: a YAML file or a shipped search recipe.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one setting of that; may be repeated."),
    ] = None,
    history: Annotated[
        str, typer.Option(help="prequential: all before an impression; frozen: nothing of the split itself.")
    ] = "prequential",
    split: Annotated[str, typer.Option(help="train, valid or test.")] = "test",
    seed: Annotated[int | None, typer.Option(help="Of the training; the recipe's own if not given.")] = None,
    leak_control: Annotated[
        bool, typer.Option("--leak-control", help="Also run it all on shuffled labels: it must end at chance.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Rank every list of a split that has a satisfied click; ties count in expectation.

    Beside the method stand chance, the engine's order, a scorer that sees the document alone and the same ranker
    without the user, with the significance of each difference (paired t-test).
    """
    from capse.cli.display import say
    from capse.cli.search.progress import ListProgress
    from capse.experiments.search.choice import Choice
    from capse.search.evaluation.evaluate import evaluate
    from capse.search.evaluation.leak_control import leak_control as control
    from capse.search.ingest import open_log

    known = _history(history)
    choice = Choice(method, recipe=recipe, run=run, overrides=settings or [], seed=seed)
    data = open_log(log)
    with ListProgress(choice.epochs, "mrr") as progress:
        found = evaluate(choice.ranker(data, progress), data, split, history=known, method=method)
        checked = None
        if leak_control:
            progress.message("once more, with labels shuffled within each list")
            checked = control(
                data,
                lambda other: evaluate(
                    choice.anew().ranker(other, progress), other, split, history=known, method=method, beside=False
                ),
            )
    content: dict[str, Any] = found.to_json()
    if checked is not None:
        content["leak_control"] = checked.to_json()
        if checked.warning:
            content["warnings"] = [*content["warnings"], checked.warning]
    if as_json:
        echo(json.dumps(content, ensure_ascii=False))
    else:
        _show(found)
        low, high = found.intervals["mrr"]
        echo(f"MRR, 95 % bootstrap interval: {low:.4f} to {high:.4f}. {found.seconds:.1f} s.")
        if checked is not None:
            echo(f"leak control: MRR {checked.mrr:.4f} on shuffled labels, chance is {checked.chance:.4f}")
    for warning in content["warnings"]:
        say(f"warning: {warning}")


def _history(text: str) -> HistoryKind:
    from capse.errors import UnknownNameError
    from capse.search.logs.history import HistoryKind

    kinds = get_args(HistoryKind)
    if text not in kinds:
        raise UnknownNameError("history", text, kinds, f"choose from {', '.join(kinds)}")
    return cast("HistoryKind", text)


def _show(found: SearchEvaluation) -> None:
    """The method first, then what it should be seen with, then its users in parts."""
    from capse.cli.display import show_table

    title = f"{found.log}, {found.split}: {found.impressions:,} lists with a satisfied click, {found.history} history"
    columns = {"": "left"} | dict.fromkeys(("lists", "MRR", "Hits@1", "NDCG@10", "MRR gained", "p"), "right")
    rows: dict[str, dict[str, float]] = {found.method: {"impressions": found.impressions, **found.metrics}}
    rows |= {name.replace("_", " "): values for name, values in found.beside.items()}
    rows |= {"users seen before": found.warm, "users not seen": found.cold, "users with a click": found.with_history}
    show_table(title, columns, (_cells(found, name, values) for name, values in rows.items() if "mrr" in values))


def _cells(found: SearchEvaluation, name: str, values: dict[str, float]) -> list[str]:
    against = found.comparisons.get(name.replace(" ", "_"))
    return [
        name,
        f"{int(values.get('impressions', found.impressions)):,}",
        f"{values['mrr']:.4f}",
        f"{100 * values['hits@1']:.1f}",
        f"{values['ndcg@10']:.4f}",
        f"{against.difference:+.4f}" if against else "",
        f"{against.p_value:.2g}" if against else "",
    ]
