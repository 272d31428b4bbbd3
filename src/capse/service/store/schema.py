"""The tables. The migrations make them; a test holds that both say the same.

Text is JSON where it is not plain: the same on SQLite and PostgreSQL, and read by us only.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Index, Integer, MetaData, Table, Text

VERSION = "0002"  # of the newest migration

# SQLite counts rows by itself only where the key is an INTEGER.
_NUMBER = BigInteger().with_variant(Integer(), "sqlite")

metadata = MetaData()

users = Table(
    "users",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("folded", BigInteger, nullable=False),  # how many events were ever folded into the state
    Column("state", Text),  # JSON
)

events = Table(
    "events",
    metadata,
    Column("number", _NUMBER, primary_key=True),  # in the order of arrival
    Column("id", Text, nullable=False, unique=True),
    Column("user", _NUMBER, ForeignKey("users.number"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("time", BigInteger, nullable=False),  # microseconds since 1970
    Column("query", Text, nullable=False),
    Column("documents", Text, nullable=False),  # JSON: a list
    Column("document", Text),
    Column("click", Text),
    Column("dwell", Float(53)),
    Column("folded", BigInteger),  # its place in the fold; null: it does not count (yet)
    Index("events_of_user", "user", "number"),
)

_told = events.c.click.is_not(None)  # in dwells, which are few
Index("events_of_click", events.c.click, sqlite_where=_told, postgresql_where=_told)

keys = Table(
    "keys",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("name", Text, nullable=False),
    Column("hash", Text, nullable=False, unique=True),  # SHA-256, hexadecimal
    Column("scopes", Text, nullable=False),  # separated by spaces
    Column("user", Text),  # the only user whom the key may speak for; null: any
    Column("per_minute", Integer),  # requests; null: no limit
    Column("created", BigInteger, nullable=False),  # microseconds since 1970
    Column("revoked", BigInteger),
)
# A name can be given again once its key is revoked: that is how a key is replaced.
_valid = keys.c.revoked.is_(None)
Index("keys_by_name", keys.c.name, unique=True, sqlite_where=_valid, postgresql_where=_valid)
