"""Clicks, sessions and satisfaction, as Ibis expressions."""

from __future__ import annotations

from typing import Any

import ibis
from ibis import _

from capse.search.ingest.settings import IngestSettings
from capse.search.ingest.shown_lists import COPY, KEPT, absent, time_outcomes
from capse.search.times import SECOND


def clicks_of(staged: Any, headers: Any, rows: Any, settings: IngestSettings) -> Any:
    """One row per distinct click: its columns, ``copies``, ``key`` of its impression, ``at`` (its time), ``outcome``.

    A click without a time is taken to happen with its impression.
    """
    clicks = staged.group_by(list(staged.columns)).agg(copies=_.count())
    usable = headers.filter(headers.outcome.isnull()).select("impression", "key", shown_at="time")
    listed = rows.filter(rows.outcome.isnull()).select("key", "document", listed=True)
    known = headers.select("impression").distinct().mutate(known=True)
    lost = rows.filter(rows.outcome.notnull() & (rows.outcome != COPY)).join(headers, "key")
    lost = lost.select("impression", "document").distinct().mutate(lost=True)

    clicks = _beside(clicks, known, ["impression"])
    clicks = _beside(clicks, usable, ["impression"])
    clicks = _beside(clicks, listed, ["key", "document"])
    clicks = _beside(clicks, lost, ["impression", "document"])
    events = [clicks.event, ibis.ifelse(clicks.event.isnull(), clicks.impression, "")]  # the second spreads the nulls
    order = [clicks.impression.fill_null(""), clicks.document.fill_null(""), clicks.time.fill_null(0)]
    order.append(clicks.dwell.fill_null(-1.0))
    again = ibis.row_number().over(ibis.window(group_by=events, order_by=order))
    outcome = ibis.cases(
        (absent(clicks.impression), "click without an impression"),
        (absent(clicks.document), "click without a document"),
        *time_outcomes(clicks.time, settings),
        (clicks.dwell < 0, "negative dwell"),
        (clicks.event.notnull() & (again > 0), "event id of another click"),
        (clicks.known.isnull(), "click for an unknown impression"),
        (clicks.listed.isnull() & clicks.lost.notnull(), "click on a quarantined result"),
        (clicks.listed.isnull(), "click on a document that was not shown"),
        (clicks.time < clicks.shown_at, "click before its impression"),
        (
            clicks.time - clicks.shown_at > int(settings.click_within_seconds * SECOND),
            "click long after its impression",
        ),
        else_=KEPT,
    )
    return clicks.select(
        *staged.columns, "copies", "key", at=ibis.coalesce(clicks.time, clicks.shown_at), outcome=outcome
    )


def _beside(left: Any, right: Any, on: list[str]) -> Any:
    """A left join that keeps one copy of the columns joined on."""
    joined = left.left_join(right, on)
    return joined.select(*left.columns, *(name for name in right.columns if name not in on))


def impressions_of(headers: Any, rows: Any, clicks: Any, settings: IngestSettings) -> Any:
    """The kept impressions, with ``number`` (from 0, in time) and ``session``; ``named``: the log named that one.

    Where the log names no session, one ends when the user neither asked nor clicked for ``gap_seconds``. A session's
    name that several users share stands for one session of each.
    """
    shown = rows.filter(rows.outcome.isnull()).select("key").distinct()
    impressions = headers.filter(headers.outcome.isnull()).semi_join(shown, "key")
    clicked = clicks.filter(clicks.outcome.isnull()).group_by("key").agg(last=_.at.max())
    impressions = _beside(impressions, clicked, ["key"])
    impressions = impressions.select(
        "key",
        "impression",
        "time",
        "user",
        "session",
        "split",
        query=impressions.query.fill_null(""),
        last=ibis.greatest(impressions.time, impressions.last.fill_null(0)),
        number=ibis.row_number().over(ibis.window(order_by=impressions.key)),
    )
    return _named(impressions).union(_cut(impressions, settings.gap_seconds))


def _named(impressions: Any) -> Any:
    named = impressions.filter(~absent(impressions.session))
    users = named.group_by("session").agg(first_user=_.user.min(), last_user=_.user.max())
    named = _beside(named, users, ["session"])
    shared = named.first_user != named.last_user
    return _with_session(named, ibis.ifelse(shared, named.user + "/" + named.session, named.session))


def _cut(impressions: Any, gap_seconds: float) -> Any:
    open_ = impressions.filter(absent(impressions.session))
    earlier = ibis.window(group_by="user", order_by="key", preceding=(None, 1))
    silence = open_.mutate(silence=open_.time - open_.last.max().over(earlier))
    begins = silence.mutate(begins=(silence.silence.fill_null(0) > int(gap_seconds * SECOND)).cast("int64"))
    number = begins.begins.sum().over(ibis.cumulative_window(group_by="user", order_by="key")) + 1
    return _with_session(begins, begins.user + "#" + number.cast("string"))


def _with_session(impressions: Any, session: Any) -> Any:
    named = ~absent(impressions.session)
    columns = ("key", "number", "impression", "time", "user", "query", "split")
    return impressions.select(*columns, session=session, named=named)


def judged(clicks: Any, impressions: Any, settings: IngestSettings) -> Any:
    """Per clicked result: ``number``, ``document``, the first ``clicked_at``, the longest ``dwell``, ``satisfied``.

    Of clicks at the same last moment of a session all are its last. Otherwise as `Satisfaction.counts` has it.
    """
    kept = clicks.filter(clicks.outcome.isnull())
    places = impressions.select("key", "number", "session")
    kept = kept.join(places, "key").select("number", "session", "document", "at", "time", "dwell", "event")
    if settings.infer_dwell:
        kept = _inferred(kept, impressions)
    last = kept.at == kept.at.max().over(ibis.window(group_by="session"))
    rule = settings.rule
    by_dwell = (kept.dwell >= rule.seconds) | (last & rule.last)
    satisfied = ibis.ifelse(kept.dwell.isnull(), last | (rule.without_dwell == "all"), by_dwell)
    kept = kept.mutate(satisfied=satisfied.cast("int8"))
    return kept.group_by(["number", "document"]).agg(
        clicked_at=_.at.min(), dwell=_.dwell.max(), satisfied=_.satisfied.max() == 1
    )


def _inferred(clicks: Any, impressions: Any) -> Any:
    """Clicks with the time to the next event of their session where they have a time and no dwell."""
    asks = impressions.select(
        "number",
        "session",
        document=ibis.literal(""),
        at=impressions.time,
        time=impressions.time,
        dwell=ibis.null("float64"),
        event=ibis.null("string"),
        is_click=ibis.literal(0, "int8"),
    )
    timed = clicks.filter(clicks.time.notnull())
    events = asks.union(timed.mutate(is_click=ibis.literal(1, "int8")).select(*asks.columns))
    order = [events.at, events.is_click, events.number, events.document]
    order += [events.dwell.fill_null(-1.0), events.event.fill_null("")]
    following = events.at.lead().over(ibis.window(group_by=events.session, order_by=order))
    events = events.mutate(dwell=ibis.coalesce(events.dwell, (following - events.at).nullif(0) / SECOND))
    timed = events.filter(events.is_click == 1).select(*clicks.columns)
    return timed.union(clicks.filter(clicks.time.isnull()))
