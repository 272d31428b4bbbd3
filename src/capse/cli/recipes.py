"""capse recipes: the recipes and grids that come with installed packages."""

from __future__ import annotations

import json

from capse.cli.options import AsJson, command_app
from capse.cli.output import echo

app = command_app("List the recipes and grids that can be named.")


@app.command()
def recipes(as_json: AsJson = False) -> None:
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
