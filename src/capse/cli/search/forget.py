"""capse search forget: take a user out of logs, runs and the service's database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from capse.cli.options import command_app
from capse.cli.output import echo

app = command_app("Take a user out of logs, runs and the service's database.")


@app.command()
def forget(
    users: Annotated[list[str], typer.Argument(metavar="USER...", help="The users' ids.")],
    logs: Annotated[list[Path] | None, typer.Option("--log", help="An ingested log; may be repeated.")] = None,
    runs: Annotated[list[Path] | None, typer.Option("--run", help="A run of a log; may be repeated.")] = None,
    db: Annotated[str | None, typer.Option(metavar="URL", help="The service's database: a file, or a URL.")] = None,
) -> None:
    """Take users out of everything that names them: impressions and clicks of logs, what runs have learned of them and
    know of their clicks, in all versions that are kept, and all that the service stored. The service does the runs that
    it serves by itself.
    """
    from capse.errors import SettingsError
    from capse.search.logs.forgetting import forget_in_log
    from capse.search.rankers.forgetting import forget_in_versions

    if not (logs or runs or db):
        raise SettingsError("nothing is named that could hold anybody", "name it with --log, --run or --db")
    for log in logs or []:
        echo(f"{log}: {forget_in_log(log, users):,} impressions removed")
    for run in runs or []:
        echo(f"{run}: {forget_in_versions(run, set(users).__contains__):,} of {len(users):,} users removed")
    if db is not None:
        from capse.cli.key import open_store

        with open_store(db) as store:
            events = sum(store.delete_user(user).events for user in users)
        echo(f"{db}: {events:,} events removed")
