"""capse search rollback: a former version of a run in service again."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Annotated

import typer

from capse.cli.options import command_app
from capse.cli.output import echo

app = command_app("Put a former version of a run in service again.")


@app.command()
def rollback(
    run: Annotated[Path, typer.Argument(help="The run in service, which 'capse search retrain' made a link.")],
    to: Annotated[str | None, typer.Option(metavar="VERSION", help="Which; the one before, if not given.")] = None,
    db: Annotated[
        str | None, typer.Option(metavar="URL", help="The service's database: whoever was deleted leaves the version.")
    ] = None,
    tell: Annotated[
        int | None, typer.Option(metavar="PID", help="The service, which is told to reload by SIGHUP.")
    ] = None,
) -> None:
    """Let a run lead to a former version of it, in one step; the service goes on until it reloads.

    What was decided so far stands in RUN.versions/history.jsonl.
    """
    from capse.cli.key import open_store
    from capse.errors import RunError
    from capse.runs.folder import RunFolder
    from capse.runs.versions import Versions
    from capse.search.rankers.forgetting import forget_in_run

    versions = Versions(run)
    if not versions.names():
        raise RunError(f"{run} has no versions", "'capse search retrain' makes them")
    with versions.held():
        version = to or versions.before()
        if version in versions.names():
            RunFolder(versions.folder / version).check()
            if db is not None:
                with open_store(db) as store:
                    forget_in_run(versions.folder / version, store.forgotten())
        versions.put_in_service(version, "rolled back")
    if tell is not None:
        os.kill(tell, signal.SIGHUP)
    echo(f"{run}: version {version}")
