"""Facts that clients added to a graph: a journal by labels, from which every process makes the same vectors.

A fact is stored once, whoever sends it how often. Rows are never changed, and none appears before one that was read.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence

from sqlalchemy import Connection, Engine, func, insert, select

from capse.service.store.engine import writing
from capse.service.store.folding import Outcome
from capse.service.store.schema import facts

Fact = tuple[str, str, str]  # head, relation and tail


def add_facts(engine: Engine, new: Sequence[Fact]) -> list[Outcome]:
    """Store facts, all or none; on disk when this returns."""
    digests = [_digest(fact) for fact in new]
    now = time.time_ns() // 1_000
    with writing(engine) as connection:
        _lock(connection)
        wanted = select(facts.c.digest).where(facts.c.digest.in_(set(digests)))
        known = set(connection.execute(wanted).scalars())
        outcomes: list[Outcome] = []
        for (head, relation, tail), digest in zip(new, digests, strict=True):
            outcomes.append("repeated" if digest in known else "accepted")
            if digest not in known:
                row = {"digest": digest, "head": head, "relation": relation, "tail": tail, "at": now}
                connection.execute(insert(facts), row)
                known.add(digest)
    return outcomes


def read_facts(engine: Engine) -> list[Fact]:
    """All facts in the order in which they came."""
    with engine.connect() as connection:
        rows = connection.execute(select(facts.c.head, facts.c.relation, facts.c.tail).order_by(facts.c.number))
        return [(row.head, row.relation, row.tail) for row in rows]


def count_facts(engine: Engine) -> int:
    """How many there are: it only grows."""
    with engine.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(facts)).scalar_one())


def _digest(fact: Fact) -> str:
    return hashlib.blake2b(json.dumps(fact).encode(), digest_size=16).hexdigest()


def _lock(connection: Connection) -> None:
    """One writer at a time, so that numbers follow the order of commits; SQLite lets one write at a time anyway."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("LOCK TABLE facts IN SHARE ROW EXCLUSIVE MODE")
