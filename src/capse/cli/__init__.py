"""The command line: one short file per command, imported when it is called.

Standard output carries the answer, standard error the progress and the log. Exit status: 0 done; 2 the user's input is
wrong, said in one line; 130 stopped by Ctrl-C; 1 anything else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from capse import __version__
from capse.cli.lazy import lazy_group
from capse.cli.output import echo
from capse.errors import CapseError, ProcessError, SettingsError
from capse.processes.job import size_of_job, wait_for_first_rank
from capse.registry import Registry
from capse.runs.memory import is_out_of_memory

# Threads of OpenMP that wait for work spin, on cores that others could use: on a busy machine a training takes twenty
# times as long. So they spin for some microseconds only and then sleep. Read when torch is loaded, which it is not yet.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

COMMANDS: Registry[typer.Typer] = Registry(
    "command",
    "capse.commands",
    {
        "data": "capse.cli.data:app",
        "train": "capse.cli.train:app",
        "tune": "capse.cli.tune:app",
        "refine": "capse.cli.refine:app",
        "recipes": "capse.cli.recipes:app",
        "evaluate": "capse.cli.evaluate:app",
        "predict": "capse.cli.predict:app",
        "score": "capse.cli.score:app",
        "update": "capse.cli.update:app",
        "similar": "capse.cli.similar:app",
        "export": "capse.cli.export:app",
        "explain": "capse.cli.explain:app",
        "serve": "capse.cli.serve:app",
        "report": "capse.cli.report:app",
        "search": "capse.cli.search:app",
        "key": "capse.cli.key:app",
        "demo": "capse.cli.demo:app",
    },
)

app = typer.Typer(
    cls=lazy_group(COMMANDS),
    help="Knowledge graph completion with capsule networks, evaluated honestly.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)


def _refuse(error: CapseError) -> NoReturn:
    if not (isinstance(error, ProcessError) and error.speaks):
        wait_for_first_rank()
    echo("error: " + " ".join(str(error).split()), err=True)
    sys.exit(2)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"capse {__version__}")
        raise typer.Exit


_DIVIDED = ("train", "evaluate")  # commands that several processes can do together


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Knowledge graph completion with capsule networks, evaluated honestly."""
    if size_of_job() > 1 and context.invoked_subcommand not in _DIVIDED:
        raise SettingsError(
            f"capse {context.invoked_subcommand} is done by one process, and {size_of_job()} were started",
            f"start it without torchrun, which helps {' and '.join(_DIVIDED)}",
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    try:
        app(args=arguments, prog_name="capse")
    except CapseError as error:
        _refuse(error)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        remedy = "ask for less at a time, such as a smaller model or training.batch_size, or use a larger machine"
        _refuse(CapseError("the memory did not suffice", remedy))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains at exit
        sys.exit(1)
