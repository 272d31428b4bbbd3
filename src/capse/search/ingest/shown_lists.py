"""The lists that were shown, as Ibis expressions: which rows are kept, which are copies, which are quarantined and why.

A *header* is what all rows of one impression share. Every result row and every header has an ``outcome``: null if it
is kept, COPY if an identical row was there already, else the reason for its quarantine.
"""

from __future__ import annotations

from typing import Any

import ibis
from ibis import _

from capse.search.ingest.settings import IngestSettings

COPY = "copy"
HEADER = ["impression", "time", "user", "session", "query", "split"]
SPLIT_NAMES = {"train": "train", "valid": "valid", "dev": "valid", "validation": "valid", "test": "test"}
KEPT = ibis.null("string")
LAST_POSITION = 2**31 - 1  # that a log can hold


def absent(column: Any) -> Any:
    """Null, or an empty text."""
    return column.fill_null("") == ""


def time_outcomes(time: Any, settings: IngestSettings) -> list[tuple[Any, str]]:
    """The cases in which a time is not believed."""
    earliest, latest = settings.bounds()
    return [(time < earliest, f"time before {settings.earliest}"), (time > latest, "time in the future")]


def headers_of(results: Any, settings: IngestSettings, with_splits: bool) -> Any:
    """One row per header: HEADER, ``rows`` (how many result rows it has), ``key`` (ascending in time), ``outcome``."""
    headers = results.group_by(HEADER).agg(rows=_.count())
    headers = headers.mutate(
        outcome=ibis.cases(
            (absent(headers.impression), "impression without an id"),
            (headers.time.isnull(), "missing time"),
            *time_outcomes(headers.time, settings),
            (absent(headers.user), "missing user"),
            (ibis.literal(with_splits) & ~headers.split.fill_null("").isin(list(SPLIT_NAMES)), "unknown split"),
            else_=KEPT,
        )
    )
    order = [headers.time.fill_null(0)]
    order += [headers[name].fill_null("") for name in ("user", "impression", "session", "query", "split")]
    rivals = ibis.window(group_by=[headers.impression, headers.outcome.isnull()], order_by=order)
    headers = headers.mutate(
        outcome=ibis.cases(
            (headers.outcome.notnull(), headers.outcome),
            (ibis.row_number().over(rivals) > 0, "impression with the id of another"),
            else_=KEPT,
        )
    )
    return headers.mutate(key=ibis.row_number().over(ibis.window(order_by=order)))


def rows_of(results: Any, headers: Any, settings: IngestSettings, first_position: int) -> Any:
    """One row per staged result: ``key`` of its header, ``position`` from 1, ``document``, ``outcome``."""
    rows = results.join(headers, [results[name].identical_to(headers[name]) for name in HEADER]).select(
        headers.key,
        position=results.position + (1 - first_position),
        document=results.document,
        header_outcome=headers.outcome,
    )
    rows = rows.select(
        "key",
        "position",
        "document",
        outcome=ibis.cases(
            (rows.header_outcome.notnull(), rows.header_outcome),
            (absent(rows.document), "missing document"),
            (rows.position.fill_null(0) < 1, "position missing or below 1"),
            (rows.position > LAST_POSITION, "position beyond all lists"),
            else_=KEPT,
        ),
    )
    # Within each list, rows that are still kept are compared among themselves.
    before = ibis.window(group_by=[rows.key, rows.outcome.isnull()], order_by=[rows.position, rows.document])
    taken = rows.position == rows.position.lag().over(before)
    rows = rows.mutate(
        outcome=ibis.cases(
            (rows.outcome.notnull(), rows.outcome),
            (taken & (rows.document == rows.document.lag().over(before)), COPY),
            (taken, "position already taken"),
            else_=KEPT,
        )
    )
    rows = _later(rows, [rows.key, rows.document], 1, "document already in the list")
    return _later(rows, [rows.key], settings.max_results, "beyond the longest list")


def _later(rows: Any, group: list[Any], limit: int, reason: str) -> Any:
    """Of the kept rows of each group, the first ``limit`` by position stay kept."""
    window = ibis.window(group_by=[*group, rows.outcome.isnull()], order_by=[rows.position])
    late = rows.outcome.isnull() & (ibis.row_number().over(window) >= limit)
    return rows.mutate(outcome=ibis.cases((late, reason), else_=rows.outcome))


def documents_of(documents: Any) -> Any:
    """One row per described document or rival description, with ``copies`` and ``outcome``; the longest one is kept."""
    found = documents.group_by(list(documents.columns)).agg(copies=_.count())
    size = sum(found[name].fill_null("").length() for name in ("title", "text", "terms"))
    order = [size.desc(), *(found[name].fill_null("") for name in ("title", "text", "terms"))]
    rank = ibis.row_number().over(ibis.window(group_by=found.document, order_by=order))
    return found.mutate(
        outcome=ibis.cases(
            (absent(found.document), "document without an id"),
            (rank > 0, "document described otherwise"),
            else_=KEPT,
        )
    )
