"""What is remembered of one user between two requests: the latest satisfied clicks, and nothing that a run made of it.

Everything that a ranker knows of a user is a function of these clicks: the vectors of `capse.search.users.profiles` and
the features of `capse.search.features`. So a click is one entry more, taking one back is one entry less, and a state
goes with any run. Bounding them bounds what a state costs, and training looks no further back either.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import accumulate, pairwise
from typing import Any, Literal

import numpy as np

from capse.arrays import Float32s
from capse.errors import RunError, SettingsError
from capse.runs.settings import Section, check_choices
from capse.search.users.profiles import DECAY, NEAREST, REMEMBERED, OneScale, Scale, profile_key, profile_vector

_FORMAT = b"\x01"  # of the bytes
_DAMAGED = "remove it; it grows again with the next clicks"


@dataclass(frozen=True)
class ProfileSettings(Section):
    """How a user becomes a vector."""

    scale: Scale = "long"  # of the clicks that count; nearest: the session's, else the day's, else all
    decay: float = DECAY  # of each click's weight for every later one
    user: Literal["profile", "offset", "trained"] = "offset"
    """`profile`: the live profile; `offset`: the same plus an offset learned for every user of the training period;
    `trained`: the paper's way, a vector that starts as the profile at the end of training, is trained, and then follows
    no click"""
    unknown: Literal["model", "engine"] = "model"
    """Who ranks for users of whom nothing is known, neither a click nor a vector. `model`: the model without a user,
    if it is above the engine on the validation lists; `engine`: the engine's order stays, as in the paper"""

    def __post_init__(self) -> None:
        check_choices(self, "profile")
        if not 0 < self.decay <= 1:
            raise SettingsError(f"profile.decay is {self.decay}", "write a number above 0 and up to 1")


@dataclass(frozen=True, slots=True)
class PastClick:
    """A document that the user found satisfying."""

    document: str
    session: str
    time: int  # microseconds since 1970
    query: str = ""


@dataclass(frozen=True, slots=True)
class PastAction:
    """What else the user did with a document; see `capse.search.logs.actions`."""

    document: str
    kind: str
    time: int  # microseconds since 1970


@dataclass(frozen=True, slots=True)
class DocumentText:
    """What a document says that runs do not know by its id."""

    title: str = ""
    text: str | None = None


@dataclass
class UserState:
    """One user's latest satisfied clicks.

    >>> state = UserState()
    >>> state.click(PastClick("d1", "s1", 1_000_000, "engine"))
    >>> state.click(PastClick("new", "s2", 2_000_000, "graph"), DocumentText("A path in a graph"))
    >>> [click.document for click in state.clicks], state.texts["new"].title
    (['d1', 'new'], 'A path in a graph')
    >>> UserState.from_bytes(state.to_bytes()) == state == UserState.from_mapping(state.to_mapping())
    True
    """

    clicks: list[PastClick] = field(default_factory=list)  # at most REMEMBERED, the latest last
    texts: dict[str, DocumentText] = field(default_factory=dict)  # of clicked documents that a run does not know
    actions: list[PastAction] = field(default_factory=list)  # at most REMEMBERED, the latest last

    def click(self, click: PastClick, text: DocumentText | None = None) -> None:
        """Take in a satisfied click, the most recent; with a ``text`` the document is known by it from now on."""
        self.clicks.append(click)
        if text is not None:
            self.texts[click.document] = text
        if len(self.clicks) > REMEMBERED:
            del self.clicks[:-REMEMBERED]
            kept = {one.document for one in self.clicks}
            self.texts = {document: known for document, known in self.texts.items() if document in kept}

    def act(self, action: PastAction) -> None:
        """Take in an event that is no click, the most recent."""
        self.actions.append(action)
        del self.actions[:-REMEMBERED]

    def clicks_of(self, scale: OneScale, session: str, time: int) -> list[PastClick]:
        """Those of a session, of the day of ``time``, or all."""
        wanted = profile_key(scale, "", session, time)
        return [one for one in self.clicks if profile_key(scale, "", one.session, one.time) == wanted]

    def profile(
        self,
        vector_of: Callable[[str], Float32s | None],
        session: str,
        time: int,
        scale: Scale = "nearest",
        decay: float = DECAY,
    ) -> Float32s | None:
        """The user's vector (k,) at a moment of a session; None where no click has a vector."""
        for one in NEAREST if scale == "nearest" else (scale,):
            vectors = [vector_of(click.document) for click in self.clicks_of(one, session, time)]
            known = [vector for vector in vectors if vector is not None]
            if known:
                return profile_vector(np.stack(known), decay)
        return None

    def to_mapping(self) -> dict[str, Any]:
        """The state as values that JSON can hold."""
        texts = {document: asdict(text) for document, text in self.texts.items()}
        actions = {"actions": [asdict(action) for action in self.actions]} if self.actions else {}
        return {"clicks": [asdict(click) for click in self.clicks], "texts": texts, **actions}

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> UserState:
        """What `to_mapping` gave, now or when states still held vectors: those had the clicks as ``recent``."""
        try:
            if "recent" in values:
                rows = ({**row, "document": row["id"], "query": ""} for row in values["recent"])
            else:
                rows = values["clicks"]
            clicks = [
                PastClick(str(row["document"]), str(row["session"]), int(row["time"]), str(row["query"]))
                for row in rows
            ]
            texts = {
                str(document): DocumentText(str(row["title"]), None if row["text"] is None else str(row["text"]))
                for document, row in values.get("texts", {}).items()
            }
            done = values.get("actions", ())
            actions = [PastAction(str(row["document"]), str(row["kind"]), int(row["time"])) for row in done]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunError("what is stored of a user is damaged", _DAMAGED) from error
        return cls(clicks[-REMEMBERED:], texts, actions[-REMEMBERED:])

    def to_bytes(self) -> bytes:
        """The state in a compact form: column by column, since neighbours are alike, times as differences."""
        times = [click.time for click in self.clicks]
        columns = [[getattr(click, name) for click in self.clicks] for name in ("document", "session", "query")]
        differences = times[:1] + [later - earlier for earlier, later in pairwise(times)]
        texts = [[document, text.title, text.text] for document, text in self.texts.items()]
        actions = [[[action.document, action.kind, action.time] for action in self.actions]] if self.actions else []
        content = json.dumps([*columns, differences, texts, *actions], ensure_ascii=False, separators=(",", ":"))
        return _FORMAT + zlib.compress(content.encode("utf-8", "surrogatepass"), 1)

    @classmethod
    def from_bytes(cls, content: bytes) -> UserState:
        """What `to_bytes` gave."""
        try:
            if content[:1] != _FORMAT:
                raise ValueError("another format")
            documents, sessions, queries, differences, texts, *more = json.loads(zlib.decompress(content[1:]))
            actions = [PastAction(*row) for row in (more[0] if more else ())]
            times = accumulate(differences)
            clicks = [PastClick(*row) for row in zip(documents, sessions, times, queries, strict=True)]
            return cls(clicks, {document: DocumentText(title, text) for document, title, text in texts}, actions)
        except (ValueError, TypeError, zlib.error) as error:
            raise RunError("what is stored of a user is damaged", _DAMAGED) from error
