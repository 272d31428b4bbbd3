"""capse search retrain: a new run from the service's own traffic, in service only if it is better."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capse.cli.options import command_app
from capse.cli.output import echo
from capse.experiments.search.methods import METHODS

if TYPE_CHECKING:
    from capse.search.ingest import IngestSettings
    from capse.search.logs.field_schema import FieldSchema
    from capse.search.logs.search_log import SearchLog
    from capse.service.stored_log import StoredLog

app = command_app("Train on the service's own traffic; the better run is in service.")


@app.command()
def retrain(
    run: Annotated[Path, typer.Argument(help="The run in service; it becomes a link to one of its versions.")],
    db: Annotated[str, typer.Option(metavar="URL", help="The service's database: a file, or a URL.")],
    files: Annotated[list[Path] | None, typer.Argument(help="Files that describe documents.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Leave out lists from before this time.")] = None,
    fields: Annotated[
        Path | None, typer.Option(metavar="SCHEMA", help="The fields to learn from; those of the run if not given.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help=f"One that learns: {', '.join(METHODS)}; that of the run if not given.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one setting, ingest.KEY too; may be repeated."),
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="In what share of draws of users the new run must be better.")
    ] = 0.95,
    bias: Annotated[
        str,
        typer.Option(
            metavar="MODEL|NUMBERS",
            help="How clicks are weighed in the comparison: position, cascade, none, or propensities of places.",
        ),
    ] = "position",
    keep: Annotated[int, typer.Option(help="How many versions are kept.")] = 5,
    tell: Annotated[
        int | None, typer.Option(metavar="PID", help="The service, which is told to reload by SIGHUP.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Make a log of what the service stored, train on it, and compare with the run in service on the newest lists.

    The new run is put in service only if it is better, by MRR, in 19 of 20 draws of users. The newest lists were shown
    in the order of the run in service; so their clicks are weighed by how likely their places are looked at, as
    'capse search propensities' estimates it. The service goes on
    meanwhile with the run that it has, and reloads when it is told to. Versions are kept beside the run;
    'capse search rollback' goes back. Ctrl-C changes nothing.
    """
    from dataclasses import asdict

    from capse.cli.key import open_store
    from capse.cli.search.progress import ListProgress
    from capse.cli.search.settings import settings_of
    from capse.experiments.search.choice import Choice
    from capse.experiments.search.methods import load_search_run, method_of
    from capse.experiments.search.retraining import retrain as retrain_run
    from capse.search.bias.settings import PositionBias
    from capse.search.ingest import IngestSettings
    from capse.search.logs.field_schema import FieldSchema

    corrected = PositionBias(bias)
    of_ingest = [one for one in settings or [] if one.startswith("ingest.")]
    others = [one for one in settings or [] if one not in of_ingest]
    chosen = Choice(method_of(run), run=run).to_train() if method is None else Choice(method)
    learning = METHODS[chosen.method]
    recipe = learning.resolve(chosen.recipe, others)
    known = getattr(getattr(load_search_run(run), "known", None), "schema", FieldSchema())
    schema = known if fields is None else FieldSchema.load(fields)
    ingesting = settings_of(IngestSettings, "ingest", of_ingest)
    from capse.cli.search.stored import open_stored_log

    try:
        with open_stored_log(db, since) as stored, ListProgress(learning.epochs(recipe), "mrr") as progress:
            log = _log_of(stored, files or [], schema, ingesting)
            same = log if schema == known else _log_of(stored, files or [], known, ingesting)
            with open_store(db) as store:
                verdict = retrain_run(
                    run,
                    log,
                    lambda newest, path: learning.train(newest, recipe, out=path, listener=progress),
                    served_log=same,
                    confidence=confidence,
                    keep=keep,
                    bias=corrected,
                    forgotten=store.forgotten(),
                )
    except KeyboardInterrupt:
        echo("stopped; what was in service still is", err=True)
        raise typer.Exit(130) from None
    if verdict.handed_over and tell is not None:
        os.kill(tell, signal.SIGHUP)
    echo(json.dumps(asdict(verdict)) if as_json else f"{verdict.version}: {verdict}")


def _log_of(stored: StoredLog, files: list[Path], schema: FieldSchema, settings: IngestSettings) -> SearchLog:
    from capse.search.ingest import ingest
    from capse.search.logs.search_log import SearchLog

    options: dict[str, Any] = {"format": stored, "settings": settings, "fields": schema or None}
    with tempfile.TemporaryDirectory() as aside:
        ingest(files, Path(aside, "traffic"), **options)
        return SearchLog.load(Path(aside, "traffic"))
