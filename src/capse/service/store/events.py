"""Events: what was shown, what was clicked, how long somebody stayed; and when a click counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from capse.errors import EventError

Kind = Literal["impression", "click", "dwell"]
KINDS: tuple[Kind, ...] = get_args(Kind)

MAX_NAME = 200  # characters of an id, a user, a session or a document
MAX_QUERY = 2_000  # characters
MAX_DOCUMENTS = 1_000  # shown in one impression
MAX_TIME = 253_402_300_799_999_999  # the last microsecond of the year 9999
MAX_DWELL = 1e9  # seconds


@dataclass(frozen=True)
class Event:
    """One event, as a client sends it. The same event may be sent again: its id says that it is the same."""

    id: str  # the client's, unique among all events
    kind: Kind  # impression: a list was shown; click: a document was opened; dwell: how long a click lasted
    user: str
    session: str  # may be empty: the client has none
    time: int  # microseconds since 1970
    query: str = ""  # of an impression, and of a click where it is known
    documents: tuple[str, ...] = ()  # of an impression: what was shown, in that order
    document: str | None = None  # of a click
    click: str | None = None  # of a dwell: the id of the click
    dwell: float | None = None  # seconds; of a dwell, and of a click whose dwell is known at once

    def __post_init__(self) -> None:
        self._text("id", self.id, MAX_NAME)
        if self.kind not in KINDS:
            raise self._error(f"has the kind {_short(self.kind)}", f"choose from {', '.join(KINDS)}")
        self._text("user", self.user, MAX_NAME)
        self._text("session", self.session, MAX_NAME, empty=True)
        self._text("query", self.query, MAX_QUERY, empty=True)
        if type(self.time) is not int or not 0 <= self.time <= MAX_TIME:
            raise self._error(f"has the time {_short(self.time)}", "give microseconds since 1970 as a whole number")
        if self.dwell is not None:
            object.__setattr__(self, "dwell", self._seconds(self.dwell))
        object.__setattr__(self, "documents", tuple(self.documents))
        if len(self.documents) > MAX_DOCUMENTS:
            raise self._error(f"shows {len(self.documents)} documents", f"show at most {MAX_DOCUMENTS}")
        for document in self.documents:
            self._text("documents", document, MAX_NAME)
        self._fields()

    def _fields(self) -> None:
        """Those that this kind needs are there, and no others."""
        needed = {"impression": {"documents"}, "click": {"document"}, "dwell": {"click", "dwell"}}[self.kind]
        allowed = needed | {"impression": {"query"}, "click": {"query", "dwell"}, "dwell": set()}[self.kind]
        for field in ("query", "documents", "document", "click", "dwell"):
            value = getattr(self, field)
            given = value is not None and value != "" and value != ()
            if given and field not in allowed:
                raise self._error(f"is of kind {self.kind}, which has no '{field}'", f"leave '{field}' out")
            if field in needed and not given:
                raise self._error(f"is of kind {self.kind} and lacks '{field}'", f"give '{field}'")
        for field in ("document", "click"):
            if getattr(self, field) is not None:
                self._text(field, getattr(self, field), MAX_NAME)

    def _text(self, field: str, value: Any, limit: int, *, empty: bool = False) -> None:
        if not isinstance(value, str) or not (value or empty):
            raise self._error(f"has the {field} {_short(value)}", f"give '{field}' as text")
        if len(value) > limit:
            raise self._error(f"has {len(value)} characters in '{field}'", f"at most {limit} are stored")
        if not storable(value):
            raise self._error(f"has a character in '{field}' that is no text", "remove zeros and half surrogate pairs")

    def _seconds(self, value: Any) -> float:
        number = float(value) if type(value) in (int, float) else math.nan
        if not 0 <= number <= MAX_DWELL:
            raise self._error(f"has the dwell {_short(value)}", "give seconds, 0 or more")
        return number

    def _error(self, what: str, remedy: str) -> EventError:
        return EventError(f"event {_short(self.id)} {what}", remedy)


def storable(value: str) -> bool:
    """Whether databases take a text: none takes half of a surrogate pair, and PostgreSQL no zero."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def _short(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True)
class Satisfaction:
    """When a click counts: a dwell of 30 s or more (the paper's rule, as far as it can be known at the time).

    The paper also counts the last click of a session. Which that is, is only known once the session is over.

    >>> Satisfaction().counts(None), Satisfaction().counts(12.0), Satisfaction(without_dwell="wait").counts(None)
    (True, False, False)
    """

    seconds: float = 30.0  # the least dwell
    without_dwell: Literal["count", "wait"] = "count"  # a click whose dwell is unknown counts, or waits for its dwell

    def counts(self, dwell: float | None) -> bool:
        """Whether a click counts of which so much is known."""
        return self.without_dwell == "count" if dwell is None else dwell >= self.seconds
