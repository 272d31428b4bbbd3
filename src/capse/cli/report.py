"""capse report: one HTML file about one or more runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from capse.cli.options import command_app
from capse.cli.output import echo, printable

app = command_app("Write an HTML report of one or more runs.")


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders, trained on the same data.")],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
) -> None:
    """Evaluate runs on their test set and write what was found, with figures, into one self-contained HTML file."""
    from capse.cli.display import progress_bar
    from capse.errors import SettingsError
    from capse.reports.recorded import record_runs
    from capse.reports.report import write_report

    if out.is_dir():
        raise SettingsError(f"{out} is a folder", "give --out the name of a file, e.g. report.html")
    with progress_bar() as bar:
        task = bar.add_task("ranking", total=None, speed="")
        recorded = record_runs(
            runs,
            progress=lambda name, done, total: bar.update(
                task, description=printable(f"ranking: {name}"), completed=done, total=total
            ),
        )
    write_report(recorded, out)
    echo(out)
