"""The tables. The migrations make them; a test holds that both say the same.

Text is JSON where it is not plain: the same on SQLite and PostgreSQL, and read by us only.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    literal_column,
)
from sqlalchemy.sql import ColumnElement

VERSION = "0008"  # of the newest migration

# SQLite counts rows by itself only where the key is an INTEGER.
_NUMBER = BigInteger().with_variant(Integer(), "sqlite")

metadata = MetaData()

users = Table(
    "users",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("folded", BigInteger, nullable=False),  # how many clicks were ever folded into the state
    Column("state", LargeBinary),  # of UserState; null: to be folded from the events, if any of them counts
)

events = Table(
    "events",
    metadata,
    Column("number", _NUMBER, primary_key=True),  # in the order of arrival
    Column("id", Text, nullable=False),  # the sender's
    Column("user", _NUMBER, ForeignKey("users.number"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("time", BigInteger, nullable=False),  # microseconds since 1970
    Column("query", Text, nullable=False),
    Column("documents", Text, nullable=False),  # JSON: a list
    Column("document", Text),
    Column("click", Text),
    Column("dwell", Float(53)),
    Column("folded", BigInteger),  # of a click: its place in the fold; null: it does not count (yet)
    Column("title", Text),  # of a clicked document that the run did not know
    Column("text", Text),  # the same
    Index("events_by_id", "user", "id", unique=True),
    Index("events_of_user", "user", "number"),
)


def _some(name: str, columns: str, condition: ColumnElement[bool]) -> None:
    """An index over the events for which something holds, which are few."""
    chosen = [events.c[column] for column in columns.split()]
    Index(name, *chosen, sqlite_where=condition, postgresql_where=condition)


_some("events_of_click", "user click", events.c.click.is_not(None))
_some("events_of_session", "user session time", events.c.kind == literal_column("'click'"))
_some("events_folded", "user folded", events.c.folded.is_not(None))

changes = Table(
    "changes",
    metadata,
    Column("number", _NUMBER, primary_key=True),  # in the order in which everybody counts; never given twice
    Column("user", _NUMBER, ForeignKey("users.number")),  # null: somebody was forgotten
    Column("event", Text),  # the id of a list that was shown, or of a click
    Column("step", Integer, nullable=False),  # 1: it counts from now on; −1: no longer; 0: count from the beginning
    Index("changes_of_user", "user"),
    sqlite_autoincrement=True,
)

# Runs know users from their logs, and a former run may be served again: to every run those in here are strangers.
forgotten = Table(
    "forgotten",
    metadata,
    Column("digest", Text, primary_key=True),  # of the id, which is not stored
    Column("at", BigInteger),  # microseconds since 1970
)

# What is learned from, where the operator has it kept: lists as the engine ranked them and as they were shown.
lists = Table(
    "lists",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("user", _NUMBER, ForeignKey("users.number"), nullable=False),
    Column("session", Text, nullable=False),
    Column("time", BigInteger, nullable=False),  # when it was asked for, microseconds since 1970
    Column("query", Text, nullable=False),
    Column("documents", Text, nullable=False),  # JSON: a list, in the engine's order
    Column("shown", Text, nullable=False),  # JSON: their places in that order, from 1, as they were shown
    Column("model", Text, nullable=False),  # the version that ranked it
    Column("trial", Text),  # of two runs, where there was one
    Column("arm", Text),  # in it: a or b; of an interleaved list one letter for each document that was shown
    Column("at", BigInteger, nullable=False),  # when it was stored
    Column("fields", Text),  # JSON: of the request, of the user, and of documents by their ids
    Index("lists_of_user", "user", "time"),
    Index("lists_by_age", "at"),
)
_tried = lists.c.trial.is_not(None)
Index("lists_of_trial", lists.c.trial, sqlite_where=_tried, postgresql_where=_tried)

# Of documents, as clients sent them with lists. Whose lists: a text goes when the last of those users has gone.
texts = Table(
    "texts",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("digest", Text, nullable=False, unique=True),  # of the three below
    Column("document", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("text", Text),
)

told = Table(
    "told",
    metadata,
    Column("text", _NUMBER, ForeignKey("texts.number"), primary_key=True),
    Column("user", _NUMBER, ForeignKey("users.number"), primary_key=True),
    Column("at", BigInteger, nullable=False),  # when it came last
    Index("told_by", "user"),
    Index("told_by_age", "at"),
)

# What clients added to the graph that is served, by labels.
facts = Table(
    "facts",
    metadata,
    Column("number", _NUMBER, primary_key=True),  # in the order of arrival
    Column("digest", Text, nullable=False, unique=True),  # of the three below
    Column("head", Text, nullable=False),
    Column("relation", Text, nullable=False),
    Column("tail", Text, nullable=False),
    Column("at", BigInteger, nullable=False),  # microseconds since 1970
)

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
