"""capse update: give a trained run new facts and new entities, without training again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from capse.cli.options import Device, Run, command_app
from capse.cli.output import echo
from capse.graph.readers import suffixes

app = command_app("Give a run new facts and entities, without training again.")


@app.command()
def update(
    run: Run,
    facts: Annotated[
        Path | None, typer.Argument(metavar="FACTS", help=f"New facts: {suffixes()}; may be missing beside --names.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A new run folder; RUN itself is replaced if not given.")] = None,
    skip_known: Annotated[
        bool, typer.Option("--skip-known", help="Leave out facts that the run knows already, instead of refusing.")
    ] = False,
    names: Annotated[
        Path | None,
        typer.Option(
            help="Texts of new entities, 'entity<TAB>name' with that header, for runs that started from texts."
        ),
    ] = None,
    words: Annotated[
        Path | None, typer.Option(help="The word vectors that the run started from, if they lie elsewhere now.")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(metavar="MODULE:FUNCTION", help="The run's encoder, if it is code of your own.")
    ] = None,
    steps: Annotated[int, typer.Option(min=0, help="Steps that a new entity's vector takes; 0 leaves its start.")] = 60,
    device: Device = "auto",
) -> None:
    """Add facts to a run, and fold in the entities that they are the first to name.

    A fact about known entities is known from then on; no vector moves. A new entity gets a vector from its facts, all
    other numbers staying what they are, so that every score of before stays the same. Relations cannot be added.
    """
    from capse.cli.display import progress
    from capse.errors import SettingsError
    from capse.experiments.new_texts import fold_in_texts
    from capse.graph.fold_in import FoldIn
    from capse.graph.link_prediction.predictor import LinkPredictor
    from capse.graph.names import read_names
    from capse.runs.atomic import check_free

    if facts is None and names is None:
        raise SettingsError("there is nothing to add", "give a file of facts, or texts of new entities by --names")
    if names is None and (words or encoder):
        raise SettingsError("--words and --encoder make vectors of texts", "give the texts by --names")
    if out is not None:
        check_free(out)
    predictor = LinkPredictor.load(run, device)
    with progress("folding in") as advance:
        chosen = FoldIn(steps=steps)
        if names is None:
            larger = predictor.updated(facts, chosen, skip_known=skip_known, progress=advance)
        else:
            kind, texts = read_names(names)
            if kind != "entity":
                raise SettingsError(f"{names} names relations", "begin it with the header 'entity<TAB>name'")
            larger = fold_in_texts(
                predictor,
                texts,
                facts or (),
                chosen,
                words=words,
                encoder=encoder,
                skip_known=skip_known,
                progress=advance,
            )
    if out is None:
        larger.replace(run)
    else:
        larger.save(out)
    entities = len(larger.graph.entities) - len(predictor.graph.entities)
    added = len(larger.graph.train) - len(predictor.graph.train)
    echo(f"{out or run}: {added:,} facts and {entities:,} entities added")
