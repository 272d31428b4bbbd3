"""The command line: one short file per command, imported when it is called.

Standard output carries the answer, standard error the progress and the log. Exit status: 0 done; 2 the user's input is
wrong, said in one line; 130 stopped by Ctrl-C; 1 anything else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from capse.cli.lazy import lazy_group
from capse.errors import CapseError

COMMANDS = {
    "data": "List, inspect, fetch and import graphs.",
    "train": "Train a model on a graph.",
    "tune": "Try the settings of a grid and keep the best recipe.",
    "evaluate": "Rank the test triples with a trained model, all tie policies side by side.",
    "predict": "Ask a trained model for missing heads or tails.",
    "explain": "What speaks for a prediction: dimensions and near facts.",
    "serve": "Answer over HTTP with trained runs, and show a page.",
    "report": "Write an HTML report of one or more runs.",
    "reproduce": "The paper's tables and figures, from recorded runs or trained anew.",
    "search": "Personalised search: from a log of clicks to results ranked for each user.",
    "key": "Make, list and revoke the service's API keys.",
    "demo": "Train TransE, then CapsE from it, on the embedded graph.",
}

app = typer.Typer(
    cls=lazy_group(__name__, COMMANDS),
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
