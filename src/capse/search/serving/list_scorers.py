"""Runs that score one list at a time, from a request and what is remembered: a neural model, and trees.

Each gives what its ranker gives for the same list of a log, whose history ends where the memory does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from capse.arrays import Float32s, Float64s
from capse.search.features import Catalogue, ShownList, list_features
from capse.search.features.list_features import DocumentVectors
from capse.search.logs.field_schema import Scope, Value
from capse.search.rankers.list_vectors import ListVectors
from capse.search.rankers.neural import NeuralRanker, score_list
from capse.search.rankers.search_run import SearchRun
from capse.search.rankers.sp_lambdamart import SP
from capse.search.rankers.training_past import TrainingPast
from capse.search.serving.text_vectors import TextVectors
from capse.search.users.everyone import Everyone
from capse.search.users.profiles import DECAY
from capse.search.users.user_state import DocumentText, UserState
from capse.search.vectors.vector_space import VectorSpace


@dataclass(frozen=True, slots=True)
class ShownDocument:
    """A document in the engine's list; its text is looked at where the run does not know its id."""

    id: str
    title: str = ""
    text: str | None = None
    fields: Mapping[str, Any] | None = None  # of the item as it is now, or of the document in this list


@dataclass(frozen=True)
class Asked:
    """A list, of documents of which something is known, and who asks."""

    query: str
    documents: Sequence[ShownDocument]  # (r,)
    vectors: Sequence[Float32s]  # (r,) of the documents, in the scorer's own space
    positions: Sequence[int]  # (r,) from 1
    user: str
    state: UserState
    session: str
    time: int  # microseconds since 1970
    fields: Mapping[str, Any] = field(default_factory=dict)  # of the request
    user_fields: Mapping[str, Any] = field(default_factory=dict)


class ListScorer(Protocol):
    """A run at work."""

    @property
    def method(self) -> str:
        """The method that it was trained with."""

    @property
    def vectors(self) -> SpaceVectors:
        """The vectors of documents, which reasons and interests are made of."""

    @property
    def past(self) -> TrainingPast:
        """What it takes along of its log."""

    @property
    def decay(self) -> float:
        """Of a click's weight in a profile."""

    def scores(self, asked: Asked) -> Float64s | None:
        """(r,) higher is better; None where the engine's order stands."""

    def user(self, asked: Asked) -> Float32s | None:
        """(k,) who asks, as far as anything is known: what reasons compare documents with."""


class SpaceVectors:
    """Vectors of documents in a space: by their ids where training knew them, else by their texts."""

    def __init__(self, space: VectorSpace) -> None:
        self.space = space
        self._texts = TextVectors(space)

    def knows(self, shown: ShownDocument) -> bool:
        """Whether training knew the document, and it says what it said then."""
        space = self.space
        if shown.id not in space.known.index:
            return False
        return space.settings.source == "file" or space.says(shown.id, shown.title, shown.text)

    def of(self, shown: ShownDocument) -> Float32s | None:
        """(k,) None where nothing is known of it. What one caller says of an id is nobody else's."""
        if self.knows(shown):
            return self.space.known.get(shown.id)
        if self.space.settings.source == "file" or not (shown.title or shown.text):
            return None
        return self._texts.vector(shown.title, shown.text or "")

    def past(self, state: UserState, document: str) -> Float32s | None:
        """(k,) of a document that the user clicked: by the text that the state holds where training did not know it."""
        known = self.space.known.get(document)
        if known is not None:
            return known
        text = state.texts.get(document)
        return self.of(ShownDocument(document, text.title, text.text)) if text else None


class NeuralLists:
    """A model over (query, user, document)."""

    def __init__(self, run: SearchRun) -> None:
        self.run, self.past, self.method, self.decay = run, run.past, run.method, run.profile.decay
        self.vectors = SpaceVectors(run.space)
        self._offsets: Float32s = run.model.offsets.detach().numpy()
        self._scorer = run.model.scorer.eval()

    def scores(self, asked: Asked) -> Float64s | None:
        user, standing = self.user(asked), self.run.standing
        if not (standing.ranks_unknown if user is None else standing.ranks_known):
            return None
        return self.model_scores(asked, user)

    def model_scores(self, asked: Asked, user: Float32s | None) -> Float64s:
        """(r,) whatever the engine's standing; without a user where nothing is known of one."""
        nothing = np.zeros(self.run.width, np.float32)
        vectors = [self.vectors.of(document) for document in asked.documents]
        shown = np.stack([nothing if vector is None else vector for vector in vectors])
        query = self.run.space.query(asked.query, shown)
        return score_list(self._scorer, query, nothing if user is None else user, shown).astype(np.float64)

    def user(self, asked: Asked) -> Float32s | None:
        past, profile = partial(self.vectors.past, asked.state), self.run.profile
        vector = asked.state.profile(past, asked.session, asked.time, profile.scale, profile.decay)
        number = self.run.numbers.get(asked.user)
        if number is None:
            return vector
        offset: Float32s = self._offsets[number]
        return offset if vector is None or not self.run.follows_clicks else vector + offset


class TreeLists:
    """SP, or a blend: trees, or a network, over features of one list. Whoever has it keeps ``everyone`` up to date."""

    decay = DECAY

    def __init__(self, ranker: SP, space: VectorSpace) -> None:
        self.ranker, self.past, self.method = ranker, ranker.past, ranker.name
        self.vectors = SpaceVectors(space)
        self.catalogue = Catalogue(ranker.text, ranker.known, ranker.items)
        self.mistyped: Counter[str] = Counter()  # values of fields that were of another type than in training
        self.begin()
        self._inside: Mapping[str, NeuralLists] = {
            label: NeuralLists(inside.run)
            for label, inside in ranker.rankers.items()
            if isinstance(inside, NeuralRanker)
        }

    def begin(self) -> None:
        """Remember of all people what the run's own log tells, and nothing else."""
        catalogue = self.catalogue
        days = catalogue.known.schema.most_days
        self.everyone: Everyone = self.past.everyone(catalogue.places, catalogue.texts_of, days)

    def scores(self, asked: Asked) -> Float64s | None:
        standing = self.ranker.standing
        if not (standing.ranks_known if asked.state.clicks else standing.ranks_unknown):
            return None
        scores = {label: inside.model_scores(asked, inside.user(asked)) for label, inside in self._inside.items()}
        features = list_features(
            self._shown(asked), self.catalogue, self.everyone, self._document_vectors(asked), self.ranker.groups
        )
        vectors = self._list_vectors(asked) if self.ranker.sees_vectors else None
        return self.ranker.score_list(features, scores, asked.positions, vectors)

    def _list_vectors(self, asked: Asked) -> ListVectors:
        query = self.vectors.space.query(asked.query, np.stack(asked.vectors))
        return ListVectors.of_list(query, self.user(asked), asked.vectors, asked.positions)

    def user(self, asked: Asked) -> Float32s | None:
        return asked.state.profile(partial(self.vectors.past, asked.state), asked.session, asked.time)

    def _shown(self, asked: Asked) -> ShownList:
        texts = {
            document.id: DocumentText(document.title, document.text)
            for document in asked.documents
            if not self.vectors.knows(document)
        }
        ids = [document.id for document in asked.documents]
        shown = ShownList(asked.query, ids, asked.positions, asked.state, asked.session, asked.time, texts)
        return self._with_fields(shown, asked) if self.catalogue.known.schema else shown

    def _with_fields(self, shown: ShownList, asked: Asked) -> ShownList:
        said = {document.id: document.fields for document in asked.documents if document.fields}
        return replace(
            shown,
            items={document: self._read("item", fields) for document, fields in said.items()},
            results={document: self._read("result", fields) for document, fields in said.items()},
            request=self._read("request", asked.fields),
            user=self._read("user", asked.user_fields),
        )

    def _read(self, scope: Scope, fields: Mapping[str, Any]) -> dict[str, Value]:
        bad: list[str] = []
        read = self.catalogue.known.schema.read(scope, fields, bad)
        self.mistyped.update(f"{scope}.{name}" for name in bad)
        return read

    def _document_vectors(self, asked: Asked) -> DocumentVectors | None:
        if self.ranker.space is None:
            return None
        shown = {document.id: vector for document, vector in zip(asked.documents, asked.vectors, strict=True)}

        def vector(document: str) -> Float32s | None:
            return shown[document] if document in shown else self.vectors.past(asked.state, document)

        return DocumentVectors(vector, self.vectors.space.width)
