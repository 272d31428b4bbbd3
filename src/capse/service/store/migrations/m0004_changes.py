"""The journal of what changes what is remembered of all people together; it begins with all that counts by now."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "changes",
        sa.Column("number", _NUMBER, primary_key=True),
        sa.Column("user", _NUMBER, sa.ForeignKey("users.number")),
        sa.Column("event", sa.Text),
        sa.Column("step", sa.Integer, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("changes_of_user", "changes", ["user"])
    op.execute(
        'INSERT INTO changes ("user", event, step) SELECT "user", id, 1 FROM events '
        "WHERE kind = 'impression' OR folded IS NOT NULL ORDER BY number"
    )
