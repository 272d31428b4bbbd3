"""States in bytes, ids of a user's own, the texts of documents that no run knew, and sessions that are found.

What was remembered of users is made again from their events, so the former states are dropped.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_COLUMNS = "number, id, user, kind, session, time, query, documents, document, click, dwell, folded"


def upgrade() -> None:
    op.drop_index("events_of_user", "events")
    op.drop_index("events_of_click", "events")
    if op.get_bind().dialect.name == "postgresql":
        op.drop_constraint("events_id_key", "events")
        op.add_column("events", sa.Column("title", sa.Text))
        op.add_column("events", sa.Column("text", sa.Text))
    else:
        _rebuild()
    op.execute("UPDATE events SET folded = NULL WHERE kind = 'impression'")
    op.create_index("events_by_id", "events", ["user", "id"], unique=True)
    op.create_index("events_of_user", "events", ["user", "number"])
    for name, columns, condition in (
        ("events_of_click", ["user", "click"], "click IS NOT NULL"),
        ("events_of_session", ["user", "session", "time"], "kind = 'click'"),
        ("events_folded", ["user", "folded"], "folded IS NOT NULL"),
    ):
        where = sa.text(condition)
        op.create_index(name, "events", columns, sqlite_where=where, postgresql_where=where)
    op.drop_column("users", "state")
    op.add_column("users", sa.Column("state", sa.LargeBinary))


def _rebuild() -> None:
    """SQLite cannot let go of a constraint."""
    op.rename_table("events", "former_events")
    op.create_table(
        "events",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("user", sa.Integer, sa.ForeignKey("users.number"), nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("time", sa.BigInteger, nullable=False),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("documents", sa.Text, nullable=False),
        sa.Column("document", sa.Text),
        sa.Column("click", sa.Text),
        sa.Column("dwell", sa.Float(53)),
        sa.Column("folded", sa.BigInteger),
        sa.Column("title", sa.Text),
        sa.Column("text", sa.Text),
    )
    op.execute(f"INSERT INTO events ({_COLUMNS}) SELECT {_COLUMNS} FROM former_events")
    op.drop_table("former_events")
