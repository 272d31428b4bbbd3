"""capse search trial: which of two runs that served at once is better."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from capse.cli.options import command_app
from capse.cli.output import echo

if TYPE_CHECKING:
    from capse.search.evaluation.two_runs import TwoRuns
    from capse.service.store import Store
    from capse.service.stored_trial import StoredTrial

app = command_app("Say which of two runs that served at once is better.")


@app.command()
def trial(
    db: Annotated[str, typer.Argument(metavar="DATABASE", help="The service's database: a file, or a URL.")],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of 'capse serve --trial'; the only one if not given.")
    ] = None,
    share: Annotated[float, typer.Option(help="Of 'capse serve --share': of users who got the second run.")] = 0.5,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Leave out lists from before this time.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Compare the run that is served (a) with the one against it (b), by what their users did.

    Users were dealt between the runs, so intervals and tests are over users. One figure decides: the MRR of what was
    shown, or, where lists were interleaved, whose documents were clicked more. Look once, when as many users have come
    as you meant to wait for.
    """
    from dataclasses import asdict

    from capse.cli.search.stored import open_stored_log
    from capse.errors import SettingsError
    from capse.search.evaluation.two_runs import compare_arms, compare_interleaved
    from capse.service.stored_trial import read_trial

    if not 0 < share < 1:
        raise SettingsError(f"--share is {share:g}", "write the share that the service was started with")
    with open_stored_log(db, since) as stored:
        read = read_trial(stored.store, name or _only(stored.store), stored.since)
    found = compare_interleaved(read.outcomes) if read.interleaved else compare_arms(read.outcomes, share)
    warnings = _warnings(read, found, share)
    if as_json:
        about = {"trial": read.name, "versions": read.versions, "verdict": found.verdict, "warnings": warnings}
        echo(json.dumps(about | asdict(found)))
        return
    _show(read, found)
    for warning in warnings:
        echo(f"warning: {warning}", err=True)


def _only(store: Store) -> str:
    """The trial that is stored, where there is one."""
    from capse.errors import DataError
    from capse.service.stored_trial import trials

    stored = trials(store)
    if not stored:
        raise DataError(f"{store.where} holds no trial", "serve two runs: capse serve RUN --against OTHER")
    if len(stored) > 1:
        names = ", ".join(f"{name} ({count:,} lists)" for name, count in stored.items())
        raise DataError(f"several trials are stored: {names}", "name one with --name")
    return next(iter(stored))


def _warnings(read: StoredTrial, found: TwoRuns, share: float) -> list[str]:
    from capse.search.evaluation.two_runs import UNEVEN

    said = [
        f"run {arm} had {len(of)} versions while the trial went on: name trials apart, or use --since"
        for arm, of in read.versions.items()
        if len(of) > 1
    ]
    if read.in_both:
        said.append(f"{read.in_both:,} users had lists of both runs and are left out: was the share changed?")
    if found.uneven < UNEVEN:
        users = {arm: of.users for arm, of in found.arms.items()}
        said.append(f"{users['a']:,} and {users['b']:,} users are no share of {share:g}, so nothing is decided")
    return said


def _show(read: StoredTrial, found: TwoRuns) -> None:
    from capse.cli.display import show_table

    if found.arms:
        columns = {"": "left"} | dict.fromkeys(("lists", "users", "MRR", "lists clicked", "worth a list"), "right")
        rows = [
            [
                f"{arm} ({', '.join(read.versions[arm])})",
                *(f"{of.lists:,}", f"{of.users:,}", f"{of.mrr:.4f}", f"{of.clicked:.1%}", f"{of.worth:.3f}"),
            ]
            for arm, of in found.arms.items()
        ]
        show_table(f"trial {read.name}", columns, rows)
    else:
        versions = ", ".join(read.versions["a+b"])
        echo(f"trial {read.name}: {found.lists:,} interleaved lists of {found.users:,} users ({versions})")
    header = {"b minus a": "left"} | dict.fromkeys(("mean", "95 % over users", "p"), "right")
    differences = [
        [name, f"{of.mean:+.4f}", f"{of.low:+.4f} to {of.high:+.4f}", f"{of.p_value:.2g}"]
        for name, of in found.differences.items()
    ]
    show_table("", header, differences)
    echo(found.verdict)
