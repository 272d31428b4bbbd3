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
    with_splits: bool,
) -> list[str]:
    """How sessions, satisfied clicks and splits came about.

    ``counts``: the ``impressions``, those of a ``named`` session, the ``clicked`` results, those of them that are
    ``satisfied`` and those with ``no_dwell``.
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
        notes.append(_satisfaction(counts, settings))
    if not with_splits:
        notes.append(
            f"the log names no splits: the last {100 * settings.test_share:g} % of the impressions test, the "
            f"{100 * settings.valid_share:g} % before them validate"
        )
    return notes


def _satisfaction(counts: Mapping[str, int], settings: IngestSettings) -> str:
    inferred = "; a missing dwell is the time to the next event of the session" if settings.infer_dwell else ""
    return (
        f"{settings.rule}{inferred}: {counts['satisfied']:,} of {counts['clicked']:,} clicked results are, "
        f"and the dwell of {counts['no_dwell']:,} is not known"
    )
