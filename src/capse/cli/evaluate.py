"""capse evaluate: rank the triples of a split with a trained model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from capse.cli.candidates import Among, SkipUnknown, candidates
from capse.cli.options import Device, Run, Split, command_app
from capse.cli.output import echo, echo_json

if TYPE_CHECKING:
    from capse.graph.link_prediction.evaluation import LinkPredictionResult

app = command_app("Rank the test triples with a trained model, all tie policies side by side.")


@app.command()
def evaluate(
    run: Run,
    data: Annotated[str | None, typer.Option(help="Another dataset or folder in the run's vocabulary.")] = None,
    split: Split = "test",
    raw: Annotated[bool, typer.Option("--raw", help="Let other known triples compete too.")] = False,
    exact: Annotated[bool, typer.Option("--exact", help="Decide in float64 what float32 cannot.")] = False,
    relations: Annotated[
        bool | None,
        typer.Option(
            "--relations/--no-relations",
            help="Rank each triple's relation too; by default where the model is quick at it.",
            show_default=False,
        ),
    ] = None,
    among: Among = None,
    skip_unknown: SkipUnknown = False,
    memory: Annotated[int | None, typer.Option(metavar="MIB", help="Memory for scores; chosen by itself.")] = None,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON, breakdowns included.")] = False,
) -> None:
    """Rank both sides of every triple, optimistic, realistic, pessimistic and expected figures side by side.

    --among ranks the same questions among fewer candidates as well, also among sampled:N, that is N drawn at random for
    each. That is easier, and what comes of it stands under a name of its own, never among the metrics.

    Started by torchrun, several processes divide the questions; the ranks are those of one.
    """
    from capse.cli.display import progress, say, show_metrics
    from capse.errors import SettingsError
    from capse.graph.link_prediction.predictor import LinkPredictor
    from capse.processes.group import joined
    from capse.runs.devices import choose_device

    if memory is not None and memory < 1:
        raise SettingsError(f"--memory is {memory}", "give a number of MiB, 1 or more")
    with joined() as group:
        predictor = LinkPredictor.load(run, group.device(choose_device(device)))
        with progress("ranking") as advance:
            result = predictor.evaluate(
                split,
                data,
                filtered=not raw,
                memory=None if memory is None else memory * 2**20,
                exact=exact,
                relations=relations,
                among=candidates(predictor.graph, among, skip_unknown),
                progress=advance if group.leads else None,
                group=group,
            )
    if not group.leads:
        return
    if as_json:
        echo_json(result.to_json())
    else:
        kind = ("exact " if result.exact else "") + ("filtered" if result.filtered else "raw")
        title = f"{result.dataset}, {result.split}: {result.triples:,} triples, {kind} ranks"
        show_metrics(title, result.metrics["both"])
        realistic = {side: metrics["realistic"] for side, metrics in result.metrics.items() if side != "both"}
        show_metrics("realistic, by what is asked for", realistic)
        low, high = result.intervals["both"]["realistic"]["mrr"]
        echo(f"realistic MRR, 95 % bootstrap interval: {low:.4f} to {high:.4f}")
        _show_others(result)
        echo(
            f"{result.unseen_triples:,} triples have an entity that training never saw; they are included. "
            f"{result.seconds:.1f} s."
        )
        if split == "valid" and result.filtered:
            echo(
                "These ranks are filtered by train, valid and test. Those that the log of a training shows, and that "
                "chose the epoch, are filtered by train and valid alone."
            )
    for warning in result.warnings:
        say(f"warning: {warning}")


def _show_others(result: LinkPredictionResult) -> None:
    """Metrics adjusted for chance, averages over relations, and ranks among chosen candidates."""
    from capse.cli.display import show_metrics

    against, macro = result.adjusted["both"]["realistic"], result.macro["both"]["realistic"]
    echo(f"against chance: adjusted mean rank index {against['amri']:.4f}, adjusted MRR {against['adjusted_mrr']:.4f}")
    echo(f"every relation counting the same: MRR {macro['mrr']:.4f}, Hits@10 {100 * macro['hits@10']:.1f} %")
    if result.weighted:
        weighted = result.weighted["both"]["realistic"]
        echo(f"triples counting as they weigh: MRR {weighted['mrr']:.4f}, Hits@10 {100 * weighted['hits@10']:.1f} %")
    if result.restricted:
        among, size = result.restricted["among"], result.restricted["mean_candidates"]
        title = f"among candidates only ({among}; {size:,.1f} on average): not to be compared with ranks among all"
        show_metrics(title, result.restricted["metrics"]["both"])
        low, high = result.restricted["intervals"]["both"]["realistic"]["mrr"]
        echo(f"realistic MRR among them, 95 % bootstrap interval: {low:.4f} to {high:.4f}")
