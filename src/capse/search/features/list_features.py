"""Features of one list that is shown now, from the request and from what is remembered."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from capse.arrays import Bools, Float32s, Int64s
from capse.search.features.action_features import RememberedActions
from capse.search.features.feature_table import FeatureTable
from capse.search.features.groups import GROUPS, Given, feature_table
from capse.search.features.item_fields import GivenFields, KnownFields
from capse.search.features.past import PLACES, SESSION, USER
from capse.search.features.profile_match import UserTopics
from capse.search.features.query_pairs import Queries
from capse.search.features.remembered_past import EveryonePast, ShownNow, UserPast
from capse.search.features.text_match import DocumentFields, TextMatch
from capse.search.logs.documents import Documents
from capse.search.logs.field_schema import Value
from capse.search.logs.field_values import Column, TextSets, columns_of, taken
from capse.search.users.everyone import Everyone
from capse.search.users.profiles import NEAREST
from capse.search.users.user_state import DocumentText, UserState


@dataclass(frozen=True)
class ShownList:
    """What a search engine shows to a user."""

    query: str
    documents: Sequence[str]  # (r,)
    positions: Sequence[int]  # (r,) from 1
    state: UserState  # of the user
    session: str = ""
    time: int = 0  # microseconds since 1970
    texts: Mapping[str, DocumentText] = field(default_factory=dict)
    """Of documents that the catalogue does not have, or that say something else by now."""
    items: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """Fields of documents as they are now; what is not given is as the catalogue has it."""
    results: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)  # fields of documents in this list
    request: Mapping[str, Value] = field(default_factory=dict)
    user: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class DocumentVectors:
    """Vectors of k numbers by document; None for one of which nothing is known."""

    of: Callable[[str], Float32s | None]
    width: int


@dataclass(frozen=True)
class Catalogue:
    """The documents of a log taken apart, ready for one list after the other."""

    text: TextMatch
    known: KnownFields = field(default_factory=KnownFields)
    items: Mapping[str, Column] = field(default_factory=dict)  # (D,) their fields

    @cached_property
    def texts_of(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """Field -> document -> texts."""
        ids = self.text.documents.ids
        return {
            name: dict(zip(ids, column.rows(), strict=True))
            for name, column in self.items.items()
            if isinstance(column, TextSets)
        }

    @cached_property
    def numbers_of(self) -> dict[str, dict[str, float]]:
        """Field -> document -> number."""
        ids = self.text.documents.ids
        return {
            name: dict(zip(ids, column.tolist(), strict=True))
            for name, column in self.items.items()
            if not isinstance(column, TextSets)
        }

    @cached_property
    def queries(self) -> Queries:
        return Queries(self.text)

    @cached_property
    def places(self) -> dict[str, dict[str, str]]:
        """Kind of place -> document -> place."""
        documents = self.text.documents
        return {
            kind: {label: place(title) for label, title in zip(documents.ids, documents.titles, strict=True)}
            for kind, place in PLACES.items()
        }

    def with_places_of(self, texts: Mapping[str, DocumentText]) -> Mapping[str, Mapping[str, str]]:
        """Those of new documents too."""
        if not texts:
            return self.places
        return {
            kind: ChainMap({label: place(text.title) for label, text in texts.items()}, self.places[kind])
            for kind, place in PLACES.items()
        }

    def fields_of(self, documents: Sequence[str], texts: Mapping[str, DocumentText]) -> tuple[DocumentFields, Int64s]:
        """Documents taken apart, and where each lies there: the catalogue itself, where it has them all."""
        numbers = self.text.numbers
        known = (-1 if document in texts else numbers.get(document, -1) for document in documents)
        places = np.fromiter(known, np.int64, len(documents))
        new = np.flatnonzero(places < 0)
        if not len(new):
            return self.text.taken, places
        given = [texts.get(documents[place], DocumentText()) for place in new.tolist()]
        labels = [documents[place] for place in new.tolist()]
        shown = Documents(labels, [one.title for one in given], [one.text or "" for one in given], [None] * len(new))
        fields = self.text.taken.take(places[places >= 0]).followed_by(self.text.taken_apart(shown))
        places[places >= 0] = np.arange(len(places) - len(new))
        places[new] = np.arange(len(places) - len(new), len(places))
        return fields, places


def list_features(
    shown: ShownList,
    catalogue: Catalogue,
    everyone: Everyone,
    vectors: DocumentVectors | None = None,
    groups: Sequence[str] = GROUPS,
) -> FeatureTable:
    """The features of one list (r, F), as `log_features` has them."""
    in_catalogue = catalogue.text.numbers
    remembered = {label: text for label, text in shown.state.texts.items() if label not in in_catalogue}
    texts = {**remembered, **shown.texts}
    places_of = catalogue.with_places_of(texts)
    now = ShownNow(shown.documents, shown.time, places_of, texts=catalogue.texts_of, numbers=catalogue.numbers_of)
    asked = now.queries.of([shown.query])
    document = now.compared.of(shown.documents)
    clicks = shown.state.clicks
    session = UserPast(SESSION, [click for click in clicks if click.session == shown.session], now)
    user, public = UserPast(USER, clicks, now), EveryonePast(everyone, now)
    if "history" in groups:  # what is compared is met before anything is
        _ = session.on_document(), session.latest(), user.on_document(), user.latest()
    if "taste" in groups and catalogue.numbers_of:
        _ = session.latest(), user.latest()
    if "aggregate" in groups:
        _ = public.on_document()
    fields, places = catalogue.fields_of(list(now.compared), texts)
    given = Given(
        position=np.array(shown.positions, np.float64),
        lengths=np.array([len(shown.documents)]),
        text=catalogue.text,
        fields=fields,
        document=places[document],
        compared=places,
        texts=[shown.query],
        query=np.zeros(len(document), np.int64),
        queries=catalogue.queries.pairs(now.queries),
        asked=np.repeat(asked, len(document)),
        session=session,
        user=user,
        everyone=public,
        vectors=_topics(shown, vectors) if vectors is not None and "profile" in groups else None,
        said=_said(shown, catalogue) if catalogue.known.schema else None,
        kinds=catalogue.known.kinds,
        done=_done(shown, catalogue, everyone) if catalogue.known.kinds else None,
    )
    return feature_table(given, groups)


def _said(shown: ShownList, catalogue: Catalogue) -> GivenFields:
    schema, every = catalogue.known.schema, np.zeros(len(shown.documents), np.int64)
    known: dict[str, Mapping[str, Value]] = {**catalogue.texts_of, **catalogue.numbers_of}
    items = [
        {name: known[name][document] for name in known if document in known[name]} | dict(shown.items.get(document, {}))
        for document in shown.documents
    ]
    return GivenFields(
        catalogue.known,
        columns_of(schema.item, items),
        taken(columns_of(schema.user, [shown.user]), every),
        taken(columns_of(schema.request, [shown.request]), every),
        columns_of(schema.result, [shown.results.get(document, {}) for document in shown.documents]),
        np.full(len(every), float(shown.time)),
    )


def _done(shown: ShownList, catalogue: Catalogue, everyone: Everyone) -> RememberedActions:
    return RememberedActions(shown.documents, shown.state.actions, everyone, catalogue.texts_of)


def _topics(shown: ShownList, vectors: DocumentVectors) -> tuple[Float32s, UserTopics]:
    nothing = np.zeros(vectors.width, np.float32)
    rows = [vectors.of(document) for document in shown.documents]
    users: dict[str, tuple[Float32s, Bools]] = {}
    for scale in NEAREST:
        user = shown.state.profile(vectors.of, shown.session, shown.time, scale)
        known = np.full(len(rows), user is not None)
        users[scale] = np.tile(nothing if user is None else user, (len(rows), 1)), known
    return np.stack([nothing if row is None else row for row in rows]), users
