"""capse evaluate: rank the triples of a split with a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from capse.cli.output import echo, echo_json

app = typer.Typer(
    short_help="Rank the test triples with a trained model, all tie policies side by side.",
    rich_markup_mode=None,
    add_completion=False,
)


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    data: Annotated[str | None, typer.Option(help="Another dataset or folder in the run's vocabulary.")] = None,
    split: Annotated[str, typer.Option(help="train, valid or test.")] = "test",
    raw: Annotated[bool, typer.Option("--raw", help="Let other known triples compete too.")] = False,
    exact: Annotated[bool, typer.Option("--exact", help="Decide in float64 what float32 cannot.")] = False,
    memory: Annotated[int | None, typer.Option(metavar="MIB", help="Memory for scores; chosen by itself.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON, breakdowns included.")] = False,
) -> None:
    """Rank both sides of every triple, optimistic, realistic, pessimistic and expected figures side by side."""
    from capse.cli.display import progress, say, show_metrics
    from capse.errors import SettingsError
    from capse.graph.link_prediction.predictor import LinkPredictor

    if memory is not None and memory < 1:
        raise SettingsError(f"--memory is {memory}", "give a number of MiB, 1 or more")
    predictor = LinkPredictor.load(run, device)
    with progress("ranking") as advance:
        result = predictor.evaluate(
            split,
            data,
            filtered=not raw,
            memory=None if memory is None else memory * 2**20,
            exact=exact,
            progress=advance,
        )
    if as_json:
        echo_json(result.to_json())
    else:
        kind = ("exact " if result.exact else "") + ("filtered" if result.filtered else "raw")
        title = f"{result.dataset}, {result.split}: {result.triples:,} triples, {kind} ranks"
        show_metrics(title, result.metrics["both"])
        realistic = {side: result.metrics[side]["realistic"] for side in ("head", "tail")}
        show_metrics("realistic, by the side asked for", realistic)
        low, high = result.intervals["both"]["realistic"]["mrr"]
        echo(f"realistic MRR, 95 % bootstrap interval: {low:.4f} to {high:.4f}")
        echo(
            f"{result.unseen_triples:,} triples have an entity that training never saw; they are included. "
            f"{result.seconds:.1f} s."
        )
    for warning in result.warnings:
        say(f"warning: {warning}")
