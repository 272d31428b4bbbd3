"""What is remembered of all people together: which documents were shown and clicked, and for which queries.

Counters go on growing; of single clicks the latest on each document are kept. Nobody is named. It equals what a whole
log tells at the same moment, since both number clicks in the order in which they came to count.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from capse.search.times import DAY

LATEST = 100  # clicks on one document, the latest, that are kept one by one
WINDOW = 1000  # clicks that are 'lately'


class PublicClick(NamedTuple):
    """A satisfied click of anyone."""

    number: int  # how many clicks came before it
    time: int  # microseconds since 1970
    query: str


@dataclass(frozen=True)
class Tally:
    """Clicks and showings of what is in the same place, by the place's name."""

    clicked: Counter[str] = field(default_factory=Counter)
    lately: Counter[str] = field(default_factory=Counter)
    shown: Counter[str] = field(default_factory=Counter)


class Days:
    """Counters of the latest days, by what is counted: a document as ("", id), a text of a field as (field, text)."""

    def __init__(self, most: int) -> None:
        self.most = most  # days that anybody asks for; 0: nothing is counted
        self._days: dict[int, DayTally] = {}  # by days since 1970
        self._newest = 0

    def tallies(self, days: range) -> list[DayTally]:
        return [self._days[day] for day in days if day in self._days]

    def on(self, day: int) -> DayTally | None:
        """Where to count; None for a day that is too long ago."""
        if day > self._newest:
            self._newest = day
            self._days = {one: tally for one, tally in self._days.items() if one > day - self.most - _SPARE_DAYS}
        if not self.most or day <= self._newest - self.most - _SPARE_DAYS:
            return None
        return self._days.setdefault(day, DayTally())


@dataclass(frozen=True)
class DayTally:
    clicked: Counter[tuple[str, str]] = field(default_factory=Counter)
    shown: Counter[tuple[str, str]] = field(default_factory=Counter)


_SPARE_DAYS = 2  # clocks differ: a list may come a day before the newest click


class Everyone:
    """Running counters over documents, and over the places that documents are in.

    >>> everyone = Everyone({"site": {"d1": "docs", "d2": "docs"}})
    >>> everyone.show(["d1", "d2"])
    >>> everyone.click("d2", 1_000_000, "engine")
    >>> everyone.clicks, everyone.on("d2"), everyone.places["site"].clicked["docs"], everyone.documents.shown["d1"]
    (1, [PublicClick(number=0, time=1000000, query='engine')], 1, 1)
    >>> everyone.take_back("d2", 1_000_000, "engine")
    >>> everyone.on("d2"), everyone.documents.clicked["d2"]
    ([], 0)
    """

    def __init__(
        self,
        place_of: Mapping[str, Mapping[str, str]],
        texts_of: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
        days: int = 0,
    ) -> None:
        self.place_of = place_of  # kind of place -> document -> place; a document that is not there is in place ''
        self.texts_of = texts_of or {}  # field -> document -> texts
        self.texts = {name: Tally() for name in self.texts_of}
        self.days = Days(days)
        self.actions: defaultdict[str, Counter[str]] = defaultdict(Counter)  # kind of event -> document -> how often
        self.clicks = 0  # that counted
        self.numbered = 0  # the number of the next click: one that was taken back leaves its number unused
        self.shown = 0  # results
        self.documents = Tally()
        self.places = {kind: Tally() for kind in place_of}
        self._latest: dict[str, deque[PublicClick]] = {}
        self._window: deque[tuple[int, str]] = deque()  # number and document

    def on(self, document: str) -> Sequence[PublicClick]:
        """The latest clicks on a document, the latest last."""
        return list(self._latest.get(document, ()))

    def click(self, document: str, time: int, query: str) -> None:
        """Count a satisfied click, the most recent."""
        self._latest.setdefault(document, deque(maxlen=LATEST)).append(PublicClick(self.numbered, time, query))
        self._window.append((self.numbered, document))
        self.clicks, self.numbered = self.clicks + 1, self.numbered + 1
        self._count(document, +1, +1)
        self._count_days("clicked", {document: 1}, time // DAY)
        if len(self._window) > WINDOW:
            self._count(self._window.popleft()[1], 0, -1)

    def take_back(self, document: str, time: int, query: str) -> None:
        """Uncount a click that turned out not to satisfy. One that many others followed stays in what is 'lately'."""
        self.clicks -= 1
        latest = self._latest.get(document, deque())
        found = next((one for one in reversed(latest) if (one.time, one.query) == (time, query)), None)
        if found is not None:
            latest.remove(found)
        recent = found is not None and (found.number, document) in self._window
        if found is not None and recent:
            self._window.remove((found.number, document))
        self._count(document, -1, -1 if recent else 0)
        self._count_days("clicked", {document: -1}, time // DAY)

    def act(self, kind: str, document: str) -> None:
        """Count an event that is no click."""
        self.actions[kind][document] += 1

    def show(self, documents: Sequence[str], time: int = 0) -> None:
        """Count a list that was shown at a moment."""
        shown = Counter(documents)
        self.show_counted(shown)
        self.show_on(time // DAY, shown)

    def show_on(self, day: int, shown: Mapping[str, int]) -> None:
        """Count showings of a day among those of the latest days, and not among those of all time."""
        self._count_days("shown", shown, day)

    def show_counted(self, shown: Mapping[str, int]) -> None:
        """Count many, given how often each document was shown."""
        self.shown += sum(shown.values())
        self.documents.shown.update(shown)
        for kind, tally in self.places.items():
            of = self.place_of[kind]
            for document, count in shown.items():
                tally.shown[of.get(document, "")] += count
        for name, tally in self.texts.items():
            texts = self.texts_of[name]
            for document, count in shown.items():
                for text in texts.get(document, ()):
                    tally.shown[text] += count

    def _count_days(self, what: str, documents: Mapping[str, int], day: int) -> None:
        if not self.days.most or (tally := self.days.on(day)) is None:
            return
        counts: Counter[tuple[str, str]] = getattr(tally, what)
        for document, count in documents.items():
            counts["", document] += count
            for name, of in self.texts_of.items():
                for text in of.get(document, ()):
                    counts[name, text] += count

    def _count(self, document: str, clicked: int, lately: int) -> None:
        tallies = [(self.documents, document)]
        tallies += [(tally, self.place_of[kind].get(document, "")) for kind, tally in self.places.items()]
        tallies += [
            (tally, text) for field, tally in self.texts.items() for text in self.texts_of[field].get(document, ())
        ]
        for tally, name in tallies:
            for counter, step in ((tally.clicked, clicked), (tally.lately, lately)):
                counter[name] += step
                if not counter[name]:
                    del counter[name]
