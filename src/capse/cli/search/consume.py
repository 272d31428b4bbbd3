"""capse search consume: events from a stream into the service's database."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capse.cli.options import command_app
from capse.cli.output import echo

if TYPE_CHECKING:
    from capse.service.streams.consumer import Consumer

app = command_app("Store events from a stream, for the service to rank with.")

_SAY_EVERY = 60.0  # seconds


@app.command()
def consume(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the stream is, such as redis://localhost:6379/0.")],
    db: Annotated[str, typer.Option(metavar="URL", help="The service's database: a file, or a URL.")],
    stream: Annotated[str, typer.Option(metavar="NAME", help="The stream's name.")] = "events",
    group: Annotated[str, typer.Option(metavar="NAME", help="Readers of one name share the messages.")] = "capse",
    quarantine: Annotated[
        Path, typer.Option(metavar="FILE", help="Where messages go that are no events, with the reason.")
    ] = Path("quarantine.jsonl"),
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="Stop when nothing is left, instead of waiting for more.")
    ] = False,
) -> None:
    """Read events from a stream, as POST /v1/events takes them, and store each exactly once.

    A message is confirmed when it is on disk; one that comes again is counted and changes nothing. Where the stream or
    the database is away it is waited for. Ctrl-C and SIGTERM end it between two batches.
    """
    from capse.cli.key import open_store
    from capse.service.streams import open_stream
    from capse.service.streams.consumer import Consumer

    stopped = threading.Event()
    before = {number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with open_store(db) as store:
            reading = open_stream(url, stream, group)
            consumer = Consumer(
                reading,
                store,
                quarantine,
                stopped=stopped.is_set,
                say=lambda text: echo(text, err=True),
                wait=stopped.wait,
            )
            try:
                _run(consumer, stopped, until_empty)
            finally:
                reading.close()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    echo(str(consumer.tally))


def _run(consumer: Consumer, stopped: threading.Event, until_empty: bool) -> None:
    """Step after step; now and then a line says how far it is."""
    said_at, said = time.monotonic(), str(consumer.tally)
    while not stopped.is_set():
        if not consumer.step() and until_empty:
            return
        if time.monotonic() > said_at + _SAY_EVERY and str(consumer.tally) != said:
            said_at, said = time.monotonic(), str(consumer.tally)
            echo(said, err=True)
