"""capse search: personalised search, from a log of clicks to results ranked for each user; one file per command."""

from __future__ import annotations

import typer

from capse.cli.lazy import lazy_group
from capse.registry import Registry

COMMANDS: Registry[typer.Typer] = Registry(
    "search command",
    "capse.search_commands",
    {
        "ingest": "capse.cli.search.ingest:app",
        "translate": "capse.cli.search.translate:app",
        "simulate": "capse.cli.search.simulate:app",
        "propensities": "capse.cli.search.propensities:app",
        "train": "capse.cli.search.train:app",
        "consume": "capse.cli.search.consume:app",
        "retrain": "capse.cli.search.retrain:app",
        "rollback": "capse.cli.search.rollback:app",
        "trial": "capse.cli.search.trial:app",
        "evaluate": "capse.cli.search.evaluate:app",
        "rerank": "capse.cli.search.rerank:app",
        "forget": "capse.cli.search.forget:app",
    },
)

app = typer.Typer(
    cls=lazy_group(COMMANDS),
    help="Personalised search: from a log of clicks to results ranked for each user.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def root() -> None:
    """Personalised search: from a log of clicks to results ranked for each user."""
