"""JSON lines: an impression or a document per line.

    {"time": ..., "user": ..., "query": ..., "results": [...], "clicks": [...], "session"?, "split"?, "impression"?,
     "fields"?, "user_fields"?, "events"?}
    {"event": "cart", "document": ..., "time": ..., "user": ..., "impression"?}
    {"document": ..., "title"?, "text"?, "terms"?, "fields"?}

``time`` (or ``timestamp``) is what `log_time` reads. A result is a document's id, or an object with ``document`` (or
``doc``, ``id``), ``title``, ``text`` and ``terms``. A click is a document's id, or an object with that and ``time``,
``dwell`` (seconds) and ``event`` (the click's own id). An event that is no click has a kind as ``event``
(`capse.search.logs.actions`), a document and a time; it stands among the ``events`` of its impression, or in a line of
its own. An impression without an ``impression`` (or ``id``) is known by
what else its line holds, so the same line twice is one event. ``fields`` are objects of names and values: of the
document, of the request, of the user who asks, and in a result of the document in this list
(`capse.search.logs.field_schema`).
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from capse.search.ingest.sources.files import encodable, first_object, lines, with_suffix
from capse.search.ingest.staging import Staging
from capse.search.logs.field_schema import Scope
from capse.search.times import log_time

_SUFFIXES = (".jsonl", ".ndjson")
_DOCUMENT = ("document", "doc", "id")
_TIME = ("time", "timestamp")
_LARGEST_COUNT = 2**31 - 1


def suits(paths: Sequence[Path]) -> bool:
    """Whether a file's first line is an impression."""
    return any("results" in first_object(path) for path in with_suffix(paths, _SUFFIXES))


def stage(paths: Sequence[Path], staging: Staging) -> None:
    """Bring all files into the staged form; every line that cannot be read is rejected."""
    described: set[bytes] = set()
    for path in with_suffix(paths, _SUFFIXES):
        for number, line in lines(path):
            _Line(path.name, number, line, staging, described).stage()


class _Line:
    """One line of a file on its way into the staged tables."""

    def __init__(self, source: str, number: int, line: bytes, staging: Staging, described: set[bytes]) -> None:
        self.source, self.number, self.line = source, number, line
        self.staging, self.described = staging, described

    def stage(self) -> None:
        try:
            record = json.loads(self.line)
        except (ValueError, RecursionError):
            return self.reject("not JSON")
        if not isinstance(record, dict):
            return self.reject("not an object")
        try:
            if "results" in record:
                return self.impression(record)
            if "event" in record:
                return self.action(record, _text(record.get("impression")))
            if any(name in record for name in _DOCUMENT):
                return self.document(record)
        except ValueError as error:
            return self.reject(str(error))
        return self.reject("neither an impression nor a document")

    def reject(self, reason: str, part: Any = None) -> None:
        """The whole line, or the part of it that cannot be read."""
        raw = self.line.decode("utf-8", "replace").strip() if part is None else json.dumps(part)
        self.staging.reject(self.source, self.number, reason, raw)

    def impression(self, record: Mapping[str, Any]) -> None:
        results, clicks = record["results"], record.get("clicks") or []
        if not isinstance(results, list) or not isinstance(clicks, list):
            raise ValueError("results or clicks that are not a list")
        if not results:
            raise ValueError("no results")
        time = _time(record)
        head = {name: _text(record.get(name)) for name in ("user", "session", "query", "split")}
        documents = [_text(_first(result, _DOCUMENT)) for result in results]
        label = _text(_first(record, ("impression", "id"))) or _digest(record)
        for position, (document, result) in enumerate(zip(documents, results, strict=True), start=1):
            self.staging.result(label, time=time, position=position, document=document, **head)
            if isinstance(result, dict) and result.keys() & {"title", "text", "terms"}:
                self.document({name: value for name, value in result.items() if name != "fields"})
            if isinstance(result, dict):
                self.fields("result", result.get("fields"), impression=label, document=document)
        self.actions(label, record.get("events") or [])
        self.fields("request", record.get("fields"), impression=label)
        self.fields("user", record.get("user_fields"), impression=label)
        for click in clicks:
            try:
                self.click(label, click)
            except ValueError as error:
                self.reject(f"click with {error}", click)

    def actions(self, impression: str, events: Any) -> None:
        if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
            self.reject("events that are not a list of objects", events)
            events = []
        for event in events:
            try:
                self.action(event, impression)
            except ValueError as error:
                self.reject(f"event with {error}", event)

    def action(self, event: Mapping[str, Any], impression: str | None) -> None:
        kind, document, user = _text(event.get("event")), _text(_first(event, _DOCUMENT)), _text(event.get("user"))
        time = _time(event)
        if kind == "click" and impression is not None:
            self.staging.click(impression, document, time=time)
        else:
            self.staging.action(kind, document, impression=impression, user=user, time=time)

    def click(self, impression: str, click: Any) -> None:
        details = click if isinstance(click, dict) else {}
        dwell = details.get("dwell")
        if dwell is not None and (isinstance(dwell, (bool, str, list, dict)) or not abs(dwell) <= sys.float_info.max):
            raise ValueError("an unreadable dwell")
        self.staging.click(
            impression,
            _text(_first(click, _DOCUMENT)),
            time=_time(details),
            dwell=dwell,
            event=_text(details.get("event")),
        )

    def document(self, record: Mapping[str, Any]) -> None:
        content = (_text(_first(record, _DOCUMENT)), _text(record.get("title")), _text(record.get("text")))
        terms = record.get("terms")
        if terms is not None and not _are_counts(terms):
            raise ValueError("terms that are not word counts")
        key = hashlib.blake2b(repr((*content, terms)).encode(), digest_size=16).digest()
        label, title, text = content
        if key not in self.described:  # results describe the same document again and again
            self.described.add(key)
            self.staging.document(label, title=title, text=text, terms=terms)
        self.fields("item", record.get("fields"), document=label, time=_time(record))

    def fields(self, scope: Scope, fields: Any, **of: Any) -> None:
        if isinstance(fields, dict) and fields:
            self.staging.fields(scope, fields, **of)
        elif fields is not None and fields != {}:
            self.reject(f"{scope} fields that are not an object", fields)


def _first(value: Any, names: Sequence[str]) -> Any:
    """The first of these keys that an object has; a plain value is itself."""
    if not isinstance(value, dict):
        return value
    return next((value[name] for name in names if value.get(name) is not None), None)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, (bool, list, dict)):
        raise ValueError("a list, an object, true or false where a text should be")
    return encodable(str(value))


def _time(record: Mapping[str, Any]) -> int | None:
    value = _first(record, _TIME)
    time = log_time(value)
    if time is None and value is not None:
        raise ValueError("an unreadable time")
    return time


def _are_counts(terms: Any) -> bool:
    return isinstance(terms, dict) and all(
        type(count) is int and 0 <= count <= _LARGEST_COUNT and _text(word) for word, count in terms.items()
    )


def _digest(record: Mapping[str, Any]) -> str:
    """An id for an impression that has none, from all that its line holds but the clicks."""
    content = json.dumps({name: value for name, value in record.items() if name != "clicks"}, sort_keys=True)
    return hashlib.blake2b(content.encode(), digest_size=12).hexdigest()
