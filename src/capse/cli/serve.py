"""capse serve: answer over HTTP with trained runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from capse.cli.options import command_app
from capse.cli.output import echo

app = command_app("Answer over HTTP with trained runs, and show a page.")


@app.command()
def serve(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="A graph run, a search run, or one of each.")],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0 takes any that is free.")] = 8000,
    db: Annotated[
        str, typer.Option(metavar="URL", help="The database of events, profiles, facts and keys: a file, or a URL.")
    ] = "capse.db",
    workers: Annotated[int, typer.Option(help="How many processes answer.")] = 1,
    require_keys: Annotated[bool, typer.Option("--require-keys", help="Refuse requests without an API key.")] = False,
    facts: Annotated[
        bool, typer.Option("--facts", help="Take new facts of the graph, and answer with all that were sent before.")
    ] = False,
    keep_lists: Annotated[
        float, typer.Option(metavar="DAYS", help="Keep queries and lists for so many days, to learn from them.")
    ] = 0.0,
    keep_texts: Annotated[
        float, typer.Option(metavar="DAYS", help="Keep the documents' texts that came with them, too.")
    ] = 0.0,
    against: Annotated[
        Path | None, typer.Option(metavar="RUN", help="A second search run, that ranks for a share of users.")
    ] = None,
    share: Annotated[float, typer.Option(help="Of users whom the second run ranks for.")] = 0.5,
    interleave: Annotated[
        bool, typer.Option("--interleave", help="Instead, both runs rank every list, by a team draft.")
    ] = False,
    trial: Annotated[str, typer.Option(metavar="NAME", help="What this comparison of two runs is called.")] = "trial",
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Answer for one of N shares of the entities alone.")
    ] = None,
    shards: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="Ask a service of each share, in their order, and merge.")
    ] = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Answer over HTTP with trained runs: names, predictions, scores, explanations, re-ranking, events, and a page.

    The address is printed when requests are answered. SIGTERM and Ctrl-C let requests in flight finish; SIGHUP
    reloads the runs, and leaves the old ones in service where the new ones are damaged. The log goes to standard error,
    one JSON object a line.
    """
    from capse.errors import MissingExtraError, SettingsError

    levels = ("debug", "info", "warning", "error")
    if log_level not in levels:
        raise SettingsError(f"--log-level is {log_level!r}", f"choose one of {', '.join(levels)}")
    try:
        from capse.service.server import serve as run_server
        from capse.service.settings import ServiceSettings, shard_of
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("capse"):
            raise
        raise MissingExtraError("capse serve", "service") from error

    settings = ServiceSettings(
        runs=tuple(map(str, runs)),
        host=host,
        port=port,
        database=db,
        workers=workers,
        require_keys=require_keys,
        facts=facts,
        keep_lists=keep_lists,
        keep_texts=keep_texts,
        against=None if against is None else str(against),
        share=share,
        interleave=interleave,
        trial=trial,
        shard=None if shard is None else shard_of(shard),
        shards=tuple(shards or ()),
        log_level=log_level,
    )
    run_server(settings, started=echo)
