"""The lists that were shown, as Ibis expressions: which rows are kept, which are copies, which are quarantined and why.

A *head* is what all rows of one impression share. Every result row and every head has a ``fate``: null if it is kept,
COPY if an identical row was there already, else the reason for its quarantine.
"""

from __future__ import annotations

from typing import Any

import ibis
from ibis import _

from capse.search.ingest.settings import IngestSettings

COPY = "copy"
HEAD = ["impression", "time", "user", "session", "query", "split"]
SPLIT_NAMES = {"train": "train", "valid": "valid", "dev": "valid", "validation": "valid", "test": "test"}
KEPT = ibis.null("string")
LAST_POSITION = 2**31 - 1  # that a log can hold


def absent(column: Any) -> Any:
    """Null, or an empty text."""
    return column.fill_null("") == ""


def time_fate(time: Any, settings: IngestSettings) -> list[tuple[Any, str]]:
    """The cases in which a time is not believed."""
    earliest, latest = settings.bounds()
    return [(time < earliest, f"time before {settings.earliest}"), (time > latest, "time in the future")]


def heads_of(results: Any, settings: IngestSettings, with_splits: bool) -> Any:
    """One row per head: HEAD, ``rows`` (how many result rows it has), ``key`` (ascending in time), ``fate``."""
    heads = results.group_by(HEAD).agg(rows=_.count())
    heads = heads.mutate(
        fate=ibis.cases(
            (absent(heads.impression), "impression without an id"),
            (heads.time.isnull(), "missing time"),
            *time_fate(heads.time, settings),
            (absent(heads.user), "missing user"),
            (ibis.literal(with_splits) & ~heads.split.fill_null("").isin(list(SPLIT_NAMES)), "unknown split"),
            else_=KEPT,
        )
    )
    order = [heads.time.fill_null(0)]
    order += [heads[name].fill_null("") for name in ("user", "impression", "session", "query", "split")]
    rivals = ibis.window(group_by=[heads.impression, heads.fate.isnull()], order_by=order)
    heads = heads.mutate(
        fate=ibis.cases(
            (heads.fate.notnull(), heads.fate),
            (ibis.row_number().over(rivals) > 0, "impression with the id of another"),
            else_=KEPT,
        )
    )
    return heads.mutate(key=ibis.row_number().over(ibis.window(order_by=order)))


def rows_of(results: Any, heads: Any, settings: IngestSettings, first_position: int) -> Any:
    """One row per staged result: ``key`` of its head, ``position`` from 1, ``document``, ``fate``."""
    rows = results.join(heads, [results[name].identical_to(heads[name]) for name in HEAD]).select(
        heads.key, position=results.position + (1 - first_position), document=results.document, head_fate=heads.fate
    )
    rows = rows.select(
        "key",
        "position",
        "document",
        fate=ibis.cases(
            (rows.head_fate.notnull(), rows.head_fate),
            (absent(rows.document), "missing document"),
            (rows.position.fill_null(0) < 1, "position missing or below 1"),
            (rows.position > LAST_POSITION, "position beyond all lists"),
            else_=KEPT,
        ),
    )
    # Within each list, rows that are still kept are compared among themselves.
    before = ibis.window(group_by=[rows.key, rows.fate.isnull()], order_by=[rows.position, rows.document])
    taken = rows.position == rows.position.lag().over(before)
    rows = rows.mutate(
        fate=ibis.cases(
            (rows.fate.notnull(), rows.fate),
            (taken & (rows.document == rows.document.lag().over(before)), COPY),
            (taken, "position already taken"),
            else_=KEPT,
        )
    )
    rows = _later(rows, [rows.key, rows.document], 1, "document already in the list")
    return _later(rows, [rows.key], settings.max_results, "beyond the longest list")


def _later(rows: Any, group: list[Any], limit: int, reason: str) -> Any:
    """Of the kept rows of each group, the first ``limit`` by position stay kept."""
    window = ibis.window(group_by=[*group, rows.fate.isnull()], order_by=[rows.position])
    late = rows.fate.isnull() & (ibis.row_number().over(window) >= limit)
    return rows.mutate(fate=ibis.cases((late, reason), else_=rows.fate))


def documents_of(documents: Any) -> Any:
    """One row per described document or rival description, with ``copies`` and ``fate``; the longest one is kept."""
    found = documents.group_by(list(documents.columns)).agg(copies=_.count())
    size = sum(found[name].fill_null("").length() for name in ("title", "text", "terms"))
    order = [size.desc(), *(found[name].fill_null("") for name in ("title", "text", "terms"))]
    rank = ibis.row_number().over(ibis.window(group_by=found.document, order_by=order))
    return found.mutate(
        fate=ibis.cases(
            (absent(found.document), "document without an id"),
            (rank > 0, "document described otherwise"),
            else_=KEPT,
        )
    )
