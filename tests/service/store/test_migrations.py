"""From nothing and from every older version to the newest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from capse.errors import StoreError
from capse.service.store import Store
from capse.service.store.engine import create_file, database_url, make_engine, writing
from capse.service.store.migrate import FOLDER, migrate, version
from capse.service.store.schema import VERSION, metadata

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
    assert len(VERSIONS) == 2


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


def test_a_look_for_dwells_uses_its_index(lite):
    with lite._engine.connect() as connection:
        plan = connection.exec_driver_sql("EXPLAIN QUERY PLAN SELECT dwell FROM events WHERE click IN ('a', 'b')")
        assert "USING INDEX events_of_click" in str(plan.all())


def test_an_older_database_keeps_what_it_has(url, engine, fold, make):
    migrate(engine, "here", "0001")
    with writing(engine) as connection:
        for statement in (
            "INSERT INTO users (number, name, folded, state) VALUES (7, 'ada', 1, '{\"seen\": [\"c\"]}')",
            'INSERT INTO events (id, "user", kind, session, time, query, documents, document, folded)'
            " VALUES ('c', 7, 'click', 's1', 1000000, 'engine', '[]', 'd1', 1)",
        ):
            connection.execute(text(statement.replace(":", r"\:")))
    with Store.open(url, fold) as store:
        assert store.add([make("c"), make("new")]) == ["repeated", "accepted"]
        assert store.state("ada") == {"seen": ["c", "new"]}
        assert store.find_key(store.add_key("web", ["predict"])).name == "web"


def test_a_newer_database_is_left_alone(url, store, make):
    store.add([make("c")])
    with writing(store._engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match=r"has version 9999, newer than .*: upgrade capse") as caught:
        Store.open(url)
    assert (caught.value.kind, caught.value.temporary) == ("newer", False)
    assert store.state("ada") == {"seen": ["c"]}


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
