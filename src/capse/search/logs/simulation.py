"""A simulated log with planted interests, position bias and dwell times: the whole tool without data of one's own.

Every topic has words of its own and shares query words with others, so that a query alone does not say which topic is
meant. A user is interested in one or two topics and asks with a query word of one of them. The engine ranks all
documents by how often they hold the word, with noise. The user looks at position p with probability p^-eta (the
position-based model: Craswell et al., WSDM 2008), or reads from the top until a click ends it (the cascade: Guo et al.,
WSDM 2009), mostly clicks what she is interested in and reads it for long, and clicks other things now and then and
leaves them soon. What was planted comes with the log.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from capse.arrays import Bools, Int64s
from capse.errors import SettingsError
from capse.runs.atomic import write_text
from capse.runs.settings import check_choices
from capse.search.logs.documents import Documents
from capse.search.logs.search_log import IMPRESSIONS, RESULTS, SearchLog
from capse.search.times import SECOND

EPOCH = 1_704_067_200  # 1 January 2024, in seconds
SATISFIED_SECONDS = 30.0  # the paper's rule: a dwell of 30 s or more, or the last click of its session

_OWN_WORDS, _QUERY_WORDS, _COMMON_WORDS = 30, 3, 100  # of each topic, of each topic, of all
_OWN_SHARE, _QUERY_SHARE = 0.55, 0.25  # of a document's words; the rest are common
_WORDS_IN_DOCUMENT = 120
_CLICK_WANTED, _CLICK_OTHER = 0.9, 0.03  # chance of a click on a document that was looked at
_READ, _SKIM = 90.0, 8.0  # median dwell in seconds
_SHARES = (("train", 0.7), ("valid", 0.8), ("test", 1.0))  # of the impressions in time order, cumulated

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SimulationSettings:
    """How large the simulated world is and how people behave in it."""

    users: int = 40  # half are there from the start, the others join one by one, the last in the test period
    topics: int = 20  # that documents are about and people are interested in
    documents: int = 300  # in the collection
    impressions: int = 2_000  # lists that are shown
    results: int = 10  # documents in a list
    meanings: int = 4  # topics that share a query word
    noise: float = 0.7  # standard deviation of what the engine adds to the log of a word's count
    examination: Literal["position", "cascade"] = "position"  # who looks where: by place, or from the top until a click
    position_bias: float = 0.7  # eta: position p is looked at with probability p^-eta; 0 is no bias
    continuation: float = 0.5  # of a cascade: the probability of reading on after a click; 1 is no bias
    days: int = 90  # from the first list to the last
    seed: int = 0  # fixes everything that is drawn

    def __post_init__(self) -> None:
        for name in ("users", "topics", "documents", "impressions", "results", "meanings", "days"):
            if getattr(self, name) < 1:
                raise SettingsError(f"simulation.{name} is {getattr(self, name)}", "write a number of 1 or more")
        if self.meanings > self.topics:
            raise SettingsError(f"simulation.meanings is {self.meanings}", f"there are {self.topics} topics")
        if self.results > self.documents:
            raise SettingsError(f"simulation.results is {self.results}", f"there are {self.documents} documents")
        if self.noise < 0 or self.position_bias < 0:
            raise SettingsError("simulation.noise or simulation.position_bias is negative", "write 0 or more")
        check_choices(self, "simulation")
        if not 0 <= self.continuation <= 1:
            raise SettingsError(f"simulation.continuation is {self.continuation}", "write a probability")


@dataclass(frozen=True)
class Simulated:
    """A simulated log, and what was planted in it."""

    log: SearchLog
    records: Sequence[Mapping[str, Any]]  # the impressions as JSON lines have them
    interests: Mapping[str, tuple[int, ...]]  # the topics of each user
    document_topics: Int64s  # (D,) the topic of each of ``log.documents``
    settings: SimulationSettings

    @cached_property
    def wanted(self) -> Bools:
        """(m,) whether a result is about one of its user's interests: the answer that a ranker should find."""
        topics = max(int(self.document_topics.max()), *(max(of) for of in self.interests.values())) + 1
        interested = np.zeros((len(self.log.users), topics), bool)
        for number, user in enumerate(self.log.users):
            interested[number, list(self.interests[user])] = True
        return interested[self.log.user[self.log.impression], self.document_topics[self.log.document]]

    @cached_property
    def looked_at(self) -> Floats:
        """(m,) the probability with which the user of a list looked at a result: the position bias that was planted."""
        log, settings = self.log, self.settings
        if settings.examination == "position":
            return np.asarray(log.position**-settings.position_bias, np.float64)
        stays = 1 - np.where(self.wanted, _CLICK_WANTED, _CLICK_OTHER) * (1 - settings.continuation)
        chances = np.ones(len(log.document))
        for place in range(1, int(log.lengths.max())):
            rows = np.flatnonzero(log.position == place + 1)
            chances[rows] = chances[rows - 1] * stays[rows - 1]
        return chances

    def write_jsonl(self, folder: str | Path) -> None:
        """Write ``log.jsonl`` and ``documents.jsonl``, as ``capse search ingest`` reads them."""
        documents = self.log.documents
        rows = (
            {"doc": label, "title": title, "terms": terms}
            for label, title, terms in zip(documents.ids, documents.titles, documents.terms, strict=True)
        )
        for name, lines in (("log", self.records), ("documents", rows)):
            write_text(Path(folder) / f"{name}.jsonl", "".join(json.dumps(line) + "\n" for line in lines))


def simulate(settings: SimulationSettings | None = None) -> Simulated:
    """A log with planted interests; the same settings give the same log.

    >>> simulated = simulate(SimulationSettings(users=3, documents=40, impressions=20))
    >>> len(simulated.log), len(simulated.log.documents), sorted(simulated.interests)
    (20, 40, ['user-0', 'user-1', 'user-2'])
    """
    settings = settings or SimulationSettings()
    world = _World(settings, np.random.default_rng(settings.seed))
    records = world.records()
    return Simulated(_log(records, world.shelf()), records, world.interests, world.topic_of, settings)


class _World:
    """Topics, documents and users, and what the users do."""

    def __init__(self, settings: SimulationSettings, random: np.random.Generator) -> None:
        self.settings, self.random = settings, random
        topics = settings.topics
        self.means = np.array([self._meanings(word) for word in range(topics * _QUERY_WORDS)])  # (query words, T) bool
        # Query words, then common ones, then each topic's own.
        self.vocabulary = _names(topics * (_OWN_WORDS + _QUERY_WORDS) + _COMMON_WORDS, random)
        self.topic_of = np.arange(settings.documents) % topics
        chances = np.stack([self._word_chances(topic) for topic in range(topics)])  # (T, V)
        self.counts = random.multinomial(_WORDS_IN_DOCUMENT, chances[self.topic_of])  # (D, V)
        self.interests = {
            f"user-{user:0{len(str(settings.users - 1))}}": tuple(
                sorted(random.choice(topics, min(topics, int(random.integers(1, 3))), replace=False).tolist())
            )
            for user in range(settings.users)
        }

    def _meanings(self, word: int) -> Bools:
        """(T,) the topics that share a query word: one in turn, the others by chance."""
        topics = self.settings.topics
        means = np.zeros(topics, bool)
        means[word % topics] = True
        others = np.flatnonzero(~means)
        means[self.random.choice(others, self.settings.meanings - 1, replace=False)] = True
        return means

    def _word_chances(self, topic: int) -> Floats:
        """(V,) how likely each word is in a document of a topic."""
        own = np.zeros((self.settings.topics, _OWN_WORDS))
        own[topic] = _OWN_SHARE * self.random.dirichlet(np.full(_OWN_WORDS, 2.0))
        shared = _QUERY_SHARE * self.means[:, topic] / self.means[:, topic].sum()
        common = np.full(_COMMON_WORDS, (1 - _OWN_SHARE - _QUERY_SHARE) / _COMMON_WORDS)
        return np.concatenate([shared, common, own.ravel()])

    def shelf(self) -> Documents:
        """The documents: word counts, and the three most frequent words as a title."""
        terms = [{self.vocabulary[word]: int(row[word]) for word in np.flatnonzero(row)} for row in self.counts]
        titles = [" ".join(word for word, _ in Counter(count).most_common(3)) for count in terms]
        return Documents([f"d{number}" for number in range(len(terms))], titles, [None] * len(terms), terms)

    def records(self) -> list[dict[str, Any]]:
        """The impressions in time order, with their splits."""
        made: list[dict[str, Any]] = []
        sessions = self._sessions()
        while len(made) < self.settings.impressions:
            made.extend(next(sessions))
        made = sorted(made[: self.settings.impressions], key=lambda record: int(record["timestamp"]))
        for number, record in enumerate(made):
            share = (number + 0.5) / len(made)
            record["query_id"] = f"q{number}"
            record["split"] = next(split for split, until in _SHARES if share < until)
        return made

    def _sessions(self) -> Iterator[list[dict[str, Any]]]:
        """One session after the other: who, when, and up to five queries on one interest."""
        settings, random = self.settings, self.random
        users = list(self.interests)
        joins = np.maximum(np.linspace(-1, 1, len(users), endpoint=False), 0)
        numbers: Counter[str] = Counter()
        while True:
            user, moment = users[number := int(random.integers(len(users)))], random.random()
            if moment < joins[number]:
                continue
            numbers[user] += 1
            topic = int(random.choice(self.interests[user]))
            time = EPOCH + int(moment * settings.days * 86_400)
            session = []
            for _ in range(int(random.integers(1, 6))):
                word = int(random.choice(np.flatnonzero(self.means[:, topic])))
                record, time = self._impression(user, f"{user}-{numbers[user]}", word, time)
                session.append(record)
            yield session

    def _impression(self, user: str, session: str, word: int, time: int) -> tuple[dict[str, Any], int]:
        """What the engine shows and the user does; and when she asks next."""
        settings, random = self.settings, self.random
        scores = np.log1p(self.counts[:, word]) + random.normal(0, settings.noise, len(self.counts))
        shown = np.argsort(-scores, kind="stable")[: settings.results]
        wanted = np.isin(self.topic_of[shown], self.interests[user])
        drawn = random.random(len(shown))
        attracted = random.random(len(shown)) < np.where(wanted, _CLICK_WANTED, _CLICK_OTHER)
        if settings.examination == "position":
            clicked = attracted & (drawn < np.arange(1, len(shown) + 1.0) ** -settings.position_bias)
        else:
            stops = attracted & (drawn >= settings.continuation)
            clicked = attracted & (np.cumsum(stops) - stops == 0)
        record: dict[str, Any] = {"timestamp": time, "user": user, "session": session, "query": self.vocabulary[word]}
        record["results"] = [f"d{document}" for document in shown]
        record["clicks"] = clicks = []
        for place in np.flatnonzero(clicked):
            time += int(random.integers(2, 10))
            dwell = round(float(random.lognormal(np.log(_READ if wanted[place] else _SKIM), 0.6)), 1)
            clicks.append({"doc": record["results"][place], "time": time, "dwell": dwell})
            time += int(np.ceil(dwell))
        return record, time + int(random.integers(5, 60))


def _names(count: int, random: np.random.Generator) -> list[str]:
    """Pronounceable words of letters only, all different."""
    syllables = ["".join(pair) for pair in product("bdfgklmnprstvz", "aeiou")]
    chosen = random.choice(len(syllables) ** 3, count, replace=False)
    digits = np.stack(np.unravel_index(chosen, (len(syllables),) * 3), axis=1)
    return ["".join(syllables[digit] for digit in row) for row in digits]


def _log(records: Sequence[Mapping[str, Any]], documents: Documents) -> SearchLog:
    """The records as a log, satisfied clicks by the paper's rule."""
    last: dict[str, int] = {}  # the time of the last click of each session
    for record in records:
        for click in record["clicks"]:
            last[record["session"]] = max(last.get(record["session"], 0), click["time"])
    impressions, results = [], []
    for number, record in enumerate(records):
        kept = {key: record[key] for key in ("user", "session", "query", "split")}
        impressions.append({"impression": record["query_id"], "time": record["timestamp"] * SECOND, **kept})
        clicks = {click["doc"]: click for click in record["clicks"]}
        for position, document in enumerate(record["results"], start=1):
            click = clicks.get(document)
            results.append(
                {
                    "impression": number,
                    "position": position,
                    "document": document,
                    "clicked": click is not None,
                    "clicked_at": click and click["time"] * SECOND,
                    "dwell": click and click["dwell"],
                    "satisfied": click is not None
                    and (click["dwell"] >= SATISFIED_SECONDS or click["time"] == last[record["session"]]),
                }
            )
    tables = pa.Table.from_pylist(impressions, IMPRESSIONS), pa.Table.from_pylist(results, RESULTS)
    return SearchLog.from_tables("simulated", *tables, documents)
