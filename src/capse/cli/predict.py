"""capse predict: ask a trained model for missing heads or tails."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capse.cli.formats import formats
from capse.cli.output import echo, echo_json

if TYPE_CHECKING:
    from capse.graph.link_prediction.calibration import Calibration
    from capse.graph.link_prediction.completion import Prediction
    from capse.graph.link_prediction.predictor import LinkPredictor

app = typer.Typer(
    short_help="Ask a trained model for missing heads or tails.", rich_markup_mode=None, add_completion=False
)


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    relation: Annotated[str | None, typer.Option(help="The relation, by label or name.")] = None,
    head: Annotated[str | None, typer.Option(help="The head; tails are then asked for.")] = None,
    tail: Annotated[str | None, typer.Option(help="The tail; heads are then asked for.")] = None,
    top: Annotated[int, typer.Option(help="How many predictions a query gets.")] = 10,
    new: Annotated[bool, typer.Option("--new", help="Leave known facts out.")] = False,
    queries: Annotated[Path | None, typer.Option("--input", metavar="FILE", help=f"Queries: {formats()}.")] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The Parquet file to write predictions to.")
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Fit probabilities on the validation set, and keep them in the run.")
    ] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Ask a trained model which entities complete (head, relation, ?) or (?, relation, tail).

    A file of queries has the columns head, relation and tail, with either the head or the tail left empty; names of
    columns may come first. The answers are a Parquet file with the columns head, relation, tail (the query), rank,
    entity, name, score, known and probability, in the order of the queries.

    Probabilities are shown once --calibrate has fitted them. They hold where true triples and triples with a random
    head or tail are equally frequent.
    """
    from dataclasses import asdict

    from capse.cli.display import say
    from capse.errors import SettingsError
    from capse.graph.link_prediction.predictor import LinkPredictor

    asks = any(text is not None for text in (relation, head, tail))
    if (queries is None) != (output is None):
        raise SettingsError("a file of queries needs a file for the predictions", "give both --input and --output")
    if queries and (asks or as_json):
        raise SettingsError("--input goes with neither a query nor --json", "leave out one or the other")
    if asks and relation is None:
        raise SettingsError("no relation is named", "give --relation")
    if not (asks or queries or calibrate):
        raise SettingsError("nothing is asked", "give --relation with --head or --tail, or --input with --output")

    predictor = LinkPredictor.load(run, device)
    if calibrate:
        calibration = predictor.calibrate()
        if asks or queries:
            say(_in_words(calibration))
        elif as_json:
            echo_json(asdict(calibration))
        else:
            echo(_in_words(calibration))
    if queries and output:
        _complete_file(predictor, queries, output, top, new)
    if relation is not None:
        predictions = predictor.predict(relation=relation, head=head, tail=tail, top=top, new=new)
        if as_json:
            echo_json([prediction.to_json() for prediction in predictions])
        else:
            _show(f"({head or '?'}, {relation}, {tail or '?'})", predictions)


def _complete_file(predictor: LinkPredictor, queries: Path, output: Path, top: int, new: bool) -> None:
    from capse.cli.display import progress, say
    from capse.graph.link_prediction.completion import predict_file

    with progress("predicting") as advance:
        count = predict_file(predictor, queries, output, top=top, new=new, progress=advance)
    say(f"answered {count:,} {'query' if count == 1 else 'queries'}")
    echo(output)


def _show(title: str, predictions: list[Prediction]) -> None:
    from capse.cli.display import show_table

    if not predictions:
        echo(f"{title}: nothing new")
        return
    columns = {"rank": [str(rank + 1) for rank in range(len(predictions))], "entity": [p.entity for p in predictions]}
    if any(p.name != p.entity for p in predictions):
        columns["name"] = [p.name for p in predictions]
    columns["score"] = [f"{p.score:.4f}" for p in predictions]
    if any(p.probability is not None for p in predictions):
        columns["probability"] = [f"{p.probability:.3f}" for p in predictions]
    columns[""] = ["known fact" if p.known else "" for p in predictions]
    sides = {column: "left" if column in ("entity", "name", "") else "right" for column in columns}
    show_table(title, sides, zip(*columns.values(), strict=True))


def _in_words(calibration: Calibration) -> str:
    return (
        f"calibrated on {calibration.triples:,} validation triples; on the half of them that was held out, the Brier "
        f"score is {calibration.brier_score:.4f} and the expected calibration error "
        f"{calibration.expected_calibration_error:.4f}"
    )
