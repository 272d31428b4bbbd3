"""A search log in memory: impressions in time order, each with the list it showed and what was clicked.

On disk a log is a folder that ``capse search ingest`` writes:

    log.json              name, counts, settings, what was quarantined and why
    impressions.parquet   impression (the source's id), time, user, session, query, split; ascending in time
    results.parquet       impression (row number above), position, document, clicked, clicked_at, dwell, satisfied
    documents.parquet     document, title, text, terms (word counts)
    quarantine.jsonl      the rows that could not be used, each with its reason
    actions.parquet       events that are no clicks (`Actions`), if there are any
    fields/               those of items, users, requests and results, if a schema names any (`LogFields`)
    ranks.parquet         in which order lists were shown, where that was not the engine's (`load_ranks`)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from capse.arrays import Bools, Int32s, Int64s
from capse.errors import DataError, UnknownNameError
from capse.search.logs.actions import Actions
from capse.search.logs.documents import Documents
from capse.search.logs.log_fields import LogFields, rows_of_results
from capse.search.logs.shown_ranks import load_ranks
from capse.search.times import parse_time

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
FORMAT = 1

NO_TIME = np.iinfo(np.int64).max  # clicked_at of a result that was not clicked: after everything

_TIME = pa.timestamp("us", "UTC")
IMPRESSIONS = pa.schema(
    [
        ("impression", pa.string()),
        ("time", _TIME),
        ("user", pa.string()),
        ("session", pa.string()),
        ("query", pa.string()),
        ("split", pa.string()),
    ]
)
RESULTS = pa.schema(
    [
        ("impression", pa.int64()),
        ("position", pa.int32()),
        ("document", pa.string()),
        ("clicked", pa.bool_()),
        ("clicked_at", _TIME),
        ("dwell", pa.float64()),
        ("satisfied", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class SearchLog:
    """n impressions in time order; the list of impression i is the result rows ``offsets[i]:offsets[i + 1]``.

    Users, sessions, queries and documents are numbers that point into the lists of their labels.
    """

    name: str
    time: Int64s  # (n,) microseconds since 1970, ascending
    user: Int32s  # (n,)
    session: Int32s  # (n,)
    query: Int32s  # (n,)
    split: npt.NDArray[np.int8]  # (n,) place in SPLITS
    offsets: Int64s  # (n + 1,)
    document: Int32s  # (m,) one row per result, lists in order of their impressions, each in the engine's order
    position: Int32s  # (m,) the engine's rank, from 1
    clicked: Bools  # (m,)
    clicked_at: Int64s  # (m,) microseconds; NO_TIME where there was no click
    satisfied: Bools  # (m,) relevant: a satisfied click
    users: Sequence[str]
    sessions: Sequence[str]
    queries: Sequence[str]
    documents: Documents
    fields: LogFields = field(default_factory=LogFields, repr=False)
    actions: Actions = field(default_factory=Actions, repr=False)  # events that are no clicks
    reranked: Int32s | None = field(default=None, repr=False)  # (m,) where each result was shown, if not as ranked

    def __len__(self) -> int:
        return len(self.time)

    @cached_property
    def lengths(self) -> Int64s:
        """(n,) results of each list."""
        return np.diff(self.offsets)

    @cached_property
    def impression(self) -> Int64s:
        """(m,) the impression of each result."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def rank(self) -> Int32s:
        """(m,) the place at which each result was shown, from 1: what people looked at first."""
        return self.position if self.reranked is None else self.reranked

    def rows(self, impressions: Int64s) -> Int64s:
        """The result rows of these impressions, list after list."""
        lengths = self.lengths[impressions]
        ends = np.cumsum(lengths)
        return np.repeat(self.offsets[impressions] - ends + lengths, lengths) + np.arange(int(lengths.sum()))

    def of_split(self, split: str) -> Int64s:
        """The impressions of a split, in time order."""
        if split not in SPLITS:
            raise UnknownNameError("split", split, SPLITS, f"choose from {', '.join(SPLITS)}")
        return np.flatnonzero(self.split == SPLITS.index(split))

    def judged(self, split: str) -> Int64s:
        """The impressions of a split that have a satisfied click: those a ranking can be judged by."""
        impressions = self.of_split(split)
        relevant = np.bincount(self.impression[self.satisfied], minlength=len(self))
        return impressions[relevant[impressions] > 0]

    def start_of(self, split: str) -> int:
        """The time of the first impression of a split."""
        impressions = self.of_split(split)
        if not len(impressions):
            raise DataError(f"the log {self.name!r} has no impression in its {split} split", "ingest one that has")
        return int(self.time[impressions].min())

    @classmethod
    def load(cls, folder: str | Path) -> SearchLog:
        """A log that ``capse search ingest`` wrote."""
        folder = Path(folder)
        description = _description(folder)
        impressions = _table(folder / "impressions.parquet", IMPRESSIONS)
        results = _table(folder / "results.parquet", RESULTS)
        documents = Documents.load(folder / "documents.parquet")
        log = cls.from_tables(str(description["name"]), impressions, results, documents)
        labels, owner, document = impressions["impression"], log.impression, log.document.astype(np.int64)
        fields = LogFields.load(folder, labels, documents.ids, owner, document)
        actions = Actions.load(folder, labels, log.users, documents.ids, owner, document)
        ids = pa.array(documents.ids, pa.string())
        ranks = load_ranks(folder, log.position, lambda table: rows_of_results(table, labels, ids, owner, document))
        return replace(log, fields=fields, actions=actions, reranked=ranks)

    @classmethod
    def from_tables(cls, name: str, impressions: pa.Table, results: pa.Table, documents: Documents) -> SearchLog:
        """A log from tables of the two schemas: impressions ascending in time, results by impression and position."""
        user, users = _coded(impressions["user"])
        session, sessions = _coded(impressions["session"])
        query, queries = _coded(impressions["query"])
        places = pc.index_in(impressions["split"], value_set=pa.array(SPLITS))
        if places.null_count:
            raise DataError(f"the log {name!r} has a split other than {', '.join(SPLITS)}", "ingest it again")
        owner = _numbers(results["impression"], np.int64)
        lengths = np.bincount(owner, minlength=len(impressions))
        found = pc.index_in(results["document"], value_set=pa.array(documents.ids, pa.string()))
        if found.null_count:
            raise DataError(f"the log {name!r} shows documents that documents.parquet lacks", "ingest it again")
        at = results["clicked_at"].cast(pa.int64()).fill_null(NO_TIME)
        return cls(
            name=name,
            time=_numbers(impressions["time"].cast(pa.int64()), np.int64),
            user=user,
            session=session,
            query=query,
            split=_numbers(places, np.int8),
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            document=_numbers(found, np.int32),
            position=_numbers(results["position"], np.int32),
            clicked=_numbers(results["clicked"], np.bool_),
            clicked_at=_numbers(at, np.int64),
            satisfied=_numbers(results["satisfied"], np.bool_),
            users=users,
            sessions=sessions,
            queries=queries,
            documents=documents,
        )

    @classmethod
    def from_records(
        cls, records: Iterable[Mapping[str, Any]], documents: Documents | None = None, *, name: str = "log"
    ) -> SearchLog:
        """A small log written by hand, in time order.

        A record has ``time`` (seconds, or ISO 8601), ``user``, ``query``, ``results`` (document ids in the engine's
        order) and ``clicks`` (those of them with a satisfied click); ``session`` and ``split`` may be given.

        >>> log = SearchLog.from_records([
        ...     {"time": 1, "user": "ada", "query": "engine", "results": ["d1", "d2"], "clicks": ["d2"]},
        ...     {"time": 9, "user": "bob", "query": "engine", "results": ["d2", "d3"], "clicks": [], "split": "test"},
        ... ])
        >>> len(log), log.lengths, log.satisfied, log.judged("train"), log.rows(np.array([1]))
        (2, array([2, 2]), array([False,  True, False, False]), array([0]), array([2, 3]))
        """
        impressions, results = [], []
        for number, record in enumerate(records):
            at = parse_time(record["time"])
            session = record.get("session", f"{record['user']}-1")
            kept = {key: str(record[key]) for key in ("user", "query")}
            split = record.get("split", "train")
            impressions.append({"impression": str(number), "time": at, **kept, "session": session, "split": split})
            for position, document in enumerate(record["results"], start=1):
                clicked = document in record["clicks"]
                results.append(
                    {
                        "impression": number,
                        "position": position,
                        "document": document,
                        "clicked": clicked,
                        "clicked_at": at if clicked else None,
                        "dwell": None,
                        "satisfied": clicked,
                    }
                )
        if documents is None:
            documents = Documents.of_terms({str(row["document"]): {} for row in results})
        return cls.from_tables(
            name,
            pa.Table.from_pylist(impressions, IMPRESSIONS),
            pa.Table.from_pylist(results, RESULTS),
            documents,
        )


def _description(folder: Path) -> dict[str, Any]:
    path = folder / "log.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = content["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder} is not an ingested log", "make one with 'capse search ingest'") from error
    if found != FORMAT:
        raise DataError(f"{path} has format {found}, this capse reads format {FORMAT}", "ingest the log again")
    return dict(content)


def _table(path: Path, schema: pa.Schema) -> pa.Table:
    try:
        return pq.read_table(path, columns=schema.names).cast(schema)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} cannot be read ({str(error).splitlines()[0]})", "ingest the log again") from error


def _coded(column: pa.ChunkedArray) -> tuple[Int32s, list[str]]:
    """Numbers for labels, in order of first appearance, and the labels."""
    coded = pc.dictionary_encode(column.combine_chunks())
    return _numbers(coded.indices, np.int32), coded.dictionary.to_pylist()


def _numbers(column: Any, kind: Any) -> Any:
    return np.asarray(
        column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy(), kind
    )
