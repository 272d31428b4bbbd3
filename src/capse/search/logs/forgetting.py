"""Taking users out of an ingested log: their impressions, what was shown and clicked, and their quarantined rows."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from capse.errors import DataError
from capse.runs.atomic import atomic_path, storage_errors
from capse.search.logs.actions import FILE
from capse.search.logs.log_fields import FOLDER, KEYS
from capse.search.logs.search_log import IMPRESSIONS, RESULTS, SearchLog
from capse.search.logs.shown_ranks import FILE as RANKS


def forget_in_log(folder: str | Path, users: Collection[str]) -> int:
    """Remove users' rows from a log that `capse search ingest` wrote; returns how many impressions that were.

    The rest keeps its order and its splits; documents stay, since they name nobody.
    """
    folder = Path(folder)
    SearchLog.load(folder)  # or it is none, or damaged
    impressions = pq.read_table(folder / "impressions.parquet")
    results = pq.read_table(folder / "results.parquet")
    theirs = np.asarray(pc.is_in(impressions["user"], value_set=pa.array(users, pa.string())))
    owner = np.asarray(results["impression"])
    numbers = np.cumsum(~theirs) - 1  # of those that stay
    kept = results.filter(pa.array(~theirs[owner]))
    place = kept.schema.get_field_index("impression")
    field = RESULTS.field("impression")
    kept = kept.set_column(place, field, pa.array(numbers[owner[~theirs[owner]]]).cast(field.type))
    labels = set(impressions["impression"].filter(pa.array(theirs)).to_pylist())
    with storage_errors(folder):
        _quarantine(folder / "quarantine.jsonl", users, labels)
        _actions(folder / FILE, users)
        if not theirs.any():
            return 0
        stays = impressions.filter(pa.array(~theirs)).select(IMPRESSIONS.names)
        said = [folder / FOLDER / f"{scope}.parquet" for scope, keys in KEYS.items() if "impression" in keys]
        for file in (*said, folder / RANKS):
            _of_others(file, labels)
        for name, table in (("results", kept.select(RESULTS.names)), ("impressions", stays)):
            with atomic_path(folder / f"{name}.parquet") as temporary:
                pq.write_table(table, temporary, compression="zstd")
    return int(theirs.sum())


def _of_others(file: Path, impressions: Collection[str]) -> None:
    """Leave out what was said with these impressions, of their users too."""
    if file.is_file():
        table = pq.read_table(file)
        theirs = pc.is_in(table["impression"], value_set=pa.array(sorted(impressions), pa.string()))
        with atomic_path(file) as temporary:
            pq.write_table(table.filter(pc.invert(theirs)), temporary, compression="zstd")


def _actions(file: Path, users: Collection[str]) -> None:
    if file.is_file():
        table = pq.read_table(file)
        theirs = pc.is_in(table["user"], value_set=pa.array(users, pa.string()))
        with atomic_path(file) as temporary:
            pq.write_table(table.filter(pc.invert(theirs)), temporary, compression="zstd")


def _quarantine(file: Path, users: Collection[str], impressions: Collection[str]) -> None:
    """Leave out lines of the users and of their impressions, and what could not be read where it may be theirs."""
    if not file.is_file():
        return
    lines = file.read_text(encoding="utf-8").splitlines()
    try:
        rows = [json.loads(line) for line in lines]
    except ValueError as error:
        raise DataError(f"{file} is damaged", "remove it") from error
    kept = [
        line
        for line, row in zip(lines, rows, strict=True)
        if row.get("user") not in users
        and row.get("impression") not in impressions
        and not any(user in str(row.get("raw", "")) for user in users)
    ]
    if len(kept) < len(lines):
        with atomic_path(file) as temporary:
            temporary.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
