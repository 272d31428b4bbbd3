"""The command line: one short file per command, imported when it is called.

Standard output carries the answer, standard error the progress and the log. Exit status: 0 done; 2 the user's input is
wrong, said in one line; 130 stopped by Ctrl-C; 1 anything else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from capse.errors import CapseError

COMMANDS = {
    "data": "List, inspect, fetch and import graphs.",
    "train": "Train a model on a graph.",
    "tune": "Try the settings of a grid and keep the best recipe.",
    "evaluate": "Rank the test triples with a trained model, all tie policies side by side.",
    "predict": "Ask a trained model for missing heads or tails.",
    "report": "Write an HTML report of one or more runs.",
    "reproduce": "The paper's tables and figures, from recorded runs or trained anew.",
    "demo": "Train TransE, then CapsE from it, on the embedded graph.",
}


class _LazyGroup(TyperGroup):
    """Imports a command's file only when that command is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        command = typer.main.get_command(import_module(f"capse.cli.{cmd_name}").app)
        command.name, command.short_help = cmd_name, COMMANDS[cmd_name]
        return command


app = typer.Typer(
    cls=_LazyGroup,
    help="Knowledge graph completion with capsule networks, evaluated honestly.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def root() -> None:
    """Knowledge graph completion with capsule networks, evaluated honestly."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    try:
        app(args=arguments, prog_name="capse")
    except CapseError as error:
        typer.echo("error: " + " ".join(str(error).split()), err=True)
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains at exit
        sys.exit(1)
