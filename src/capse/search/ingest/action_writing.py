"""Staged events that are no clicks as a log's table; every one is kept, collapsed as a copy, or set aside."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq

from capse.search.ingest.settings import IngestSettings
from capse.search.ingest.staging import Staging
from capse.search.logs.actions import FILE, KINDS, SCHEMA
from capse.search.logs.search_log import IMPRESSIONS
from capse.search.times import SECOND, to_seconds


@dataclass(frozen=True)
class ActionCounts:
    """What became of events that are no clicks."""

    counts: dict[str, int] = field(default_factory=dict)  # staged = kept + collapsed + quarantined
    quarantined: dict[str, int] = field(default_factory=dict)  # by reason
    unbound: int = 0  # kept without a list

    def notes(self) -> list[str]:
        if not self.unbound:
            return []
        return [
            f"{self.unbound:,} of {self.counts['kept']:,} events name no list: they say what users like, and judge none"
        ]


def write_actions(folder: Path, staging: Staging, settings: IngestSettings) -> ActionCounts:
    """`actions.parquet` of a log's folder, if there is any event that is no click."""
    if not staging.rows["actions"]:
        return ActionCounts()
    staged = pd.read_parquet(staging.path("actions"))
    copies = staged.duplicated() | (staged["event"].notna() & staged.duplicated(["event"]))
    rows = _with_lists(staged[~copies], folder)
    rows["reason"] = _reasons(rows, settings)
    lost, kept = rows[rows["reason"].notna()], rows[rows["reason"].isna()].sort_values("time", kind="stable")
    with (folder / "quarantine.jsonl").open("a", encoding="utf-8") as file:
        for row in lost[["reason", *staged.columns]].to_dict("records"):
            file.write(json.dumps(_as_record(row), ensure_ascii=False) + "\n")
    table = pa.Table.from_pandas(kept[SCHEMA.names], SCHEMA, preserve_index=False)
    pq.write_table(table, folder / FILE, compression="zstd")
    counts = {"staged": len(staged), "kept": len(kept), "collapsed": int(copies.sum()), "quarantined": len(lost)}
    return ActionCounts(counts, lost["reason"].value_counts().to_dict(), int(kept["impression"].isna().sum()))


def _with_lists(rows: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Beside their lists: ``number``, ``shown_at`` and ``owner`` of the list, ``listed`` where it has the document."""
    lists = pq.read_table(folder / "impressions.parquet", columns=["impression", "time", "user"])
    lists = lists.cast(pa.schema([IMPRESSIONS.field("impression"), ("time", pa.int64()), ("user", pa.string())]))
    of = lists.to_pandas().rename(columns={"time": "shown_at", "user": "owner"})
    of["number"] = range(len(of))
    rows = rows.merge(of, "left", "impression")
    shown = pq.read_table(folder / "results.parquet", columns=["impression", "document"]).to_pandas()
    shown = shown.rename(columns={"impression": "number"}).assign(listed=True)
    rows = rows.merge(shown, "left", ["number", "document"])
    known = pq.read_table(folder / "documents.parquet", columns=["document"])["document"].to_pandas()
    rows["described"] = rows["document"].isin(known)
    rows["user"] = rows["user"].fillna(rows["owner"])
    return rows


def _reasons(rows: pd.DataFrame, settings: IngestSettings) -> pd.Series[Any]:
    """Why each is set aside; missing where it is kept. The first that holds counts."""
    earliest, latest = settings.bounds()
    bound = rows["impression"].notna()
    rules = [
        (~rows["kind"].isin(KINDS), "unknown kind of event"),
        (rows["document"].isna(), "event without a document"),
        (rows["time"].isna(), "event without a time"),
        (rows["time"] < earliest, f"time before {settings.earliest}"),
        (rows["time"] > latest, "time in the future"),
        (bound & rows["number"].isna(), "event for an unknown impression"),
        (bound & rows["listed"].isna(), "event on a document that was not shown"),
        (bound & (rows["user"] != rows["owner"]), "event of another user than its impression's"),
        (bound & (rows["time"] < rows["shown_at"]), "event before its impression"),
        (
            bound & (rows["time"] - rows["shown_at"] > int(settings.action_within_seconds * SECOND)),
            "event long after its impression",
        ),
        (rows["user"].isna(), "event without a user"),
        (~bound & ~rows["described"], "event on a document that is not known"),
    ]
    reasons = pd.Series(pd.NA, rows.index, "object")
    for broken, reason in reversed(rules):
        reasons[broken] = reason
    return reasons


def _as_record(row: dict[Any, Any]) -> dict[str, Any]:
    record = {"reason": row["reason"], "table": "actions"}
    record |= {str(name): value for name, value in row.items() if name != "reason" and not pd.isna(value)}
    if "time" in record:
        record["time"] = to_seconds(int(record["time"]))
    return record
