"""Lines of a log in JSON, timed from the beginning of a day."""

from __future__ import annotations

DAY = 1_700_006_400  # in seconds


def impression(label, at, results=("a", "b", "c"), **more):
    """A line of a log: shown ``at`` seconds after the day began."""
    return {"impression": label, "time": DAY + at, "user": "ada", "query": "q", "results": list(results), **more}


def click(document, at, dwell=None):
    return {"document": document, "time": DAY + at} | ({} if dwell is None else {"dwell": dwell})
