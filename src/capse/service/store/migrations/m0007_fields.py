"""Fields that came with lists, where those are kept."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("lists", sa.Column("fields", sa.Text))
