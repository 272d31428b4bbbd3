"""Lists as they were asked and shown, and texts of documents, where the operator has them kept to be learned from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "lists",
        sa.Column("number", _NUMBER, primary_key=True),
        sa.Column("user", _NUMBER, sa.ForeignKey("users.number"), nullable=False),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("time", sa.BigInteger, nullable=False),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("documents", sa.Text, nullable=False),
        sa.Column("shown", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("trial", sa.Text),
        sa.Column("arm", sa.Text),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_index("lists_of_user", "lists", ["user", "time"])
    op.create_index("lists_by_age", "lists", ["at"])
    tried = sa.text("trial IS NOT NULL")
    op.create_index("lists_of_trial", "lists", ["trial"], sqlite_where=tried, postgresql_where=tried)
    op.create_table(
        "texts",
        sa.Column("number", _NUMBER, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False, unique=True),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("text", sa.Text),
    )
    op.create_table(
        "told",
        sa.Column("text", _NUMBER, sa.ForeignKey("texts.number"), primary_key=True),
        sa.Column("user", _NUMBER, sa.ForeignKey("users.number"), primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_index("told_by", "told", ["user"])
    op.create_index("told_by_age", "told", ["at"])
