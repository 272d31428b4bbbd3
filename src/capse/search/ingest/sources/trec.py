"""TREC Session Track XML: sessions of interactions, each a query, a list of results and clicks on ranks.

    <sessiontrack2013>
      <session num="1" starttime="0">
        <interaction num="1" starttime="99.396003">
          <query>US civil war causes</query>
          <results><result rank="1"><url/><clueweb12id/><title/><snippet/></result> ... </results>
          <clicked><click num="1" starttime="143.5" endtime="152.6"><rank>1</rank></click></clicked>
        </interaction>
        <currentquery starttime="170.4"><query/></currentquery>
      </session>

Times are seconds within a session, or clock times such as 10:57:41.37, as in 2011; one earlier than the session's start
is after midnight. The sessions are laid one after the other from EPOCH, an hour apart, in the order of the file. There
are no users, so each session is a user of its own. A click's dwell is its end less its start, unknown where the end is
``NA``. The file is read as a stream, and a document type with entities is refused.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from capse.errors import DataError
from capse.search.ingest.sources.files import open_stream, reading, with_suffix
from capse.search.ingest.staging import Staging
from capse.search.times import SECOND

EPOCH = 1_356_998_400  # 1 January 2013, in seconds
BETWEEN_SESSIONS = 3_600.0  # seconds

_SUFFIXES = (".xml",)
_ROOT = re.compile(rb"<sessiontrack\d*[\s>]")
_CORPUS_ID = re.compile(r"clueweb\d\did")
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d):([0-5]\d(?:\.\d+)?)", re.ASCII)
_DAY = 86_400.0  # seconds
_CHUNK = 1 << 16  # bytes
_LATEST = 1e8  # seconds; no session lasts three years


def suits(paths: Sequence[Path]) -> bool:
    """Whether a file begins like the track's."""
    return any(_begins_well(path) for path in with_suffix(paths, _SUFFIXES))


def stage(paths: Sequence[Path], staging: Staging) -> None:
    """Bring all sessions into the staged form."""
    start, sessions, current = float(EPOCH), 0, 0
    described: dict[str, tuple[str, str]] = {}  # title and snippet; snippets differ by query, the longest stands
    for path in with_suffix(paths, _SUFFIXES):
        reader = _Reader(path, staging, described, start)
        reader.read()
        start, sessions, current = reader.start, sessions + reader.sessions, current + reader.current
    for document, (title, text) in described.items():
        staging.document(document, title=title or None, text=text or None)
    if not sessions:
        raise DataError(f"{paths[0]}: no session", "name a file of the TREC Session Track")
    staging.note(
        f"TREC's times are relative to their sessions: the {sessions:,} sessions are laid one after the other from "
        f"1 January 2013, {BETWEEN_SESSIONS / 60:g} minutes apart; TREC names no users, so each session is one"
    )
    if current:
        staging.note(
            f"{current:,} sessions end with the query that the track asks about: it has no results, so it is left out"
        )


def _begins_well(path: Path) -> bool:
    try:
        with reading(path), open_stream(path) as stream:
            return bool(_ROOT.search(stream.read(_CHUNK)))
    except DataError:
        return False


@dataclass
class _Click:
    line: int
    start: str
    end: str
    rank: str = ""


@dataclass
class _Interaction:
    line: int
    number: str
    start: str
    query: str = ""
    results: list[dict[str, str]] = field(default_factory=list)
    clicks: list[_Click] = field(default_factory=list)


class _Reader:
    """One file, read as a stream of tags; a finished interaction is staged at once."""

    def __init__(self, path: Path, staging: Staging, described: dict[str, tuple[str, str]], start: float) -> None:
        self.path, self.staging, self.described = path, staging, described
        self.start = start  # of the session that is being read, in seconds since 1970
        self.sessions = self.current = 0
        self._end = 0.0  # the last moment of that session
        self._session = ""
        self._began: float | None = None  # the session's first clock time, where it has clock times
        self._interaction: _Interaction | None = None
        self._open: list[str] = []  # the tags around this place
        self._text: list[str] = []
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = self._finish
        self._parser.CharacterDataHandler = self._text.append
        self._parser.EntityDeclHandler = self._refuse_entity

    def read(self) -> None:
        try:
            with reading(self.path), open_stream(self.path) as stream:
                while chunk := stream.read(_CHUNK):
                    self._parser.Parse(chunk, False)
                self._parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise DataError(
                f"{self.path}, line {error.lineno}: not XML ({expat.ErrorString(error.code)})", "copy the file again"
            ) from error

    def _refuse_entity(self, *declaration: object) -> NoReturn:
        line = self._parser.CurrentLineNumber
        raise DataError(f"{self.path}, line {line}: the file declares entities", "remove its document type")

    def _begin(self, tag: str, attributes: Mapping[str, str]) -> None:
        line = self._parser.CurrentLineNumber
        if not self._open and not tag.startswith("sessiontrack"):
            raise DataError(f"{self.path}, line {line}: <{tag}> instead of <sessiontrack...>", "is this the track's?")
        inside = self._open[-1] if self._open else ""
        self._open.append(tag)
        self._text.clear()
        if tag == "session":
            self._session = attributes.get("num", f"line {line}")
            self._began = _clock(attributes.get("starttime", ""))
            self._end = 0.0
        elif tag == "currentquery":
            self.current += 1
        elif tag == "interaction":
            self._interaction = _Interaction(line, attributes.get("num", ""), attributes.get("starttime", ""))
        elif self._interaction is not None and tag == "result" and inside == "results":
            self._interaction.results.append({"rank": attributes.get("rank", "")})
        elif self._interaction is not None and tag == "click" and inside == "clicked":
            click = _Click(line, attributes.get("starttime", ""), attributes.get("endtime", ""))
            self._interaction.clicks.append(click)

    def _finish(self, tag: str) -> None:
        self._open.pop()
        inside = self._open[-1] if self._open else ""
        text = " ".join("".join(self._text).split())
        self._text.clear()
        if tag == "session":
            self.sessions += 1
            self.start += math.ceil(self._end) + BETWEEN_SESSIONS
        if (interaction := self._interaction) is None:
            return
        if tag == "interaction":
            self._stage(interaction)
            self._interaction = None
        elif inside == "interaction" and tag == "query":
            interaction.query = text
        elif inside == "result" and interaction.results:
            interaction.results[-1]["corpus" if _CORPUS_ID.fullmatch(tag) else tag] = text
        elif inside == "click" and tag == "rank" and interaction.clicks:
            interaction.clicks[-1].rank = text

    def _stage(self, interaction: _Interaction) -> None:
        moment = self._seconds(interaction.start)
        if not interaction.results or moment is None:
            reason = "an unreadable time" if interaction.results else "interaction without results"
            raw = f"session {self._session}, interaction {interaction.number}: {interaction.query}"
            self.staging.reject(self.path.name, interaction.line, reason, raw)
            return
        label = f"{self._session}-{interaction.number}"
        shown: dict[str, str | None] = {}  # rank: document
        for result in interaction.results:
            document = result.get("corpus") or result.get("url") or None
            rank = result["rank"]
            shown.setdefault(rank, document)
            self.staging.result(
                label,
                time=self._time(moment),
                user=f"session-{self._session}",
                session=self._session,
                query=interaction.query,
                position=int(rank) if rank.isdecimal() and len(rank) < 10 else None,
                document=document,
            )
            if document:
                title, text = (html.unescape(result.get(name, "")) for name in ("title", "snippet"))
                self.described[document] = max(self.described.get(document, ("", "")), (title, text), key=_size)
        for click in interaction.clicks:
            self._stage_click(label, click, shown)

    def _stage_click(self, label: str, click: _Click, shown: Mapping[str, str | None]) -> None:
        start, end = self._seconds(click.start), self._seconds(click.end)
        if click.rank not in shown or start is None:
            reason = "click on a rank that was not shown" if start is not None else "click with an unreadable time"
            self.staging.reject(self.path.name, click.line, reason, f"{label}, rank {click.rank}, at {click.start}")
            return
        dwell = None if end is None else end - start
        self._end = max(self._end, end or 0.0)
        self.staging.click(label, shown[click.rank], time=self._time(start), dwell=dwell)

    def _seconds(self, text: str) -> float | None:
        """A moment of this session."""
        clock = _clock(text)
        if clock is None:
            return _plain(text)
        if self._began is None:
            self._began = clock
        return (clock - self._began) % _DAY

    def _time(self, moment: float) -> int:
        """Microseconds since 1970 of a moment of this session."""
        self._end = max(self._end, moment)
        return round((self.start + moment) * SECOND)


def _clock(text: str) -> float | None:
    """Seconds since midnight of a time such as 10:57:41.37."""
    found = _CLOCK.fullmatch(text.strip())
    return None if found is None else 3600 * int(found[1]) + 60 * int(found[2]) + float(found[3])


def _plain(text: str) -> float | None:
    try:
        moment = float(text)
    except ValueError:
        return None
    return moment if 0 <= moment < _LATEST else None


def _size(description: tuple[str, str]) -> int:
    return len(description[0]) + len(description[1])
