"""What commands have in common: how they are made, and options that several of them take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Split = Annotated[str, typer.Option(help="train, valid or test.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one setting; may be repeated."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped or killed.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def command_app(short_help: str) -> typer.Typer:
    """The app of one command; ``short_help`` is its line in the list of commands."""
    return typer.Typer(short_help=short_help, rich_markup_mode=None, add_completion=False)
