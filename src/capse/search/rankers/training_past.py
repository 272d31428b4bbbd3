"""What a run takes along of the log that it was trained on: who clicked what until the test period, and what was shown.

A service that begins with a run and an empty database thus knows what evaluation knows. What is stored later, or was
stored before, is added to it: of everybody what is later than the log, of a user every click that is not in the log.

    past/clicks.parquet     user, session, query, document, time: satisfied clicks in the order in which they came
    past/shown.parquet      document, shown: how often
    past/actions.parquet    user, document, kind, time: events that are no clicks, in their order, where there are any
    past/days.parquet       document, day, shown: on the latest days before the log's end, where a schema has windows

It names users: whoever deletes one must delete the rows here too (`without`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from capse.arrays import Bools
from capse.errors import RunError
from capse.runs.atomic import atomic_path
from capse.search.logs.actions import KINDS
from capse.search.logs.history import Clicks
from capse.search.logs.search_log import SPLITS, SearchLog
from capse.search.times import DAY
from capse.search.users.everyone import Everyone
from capse.search.users.profiles import REMEMBERED
from capse.search.users.user_state import PastAction, PastClick, UserState

FOLDER = "past"
_CLICKS = pa.schema([(name, pa.string()) for name in ("user", "session", "query", "document")] + [("time", pa.int64())])
_SHOWN = pa.schema([("document", pa.string()), ("shown", pa.int64())])
_DAYS = pa.schema([("document", pa.string()), ("day", pa.int64()), ("shown", pa.int64())])
_ACTIONS = pa.schema([(name, pa.string()) for name in ("user", "document", "kind")] + [("time", pa.int64())])
_UNTIL = b"until"  # in the metadata of clicks.parquet


@dataclass(frozen=True)
class TrainingPast:
    """The satisfied clicks and the showings of a log before its test period."""

    clicks: pa.Table  # of _CLICKS
    shown: Mapping[str, int]  # by document
    until: int  # microseconds since 1970: whatever is earlier and of all people is in here
    days: pa.Table = field(default_factory=_DAYS.empty_table)  # of _DAYS
    actions: pa.Table = field(default_factory=_ACTIONS.empty_table)  # of _ACTIONS; of a user who never asked null

    @classmethod
    def empty(cls) -> TrainingPast:
        return cls(_CLICKS.empty_table(), {}, 0)

    @classmethod
    def of(cls, log: SearchLog, days: int = 0) -> TrainingPast:
        """That of a log, with showings of its latest ``days`` by day."""
        test = log.split == SPLITS.index("test")
        until = int(log.time[test].min() if test.any() else log.time.max(initial=-1) + 1)
        clicks = Clicks.of(log)
        rows = clicks.rows[(clicks.time < until) & ~test[log.impression[clicks.rows]]]
        lists = log.impression[rows]
        labels = {"user": log.users, "session": log.sessions, "query": log.queries}
        columns = {name: _labels(of, getattr(log, name)[lists]) for name, of in labels.items()}
        columns |= {"document": _labels(log.documents.ids, log.document[rows]), "time": pa.array(log.clicked_at[rows])}
        before = (~test & (log.time < until))[log.impression]
        counts = np.bincount(log.document[before], minlength=len(log.documents)).tolist()
        shown = {label: count for label, count in zip(log.documents.ids, counts, strict=True) if count}
        by_day, actions = _by_day(log, before, until, days), _actions_before(log, test, until)
        return cls(pa.table(columns, schema=_CLICKS), shown, until, by_day, actions)

    def save(self, run: Path) -> None:
        folder = run / FOLDER
        folder.mkdir(exist_ok=True)
        clicks = self.clicks.replace_schema_metadata({_UNTIL: str(self.until)})
        shown = pa.table({"document": list(self.shown), "shown": list(self.shown.values())}, schema=_SHOWN)
        more = {name: table for name, table in (("days", self.days), ("actions", self.actions)) if len(table)}
        tables = {"clicks": clicks, "shown": shown, **more}
        for name, table in tables.items():
            with atomic_path(folder / f"{name}.parquet") as temporary:
                pq.write_table(table, temporary)

    @classmethod
    def load(cls, run: Path) -> TrainingPast:
        """That of a run; nothing for a run from before runs had it."""
        folder = run / FOLDER
        if not folder.is_dir():
            return cls.empty()
        try:
            clicks = pq.read_table(folder / "clicks.parquet")
            until = int((clicks.schema.metadata or {})[_UNTIL])
            shown = pq.read_table(folder / "shown.parquet").cast(_SHOWN)
            counts = dict(zip(shown["document"].to_pylist(), shown["shown"].to_pylist(), strict=True))
            days = (
                pq.read_table(path).cast(_DAYS) if (path := folder / "days.parquet").exists() else _DAYS.empty_table()
            )
            path = folder / "actions.parquet"
            actions = pq.read_table(path).cast(_ACTIONS) if path.exists() else _ACTIONS.empty_table()
            return cls(clicks.cast(_CLICKS), counts, until, days, actions)
        except (OSError, pa.ArrowException, KeyError, ValueError) as error:
            raise RunError(f"{folder} is damaged", "train the run again") from error

    def without(self, users: Collection[str]) -> TrainingPast:
        """The same without the clicks of some users."""
        clicks, actions = (_without(table, users) for table in (self.clicks, self.actions))
        return replace(self, clicks=clicks, actions=actions)

    @property
    def users(self) -> set[str]:
        """Whom it names."""
        names = [*self.clicks["user"].unique().to_pylist(), *self.actions["user"].unique().to_pylist()]
        return {name for name in names if name is not None}

    def everyone(
        self,
        places: Mapping[str, Mapping[str, str]],
        texts: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
        days: int = 0,
    ) -> Everyone:
        """What is known of all people together, given the places of documents and the texts of their fields."""
        everyone = Everyone(places, texts, days)
        everyone.show_counted(self.shown)
        for row in self.days.to_pylist():
            everyone.show_on(row["day"], {row["document"]: row["shown"]})
        columns = (self.clicks[name].to_pylist() for name in ("document", "time", "query"))
        for document, time, query in zip(*columns, strict=True):
            everyone.click(document, time, query)
        for kind, document in zip(self.actions["kind"].to_pylist(), self.actions["document"].to_pylist(), strict=True):
            everyone.act(kind, document)
        return everyone

    def joined(self, user: str, state: UserState) -> UserState:
        """What is known of a user from the log and from elsewhere; a click that both have is one."""
        own, done = self._by_user.get(user, []), self._done_by.get(user, [])
        if not own and not done:
            return state
        known, did = {(click.document, click.time) for click in own}, set(done)
        later = [click for click in state.clicks if (click.document, click.time) not in known]
        then = [action for action in state.actions if action not in did]
        return UserState([*own, *later][-REMEMBERED:], state.texts, [*done, *then][-REMEMBERED:])

    @cached_property
    def _by_user(self) -> dict[str, list[PastClick]]:
        found: dict[str, list[PastClick]] = {}
        columns = (self.clicks[name].to_pylist() for name in ("user", "document", "session", "time", "query"))
        for user, *click in zip(*columns, strict=True):
            found.setdefault(user, []).append(PastClick(*click))
        return {user: clicks[-REMEMBERED:] for user, clicks in found.items()}

    @cached_property
    def _done_by(self) -> dict[str, list[PastAction]]:
        found: dict[str, list[PastAction]] = {}
        columns = (self.actions[name].to_pylist() for name in ("user", "document", "kind", "time"))
        for user, *action in zip(*columns, strict=True):
            found.setdefault(user, []).append(PastAction(*action))
        return {user: actions[-REMEMBERED:] for user, actions in found.items()}


def _without(table: pa.Table, users: Collection[str]) -> pa.Table:
    return table.filter(pc.invert(pc.is_in(table["user"], value_set=pa.array(users, pa.string()))))


def _actions_before(log: SearchLog, test: Bools, until: int) -> pa.Table:
    """Events before a moment, those on lists of the ``test`` period left out."""
    actions = log.actions
    of_test = (actions.row >= 0) & test[log.impression[actions.row]] if len(actions) else actions.row >= 0
    known = actions.where((actions.time < until) & ~of_test)
    users = pa.array(log.users, pa.string()).take(pa.array(known.user, mask=known.user < 0))
    documents, kinds = _labels(log.documents.ids, known.document), _labels(KINDS, known.kind)
    columns = {"user": users, "document": documents, "kind": kinds, "time": known.time}
    return pa.table(columns, schema=_ACTIONS)


def _by_day(log: SearchLog, before: Bools, until: int, days: int) -> pa.Table:
    """Showings (``before``: of these result rows) on so many days until a moment, and two more."""
    if not days:
        return _DAYS.empty_table()
    day = log.time[log.impression] // DAY
    rows = before & (day > until // DAY - days - 2)
    keys, counts = np.unique(np.stack([day[rows], log.document[rows]]), axis=1, return_counts=True)
    return pa.table({"document": _labels(log.documents.ids, keys[1]), "day": keys[0], "shown": counts}, schema=_DAYS)


def _labels(labels: Sequence[str], numbers: np.ndarray) -> pa.Array:
    return pa.array(labels, pa.string()).take(pa.array(numbers))
