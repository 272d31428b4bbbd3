"""capse predict: ask a trained model for missing heads, tails or relations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capse.cli.candidates import Among, SkipUnknown, candidates
from capse.cli.options import AsJson, Device, Run, command_app
from capse.cli.output import echo, echo_json
from capse.graph.readers import suffixes

if TYPE_CHECKING:
    from capse.graph.link_prediction.calibration import Calibration
    from capse.graph.link_prediction.candidates import Candidates
    from capse.graph.link_prediction.completion import PredictedRelation, Prediction
    from capse.graph.link_prediction.predictor import LinkPredictor

app = command_app("Ask a trained model for missing heads, tails or relations.")


@app.command()
def predict(
    run: Run,
    relation: Annotated[str | None, typer.Option(help="The relation, by label or name.")] = None,
    head: Annotated[str | None, typer.Option(help="The head.")] = None,
    tail: Annotated[str | None, typer.Option(help="The tail.")] = None,
    top: Annotated[int, typer.Option(help="How many predictions a query gets.")] = 10,
    new: Annotated[bool, typer.Option("--new", help="Leave known facts out.")] = False,
    queries: Annotated[Path | None, typer.Option("--input", metavar="FILE", help=f"Queries: {suffixes()}.")] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The Parquet file to write predictions to.")
    ] = None,
    among: Among = None,
    skip_unknown: SkipUnknown = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Fit probabilities on the validation set, and keep them in the run.")
    ] = False,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Ask a trained model what completes (head, relation, ?), (?, relation, tail) or (head, ?, tail).

    Give two of --head, --relation and --tail; the third is what is asked for.

    A file of queries has the columns head, relation and tail, one of which is empty in each row; names of columns may
    come first. The answers are a Parquet file with the columns head, relation, tail (the query), rank, entity, name,
    score, known and probability, in the order of the queries. A relation that was asked for stands in relation, and
    entity is then empty.

    Probabilities are shown once --calibrate has fitted them. They hold where true triples and triples with a random
    head or tail are equally frequent.
    """
    from capse.graph.link_prediction.completion import predict as ask
    from capse.graph.link_prediction.predictor import LinkPredictor

    given = [text for text in (relation, head, tail) if text is not None]
    asks = bool(given)
    _check(len(given), queries, output, calibrate, as_json)
    predictor = LinkPredictor.load(run, device)
    if calibrate:
        _tell(predictor.calibrate(), aside=bool(asks or queries), as_json=as_json)
    chosen = candidates(predictor.graph, among, skip_unknown)
    if queries and output:
        _complete_file(predictor, queries, output, top, new, chosen)
    if asks:
        answers = ask(predictor, relation=relation, head=head, tail=tail, top=top, new=new, among=chosen)
        if as_json:
            echo_json([answer.to_json() for answer in answers])
        else:
            _show(f"({head or '?'}, {relation or '?'}, {tail or '?'})", answers)


def _check(given: int, queries: Path | None, output: Path | None, calibrate: bool, as_json: bool) -> None:
    """One thing is asked, in full; ``given`` counts the parts of a triple."""
    from capse.errors import SettingsError

    if (queries is None) != (output is None):
        raise SettingsError("a file of queries needs a file for the predictions", "give both --input and --output")
    if queries and (given or as_json):
        raise SettingsError("--input goes with neither a query nor --json", "leave out one or the other")
    if given not in (0, 2):
        raise SettingsError(f"{given} of --head, --relation and --tail given", "give two; the third is asked for")
    if not (given or queries or calibrate):
        raise SettingsError("nothing is asked", "give two of --head, --relation and --tail, or --input with --output")


def _tell(calibration: Calibration, *, aside: bool, as_json: bool) -> None:
    """What the calibration came to: the answer, or where a question is answered too, beside it."""
    from dataclasses import asdict

    from capse.cli.display import say

    if aside:
        say(_in_words(calibration))
    elif as_json:
        echo_json(asdict(calibration))
    else:
        echo(_in_words(calibration))


def _complete_file(
    predictor: LinkPredictor, queries: Path, output: Path, top: int, new: bool, among: Candidates | None
) -> None:
    from capse.cli.display import progress, say
    from capse.graph.link_prediction.completion import predict_file

    with progress("predicting") as advance:
        count = predict_file(predictor, queries, output, top=top, new=new, among=among, progress=advance)
    say(f"answered {count:,} {'query' if count == 1 else 'queries'}")
    echo(output)


def _show(title: str, predictions: list[Prediction] | list[PredictedRelation]) -> None:
    from capse.cli.display import show_table

    if not predictions:
        echo(f"{title}: nothing new")
        return
    rows = [p.to_json() for p in predictions]
    kind = next(iter(rows[0]))  # entity or relation
    columns = {"rank": [str(rank + 1) for rank in range(len(rows))], kind: [row[kind] for row in rows]}
    if any(row["name"] != row[kind] for row in rows):
        columns["name"] = [row["name"] for row in rows]
    columns["score"] = [f"{row['score']:.4f}" for row in rows]
    if "probability" in rows[0]:
        columns["probability"] = [f"{row['probability']:.3f}" for row in rows]
    columns[""] = ["known fact" if row["known"] else "" for row in rows]
    sides = {column: "left" if column in (kind, "name", "") else "right" for column in columns}
    show_table(title, sides, zip(*columns.values(), strict=True))


def _in_words(calibration: Calibration) -> str:
    return (
        f"calibrated on {calibration.triples:,} validation triples; on the half of them that was held out, the Brier "
        f"score is {calibration.brier_score:.4f} and the expected calibration error "
        f"{calibration.expected_calibration_error:.4f}, against random corruptions; of plausible false facts "
        "'capse score --classify' says more"
    )
