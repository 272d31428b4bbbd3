"""Features of events that are no clicks: how often everybody did each kind with a document when it was shown, how
often this user did, and the share of the user's events of a kind on items with the same texts in their fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from capse.arrays import Float64s, Int64s
from capse.search.features.earlier import Earlier, joined
from capse.search.features.item_fields import GivenFields
from capse.search.features.past import PublicPast
from capse.search.logs.actions import KINDS, ActionKind
from capse.search.logs.field_schema import SETS
from capse.search.logs.field_values import TextSets
from capse.search.logs.search_log import SearchLog
from capse.search.users.everyone import Everyone
from capse.search.users.profiles import REMEMBERED
from capse.search.users.user_state import PastAction

Columns = dict[str, Float64s]


class ActionPast(Protocol):
    """Earlier events, as some results (r,) see them."""

    def of_all(self, kind: ActionKind) -> tuple[Int64s, Int64s]:
        """(r,) everybody's on each result's document, and on all documents."""

    def of_user(self, kind: ActionKind) -> tuple[Int64s, Int64s]:
        """(r,) the user's on each result's document, and on all documents."""

    def with_texts(self, kind: ActionKind, name: str, texts: TextSets) -> Int64s:
        """(z,) for each text of the results, the user's on items that have it."""


def public_columns(kinds: Sequence[ActionKind], past: ActionPast, everyone: PublicPast) -> Columns:
    """Group 'events'."""
    columns: Columns = {}
    _, shown = everyone.rate("document")
    for kind in kinds:
        here, total = past.of_all(kind)
        overall = (total + 1) / (np.maximum(everyone.shown(), total) + 10)
        columns[f"everyone.{kind}.rate"] = (here + 5 * overall) / (np.maximum(shown, here) + 5)
    return columns


def own_columns(kinds: Sequence[ActionKind], past: ActionPast, said: GivenFields | None) -> Columns:
    """Those of the user, in the group 'taste'."""
    columns: Columns = {}
    for kind in kinds:
        here, total = past.of_user(kind)
        columns[f"user.{kind}"] = here.astype(np.float64)
        for name in said.known.schema.names("item", *SETS) if said is not None else ():
            texts = said.item[name] if said is not None else None
            assert isinstance(texts, TextSets)
            found = past.with_texts(kind, name, texts) / (total + 1)[texts.owner]
            columns[f"user.{kind}.{name}.share"] = texts.mean(found)
    return columns


@dataclass(frozen=True)
class LogActions:
    """An `ActionPast` of some result rows of a log."""

    log: SearchLog
    rows: Int64s  # (r,)
    cutoffs: Int64s  # (n,)

    def of_all(self, kind: ActionKind) -> tuple[Int64s, Int64s]:
        of, document = self._of(kind), self.log.document[self.rows].astype(np.int64)
        here = Earlier(self.log.actions.document[of], of).counts(document, self._known)
        return here, np.searchsorted(of, self._known)

    def of_user(self, kind: ActionKind) -> tuple[Int64s, Int64s]:
        actions, of, user = self.log.actions, self._of(kind), self._user
        span = len(self.log.documents)
        asked = joined(user, self.log.document[self.rows], span)
        here = Earlier(joined(actions.user[of], actions.document[of], span), of)
        total = Earlier(actions.user[of], of)
        return here.counts(asked, self._known, self._begin), total.counts(user, self._known, self._begin)

    def with_texts(self, kind: ActionKind, name: str, texts: TextSets) -> Int64s:
        actions, of, items = self.log.actions, self._of(kind), self.log.fields.item[name]
        assert isinstance(items, TextSets)
        done, span = items.take(actions.document[of]), len(items.labels)
        earlier = Earlier(joined(actions.user[of][done.owner], done.codes, span), of[done.owner])
        asked = joined(self._user[texts.owner], texts.codes, span)
        return earlier.counts(asked, self._known[texts.owner], self._begin[texts.owner])

    def _of(self, kind: ActionKind) -> Int64s:
        """The numbers of the events of a kind, ascending."""
        return np.flatnonzero(self.log.actions.kind == KINDS.index(kind))

    @cached_property
    def _user(self) -> Int64s:
        return self.log.user[self.log.impression[self.rows]].astype(np.int64)

    @cached_property
    def _known(self) -> Int64s:
        """(r,) how many events, of anyone, each row may use."""
        return np.searchsorted(self.log.actions.time, self.cutoffs)[self.log.impression[self.rows]]

    @cached_property
    def _begin(self) -> Int64s:
        """(r,) the first of the user's events that is remembered."""
        users = self.log.actions.user
        return Earlier(users, np.arange(len(users))).since(self._user, self._known, REMEMBERED)


@dataclass(frozen=True)
class RememberedActions:
    """An `ActionPast` of one list that is shown now."""

    documents: Sequence[str]  # (r,)
    done: Sequence[PastAction]  # the user's, the latest last
    everyone: Everyone
    texts_of: Mapping[str, Mapping[str, Sequence[str]]]  # field -> document -> texts

    def of_all(self, kind: ActionKind) -> tuple[Int64s, Int64s]:
        of = self.everyone.actions[kind]
        return self._counted(of), np.full(len(self.documents), of.total())

    def of_user(self, kind: ActionKind) -> tuple[Int64s, Int64s]:
        of = Counter(action.document for action in self.done if action.kind == kind)
        return self._counted(of), np.full(len(self.documents), of.total())

    def with_texts(self, kind: ActionKind, name: str, texts: TextSets) -> Int64s:
        texts_of = self.texts_of[name]
        of = Counter(text for action in self.done if action.kind == kind for text in texts_of.get(action.document, ()))
        return np.array([of[text] for text in texts.texts], np.int64)

    def _counted(self, of: Counter[str]) -> Int64s:
        return np.array([of[document] for document in self.documents], np.int64)
