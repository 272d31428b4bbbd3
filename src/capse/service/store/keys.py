"""API keys: who may do what, how often, and for whom."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, Row, exc, insert, select, update

from capse.errors import SettingsError, UnknownNameError
from capse.service.limits import MAX_ID
from capse.service.store.engine import writing
from capse.service.store.schema import keys

SCOPES = ("predict", "rerank", "events", "facts", "users", "admin")
_PREFIX = "capse_"  # so that a scanner for secrets finds a key that was published by mistake


@dataclass(frozen=True)
class Key:
    """What is known of a key; the key itself is not."""

    number: int  # its row's; the rate is counted by it
    name: str
    scopes: tuple[str, ...]  # of SCOPES, in that order
    user: str | None  # the only user whom it may speak for; None: any
    per_minute: int | None  # requests; None: no limit
    created: int  # microseconds since 1970
    revoked: int | None  # microseconds since 1970; None: valid


def add_key(
    engine: Engine, name: str, scopes: Collection[str], user: str | None = None, per_minute: int | None = None
) -> str:
    """Make a key; it is returned here and never again."""
    for label, value in (("name", name), ("user", user)):
        if value is not None and not (0 < len(value) <= MAX_ID and value.isprintable()):
            raise SettingsError(f"a key's {label} cannot be {value!r}", f"give 1 to {MAX_ID} printable characters")
    for scope in scopes:
        if scope not in SCOPES:
            raise UnknownNameError("scope", scope, SCOPES, f"choose from {', '.join(SCOPES)}")
    if not scopes:
        raise SettingsError(f"the key {name!r} may do nothing", f"give it a scope: {', '.join(SCOPES)}")
    if per_minute is not None and per_minute < 1:
        raise SettingsError(f"{per_minute} requests per minute", "give 1 or more, or leave the limit out")
    plaintext = _PREFIX + secrets.token_urlsafe(32)
    row = {
        "name": name,
        "hash": _hash(plaintext),
        "scopes": " ".join(scope for scope in SCOPES if scope in scopes),
        "user": user,
        "per_minute": per_minute,
        "created": _now(),
    }
    try:
        with writing(engine) as connection:
            connection.execute(insert(keys), row)
    except exc.IntegrityError as error:
        raise SettingsError(f"there is a key named {name!r} already", "revoke it first, or choose another") from error
    return plaintext


def find_key(engine: Engine, plaintext: str) -> Key | None:
    """The valid key that this is, if it is one."""
    with engine.connect() as connection:
        found = connection.execute(select(keys).where(keys.c.hash == _hash(plaintext))).one_or_none()
    return None if found is None or found.revoked is not None else _key(found)


def revoke_key(engine: Engine, name: str) -> None:
    """Make a key invalid, at once and for good."""
    with writing(engine) as connection:
        valid = keys.c.revoked.is_(None)
        done = connection.execute(update(keys).where(keys.c.name == name, valid).values(revoked=_now()))
        if done.rowcount == 0:
            known = connection.execute(select(keys.c.name).where(valid)).scalars().all()
            raise UnknownNameError("key", name, known, "`capse key list` shows those that are valid")


def list_keys(engine: Engine) -> Sequence[Key]:
    """Every key, revoked ones included, the oldest first."""
    with engine.connect() as connection:
        return [_key(row) for row in connection.execute(select(keys).order_by(keys.c.number))]


def _hash(plaintext: str) -> str:
    """SHA-256, once, without salt.

    Slow, salted hashes protect passwords, which people choose from few. A key here is 256 random bits: nobody can go
    through them however fast the hash, no two are equal, and every request pays for the hash.
    """
    return hashlib.sha256(plaintext.encode("utf-8", "surrogatepass")).hexdigest()


def _key(row: Row[Any]) -> Key:
    return Key(row.number, row.name, tuple(row.scopes.split()), row.user, row.per_minute, row.created, row.revoked)


def _now() -> int:
    return time.time_ns() // 1_000
