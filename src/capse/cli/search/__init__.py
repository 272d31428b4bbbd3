"""capse search: personalised search, from a log of clicks to results ranked for each user; one file per command."""

from __future__ import annotations

import typer

from capse.cli.lazy import lazy_group

COMMANDS = {
    "ingest": "Turn a search log into the one form that every command reads.",
    "simulate": "Write a made-up log with planted interests, to try things on.",
    "train": "Learn from a log how to rank for each user.",
    "evaluate": "Rank the lists of a log with a method, beside all that it should be seen with.",
    "rerank": "Re-rank an engine's results for a user.",
}

app = typer.Typer(
    cls=lazy_group(__name__, COMMANDS),
    help="Personalised search: from a log of clicks to results ranked for each user.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def root() -> None:
    """Personalised search: from a log of clicks to results ranked for each user."""
