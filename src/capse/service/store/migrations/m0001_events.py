"""Users and events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "users",
        sa.Column("number", _NUMBER, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("folded", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text),
    )
    op.create_table(
        "events",
        sa.Column("number", _NUMBER, primary_key=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("user", _NUMBER, sa.ForeignKey("users.number"), nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("time", sa.BigInteger, nullable=False),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("documents", sa.Text, nullable=False),
        sa.Column("document", sa.Text),
        sa.Column("click", sa.Text),
        sa.Column("dwell", sa.Float(53)),
        sa.Column("folded", sa.BigInteger),
    )
    op.create_index("events_of_user", "events", ["user", "number"])
    told = sa.text("click IS NOT NULL")
    op.create_index("events_of_click", "events", ["click"], sqlite_where=told, postgresql_where=told)
