"""Storing lists and texts: many at a time, since nobody waits for it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from sqlalchemy import Connection, Engine, insert, select, tuple_, update

from capse.service.store.engine import writing
from capse.service.store.lists import KeptList, KeptText, lock_texts
from capse.service.store.schema import forgotten, lists, texts, told, users
from capse.service.store.user_data import digest
from capse.service.store.writing import lock_users

_PART = 500  # names in one statement


def write_lists(engine: Engine, kept: Sequence[KeptList]) -> int:
    """Store lists, all or none; those of users who were ever forgotten are left out. Returns how many were stored."""
    names = sorted({one.user for one in kept})
    with writing(engine) as connection:
        lock_users(connection, names)
        gone = _forgotten(connection, names)
        stays = [one for one in kept if one.user not in gone]
        if not stays:
            return 0
        numbers, now = _numbers(connection, {one.user for one in stays}), time.time_ns() // 1_000
        connection.execute(insert(lists), [_values(one, numbers, now) for one in stays])
        _write_texts(connection, [(text, numbers[one.user]) for one in stays for text in one.texts], now)
    return len(stays)


def _values(one: KeptList, numbers: dict[str, int], now: int) -> dict[str, object]:
    return {
        "user": numbers[one.user],
        "session": one.session,
        "time": one.time,
        "query": one.query,
        "documents": json.dumps(one.documents, ensure_ascii=False),
        "shown": json.dumps(one.shown, separators=(",", ":")),
        "model": one.model,
        "trial": one.trial,
        "arm": one.arm,
        "fields": one.said,
        "at": now,
    }


def _write_texts(connection: Connection, sent: Sequence[tuple[KeptText, int]], now: int) -> None:
    """Each text once, and who told it."""
    by_digest = {text.digest: text for text, _ in sent}
    if not by_digest:
        return
    lock_texts(connection)
    known = _text_numbers(connection, list(by_digest))
    new = [(found, text) for found, text in by_digest.items() if found not in known]
    if new:
        rows = [{"digest": key, "document": one.document, "title": one.title, "text": one.text} for key, one in new]
        connection.execute(insert(texts), rows)
        known |= _text_numbers(connection, [key for key, _ in new])
    pairs = sorted({(known[text.digest], user) for text, user in sent})
    for start in range(0, len(pairs), _PART):
        part = pairs[start : start + _PART]
        here = tuple_(told.c.text, told.c.user).in_(part)
        there = {(row.text, row.user) for row in connection.execute(select(told.c.text, told.c.user).where(here))}
        connection.execute(update(told).where(here).values(at=now))
        fresh = [{"text": text, "user": user, "at": now} for text, user in part if (text, user) not in there]
        if fresh:
            connection.execute(insert(told), fresh)


def _text_numbers(connection: Connection, digests: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for start in range(0, len(digests), _PART):
        part = select(texts.c.digest, texts.c.number).where(texts.c.digest.in_(digests[start : start + _PART]))
        found |= {row.digest: row.number for row in connection.execute(part)}
    return found


def _forgotten(connection: Connection, names: Sequence[str]) -> set[str]:
    of = {digest(name): name for name in names}
    found = connection.execute(select(forgotten.c.digest).where(forgotten.c.digest.in_(of))).scalars()
    return {of[one] for one in found}


def _numbers(connection: Connection, names: set[str]) -> dict[str, int]:
    """The numbers of users, who are made where they are not stored."""
    wanted = select(users.c.name, users.c.number).where(users.c.name.in_(names))
    found = {row.name: row.number for row in connection.execute(wanted)}
    new = sorted(names - found.keys())
    if new:
        connection.execute(insert(users), [{"name": name, "folded": 0} for name in new])
        found |= {row.name: row.number for row in connection.execute(wanted)}
    return found
