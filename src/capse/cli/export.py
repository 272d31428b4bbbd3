"""capse export: a run's vectors and models in the forms of other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from capse.cli.options import Run, command_app
from capse.cli.output import echo

app = command_app("Write a run's vectors or model for other programs.")


@app.command()
def export(
    run: Run,
    out: Annotated[Path, typer.Option(help="The file to write; of hugging-face a new folder.")],
    form: Annotated[
        Literal["parquet", "numpy", "word2vec", "faiss", "hugging-face"],
        typer.Option("--format", metavar="FORMAT", help="parquet, numpy, word2vec, faiss or hugging-face."),
    ] = "parquet",
    licence: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the data, for the model card of hugging-face.")
    ] = None,
) -> None:
    """Write the vectors of a run as a table, an array or text, as an index for nearest neighbours, or all of the run in
    Hugging Face's folder layout, with a model card written from its record.

    A folder of hugging-face is a run as well: every command opens it.
    """
    from capse.errors import SettingsError
    from capse.graph.exchange.faiss_index import write_index
    from capse.graph.exchange.hugging_face import write_hugging_face
    from capse.graph.exchange.vectors import WRITERS
    from capse.graph.link_prediction.predictor import LinkPredictor

    if licence is not None and form != "hugging-face":
        raise SettingsError("--licence is for a model card", "give --format hugging-face, or leave it out")
    predictor = LinkPredictor.load(run, "cpu")
    if form == "hugging-face":
        assert predictor.folder is not None
        write_hugging_face(predictor.folder, out, licence)
    elif form == "faiss":
        write_index(predictor, out)
    else:
        WRITERS[form](predictor, out)
    echo(out)
