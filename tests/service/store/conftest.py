"""Stores with a fold that forgets nothing, so that a lost or repeated event shows."""

from __future__ import annotations

import pytest

from capse.service.store import Event, Store


def remember(state, event):
    """Every event that counted, in that order. It fails on what a fold must not see."""
    assert event.kind in ("impression", "click")
    assert event.dwell is None
    return {"seen": [*(state or {"seen": []})["seen"], event.id]}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "capse.db"


@pytest.fixture
def store(path):
    with Store.open(str(path), remember) as store:
        yield store


@pytest.fixture
def make():
    """An event with what its kind needs; the rest as given."""

    def event(id, kind="click", user="ada", **given):
        own = {
            "impression": {"query": "engine", "documents": ("d1", "d2")},
            "click": {"query": "engine", "document": "d1"},
            "dwell": {"click": "c", "dwell": 40.0},
        }[kind]
        return Event(id, kind, user, **{"session": "s1", "time": 1_000_000, **own, **given})

    return event


@pytest.fixture
def fold():
    return remember
