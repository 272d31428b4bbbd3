"""Stores on SQLite and on PostgreSQL, and events for them."""

from __future__ import annotations

from typing import Any

import pytest

from capse.service.store import Event, Store

BACKENDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]


@pytest.fixture
def path(tmp_path):
    """Where SQLite's file will be."""
    return tmp_path / "capse.db"


@pytest.fixture(params=BACKENDS)
def url(request, path):
    """An empty database."""
    return str(path) if request.param == "sqlite" else request.getfixturevalue("postgres").new_database()


@pytest.fixture
def store(url):
    with Store.open(url) as store:
        yield store


@pytest.fixture
def lite(path):
    """A store in SQLite, for what PostgreSQL's server sees to."""
    with Store.open(str(path)) as store:
        yield store


@pytest.fixture
def make():
    """An event with what its kind needs; the rest as given."""

    times: dict[str, int] = {}  # a second later for each new id

    def event(id, kind="click", user="ada", **given):
        needs: dict[str, dict[str, Any]] = {
            "impression": {"query": "engine", "documents": ("d1", "d2")},
            "click": {"query": id, "document": "d1"},
            "dwell": {"click": "c", "dwell": 40.0},
        }
        time = times.setdefault(id, 1_700_000_000_000_000 + 1_000_000 * len(times))
        return Event(**{"id": id, "kind": kind, "user": user, "session": "s1", "time": time, **needs[kind], **given})

    return event
