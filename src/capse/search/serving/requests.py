"""Requests to re-rank, as JSON has them, answered one after the other; what was clicked is remembered by user."""

from __future__ import annotations

import json
import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from capse.errors import DataError
from capse.runs.settings import check_key
from capse.search.serving.list_scorers import ShownDocument
from capse.search.serving.reranker import RankedDocument, Reranker
from capse.search.times import parse_time
from capse.search.users.user_state import UserState

_KEYS = ["query", "documents", "user", "session", "time", "clicked", "fields", "user_fields"]
_FORM = 'write {"query": "...", "documents": ["id", ...], "user": "...", "session": "...", "clicked": ["id", ...]}'


class Requests:
    """A re-ranker and the states of the users that it has seen."""

    def __init__(self, reranker: Reranker, *, explain: bool = False) -> None:
        self.reranker = reranker
        self.explain = explain
        self.states: dict[str, UserState] = {}

    def answer_line(self, line: str, place: str) -> dict[str, Any]:
        """The answer to one line of JSON; ``place`` names it in errors."""
        try:
            request = json.loads(line)
        except ValueError as error:
            raise DataError(f"{place} is not JSON", _FORM) from error
        if not isinstance(request, Mapping):
            raise DataError(f"{place} is not a JSON object", _FORM)
        return self.answer(request, place)

    def answer(self, request: Mapping[str, Any], place: str) -> dict[str, Any]:
        """What is ``clicked`` in a request came before it; a user without a name is new each time."""
        for key in request:
            check_key(str(key), _KEYS)
        query, user, session = (_text(request, key, place) for key in ("query", "user", "session"))
        documents = _documents(request.get("documents"), "documents", place)
        clicked = _documents(request.get("clicked", []), "clicked", place)
        time = request.get("time", clock.time())
        parse_time(time, f"{place}: time")
        state = self.states.setdefault(user, self.reranker.new_user()) if user else self.reranker.new_user()
        for document in clicked:
            self.reranker.learn(state, document, session, time)
        said = {key: _fields(request.get(key), key, place) for key in ("fields", "user_fields")}
        ranked = self.reranker.rerank(
            query, documents, user=user, state=state, session=session, time=time, explain=self.explain, **said
        )
        return {"query": query, "user": user, "session": session, "documents": [_row(one) for one in ranked]}


def _row(one: RankedDocument) -> dict[str, Any]:
    row: dict[str, Any] = {
        "document": one.document,
        "rank": one.rank,
        "position": one.position,
        "score": one.score,
    }
    return row if one.reasons is None else row | {"reasons": asdict(one.reasons)}


def _text(request: Mapping[str, Any], key: str, place: str) -> str:
    value = request.get(key, None if key == "query" else "")
    if not isinstance(value, str):
        raise DataError(f"{place}: {key} is {'missing' if value is None else repr(value)}", _FORM)
    return value


def _documents(values: Any, key: str, place: str) -> Sequence[ShownDocument]:
    if not isinstance(values, list):
        raise DataError(f"{place}: {key} is {'missing' if values is None else 'not a list'}", _FORM)
    return [_document(value, key, place) for value in values]


def _document(value: Any, key: str, place: str) -> ShownDocument:
    if isinstance(value, str):
        return ShownDocument(value)
    known = {"id", "title", "text", "fields"}
    if isinstance(value, Mapping) and isinstance(value.get("id"), str) and set(value) <= known:
        title, text = value.get("title") or "", value.get("text")
        if isinstance(title, str) and (text is None or isinstance(text, str)):
            return ShownDocument(value["id"], title, text, _fields(value.get("fields"), "fields", place))
    raise DataError(f"{place}: one of its {key} is {value!r}", 'write an id, or {"id", "title", "text", "fields"}')


def _fields(value: Any, key: str, place: str) -> Mapping[str, Any]:
    if value is None or isinstance(value, Mapping):
        return value or {}
    raise DataError(f"{place}: {key} is not an object", 'write {"name": value, ...}')
