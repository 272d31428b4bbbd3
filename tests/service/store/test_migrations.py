"""From nothing and from every older version to the newest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import event, text

from capse.errors import StoreError
from capse.search.users.user_state import UserState
from capse.service.store import Store
from capse.service.store.engine import create_file, database_url, make_engine, writing
from capse.service.store.migrate import FOLDER, migrate, version
from capse.service.store.schema import VERSION, metadata
from tests.service.store.states import seen

SCRIPT = ScriptDirectory(str(FOLDER), version_locations=[str(FOLDER)])
VERSIONS = [revision.revision for revision in SCRIPT.walk_revisions()][::-1]


@pytest.fixture
def engine(url, path):
    """Of an empty database."""
    if "://" not in url:
        create_file(path)
    engine = make_engine(database_url(url))
    yield engine
    engine.dispose()


def test_the_newest_version_is_the_programs():
    assert SCRIPT.get_heads() == [VERSION]
    assert len(VERSIONS) == 8


def test_the_migrations_make_the_tables_that_the_program_knows(engine):
    assert version(engine) is None
    migrate(engine, "here")
    assert version(engine) == VERSION
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_every_column_is_described():
    page = (Path(__file__).parents[3] / "docs" / "reference" / "database.md").read_text(encoding="utf-8")
    for table in metadata.tables.values():
        rows = page.split(f"| `{table.name}` | |")[1].split("\n\n")[0]
        assert [column.name for column in table.columns] == re.findall(
            r"`(\w+)`(?=[^|\n]* \|.* \|$)", rows, re.MULTILINE
        )


def test_what_is_looked_for_has_an_index(lite, make):
    """SQLite's plans for the statements that every click costs."""
    plans = []

    @event.listens_for(lite._engine, "before_cursor_execute")
    def explain(connection, cursor, statement, parameters, context, many):
        if statement.startswith(("SELECT", "WITH")) and "events" in statement:
            found = connection.connection.driver_connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.append((statement, [row[3] for row in found]))

    for number in range(300):  # more than are remembered, so that one taken back has it folded again
        lite.add([make(str(number))])
    plans.clear()
    lite.add([make("shown", "impression"), make("next"), make("w", "dwell", click="298", dwell=1.0)])
    statements = " ".join(statement for statement, _ in plans)
    assert all(word in statements for word in ("max(time)", "max(events.dwell)", "events.folded DESC"))
    scanned = [step for _, steps in plans for step in steps if step.startswith("SCAN") and "events" in step]
    assert scanned == []


def former(url, engine, version):
    """A database of an earlier version: a user with two clicks that counted, one that did not, and an impression."""
    migrate(engine, "here", version)
    profile = '{"space": "x", "width": 1, "decay": 0.9, "recent": [], "profiles": {"session": [], "daily": []}}'
    with writing(engine) as connection:
        for name, number in (("ada", 7), ("bob", 8)):
            connection.execute(
                text("INSERT INTO users (number, name, folded, state) VALUES (:number, :name, 3, :state)"),
                {"number": number, "name": name, "state": profile},
            )
        for number, (id, kind, folded, dwell) in enumerate(
            [
                ("i", "impression", 1, None),
                ("c", "click", 2, None),
                ("short", "click", None, 2.0),
                ("d", "click", 3, None),
            ]
        ):
            connection.execute(
                text(
                    'INSERT INTO events (id, "user", kind, session, time, query, documents, document, dwell, folded)'
                    " VALUES (:id, 7, :kind, 's1', :time, :query, :documents, :document, :dwell, :folded)"
                ),
                {
                    "id": id,
                    "kind": kind,
                    "time": 1_700_000_000_000_000 + 1_000_000 * number,
                    "query": "engine" if kind == "impression" else id,
                    "documents": '["d1", "d2"]' if kind == "impression" else "[]",
                    "document": "d1" if kind == "click" else None,
                    "dwell": dwell,
                    "folded": folded,
                },
            )


@pytest.mark.parametrize("version", ["0001", "0002"])
def test_an_older_database_keeps_what_it_has(url, engine, make, version):
    """What is remembered is folded again from the events: what it was before has gone."""
    former(url, engine, version)
    with Store.open(url) as store:
        assert seen(store.state("ada")) == ["c", "d"]
        assert store.state("bob") == UserState()
        sent = [make("i", "impression"), make("c"), make("short", dwell=2.0), make("d"), make("new")]
        assert store.add(sent) == ["repeated"] * 4 + ["accepted"]
        assert seen(store.state("ada")) == ["c", "d", "new"]
        assert store.add([make("c", user="bob")]) == ["accepted"], "an id is a user's own"
        assert seen(store.state("bob")) == ["c"]
        assert [one.id for one in store.events("ada")] == ["i", "c", "short", "d", "new"]
        assert store.find_key(store.add_key("web", ["predict"])).name == "web"
        store.delete_user("ada")
        assert store.events("ada") == []


def test_a_newer_database_is_left_alone(url, store, make):
    store.add([make("c")])
    with writing(store._engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match=r"has version 9999, newer than .*: upgrade capse") as caught:
        Store.open(url)
    assert (caught.value.kind, caught.value.temporary) == ("newer", False)
    assert seen(store.state("ada")) == ["c"]


def test_a_migration_that_fails_leaves_nothing(engine, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("alembic.op.create_index", fail)
    with pytest.raises(ZeroDivisionError):
        migrate(engine, "here")
    monkeypatch.undo()
    assert version(engine) is None
    migrate(engine, "here")
    assert version(engine) == VERSION
