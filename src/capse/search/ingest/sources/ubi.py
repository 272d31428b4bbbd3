"""OpenSearch's and Elasticsearch's User Behavior Insights (https://github.com/o19s/ubi): queries and events, as JSON
lines or as a bulk file.

    {"query_id", "client_id", "user_query", "timestamp", "query_response_hit_ids"?, ...}              a query
    {"action_name", "query_id", "client_id", "timestamp", "session_id"?, "user_query"?,
     "event_attributes": {"object": {"object_id"}, "position": {"ordinal"}}, ...}                      an event

A list is what its query's ``query_response_hit_ids`` hold; where there are none, what its events of type
``impression`` show, by their ordinals. Clicks are clicks, what else is done with a product an event that is no click;
what is done with the page is left out, and counted. A user is a ``client_id``. An event that names a query nobody
recorded, as a list or as an impression, is quarantined by the pipeline.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capse.search.ingest.sources.files import encodable, first_object, lines, with_suffix
from capse.search.ingest.staging import Staging
from capse.search.times import log_time

_SUFFIXES = (".ndjson", ".jsonl", ".json")
_BULK = ("index", "create")  # a line before a record
_CLICKS = ("click", "item_click")
_ACTIONS = {
    "product_hover": "view",
    "view": "view",
    "add_to_cart": "cart",
    "cart": "cart",
    "purchase": "purchase",
    "like": "like",
    "declined_product": "dislike",
    "dislike": "dislike",
}


def suits(paths: Sequence[Path]) -> bool:
    """Whether a file begins with a query, an event, or a bulk file's line about them."""
    return any(_looks_right(first_object(path)) for path in with_suffix(paths, _SUFFIXES))


def stage(paths: Sequence[Path], staging: Staging) -> None:
    """Bring all records into the staged form."""
    records = _Records(staging)
    for path in with_suffix(paths, _SUFFIXES):
        for number, line in lines(path):
            records.stage(path.name, number, line)
    records.finish()


def _looks_right(first: Mapping[str, Any]) -> bool:
    about = next((first[name] for name in _BULK if isinstance(first.get(name), dict)), None)
    if about is not None:
        return str(about.get("_index", "")).startswith("ubi")
    return "query_id" in first and ("action_name" in first or "user_query" in first)


@dataclass
class _Asked:
    """What is known of a query."""

    time: int
    user: str | None
    query: str | None
    session: str | None = None
    hits: list[str] = field(default_factory=list)
    shown: list[tuple[int | None, str | None]] = field(default_factory=list)  # ordinals and documents of impressions
    recorded: bool = False  # there is a query, not only its impressions


class _Records:
    """Records on their way into the staged tables: lists are whole when all has been read."""

    def __init__(self, staging: Staging) -> None:
        self.staging = staging
        self.asked: dict[str, _Asked] = {}
        self.sessions: dict[str, str] = {}  # of queries, as their events name them
        self.found: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()

    def stage(self, source: str, number: int, line: bytes) -> None:
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise ValueError("not an object")
            if len(record) == 1 and next(iter(record)) in _BULK:
                return
            self.found["records"] += 1
            self._event(record) if "action_name" in record else self._query(record)
        except (ValueError, RecursionError) as error:
            reason = "not JSON" if isinstance(error, (json.JSONDecodeError, RecursionError)) else str(error)
            self.found["rejected"] += 1
            self.staging.reject(source, number, reason, line.decode("utf-8", "replace").strip())

    def finish(self) -> None:
        """Stage the lists, and say what became of the records."""
        first = 0 if any(ordinal == 0 for asked in self.asked.values() for ordinal, _ in asked.shown) else 1
        empty = 0
        for label, asked in self.asked.items():
            rows: list[tuple[int | None, str | None]] = list(enumerate(asked.hits, start=1))
            rows = rows or [(None if at is None else at + 1 - first, document) for at, document in asked.shown]
            empty += not rows
            for position, document in rows:
                self.staging.result(
                    label,
                    time=asked.time,
                    user=asked.user,
                    session=asked.session or self.sessions.get(label),
                    query=asked.query,
                    position=position,
                    document=document,
                )
        said = ", ".join(f"{count:,} {kind}" for kind, count in self.found.items() if kind != "records")
        self.staging.note(f"{self.found['records']:,} UBI records: {said}")
        if self.left_out:
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.left_out.items()))
            self.staging.note(f"events that are not about a document in a list are left out: {kinds}")
        if empty:
            self.staging.note(f"{empty:,} queries have neither hits nor impressions: they make no list")
        unknown = sum(not asked.recorded for asked in self.asked.values())
        if unknown:
            self.staging.note(f"{unknown:,} lists are known by their impressions alone: their queries are not recorded")

    def _query(self, record: Mapping[str, Any]) -> None:
        label, time = _label(record, "query_id"), _time(record)
        if label is None:
            raise ValueError("a query without an id")
        known = self.asked.get(label)
        if known is not None and known.recorded:
            raise ValueError("query with the id of another")
        hits = record.get("query_response_hit_ids") or []
        if not isinstance(hits, list) or not all(isinstance(hit, str) for hit in hits):
            raise ValueError("hits that are not a list of ids")
        self.found["queries"] += 1
        shown = [] if known is None else known.shown
        user, query = _label(record, "client_id"), _label(record, "user_query")
        self.asked[label] = _Asked(time, user, query, None, [encodable(hit) for hit in hits], shown, recorded=True)

    def _event(self, record: Mapping[str, Any]) -> None:
        kind = _label(record, "action_name") or "nameless"
        if kind != "impression" and kind not in _CLICKS and kind not in _ACTIONS:
            self.left_out[kind] += 1
            self.found["left out"] += 1
            return
        label, time, user = _label(record, "query_id"), _time(record), _label(record, "client_id")
        attributes = record.get("event_attributes")
        attributes = attributes if isinstance(attributes, dict) else {}
        about = attributes.get("object")
        document = _label(about, "object_id") if isinstance(about, dict) else None
        if document is None:
            raise ValueError("an event without an object_id")
        session = _label(record, "session_id") or _label(attributes, "session_id")
        if label is not None and session is not None:
            self.sessions.setdefault(label, session)
        if kind == "impression":
            self.found["impressions"] += 1
            self._shown(label, record, _Asked(time, user, _label(record, "user_query"), session), document)
        elif kind in _CLICKS:
            self.found["clicks"] += 1
            self.staging.click(label, document, time=time)
        else:
            self.found["other events"] += 1
            self.staging.action(_ACTIONS[kind], document, impression=label, user=user, time=time)

    def _shown(self, label: str | None, record: Mapping[str, Any], asked: _Asked, document: str) -> None:
        if label is None:
            raise ValueError("an impression without a query")
        position = record["event_attributes"].get("position")
        ordinal = position.get("ordinal") if isinstance(position, dict) else None
        known = self.asked.setdefault(label, asked)
        if not known.recorded:
            known.time = min(known.time, asked.time)
        known.shown.append((ordinal if type(ordinal) is int else None, document))


def _time(record: Mapping[str, Any]) -> int:
    time = log_time(record.get("timestamp"))
    if time is None:
        raise ValueError("an unreadable time")
    return time


def _label(record: Mapping[str, Any], name: str) -> str | None:
    """A text; one that is empty is none."""
    value = record.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, (bool, float, list, dict)):
        raise ValueError(f"{name} is not a text")
    return encodable(str(value))
