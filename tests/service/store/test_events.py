"""Events that cannot be stored are refused with their id, what is wrong and what to do."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capse.errors import EventError
from capse.service.store import Event, Satisfaction
from capse.service.store.events import MAX_DOCUMENTS, MAX_NAME, storable


@pytest.mark.parametrize(
    ("kind", "changed", "message"),
    [
        ("click", {"id": ""}, "event '' has the id '': give 'id' as text"),
        ("click", {"id": 7}, "event 7 has the id 7: give 'id' as text"),
        ("click", {"id": "x" * (MAX_NAME + 1)}, "201 characters in 'id': at most 200 are stored"),
        ("click", {"kind": "buy"}, "event 'e' has the kind 'buy': choose from impression, click, dwell"),
        ("click", {"user": ""}, "event 'e' has the user '': give 'user' as text"),
        ("click", {"user": "a\0b"}, "character in 'user' that is no text"),
        ("click", {"query": "\ud800"}, "character in 'query' that is no text"),
        ("click", {"session": None}, "has the session None"),
        ("click", {"time": 1.5}, "has the time 1.5: give microseconds since 1970 as a whole number"),
        ("click", {"time": True}, "has the time True"),
        ("click", {"time": -1}, "has the time -1"),
        ("click", {"time": 10**18}, "has the time 1000000000000000000"),
        ("click", {"dwell": -1}, "has the dwell -1: give seconds, 0 or more"),
        ("click", {"dwell": math.nan}, "has the dwell nan"),
        ("click", {"dwell": math.inf}, "has the dwell inf"),
        ("click", {"dwell": True}, "has the dwell True"),
        ("click", {"document": None}, "is of kind click and lacks 'document': give 'document'"),
        ("click", {"document": "d" * 201}, "201 characters in 'document'"),
        ("click", {"documents": ("d",)}, "is of kind click, which has no 'documents': leave 'documents' out"),
        ("click", {"click": "c"}, "is of kind click, which has no 'click'"),
        ("impression", {"documents": ()}, "is of kind impression and lacks 'documents'"),
        ("impression", {"documents": ("d",) * (MAX_DOCUMENTS + 1)}, "shows 1001 documents: show at most 1000"),
        ("impression", {"documents": ("d", 3)}, "has the documents 3"),
        ("impression", {"dwell": 3.0}, "which has no 'dwell'"),
        ("dwell", {"click": None}, "is of kind dwell and lacks 'click'"),
        ("dwell", {"dwell": None}, "is of kind dwell and lacks 'dwell'"),
        ("dwell", {"query": "engine"}, "which has no 'query'"),
    ],
)
def test_a_bad_event_is_refused(make, kind, changed, message):
    with pytest.raises(EventError) as caught:
        replace(make("e", kind), **changed)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


@settings(max_examples=40)
@given(st.text(min_size=1, max_size=MAX_NAME))
def test_any_other_text_is_taken(text):
    if storable(text):
        event = Event(text, "click", text, text, 0, text, document=text, dwell=3)
        assert event.dwell == 3.0
    else:
        with pytest.raises(EventError):
            Event(text, "click", "ada", "", 0, document="d")


@pytest.mark.parametrize(
    ("rule", "dwell", "counts"),
    [
        (Satisfaction(), None, True),
        (Satisfaction(), 29.999, False),
        (Satisfaction(), 30.0, True),
        (Satisfaction(without_dwell="wait"), None, False),
        (Satisfaction(without_dwell="wait"), 30.0, True),
        (Satisfaction(seconds=5), 5.0, True),
    ],
)
def test_a_click_counts_by_the_rule(rule, dwell, counts):
    assert rule.counts(dwell) is counts
