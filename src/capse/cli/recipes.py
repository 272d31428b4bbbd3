"""capse recipes: the recipes and grids that come with installed packages."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from capse.cli.output import echo

app = typer.Typer(
    short_help="List the recipes and grids that can be named.", rich_markup_mode=None, add_completion=False
)


@app.command()
def recipes(as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False) -> None:
    """List what can be named instead of a YAML file: recipes for graphs and for search, refinements, and grids.

    Each comes with a package: capse itself, or another that is installed.
    """
    from capse.experiments.shipped import KINDS, shipped

    rows = [
        {"name": one.name, "kind": one.kind, "package": one.package, "about": one.about}
        for kind in KINDS
        for one in shipped(kind).values()
    ]
    if as_json:
        echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    lines = [{key: key for key in rows[0]}, *rows]
    widths = {key: max(len(line[key]) for line in lines) for key in rows[0]}
    for line in lines:
        echo("  ".join(line[key].ljust(width) for key, width in widths.items()).rstrip())
