"""capse search evaluate: how good is a ranker, and better than what?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from capse.cli.options import Split, command_app
from capse.cli.output import echo
from capse.experiments.search.methods import BEST, COMMAND, METHODS, method_of

if TYPE_CHECKING:
    from capse.experiments.search.choice import Choice
    from capse.search.evaluation.comparison import ListComparison
    from capse.search.evaluation.evaluate import SearchEvaluation
    from capse.search.logs.history import HistoryKind

app = command_app("Rank the lists of a log with a method, beside all that it should be seen with.")


@app.command()
def evaluate(
    log: Annotated[Path, typer.Option(help="An ingested log, or a folder with a log in a known format.")],
    method: Annotated[
        str | None, typer.Option(help=f"{', '.join(METHODS)}; that of --run, or {BEST}, if not given.")
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="A run of 'capse search train'; without one, the method is trained first.")
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(metavar="RUN|METHOD", help="Another run on the same log, or a method that needs no training."),
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
    split: Split = "test",
    bias: Annotated[
        str,
        typer.Option(
            metavar="MODEL|NUMBERS",
            help="Add IPS and SNIPS figures: position, cascade, or propensities of places, between commas.",
        ),
    ] = "none",
    clip: Annotated[float, typer.Option(help="With --bias, the largest weight of a click.")] = 10.0,
    seed: Annotated[int | None, typer.Option(help="Of the training; the recipe's own if not given.")] = None,
    leak_control: Annotated[
        bool, typer.Option("--leak-control", help="Also run it all on shuffled labels: it must end at chance.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Rank every list of a split that has a satisfied click; ties count in expectation.

    Beside the method stand chance, the engine's order, a scorer that sees the document alone and the same ranker
    without the user, and whatever --against names. Each difference is tested twice: over lists, and over users, whose
    lists are not independent of one another.
    """
    from capse.cli.display import say
    from capse.cli.search.bias_tables import show_unbiased
    from capse.cli.search.progress import ListProgress
    from capse.experiments.search.choice import Choice
    from capse.search.bias.settings import PositionBias
    from capse.search.evaluation.evaluate import evaluate
    from capse.search.evaluation.leak_control import leak_control as control
    from capse.search.ingest import open_log

    known, corrected = _history(history), PositionBias(bias, clip)
    method = method or (BEST if run is None else method_of(run))
    choice = Choice(method, recipe=recipe, run=run, overrides=settings or [], seed=seed)
    others = {name: _other(name) for name in against or ()}
    data = open_log(log)
    with ListProgress(choice.epochs, "mrr") as progress:
        given = [
            evaluate(other.ranker(data), data, split, history=known, method=name, beside=False, bias=corrected)
            for name, other in others.items()
        ]
        ranker = choice.ranker(data, progress)
        found = evaluate(ranker, data, split, history=known, method=method, against=given, bias=corrected)
        checked = None
        if leak_control:
            progress.message("once more, with labels shuffled within each list")
            checked = control(
                data,
                lambda other: evaluate(
                    choice.to_train().ranker(other, progress), other, split, history=known, method=method, beside=False
                ),
            )
    content: dict[str, Any] = found.to_json()
    content["against"] = {other.method: other.metrics for other in given}
    if checked is not None:
        content["leak_control"] = checked.to_json()
        if checked.warning:
            content["warnings"] = [*content["warnings"], checked.warning]
    if as_json:
        echo(json.dumps(content, ensure_ascii=False))
    else:
        _show(found, given)
        (low, high), (least, most) = found.intervals["mrr"], found.intervals_over_users["mrr"]
        echo(f"MRR, 95 % bootstrap interval: {low:.4f} to {high:.4f} over lists, {least:.4f} to {most:.4f} over users.")
        if found.unbiased is not None:
            show_unbiased([found, *given])
        echo(f"{found.seconds:.1f} s.")
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


def _other(name: str) -> Choice:
    """A run by its folder, or a method by its name."""
    from capse.errors import SettingsError
    from capse.experiments.search.choice import Choice

    if Path(name).is_dir():
        return Choice(method_of(name), run=Path(name))
    if METHODS[name].learns:
        raise SettingsError(
            f"--against {name} would have to be trained", f"train it, and give the run's folder: {COMMAND}"
        )
    return Choice(name)


def _show(found: SearchEvaluation, against: list[SearchEvaluation]) -> None:
    """The method and what it should be seen with; its users in parts; what it gains, over lists and over users."""
    from capse.cli.display import show_table

    title = (
        f"{found.log}, {found.split}: {found.impressions:,} lists with a satisfied click, of {found.users:,} users, "
        f"{found.history} history"
    )
    beside = {name.replace("_", " "): values for name, values in found.beside.items()}
    beside |= {other.method: other.metrics for other in against}
    parts = {"users seen before": found.warm, "users not seen": found.cold}
    parts |= {"users with a click": found.with_history, "users without a click": found.without_history}
    rows = {found.method: found.metrics, **beside, **parts}
    figures = ("lists", "MRR", "Hits@1", "NDCG@10", "engine's MRR there")
    columns = {"": "left"} | dict.fromkeys(figures, "right")
    show_table(title, columns, (_figures(found, *row) for row in rows.items() if "mrr" in row[1]))
    tests = ("MRR gained", "over lists", "p", "over users", "p")
    header = {"": "left"} | {f"{name}{' ' * place}": "right" for place, name in enumerate(tests)}
    compared = {name.replace("_", " "): comparison for name, comparison in found.comparisons.items()}
    title = f"what {found.method} gains, with 95 % intervals and paired tests"
    show_table(title, header, (_tests(name, comparison) for name, comparison in compared.items()))


def _figures(found: SearchEvaluation, name: str, values: dict[str, float]) -> list[str]:
    return [
        name,
        f"{int(values.get('impressions', found.impressions)):,}",
        f"{values['mrr']:.4f}",
        f"{100 * values['hits@1']:.1f}",
        f"{values['ndcg@10']:.4f}",
        f"{values['engine_mrr']:.4f}" if "engine_mrr" in values else "",
    ]


def _tests(name: str, found: ListComparison) -> list[str]:
    users = found.over_users
    return [
        name,
        f"{found.difference:+.4f}",
        _interval(found.low, found.high),
        f"{found.p_value:.1g}",
        _interval(users.low, users.high),
        f"{users.p_value:.1g}",
    ]


def _interval(low: float, high: float) -> str:
    return f"{low:+.3f} to {high:+.3f}".replace("0.", ".")
