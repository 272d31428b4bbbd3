"""What a person should know about a log that was ingested, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ibis import _

from capse.search.ingest.engines import Engine
from capse.search.ingest.settings import IngestSettings
from capse.search.times import DAY


def notes_of(
    engine: Engine,
    impressions: Any,
    counts: Mapping[str, int],
    settings: IngestSettings,
    with_dwell: bool,
    with_splits: bool,
) -> list[str]:
    """How sessions, satisfied clicks and splits came about.

    ``counts``: the ``impressions``, those of a ``named`` session, the ``clicked`` results, those without a dwell.
    """
    notes = []
    cut = counts["impressions"] - counts["named"]
    if cut:
        notes.append(
            f"{cut:,} of {counts['impressions']:,} impressions name no session: sessions are cut after "
            f"{settings.gap_seconds / 60:g} minutes of a user's silence"
        )
    if counts["named"]:
        spans = impressions.filter(impressions.named).group_by("session").agg(span=_.time.max() - _.time.min())
        if long := engine.values(spans, long=(spans.span > DAY).sum())["long"]:
            notes.append(f"{long:,} of the log's own sessions last longer than a day: did a clock jump?")
    if counts["clicked"]:
        notes.append(_satisfaction(counts, settings, with_dwell))
    if not with_splits:
        notes.append(
            f"the log names no splits: the last {100 * settings.test_share:g} % of the impressions test, the "
            f"{100 * settings.valid_share:g} % before them validate"
        )
    return notes


def _satisfaction(counts: Mapping[str, int], settings: IngestSettings, with_dwell: bool) -> str:
    if not with_dwell:
        what = "every click" if settings.without_dwell == "all" else "the last click of each session"
        return f"the log knows no dwell: {what} counts as satisfied"
    last = ", or the last of its session" if settings.satisfied_last else ""
    inferred = "; a missing dwell is the time to the next event of the session" if settings.infer_dwell else ""
    return (
        f"satisfied is a click with a dwell of {settings.satisfied_dwell:g} s or more{last}{inferred}; "
        f"{counts['no_dwell']:,} of {counts['clicked']:,} clicked results have no dwell"
    )
