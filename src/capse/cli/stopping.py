"""What Ctrl-C leaves behind, said with the command that goes on from there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from capse.cli.output import echo


@contextmanager
def resumable(begun: Path, *again: object, aloud: bool = True) -> Iterator[None]:
    """End with status 130 on Ctrl-C; where the file ``begun`` is there, the command ``again`` goes on."""
    try:
        yield
    except KeyboardInterrupt:
        if aloud and begun.is_file():
            echo(f"stopped; continue with: {shlex.join(map(str, again))}", err=True)
        elif aloud:
            echo("stopped; nothing was written", err=True)
        raise typer.Exit(130) from None
