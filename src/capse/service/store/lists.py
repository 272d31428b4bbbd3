"""Lists and texts that are kept to be learned from: what they are, and how they go again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Engine, delete, select

from capse.search.times import DAY
from capse.service.store.engine import writing
from capse.service.store.schema import lists, texts, told


@dataclass(frozen=True, slots=True)
class KeptText:
    """What a client said of a document."""

    document: str
    title: str
    text: str | None

    @property
    def digest(self) -> str:
        content = json.dumps([self.document, self.title, self.text])
        return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class KeptList:
    """A list that somebody was shown."""

    user: str
    session: str
    time: int  # microseconds since 1970
    query: str
    documents: tuple[str, ...]  # in the engine's order
    shown: tuple[int, ...]  # their places in that order, from 1, as they were shown
    model: str  # the version that ranked it
    trial: str | None = None  # of two runs, where there was one
    arm: str | None = None  # a or b; of an interleaved list one letter for each document that was shown
    texts: tuple[KeptText, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)  # of the request
    user_fields: Mapping[str, Any] = field(default_factory=dict)
    document_fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def said(self) -> str | None:
        """All fields as JSON; None where there is none."""
        parts = {"request": self.fields, "user": self.user_fields, "documents": self.document_fields}
        given = {name: of for name, of in parts.items() if of}
        return json.dumps(given, ensure_ascii=False) if given else None


def forget_lists(connection: Connection, user: int) -> int:
    """Remove a user's lists, and the texts that came with nobody else's; returns how many lists there were."""
    lock_texts(connection)
    gone = connection.execute(delete(lists).where(lists.c.user == user)).rowcount
    if connection.execute(delete(told).where(told.c.user == user)).rowcount:
        _forget_untold(connection)
    return gone


def expire(engine: Engine, now: int, list_days: float, text_days: float) -> tuple[int, int]:
    """Remove what was kept for longer than so many days; returns how many lists and texts that was."""
    with writing(engine) as connection:
        lock_texts(connection)
        old = delete(lists).where(lists.c.at < now - int(list_days * DAY))
        gone = connection.execute(old).rowcount
        connection.execute(delete(told).where(told.c.at < now - int(text_days * DAY)))
        return gone, _forget_untold(connection)


def lock_texts(connection: Connection) -> None:
    """Let no other process add texts or remove them until the transaction ends: a text may be told again meanwhile."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("LOCK TABLE texts IN SHARE ROW EXCLUSIVE MODE")


def _forget_untold(connection: Connection) -> int:
    return connection.execute(delete(texts).where(texts.c.number.not_in(select(told.c.text)))).rowcount
