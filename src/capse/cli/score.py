"""capse score: how plausible the triples of a file are, and whether they are true."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capse.cli.options import AsJson, Device, Run, command_app
from capse.cli.output import echo, echo_json
from capse.graph.readers import suffixes

if TYPE_CHECKING:
    from capse.evaluation.judgements import Judgements
    from capse.graph.link_prediction.predictor import LinkPredictor

app = command_app("How plausible the triples of a file are; whether they are true.")

_SHOWN = 20  # triples in the table for people


@app.command()
def score(
    run: Run,
    file: Annotated[Path, typer.Argument(metavar="FILE", help=f"Triples: {suffixes()}.")],
    classify: Annotated[bool, typer.Option("--classify", help="Say of each whether it is true.")] = False,
    negatives: Annotated[
        Path | None, typer.Option(metavar="FILE", help="False triples: say how well FILE is told from these.")
    ] = None,
    valid_negatives: Annotated[
        Path | None, typer.Option(metavar="FILE", help="False triples to choose on; hard ones are made if not given.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the hard negatives that are made.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the reliability of probabilities: .svg, .png or .pdf.")
    ] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Score triples; with --classify also say whether each is true, with a probability.

    What is true is decided by a threshold for each relation. Thresholds and probabilities are chosen on the validation
    triples and on as many false ones, and kept in the run; they hold for such a mix. False ones are those of
    --valid-negatives, or hard ones: other answers of the same relation that make no known triple.

    With --negatives, the triples of FILE are taken to be true and those false, and accuracy, F1, area under the curve,
    average precision and calibration error are reported.
    """
    from capse.errors import SettingsError
    from capse.graph.link_prediction.predictor import LinkPredictor

    if not classify and (negatives or valid_negatives or plot):
        raise SettingsError("--negatives, --valid-negatives and --plot are for judging", "give --classify")
    if plot and not negatives:
        raise SettingsError("reliability is drawn where the truth is known", "give --negatives")
    if plot and plot.suffix.lower() not in (".svg", ".png", ".pdf"):
        raise SettingsError(f"{plot} is no name for a picture", "let it end in .svg, .png or .pdf")
    predictor = LinkPredictor.load(run, device)
    if classify:
        _classify(predictor, file, negatives, valid_negatives, seed, plot, as_json)
    else:
        _score(predictor, file, as_json)


def _score(predictor: LinkPredictor, file: Path, as_json: bool) -> None:
    from capse.graph.link_prediction.triple_files import read_known_triples

    ids = read_known_triples(file, predictor.graph)
    scores = predictor.score_ids(ids).tolist()
    known = predictor.graph.known.contains(*ids.T).tolist()
    entities, relations = predictor.graph.entities.labels, predictor.graph.relations.labels
    rows = [
        {"head": entities[h], "relation": relations[r], "tail": entities[t], "score": score, "known": known}
        for (h, r, t), score, known in zip(ids.tolist(), scores, known, strict=True)
    ]
    if as_json:
        echo_json(rows)
    else:
        _show(rows)


def _classify(
    predictor: LinkPredictor,
    file: Path,
    negatives: Path | None,
    valid_negatives: Path | None,
    seed: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    from dataclasses import asdict

    from capse.cli.display import say
    from capse.graph.link_prediction.triple_files import read_known_triples

    read_known_triples(file, predictor.graph)  # before anything is chosen or written
    for path in filter(None, (negatives, valid_negatives)):
        false = read_known_triples(path, predictor.graph)
        if known := int(predictor.graph.known.contains(*false.T).sum()):
            say(f"warning: {known:,} of the {len(false):,} triples of {path} are known facts, and count as false")
    classifier = predictor.classifier(valid_negatives, seed)
    found = [asdict(verdict) for verdict in predictor.classify(file, classifier=classifier)]
    judged = predictor.judge(file, negatives, classifier=classifier) if negatives else None
    if plot and judged:
        _draw(judged, plot)
    if as_json:
        chosen = {"on": classifier.negatives, "triples": classifier.triples, "held_out": classifier.held_out}
        answer: dict[str, Any] = {"triples": found, "chosen": chosen}
        echo_json(answer | ({"judgements": judged.to_json()} if judged else {}))
        return
    _show(found)
    echo(f"{sum(row['true'] for row in found):,} of {len(found):,} are said to be true")
    echo(
        f"chosen on {classifier.triples:,} validation triples and false ones, {classifier.negatives}; held-out fifths "
        f"of them were judged with an accuracy of {classifier.held_out['by_relation']['accuracy']:.3f}"
    )
    if judged:
        _report(judged)


def _report(judged: Judgements) -> None:
    echo()
    echo(f"{judged.true:,} true and {judged.triples - judged.true:,} false triples")
    for name, made in (("a threshold for each relation", judged.by_relation), ("one threshold", judged.one_threshold)):
        echo(
            f"{name}: accuracy {made.accuracy:.4f}, F1 {made.f1:.4f}, precision {made.precision:.4f}, "
            f"recall {made.recall:.4f}"
        )
    if judged.auc is not None:
        echo(f"area under the curve {judged.auc:.4f}, average precision {judged.average_precision:.4f}")
    echo(
        f"calibration error {judged.expected_calibration_error:.4f}, Brier score {judged.brier_score:.4f}, on this "
        f"mix; mean probability {judged.mean_probability_true:.3f} of true, {judged.mean_probability_false:.3f} of "
        "false"
    )


def _draw(judged: Judgements, path: Path) -> None:
    from capse.cli.display import say
    from capse.reports.figures import reliability
    from capse.runs.atomic import atomic_path

    with atomic_path(path) as temporary:
        reliability(judged.to_json()).savefig(temporary, format=path.suffix[1:].lower())
    say(f"drew {path}")


def _show(rows: list[dict[str, Any]]) -> None:
    from capse.cli.display import show_table

    sides = {"head": "left", "relation": "left", "tail": "left", "score": "right"}
    judged = "probability" in rows[0]
    if judged:
        sides |= {"probability": "right", "said": "left"}
    sides[""] = "left"
    cells = [
        [row["head"], row["relation"], row["tail"], f"{row['score']:.4f}"]
        + ([f"{row['probability']:.3f}", "true" if row["true"] else "false"] if judged else [])
        + ["known fact" if row["known"] else ""]
        for row in rows[:_SHOWN]
    ]
    show_table(f"{len(rows):,} triples", sides, cells)
    if len(rows) > _SHOWN:
        echo(f"... and {len(rows) - _SHOWN:,} more; --json has all")
