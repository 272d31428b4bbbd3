"""Who was forgotten, as digests."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table("forgotten", sa.Column("digest", sa.Text, primary_key=True), sa.Column("at", sa.BigInteger))
