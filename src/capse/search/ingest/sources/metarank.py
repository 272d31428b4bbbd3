"""Metarank's events, one JSON object per line (https://docs.metarank.ai/reference/event-schema).

    {"event": "item", "id", "timestamp", "item": "item1", "fields": [{"name": "title", "value": "A cat"}]}
    {"event": "ranking", "id", "timestamp", "user"?, "session"?, "fields"?: [{"name": "query", "value": "cat"}],
     "items": [{"id": "item3"}, {"id": "item1"}]}
    {"event": "interaction", "id", "timestamp", "ranking"?, "item": "item1", "type": "click", "user"?, "session"?}

A timestamp is in milliseconds, as text or as a number, or ISO 8601. An item's text is that of its fields, where each
later event of the item replaces the fields that it names. Fields of items, users, rankings and of a ranking's items are
staged as fields; a ranking has those that its user had by then. Metarank's ``relevancy`` is a field of the result.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from capse.search.ingest.sources.files import encodable, first_object, lines, with_suffix
from capse.search.ingest.staging import Staging
from capse.search.logs.actions import KINDS
from capse.search.logs.field_schema import Scope
from capse.search.times import log_time

_SUFFIXES = (".jsonl", ".ndjson", ".json")
_EVENTS = ("item", "user", "ranking", "interaction")
_TITLES = ("title", "name")
KIND_OF = {"add_to_cart": "cart", "addtocart": "cart", "buy": "purchase", "order": "purchase", "favourite": "like"}
_LARGEST = 2**63 // 1000  # milliseconds that fit as microseconds


def suits(paths: Sequence[Path]) -> bool:
    """Whether a file's first line is an event."""
    return any(first_object(path).get("event") in _EVENTS for path in with_suffix(paths, _SUFFIXES))


def stage(
    paths: Sequence[Path], staging: Staging, *, query_field: str = "query", click_types: Collection[str] = ("click",)
) -> None:
    """Bring all events into the staged form.

    ``query_field`` is the field of a ranking that holds the query's text, ``click_types`` the interactions that count.
    """
    events = _Events(staging, query_field, click_types)
    for path in with_suffix(paths, _SUFFIXES):
        for number, line in lines(path):
            events.stage(path.name, number, line)
    events.finish()


class _Events:
    """Events on their way into the staged tables."""

    def __init__(self, staging: Staging, query_field: str, click_types: Collection[str]) -> None:
        self.staging, self.query_field, self.click_types = staging, query_field, click_types
        self.items: dict[str, dict[str, tuple[int, str]]] = {}  # item: field: when it was said, and its text
        self.users: dict[str, list[tuple[int, dict[str, Any]]]] = {}  # user: when and what was said
        self.asked: list[tuple[str, str, int]] = []  # impression, user and time of the rankings
        self.left_out: Counter[str] = Counter()
        self.rankings = self.without_user = self.without_query = 0

    def stage(self, source: str, number: int, line: bytes) -> None:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            self._reject(source, number, "not JSON", line)
            return
        kind = event.get("event") if isinstance(event, dict) else None
        take = {"item": self._item, "user": self._user, "ranking": self._ranking, "interaction": self._interaction}
        if kind not in _EVENTS:
            self._reject(source, number, f"not an event of type {', '.join(_EVENTS)}", line)
            return
        try:
            take[kind](event)
        except ValueError as error:
            self._reject(source, number, str(error), line)

    def finish(self) -> None:
        """Stage the items as they were last described, and say what was left out."""
        for item, fields in self.items.items():
            texts = {name: text for name, (_, text) in fields.items()}
            title = next((texts.pop(name) for name in _TITLES if name in texts), None)
            self.staging.document(item, title=title, text=" ".join(texts.values()) or None)
        self._users_of_rankings()
        if self.left_out:
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.left_out.items()))
            self.staging.note(f"events that are neither shown lists, clicks nor items are left out: {kinds}")
        if self.without_user:
            self.staging.note(
                f"{self.without_user:,} of {self.rankings:,} rankings name no user: their session is taken for one"
            )
        if self.without_query:
            self.staging.note(
                f"{self.without_query:,} of {self.rankings:,} rankings have no field {self.query_field!r}: "
                "their query is empty"
            )

    def _reject(self, source: str, number: int, reason: str, line: bytes) -> None:
        self.staging.reject(source, number, reason, line.decode("utf-8", "replace").strip())

    def _item(self, event: Mapping[str, Any]) -> None:
        item, time = _label(event, "item"), _time(event)
        if item is None:
            raise ValueError("an item without an id")
        known = self.items.setdefault(item, {})
        self._stage_fields("item", event, document=item, time=time)
        for name, text in _fields(event).items():
            if name not in known or known[name][0] <= time:
                known[name] = (time, text)

    def _user(self, event: Mapping[str, Any]) -> None:
        user, time = _label(event, "user"), _time(event)
        if user is None:
            raise ValueError("a user without an id")
        self.users.setdefault(user, []).append((time, _values(event)))

    def _users_of_rankings(self) -> None:
        """What was known of the user of each ranking by then: of every field the latest."""
        for said in self.users.values():
            said.sort(key=lambda one: one[0])
        for impression, user, time in self.asked:
            known: dict[str, Any] = {}
            for at, fields in self.users.get(user, ()):
                if at <= time:
                    known |= fields
            if known:
                self.staging.fields("user", known, impression=impression)

    def _stage_fields(self, scope: Scope, holder: Mapping[str, Any], **of: Any) -> None:
        if fields := _values(holder):
            self.staging.fields(scope, fields, **of)

    def _ranking(self, event: Mapping[str, Any]) -> None:
        items = event.get("items")
        if not isinstance(items, list) or not items:
            raise ValueError("a ranking without items")
        if not all(isinstance(item, dict) for item in items):
            raise ValueError("items that are not objects with an id")
        documents = [_label(item, "id") for item in items]
        time, user, session = _time(event), _label(event, "user"), _label(event, "session")
        impression, query = _label(event, "id"), _fields(event).get(self.query_field)
        self.rankings += 1
        self.without_user += user is None
        self.without_query += query is None
        if impression is not None and user is not None:
            self.asked.append((impression, user, time))
        self._stage_fields("request", event, impression=impression)
        for item, document in zip(items, documents, strict=True):
            self._stage_fields("result", item, impression=impression, document=document)
        for position, document in enumerate(documents, start=1):
            self.staging.result(
                impression,
                time=time,
                user=user or session,
                session=session,
                query=query,
                position=position,
                document=document,
            )

    def _interaction(self, event: Mapping[str, Any]) -> None:
        kind = _label(event, "type") or "interaction without a type"
        ranking, item, own = (_label(event, name) for name in ("ranking", "item", "id"))
        if kind in self.click_types and ranking is not None:
            self.staging.click(ranking, item, time=_time(event), event=own)
        elif kind in self.click_types or kind in KIND_OF or kind in KINDS:
            user = _label(event, "user") or _label(event, "session")
            action = "click" if kind in self.click_types else KIND_OF.get(kind, kind)
            self.staging.action(action, item, impression=ranking, user=user, time=_time(event), event=own)
        else:
            self.left_out[kind] += 1


def _time(event: Mapping[str, Any]) -> int:
    """Microseconds since 1970; a number is in milliseconds whatever its size."""
    value = event.get("timestamp")
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value) if len(value) < 20 else None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not abs(value) < _LARGEST:
            raise ValueError("an unreadable time")
        return round(value * 1000)
    time = log_time(value)
    if time is None:
        raise ValueError("an unreadable time")
    return time


def _label(event: Mapping[str, Any], name: str) -> str | None:
    value = event.get(name)
    if value is None:
        return None
    if isinstance(value, (bool, float, list, dict)):
        raise ValueError(f"{name} is not a text")
    return encodable(str(value))


def _values(holder: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an event, or of an item in a ranking, whatever they hold."""
    fields = holder.get("fields") or []
    if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
        raise ValueError("fields that are not a list of names and values")
    found = {str(field.get("name")): field.get("value") for field in fields}
    relevancy = holder.get("relevancy")
    return found if relevancy is None else found | {"relevancy": relevancy}


def _fields(event: Mapping[str, Any]) -> dict[str, str]:
    """The fields that are text or lists of texts; numbers and truths say nothing to a reader."""
    fields = event.get("fields") or []
    if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
        raise ValueError("fields that are not a list of names and values")
    found: dict[str, str] = {}
    for field in fields:
        name, value = field.get("name"), field.get("value")
        parts = value if isinstance(value, list) else [value]
        texts = [part for part in parts if isinstance(part, str)]
        if isinstance(name, str) and texts:
            found[name] = encodable(" ".join(texts))
    return found
