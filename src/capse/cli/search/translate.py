"""capse search translate: Metarank's configuration as a schema of fields and settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from capse.cli.options import command_app
from capse.cli.output import echo

app = command_app("Turn Metarank's configuration into a schema of fields.")


@app.command()
def translate(
    config: Annotated[Path, typer.Argument(help="Metarank's config.yml.")],
    out: Annotated[Path | None, typer.Option(metavar="SCHEMA", help="Where to write the schema of fields.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what became of each feature as JSON.")] = False,
) -> None:
    """Say of every feature and model of a Metarank configuration what it is here, and what has no counterpart.

    The schema is for 'capse search ingest --fields'; settings are for 'capse search train --set'.
    """
    from dataclasses import asdict

    import yaml

    from capse.runs.atomic import write_text
    from capse.search.ingest.metarank_config import load_config

    found = load_config(config)
    schema = found.schema
    if out is not None and schema:
        write_text(out, yaml.safe_dump(schema.to_mapping(), sort_keys=False, allow_unicode=True))
    if as_json:
        rows = [asdict(row) for row in found.rows]
        echo(json.dumps({"schema": schema.to_mapping(), "settings": found.settings, "rows": rows}, ensure_ascii=False))
        return
    for row in found.rows:
        echo(f"{row.name} ({row.type}): {row.becomes or 'no counterpart'}{f'; {row.note}' if row.note else ''}")
    if found.settings:
        echo(f"settings: {' '.join(f'--set {key}={value}' for key, value in found.settings.items())}")
    echo(f"{len(found.rows) - len(found.missing)} of {len(found.rows)} have a counterpart")
    if out is not None and not schema:
        echo(f"nothing becomes a field, so {out} was not written", err=True)
