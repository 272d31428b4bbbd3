"""Facts that clients added to a graph."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "facts",
        sa.Column("number", _NUMBER, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False, unique=True),
        sa.Column("head", sa.Text, nullable=False),
        sa.Column("relation", sa.Text, nullable=False),
        sa.Column("tail", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
