"""capse search propensities: where people look, estimated from their clicks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from capse.cli.options import command_app
from capse.cli.output import echo

app = command_app("Estimate from a log how likely each place is looked at.")


@app.command()
def propensities(
    log: Annotated[Path, typer.Option(help="An ingested log, or a folder with a log in a known format.")],
    model: Annotated[
        str | None, typer.Option(help="position, or cascade: reading from the top until a click; both if not given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the propensities as JSON.")] = False,
) -> None:
    """Estimate from the clicks of a log with which probability people look at each place.

    `position` compares what became of the same document for the same query at different places; `cascade` supposes that
    people read from the top and stop at some click. Which of the two holds is for you to say: where they disagree, put
    a few results into random places for a while, and look again.

    `--set bias.model=position` has 'capse search train' correct for it, `--bias position` has 'capse search evaluate'
    add figures without it.
    """
    from capse.cli.display import show_table
    from capse.search.bias.report import MODELS, estimate, places_of
    from capse.search.ingest import open_log

    if model is not None and model not in MODELS:
        from capse.errors import UnknownNameError

        raise UnknownNameError("model", model, MODELS, f"choose from {', '.join(MODELS)}")
    data = open_log(log)
    found = {name: estimate(data, name) for name in ([model] if model else MODELS)}
    places = places_of(data)
    if as_json:
        counts = {"shown": places.shown, "clicked": places.clicked}
        echo(json.dumps({"log": data.name, **counts, **{name: one.to_json() for name, one in found.items()}}))
        return
    columns = {"place": "right", "shown": "right", "clicked": "right"} | dict.fromkeys(found, "right")
    rows = (
        [str(place + 1), f"{places.shown[place]:,}", f"{places.clicked[place]:,}"]
        + [f"{one.looked[place]:.3f}" for one in found.values()]
        for place in range(len(places.shown))
    )
    show_table(f"{data.name}: how likely each place is looked at", columns, rows)
    for one in found.values():
        if one.continuation is not None:
            echo(f"cascade: after a click people read on with probability {one.continuation:.3f}")
