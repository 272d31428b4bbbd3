"""The pipeline, written once as Ibis expressions: staged tables in, the tables of a log out, on any engine.

Every staged row ends in one of three places, and is counted there: kept, quarantined with a reason, or collapsed as a
copy of an identical row. The steps are in ``lists`` and ``clicks``; here they are put together and counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ibis
from ibis import _

from capse.search.ingest.clicks import clicks_of, impressions_of, judged
from capse.search.ingest.engines import Engine
from capse.search.ingest.notes import notes_of
from capse.search.ingest.settings import IngestSettings
from capse.search.ingest.shown_lists import COPY, HEADER, SPLIT_NAMES, documents_of, headers_of, rows_of
from capse.search.ingest.staging import SCHEMAS, Staging


@dataclass(frozen=True)
class Ingested:
    """A log as Ibis tables in their final order, what became of the staged rows, and what a person should know."""

    impressions: Any
    results: Any
    documents: Any
    quarantine: dict[str, Any]  # staged columns and ``outcome`` of what was not kept, by table
    counts: dict[str, dict[str, int]]  # table: {staged, kept, collapsed, quarantined}
    quarantined: dict[str, int]  # by reason
    notes: list[str]


def run(engine: Engine, staging: Staging, settings: IngestSettings, progress: Callable[[str], None]) -> Ingested:
    """Everything between the staged tables and the log."""
    rejects = engine.read(staging.path("rejects"))
    results, staged, described = (engine.read(staging.path(name)) for name in ("results", "clicks", "documents"))
    found = engine.values(results, splits=results.split.notnull().any(), at_zero=(results.position == 0).sum())
    with_splits = bool(found["splits"])

    progress("finding the lists")
    headers = engine.store(headers_of(results, settings, with_splits), "headers")
    from_zero = 2 * (found["at_zero"] or 0) > engine.values(headers, count=headers.count())["count"]
    rows = engine.store(rows_of(results, headers, settings, first_position=0 if from_zero else 1), "rows")
    progress("joining the clicks")
    clicks = engine.store(clicks_of(staged, headers, rows, settings), "clicks")
    progress("cutting sessions")
    impressions = engine.store(impressions_of(headers, rows, clicks, settings), "impressions")
    satisfied = engine.store(judged(clicks, impressions, settings), "satisfied")
    progress("describing documents")
    documents = engine.store(documents_of(described), "documents")
    bare = engine.store(_undescribed(rows, documents), "undescribed")

    outcomes = {
        "results": _outcomes(engine, rows.mutate(copies=1)),
        "clicks": _outcomes(engine, clicks),
        "documents": _outcomes(engine, documents),
    }
    counts = engine.values(impressions, impressions=impressions.count(), named=impressions.named.sum())
    counts |= engine.values(
        satisfied,
        clicked=satisfied.count(),
        no_dwell=satisfied.dwell.isnull().sum(),
        satisfied=satisfied.satisfied.sum(),
    )
    counts |= engine.values(bare, undescribed=bare.count())
    counts = {name: count or 0 for name, count in counts.items()}
    notes = notes_of(engine, impressions, counts, settings, with_splits)
    if from_zero:
        notes.append("the log counts positions from 0; here they are counted from 1")
    if counts["undescribed"]:
        notes.append(
            f"{counts['undescribed']:,} of the shown documents are not described: they have neither title nor text"
        )
    return Ingested(
        impressions=_with_splits(impressions, with_splits, counts["impressions"], settings),
        results=_results(rows, impressions, satisfied),
        documents=_documents(documents, bare),
        quarantine=_quarantine(headers, rows, clicks, documents),
        counts={table: _summed(found) for table, found in outcomes.items()},
        quarantined=_reasons(_outcomes(engine, rejects.mutate(outcome=rejects.reason, copies=1)), *outcomes.values()),
        notes=notes,
    )


def _outcomes(engine: Engine, table: Any) -> dict[str, int]:
    """How many staged rows were kept (""), collapsed (COPY) and quarantined (by reason)."""
    found = (
        table.group_by(outcome=table.outcome.fill_null("")).agg(rows=_.copies.sum(), distinct=_.count()).to_pyarrow()
    )
    counts: dict[str, int] = {}
    for row in found.to_pylist():
        collapsed = row["rows"] - row["distinct"]
        if collapsed:
            counts[COPY] = counts.get(COPY, 0) + collapsed
        counts[row["outcome"]] = counts.get(row["outcome"], 0) + row["distinct"]
    return counts


def _summed(outcomes: dict[str, int]) -> dict[str, int]:
    staged, kept, collapsed = sum(outcomes.values()), outcomes.get("", 0), outcomes.get(COPY, 0)
    return {"staged": staged, "kept": kept, "collapsed": collapsed, "quarantined": staged - kept - collapsed}


def _reasons(*found: dict[str, int]) -> dict[str, int]:
    """How many rows of all tables were quarantined for each reason."""
    reasons = sorted({reason for outcomes in found for reason in outcomes} - {"", COPY})
    return {reason: sum(outcomes.get(reason, 0) for outcomes in found) for reason in reasons}


def _with_splits(impressions: Any, given: bool, count: int, settings: IngestSettings) -> Any:
    """The impressions in order; without given splits the last ones test and those before them validate."""
    test_from = count - int(count * settings.test_share)
    valid_from = test_from - int(count * settings.valid_share)
    if given:
        split = impressions.split.substitute(SPLIT_NAMES)
    else:
        number = impressions.number
        split = ibis.cases((number >= test_from, "test"), (number >= valid_from, "valid"), else_="train")
    return impressions.select("impression", "time", "user", "session", "query", "number", split=split).order_by(
        "number"
    )


def _results(rows: Any, impressions: Any, satisfied: Any) -> Any:
    """The kept results in order, with what was clicked."""
    kept = rows.filter(rows.outcome.isnull()).join(impressions.select("key", "number"), "key")
    kept = kept.select("number", "position", "document")
    joined = kept.left_join(satisfied, ["number", "document"])
    return joined.select(
        impression=kept.number,
        position=kept.position,
        document=kept.document,
        clicked=satisfied.clicked_at.notnull(),
        clicked_at=satisfied.clicked_at,
        dwell=satisfied.dwell,
        satisfied=satisfied.satisfied.fill_null(False),
    ).order_by(["impression", "position"])


def _undescribed(rows: Any, documents: Any) -> Any:
    shown = rows.filter(rows.outcome.isnull()).select("document").distinct()
    return shown.anti_join(documents.filter(documents.outcome.isnull()), "document")


def _documents(documents: Any, undescribed: Any) -> Any:
    described = documents.filter(documents.outcome.isnull()).select("document", "title", "text", "terms")
    bare = undescribed.select("document", **{name: ibis.null("string") for name in ("title", "text", "terms")})
    return described.union(bare).order_by("document")


def _quarantine(headers: Any, rows: Any, clicks: Any, documents: Any) -> dict[str, Any]:
    lost = rows.filter(rows.outcome.notnull() & (rows.outcome != COPY))
    lost = lost.join(headers.select("key", *HEADER), "key").select(*SCHEMAS["results"].names, "outcome")
    dropped = {
        "results": lost,
        "clicks": clicks.filter(clicks.outcome.notnull()).select(*SCHEMAS["clicks"].names, "outcome"),
        "documents": documents.filter(documents.outcome.notnull()).select(*SCHEMAS["documents"].names, "outcome"),
    }
    return {
        name: table.order_by([_filled(table[column]) for column in table.columns]) for name, table in dropped.items()
    }


def _filled(column: Any) -> Any:
    """Nulls made comparable, so that every engine sorts them alike."""
    return column.fill_null("" if column.type().is_string() else -1)
