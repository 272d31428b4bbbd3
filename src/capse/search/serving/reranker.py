"""Re-rank what a search engine shows, for one user: a trained run, the documents and what is known of the user.

    reranker = Reranker.load("runs/search")
    state = reranker.new_user()
    reranker.learn(state, "d7", session="s1", time=time.time())    # a satisfied click
    reranker.rerank("engine", ["d1", "d2", "d3"], user="ada", state=state, session="s1")

What nothing is known of stays where it is: a document that has neither a vector nor a text keeps the engine's place,
and so do all of them for a user without a click whom training did not know.
"""

from __future__ import annotations

import time as clock
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from capse.arrays import Float32s
from capse.errors import SettingsError
from capse.search.rankers.search_run import SearchRun
from capse.search.serving.reasons import Reasons, SharedTopics, near_documents
from capse.search.times import parse_time
from capse.search.users.user_state import UserState

CACHED = 10_000  # new documents whose vectors are kept, those asked for most lately


@dataclass(frozen=True, slots=True)
class ShownDocument:
    """A document in the engine's list; its text is looked at where the run does not know its id."""

    id: str
    title: str = ""
    text: str | None = None


@dataclass(frozen=True, slots=True)
class RankedDocument:
    """A document in its new place."""

    document: str  # its id
    score: float | None  # higher is better; None where nothing is known and the engine's place is kept
    position: int  # in the engine's list, from 1
    rank: int  # in the new one, from 1
    reasons: Reasons | None = None  # where an explanation was asked for


class Reranker:
    """A trained run at work. It keeps nothing of users: their states are the caller's."""

    def __init__(self, run: SearchRun) -> None:
        self.run = run
        self._cache: OrderedDict[str, tuple[int, Float32s]] = OrderedDict()  # by id: hash of the text, vector
        self._offsets: Float32s = run.model.offsets.detach().numpy()
        self._scorer = run.model.scorer.eval()

    @classmethod
    def load(cls, run_folder: str | Path, encoder: str | None = None) -> Reranker:
        """The re-ranker of a finished run; see `SearchRun.load`."""
        return cls(SearchRun.load(run_folder, encoder))

    @property
    def method(self) -> str:
        return self.run.method

    @property
    def width(self) -> int:
        return self.run.width

    def new_user(self) -> UserState:
        return UserState.empty(self.width, self.run.profile.decay)

    def vector(self, document: str | ShownDocument) -> Float32s | None:
        """(k,) of a document: the run's by its id, else from its text, else what was last found for that id.

        None where nothing is known of it.
        """
        shown = ShownDocument(document) if isinstance(document, str) else document
        known = self.run.space.known.get(shown.id)
        if known is not None:
            return known
        cached = self._cache.get(shown.id)
        if not shown.title and not shown.text:
            return cached[1] if cached else None
        text = hash((shown.title, shown.text))
        if cached is None or cached[0] != text:
            if self.run.space.settings.source == "file":
                return None
            cached = (text, self.run.space.document(shown.text or "", title=shown.title))
        self._cache[shown.id] = cached
        self._cache.move_to_end(shown.id)
        if len(self._cache) > CACHED:
            self._cache.popitem(last=False)
        return cached[1]

    def learn(self, state: UserState, document: str | ShownDocument, session: str, time: float | str) -> bool:
        """Take a satisfied click into a user's state; returns whether the document's vector was known.

        ``time`` is seconds since 1970, or ISO 8601 text.
        Give a document that the run does not know with its title and text: another process may not have seen it.
        """
        self._check(state)
        vector = self.vector(document)
        state.click(document if isinstance(document, str) else document.id, vector, session, parse_time(time))
        return vector is not None

    def rerank(
        self,
        query: str,
        documents: Sequence[str | ShownDocument],
        *,
        user: str = "",
        state: UserState | None = None,
        session: str = "",
        time: float | str | None = None,
        explain: bool = False,
    ) -> list[RankedDocument]:
        """The documents, given in the engine's order, in the order for this user at ``time`` (now, if not given).

        ``state`` is what is known of the user, ``user`` the name by which training may know one. Equal scores keep
        the engine's order.
        """
        ids = [document if isinstance(document, str) else document.id for document in documents]
        vectors = [self.vector(document) for document in documents]
        known = [place for place, vector in enumerate(vectors) if vector is not None]
        of_user = self._user(user, state, session, parse_time(clock.time() if time is None else time))
        if of_user is None or not known:
            reason = Reasons() if explain else None
            return [RankedDocument(label, None, place, place, reason) for place, label in enumerate(ids, start=1)]
        shown = np.stack([vector for vector in vectors if vector is not None])
        scores = self.score(self.run.space.query(query, shown), of_user, shown)
        order = np.argsort(-scores, kind="stable").tolist()  # places among the known ones
        places = list(range(len(ids)))
        for place, best in zip(known, order, strict=True):
            places[place] = known[best]
        score_of = dict(zip(known, scores.tolist(), strict=True))
        reasons = self._reasons(of_user, state, vectors) if explain else [None] * len(ids)
        return [
            RankedDocument(ids[place], score_of.get(place), place + 1, rank, reasons[place])
            for rank, place in enumerate(places, start=1)
        ]

    def score(self, query: Float32s, user: Float32s, documents: Float32s) -> Float32s:
        """Scores (r,) of documents (r, k) for the vectors of a query and of a user; higher is better.

        Documents with equal vectors are scored once, so that they tie exactly.
        """
        first: dict[bytes, int] = {}  # by its numbers, each vector's place among the distinct ones
        places = [first.setdefault(vector.tobytes(), len(first)) for vector in documents + 0.0]  # −0.0 and 0.0 are one
        distinct = documents if len(first) == len(documents) else documents[[places.index(n) for n in first.values()]]
        with torch.inference_mode():
            scores = self._scorer.score_triples(*map(torch.from_numpy, (query, user, distinct))).numpy()
        found: Float32s = scores[places]
        return found

    def _user(self, user: str, state: UserState | None, session: str, time: int) -> Float32s | None:
        """(k,) the user's vector; None where nothing is known."""
        vector, known = None, False
        if state is not None:
            self._check(state)
            vector, known = state.profile(session, time, self.run.profile.scale)
        number = self.run.numbers.get(user)
        if number is None:
            return vector if known else None
        offset: Float32s = self._offsets[number]
        return offset if vector is None or not self.run.follows_clicks else vector + offset

    def _check(self, state: UserState) -> None:
        if (state.width, state.decay) != (self.width, self.run.profile.decay):
            raise SettingsError(
                f"what is known of the user has {state.width} numbers and decay {state.decay}, "
                f"this run {self.width} and {self.run.profile.decay}",
                "use the run that it was learned with, or begin with new_user()",
            )

    def _reasons(
        self, of_user: Float32s, state: UserState | None, vectors: Sequence[Float32s | None]
    ) -> list[Reasons | None]:
        past = []
        for document in state.recent if state else []:
            vector = self.vector(document.id)
            if vector is not None:
                past.append((document, vector))
        shared = SharedTopics(self.run.space, of_user)
        return [
            Reasons() if vector is None else Reasons(shared.of(vector), near_documents(past, vector))
            for vector in vectors
        ]
