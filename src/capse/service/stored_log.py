"""What the service stored as a source of logs: the lists that it kept, and the clicks on them.

A click, or what else was done with a document, belongs to the latest list of its user, in its session where both name
one, that was asked for before it and holds the document. A list has the engine's order, which is what a ranker is
given; the order in which it was shown goes beside it, for where people looked. Users who were ever forgotten are left
out, also where they came back: no run may know them.

All is read as it was at one moment, user after user, so that memory stays bounded and the service goes on writing.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import Connection, Row, func, select

from capse.errors import DataError
from capse.search.ingest.sources import jsonl
from capse.search.ingest.staging import Staging
from capse.search.logs.shown_ranks import FILE, SCHEMA
from capse.search.times import DAY
from capse.service.store import Event, Store
from capse.service.store.event import ACTIONS
from capse.service.store.schema import events, forgotten, lists, texts, users
from capse.service.store.user_data import digest

_USERS_AT_ONCE = 500
_Rows = dict[int, list[Row[Any]]]  # by the number of their user, in time order


@dataclass(frozen=True)
class StoredLog:
    """A `capse.search.ingest.sources.Source`: the database, and JSON lines beside it that describe documents."""

    store: Store
    since: int = 0  # microseconds since 1970: earlier lists are left out

    name = "store"

    def suits(self, paths: Sequence[Path]) -> bool:
        return False  # nobody finds a database among files

    def stage(self, paths: Sequence[Path], staging: Staging) -> None:
        with self.store.reading() as connection:
            if not connection.execute(select(func.count()).select_from(lists)).scalar():
                raise DataError(
                    f"{self.store.where} holds no lists to learn from",
                    "have them kept from now on: capse serve --keep-lists DAYS",
                )
            gone = set(connection.execute(select(forgotten.c.digest)).scalars())
            with pq.ParquetWriter(staging.extra(FILE), SCHEMA, compression="zstd") as ranks:
                _Traffic(connection, staging, ranks, self.since, gone).stage()
        jsonl.stage(paths, staging)


@dataclass
class _Traffic:
    """One reading of the database."""

    connection: Connection
    staging: Staging
    ranks: pq.ParquetWriter  # of SCHEMA
    since: int
    gone: set[str]  # digests of users who were forgotten
    unbound: int = 0  # clicks on nothing that was kept
    documents: set[str] = field(default_factory=set)
    shown: list[dict[str, Any]] = field(default_factory=list)  # rows of SCHEMA that are not written yet

    def stage(self) -> None:
        for part in self._users():
            shown, clicks, dwells = self._lists(part), self._clicks(part), self._dwells(part)
            for number, name in part.items():
                if digest(name) not in self.gone:
                    self._stage_user(name, shown.get(number, []), clicks.get(number, []), dwells)
            self.ranks.write_table(pa.Table.from_pylist(self.shown, SCHEMA))
            self.shown.clear()
        for row in self.connection.execute(select(texts).order_by(texts.c.number)):
            if row.document in self.documents:
                self.staging.document(row.document, title=row.title or None, text=row.text)
        if self.unbound:
            self.staging.note(f"{self.unbound:,} clicks on documents of no list that was kept are left out")

    def _stage_user(
        self, name: str, shown: list[Row[Any]], clicks: list[Row[Any]], dwells: dict[tuple[int, str], float]
    ) -> None:
        of_user = [(row, json.loads(row.documents)) for row in shown]
        for row, documents in of_user:
            self.documents.update(documents)
            if row.fields is not None:
                self._stage_fields(row)
            self.shown += [
                {"impression": f"list {row.number}", "document": documents[place - 1], "rank": rank}
                for rank, place in enumerate(json.loads(row.shown), start=1)
            ]
            for position, document in enumerate(documents, start=1):
                self.staging.result(
                    f"list {row.number}",
                    time=row.time,
                    user=name,
                    query=row.query,
                    position=position,
                    document=document,
                    session=row.session or None,
                )
        times = [row.time for row, _ in of_user]
        for click in clicks:
            impression = list_of(click, of_user[: bisect_right(times, click.time)])
            if click.kind != "click":
                of = None if impression is None else f"list {impression}"
                event = f"event {click.number}"
                self.staging.action(click.kind, click.document, impression=of, user=name, time=click.time, event=event)
                continue
            if impression is None:
                self.unbound += 1
                continue
            reported = [dwell for dwell in (click.dwell, dwells.get((click.user, click.id))) if dwell is not None]
            self.staging.click(
                f"list {impression}",
                click.document,
                time=click.time,
                dwell=max(reported, default=None),
                event=f"click {click.number}",
            )

    def _stage_fields(self, row: Row[Any]) -> None:
        """What came with a list; of a document it says what it is in this list, and what it is at all."""
        said: dict[str, Any] = json.loads(row.fields)
        label = f"list {row.number}"
        for scope in ("request", "user"):
            if scope in said:
                self.staging.fields(scope, said[scope], impression=label)
        for document, fields in said.get("documents", {}).items():
            self.staging.fields("result", fields, impression=label, document=document)
            self.staging.fields("item", fields, document=document, time=row.time)

    def _users(self) -> Iterator[dict[int, str]]:
        """Users who have lists, by their numbers, in parts."""
        after = -1
        having = select(lists.c.user).where(lists.c.user == users.c.number, lists.c.time >= self.since).exists()
        while True:
            wanted = select(users.c.number, users.c.name).where(users.c.number > after, having)
            part = self.connection.execute(wanted.order_by(users.c.number).limit(_USERS_AT_ONCE)).all()
            if not part:
                return
            yield {row.number: row.name for row in part}
            after = part[-1].number

    def _lists(self, part: dict[int, str]) -> _Rows:
        wanted = select(lists).where(lists.c.user.in_(part), lists.c.time >= self.since)
        return self._by_user(wanted.order_by(lists.c.user, lists.c.time, lists.c.number))

    def _clicks(self, part: dict[int, str]) -> _Rows:
        wanted = select(events).where(events.c.user.in_(part), events.c.kind.in_(("click", *ACTIONS)))
        wanted = wanted.where(events.c.time >= self.since)
        return self._by_user(wanted.order_by(events.c.user, events.c.time, events.c.number))

    def _dwells(self, part: dict[int, str]) -> dict[tuple[int, str], float]:
        """The longest dwell that was reported of each click, by user and click."""
        wanted = select(events.c.user, events.c.click, func.max(events.c.dwell).label("dwell"))
        wanted = wanted.where(events.c.user.in_(part), events.c.kind == "dwell")
        rows = self.connection.execute(wanted.group_by(events.c.user, events.c.click))
        return {(row.user, row.click): row.dwell for row in rows}

    def _by_user(self, wanted: Any) -> _Rows:
        found: _Rows = {}
        for row in self.connection.execute(wanted):
            found.setdefault(row.user, []).append(row)
        return found


def list_of(click: Row[Any] | Event, before: Sequence[tuple[Row[Any], list[str]]]) -> int | None:
    """The number of the latest of these lists that the click may belong to."""
    for row, documents in reversed(before):
        if click.time - row.time > DAY:
            return None
        same = not click.session or not row.session or click.session == row.session
        if same and click.document in documents:
            return int(row.number)
    return None
