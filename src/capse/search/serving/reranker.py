"""Re-rank what a search engine shows, for one user: a trained run, the documents and what is known of the user.

    reranker = Reranker.load("runs/search")
    state = reranker.new_user()
    reranker.show(["d7", "d8"])                                             # to anybody
    reranker.learn(state, "d7", session="s1", time=time.time(), query="engine")  # a satisfied click
    reranker.rerank("engine", ["d1", "d2", "d3"], user="ada", state=state, session="s1")

A document that has neither a vector nor a text keeps the engine's place. A user of whom nothing is known gets the model
without a user. Where validation found the model no better than the engine, the engine's order stands.
"""

from __future__ import annotations

import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from capse.arrays import Float32s
from capse.errors import RunError, SettingsError
from capse.search.evaluation.judged_lists import Ranker
from capse.search.rankers.neural import NeuralRanker
from capse.search.rankers.search_run import TRAIN, SearchRun
from capse.search.rankers.sp_lambdamart import SP, is_saved_in
from capse.search.serving.list_scorers import Asked, ListScorer, NeuralLists, ShownDocument, TreeLists
from capse.search.serving.reasons import Reasons, reasons_of
from capse.search.times import parse_time
from capse.search.users.everyone import Everyone
from capse.search.users.user_state import DocumentText, PastClick, UserState
from capse.search.vectors.vector_space import VectorSpace

RECENT = 50  # clicks of a user that a reason may name, the latest


@dataclass(frozen=True, slots=True)
class RankedDocument:
    """A document in its new place."""

    document: str  # its id
    score: float | None  # higher is better; None where nothing is known and the engine's place is kept
    position: int  # in the engine's list, from 1
    rank: int  # in the new one, from 1
    reasons: Reasons | None = None  # where an explanation was asked for


class Reranker:
    """A trained run of any method at work.

    Of users it keeps nothing: their states are the caller's. What all people clicked and were shown it counts itself,
    where its method looks at that (``everyone``).
    """

    def __init__(self, run: SearchRun | Ranker) -> None:
        self.scorer: ListScorer = _scorer(run)

    @classmethod
    def load(cls, run_folder: str | Path, encoder: str | None = None) -> Reranker:
        """The re-ranker of a finished run; for ``encoder`` see `SearchRun.load`."""
        return cls(SP.load(run_folder) if is_saved_in(run_folder) else SearchRun.load(run_folder, encoder))

    @property
    def method(self) -> str:
        return self.scorer.method

    @property
    def space(self) -> VectorSpace:
        """Where documents have their vectors."""
        return self.scorer.vectors.space

    @property
    def width(self) -> int:
        return self.space.width

    @property
    def everyone(self) -> Everyone | None:
        """What is remembered of all people, if the run looks at it."""
        return self.scorer.everyone if isinstance(self.scorer, TreeLists) else None

    def new_user(self) -> UserState:
        return UserState()

    def vector(self, document: str | ShownDocument) -> Float32s | None:
        """(k,) of a document: by its id where the run knows it and it says what it said in training, else by its text.

        None where nothing is known of it.
        """
        return self.scorer.vectors.of(ShownDocument(document) if isinstance(document, str) else document)

    def learn(
        self, state: UserState, document: str | ShownDocument, session: str, time: float | str, query: str = ""
    ) -> bool:
        """Take a satisfied click into a user's state; returns whether the document's vector was known.

        ``time`` is seconds since 1970, or ISO 8601 text. Give a document that the run does not know with its title and
        text: the state keeps them.
        """
        shown = ShownDocument(document) if isinstance(document, str) else document
        given = (shown.title or shown.text) and shown.id not in self.space.known.index
        text = DocumentText(shown.title, shown.text) if given else None
        click = PastClick(shown.id, session, parse_time(time), query)
        state.click(click, text)
        self.count_click(click.document, click.time, click.query)
        return self.scorer.vectors.past(state, shown.id) is not None

    def show(self, documents: Sequence[str | ShownDocument], time: float | str | None = None) -> None:
        """Count a list that was shown to anybody, now or at ``time``: how often a document is clicked depends on it."""
        ids = [one if isinstance(one, str) else one.id for one in documents]
        self.count_shown(ids, parse_time(clock.time() if time is None else time))

    def count_click(self, document: str, time: int, query: str, step: int = 1) -> None:
        """Count a click of anybody at ``time`` (microseconds), or with ``step`` −1 no longer.

        What is earlier than the end of the run's own log is in there.
        """
        if self.everyone is not None and time >= self.scorer.past.until:
            (self.everyone.click if step > 0 else self.everyone.take_back)(document, time, query)

    def count_shown(self, documents: Sequence[str], time: int) -> None:
        """The same of a list."""
        if self.everyone is not None and time >= self.scorer.past.until:
            self.everyone.show(documents, time)

    def count_action(self, document: str, kind: str, time: int) -> None:
        """The same of an event that is no click."""
        if self.everyone is not None and time >= self.scorer.past.until:
            self.everyone.act(kind, document)

    def count_from_the_beginning(self) -> None:
        """Forget what was counted since the run's own log ended."""
        if isinstance(self.scorer, TreeLists):
            self.scorer.begin()

    def interests(self, user: str, state: UserState) -> Float32s | None:
        """(k,) the vector of all that is remembered of a user; None where nothing is."""
        known = self.scorer.past.joined(user, state)
        return known.profile(partial(self.scorer.vectors.past, known), "", 0, "long", self.scorer.decay)

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
        fields: Mapping[str, Any] | None = None,
        user_fields: Mapping[str, Any] | None = None,
    ) -> list[RankedDocument]:
        """The documents, given in the engine's order, in the order for this user at ``time`` (now, if not given).

        ``state`` is what is known of the user, ``user`` the name by which training may know one. Equal scores keep
        the engine's order. ``fields`` are those of the request; see `capse.search.logs.field_schema`.
        """
        shown = [ShownDocument(document) if isinstance(document, str) else document for document in documents]
        vectors = [self.scorer.vectors.of(document) for document in shown]
        known = [place for place, vector in enumerate(vectors) if vector is not None]
        at = parse_time(clock.time() if time is None else time)
        of_user = self.scorer.past.joined(user, state or UserState())
        ranked, positions = [shown[place] for place in known], [place + 1 for place in known]
        of_ranked = [vector for vector in vectors if vector is not None]
        asked = Asked(query, ranked, of_ranked, positions, user, of_user, session, at, fields or {}, user_fields or {})
        scores = self.scorer.scores(asked) if known else None
        if scores is None:
            reason = Reasons() if explain else None
            return [RankedDocument(one.id, None, place, place, reason) for place, one in enumerate(shown, start=1)]
        order = np.argsort(-scores, kind="stable").tolist()  # places among the known ones
        places = list(range(len(shown)))
        for place, best in zip(known, order, strict=True):
            places[place] = known[best]
        score_of = dict(zip(known, scores.tolist(), strict=True))
        reasons = self._reasons(asked, vectors) if explain else [None] * len(shown)
        return [
            RankedDocument(shown[place].id, score_of.get(place), place + 1, rank, reasons[place])
            for rank, place in enumerate(places, start=1)
        ]

    def _reasons(self, asked: Asked, vectors: Sequence[Float32s | None]) -> list[Reasons | None]:
        found: list[Reasons | None] = [Reasons()] * len(vectors)
        user = self.scorer.user(asked)
        if user is None:
            return found
        past = []
        for click in asked.state.clicks[-RECENT:]:
            vector = self.scorer.vectors.past(asked.state, click.document)
            if vector is not None:
                past.append((click, vector))
        known = [place for place, vector in enumerate(vectors) if vector is not None]
        reasons = reasons_of(self.space, user, past, np.stack([v for v in vectors if v is not None]))
        for place, reason in zip(known, reasons, strict=True):
            found[place] = reason
        return found


def _scorer(run: SearchRun | Ranker) -> ListScorer:
    if isinstance(run, NeuralRanker):
        run = run.run
    if isinstance(run, SearchRun):
        return NeuralLists(run)
    if not isinstance(run, SP):
        raise SettingsError(f"{type(run).__name__} ranks whole logs only", f"give a run of '{TRAIN}'")
    if run.space is None:
        raise RunError("these trees have no vectors of documents", f"train them with '{TRAIN}'")
    return TreeLists(run, run.space)
