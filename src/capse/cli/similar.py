"""capse similar: entities whose vectors are near another's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from capse.cli.options import AsJson, Run, command_app
from capse.cli.output import echo_json

app = command_app("Entities whose vectors are near another's.")


@app.command()
def similar(
    run: Run,
    entity: Annotated[str, typer.Argument(metavar="ENTITY", help="By label or name.")],
    top: Annotated[int, typer.Option(help="How many neighbours.")] = 10,
    index: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Ask a FAISS index of this run, as 'capse export' makes it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the entities nearest to one, by the cosine of their vectors.

    What is near depends on the model: translations put entities together that have the same place in facts, products
    those that point the same way.
    """
    from dataclasses import asdict

    from capse.cli.display import show_table
    from capse.graph.exchange.faiss_index import similar_by_index
    from capse.graph.link_prediction.neighbours import similar as nearest
    from capse.graph.link_prediction.predictor import LinkPredictor

    predictor = LinkPredictor.load(run)
    found = nearest(predictor, entity, top) if index is None else similar_by_index(predictor, index, entity, top)
    if as_json:
        echo_json([asdict(near) for near in found])
        return
    rows = [(str(rank), near.entity, near.name, f"{near.similarity:.4f}") for rank, near in enumerate(found, start=1)]
    show_table(f"near {entity}", {"rank": "right", "entity": "left", "name": "left", "similarity": "right"}, rows)
