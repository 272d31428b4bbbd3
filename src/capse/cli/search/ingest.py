"""capse search ingest: turn a search log into the one form that every command reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capse.cli.options import command_app
from capse.cli.output import echo
from capse.search.ingest.sources import SOURCES

if TYPE_CHECKING:
    from capse.search.ingest import IngestReport

app = command_app("Turn a search log into the one form that every command reads.")


@app.command()
def ingest(
    out: Annotated[Path, typer.Option(help="The new folder to write.")],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILES...",
            help="Files or folders of one log; gz, bz2 or zst too. Or the service's database, sqlite:///FILE or "
            "postgresql://..., with files that describe documents.",
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(help=f"{', '.join(SOURCES)}; found out if not given."),
    ] = None,
    from_git: Annotated[
        Path | None, typer.Option(metavar="REPO", help="Make a log from the commits of this git repository.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Of a database, leave out lists from before this time.")
    ] = None,
    fields: Annotated[
        Path | None, typer.Option(metavar="SCHEMA", help="A YAML file that names the fields to learn from.")
    ] = None,
    engine: Annotated[str, typer.Option(help="duckdb, or spark for a log that outgrows a machine.")] = "duckdb",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="ingest.KEY=VALUE", help="Change one setting; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what became of the log as JSON.")] = False,
) -> None:
    """Find sessions and satisfied clicks in a search log, set broken rows aside, and write the log as one folder.

    Every row is kept, collapsed as a copy of another, or quarantined with its reason in quarantine.jsonl. The folder is
    written whole or not at all.
    """
    from dataclasses import asdict

    from capse.cli.search.settings import settings_of
    from capse.errors import SettingsError
    from capse.search.ingest import IngestSettings
    from capse.search.logs.field_schema import FieldSchema

    if bool(files) == (from_git is not None):
        what = "both files and --from-git are given" if files else "no log is named"
        raise SettingsError(what, "name its files or folders, or a repository with --from-git")
    databases, names = [name for name in files or () if "://" in name], files or []
    if len(databases) > 1 or (since and not databases):
        raise SettingsError("one database is read at a time, and --since is for a database", "name one")
    if from_git is not None:
        names, format = [str(from_git)], "git"
    try:
        report = _ingested(
            [Path(name) for name in names if name not in databases],
            databases[0] if databases else None,
            since,
            out=out,
            settings=settings_of(IngestSettings, "ingest", settings),
            engine=engine,
            format=format,
            fields=None if fields is None else FieldSchema.load(fields),
            progress=lambda step: echo(step, err=True),
        )
    except KeyboardInterrupt:
        echo("stopped; nothing was written", err=True)
        raise typer.Exit(130) from None
    echo(json.dumps(asdict(report), ensure_ascii=False) if as_json else _as_text(report, out))


def _ingested(paths: list[Path], database: str | None, since: str | None, **options: Any) -> IngestReport:
    """What becomes of files, or of what the service stored."""
    from capse.search.ingest import ingest

    if database is None:
        return ingest(paths, **options)
    from capse.cli.search.stored import open_stored_log

    if options["format"] is not None:
        from capse.errors import SettingsError

        raise SettingsError("--format is given with a database", "leave it out")
    with open_stored_log(database, since) as stored:
        return ingest(paths, **options | {"format": stored})


def _as_text(report: IngestReport, out: Path) -> str:
    counts = report.counts
    splits = " / ".join(f"{count:,}" for count in counts["splits"].values())
    lines = [
        f"{out}: {counts['impressions']:,} impressions, {counts['users']:,} users, {counts['sessions']:,} sessions, "
        f"{counts['queries']:,} queries ({report.source_format}, {report.engine}, {report.seconds:.1f} s)",
        f"train / valid / test: {splits}",
        "",
        f"{'':<12}{'read':>12}{'kept':>12}{'copies':>12}{'quarantined':>13}",
    ]
    for table in ("results", "clicks", "documents", "actions", "fields"):
        if (found := counts.get(table)) is None:
            continue
        lines.append(
            f"{table:<12}{found['staged']:>12,}{found['kept']:>12,}{found['collapsed']:>12,}{found['quarantined']:>13,}"
        )
    if counts["rejected"]:
        lines.append(f"{'unreadable':<12}{counts['rejected']:>12,}{'':>24}{counts['rejected']:>13,}")
    if report.quarantined:
        lines += ["", f"quarantined, all in {out / 'quarantine.jsonl'}:"]
        lines += [f"{count:>10,}  {reason}" for reason, count in report.quarantined.items()]
    if report.notes:
        lines += ["", *(f"note: {note}" for note in report.notes)]
    return "\n".join(lines)
