"""Bring a database to the newest version of the schema, however many workers try it at once."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, exc, text

from capse.errors import StoreError
from capse.service.store.engine import writing
from capse.service.store.schema import VERSION

FOLDER = Path(__file__).parent / "migrations"
_LOCK = 0x6361707365  # 'capse'; PostgreSQL's advisory locks are numbers


def migrate(engine: Engine, where: str, target: str = VERSION) -> None:
    """Upgrade to ``target``; one worker does it, the others wait and find it done."""
    if version(engine) == target:  # the usual case, which need not wait for Alembic's import
        return
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        _upgrade(connection, where, target)


def version(engine: Engine) -> str | None:
    """The version of the database's schema; None for an empty one."""
    try:
        with engine.connect() as connection:
            found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
            return found
    except (exc.OperationalError, exc.ProgrammingError) as error:
        if "no such table" in str(error.orig) or getattr(error.orig, "sqlstate", None) == "42P01":
            return None
        raise


def _upgrade(connection: Connection, where: str, target: str) -> None:
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    # Alembic's env.py would serve its command line only; the transaction here is ours.
    script = ScriptDirectory(str(FOLDER), version_locations=[str(FOLDER)])
    known = {revision.revision for revision in script.walk_revisions()}
    context = EnvironmentContext(Config(), script, fn=lambda heads, _: script._upgrade_revs(target, heads))
    with context:
        context.configure(connection=connection)
        unknown = set(context.get_context().get_current_heads()) - known
        if unknown:
            message = f"the database {where} has version {', '.join(sorted(unknown))}, newer than {VERSION}"
            raise StoreError("newer", message, "upgrade capse, or give it another database")
        context.run_migrations()
