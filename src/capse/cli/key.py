"""capse key: make, list and revoke the service's API keys."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capse.cli.options import AsJson
from capse.cli.output import echo

if TYPE_CHECKING:
    from capse.service.store import Key, Store

app = typer.Typer(
    help="Make, list and revoke the service's API keys.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Database = Annotated[str, typer.Option("--db", metavar="URL", help="The service's database: a file, or a URL.")]


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="What to call the key; revoking needs it.")],
    db: Database,
    scopes: Annotated[
        list[str], typer.Option("--scope", help="predict, rerank, events, users or admin; may be repeated.")
    ],
    user: Annotated[str | None, typer.Option(help="The only user whom the key may speak for.")] = None,
    per_minute: Annotated[int | None, typer.Option(help="Requests per minute; no limit if not given.")] = None,
) -> None:
    """Make a key and print it. Only its hash is stored: it cannot be shown again."""
    with open_store(db, create=True) as store:
        echo(store.add_key(name, scopes, user, per_minute))


@app.command("list")
def list_keys(db: Database, as_json: AsJson = False) -> None:
    """Every key, revoked ones included, the oldest first."""
    with open_store(db) as store:
        keys = store.list_keys()
    if as_json:
        echo(json.dumps([_in_seconds(key) for key in keys], indent=2, ensure_ascii=False))
        return
    for key in keys:
        words = [key.name, "revoked" if key.revoked else "valid", ",".join(key.scopes)]
        words.append(f"{key.per_minute}/min" if key.per_minute else "no limit")
        echo("\t".join([*words, f"user {key.user}" if key.user else "any user"]))


@app.command()
def revoke(name: Annotated[str, typer.Argument(help="The key's name.")], db: Database) -> None:
    """Make a key invalid, at once and for good. Its name can then be given again."""
    with open_store(db) as store:
        store.revoke_key(name)
    echo(f"revoked {name}", err=True)


def _in_seconds(key: Key) -> dict[str, Any]:
    from capse.search.times import to_seconds

    revoked = None if key.revoked is None else to_seconds(key.revoked)
    shown = asdict(key) | {"created": to_seconds(key.created), "revoked": revoked}
    del shown["number"]
    return shown


def open_store(db: str, *, create: bool = False) -> Store:
    """The service's database, for a command."""
    from capse.errors import MissingExtraError

    try:
        from capse.service.store import Store
    except ModuleNotFoundError as error:
        raise MissingExtraError("the service's database", "service") from error
    return Store.open(db, create=create)
