"""Events that cannot be stored are refused: which field, what is wrong and what to do."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from capse.service.fields import storable
from capse.service.limits import MAX_DOCUMENT, MAX_ID, MAX_QUERY, MAX_SHOWN
from capse.service.store import Event


@pytest.mark.parametrize(
    ("kind", "changed", "message"),
    [
        ("click", {"id": ""}, "at least 1 character"),
        ("click", {"id": 7}, "valid string"),
        ("click", {"id": "x" * (MAX_ID + 1)}, "at most 200 characters"),
        ("click", {"kind": "buy"}, "'impression', 'click', 'dwell'"),
        ("click", {"user": ""}, "at least 1 character"),
        ("click", {"user": "a\0b"}, "text with a zero in it cannot be stored: remove it"),
        ("click", {"query": "\ud800"}, "valid string"),
        ("click", {"query": "q" * (MAX_QUERY + 1)}, "at most 1000 characters"),
        ("click", {"session": None}, "valid string"),
        ("click", {"time": 1.5}, "valid integer"),
        ("click", {"time": True}, "valid integer"),
        ("click", {"time": -1}, "time before 1990"),
        ("click", {"time": 1_700_000_000}, "time before 1990: see that the clock is right, and the unit"),
        ("click", {"time": 10**18}, "time in the future: see that the clock is right, and the unit"),
        ("click", {"dwell": -1}, "greater than or equal to 0"),
        ("click", {"dwell": math.nan}, "finite number"),
        ("click", {"dwell": math.inf}, "finite number"),
        ("click", {"dwell": True}, "valid number"),
        ("click", {"document": None}, "an event of kind click needs 'document'"),
        ("click", {"document": "d" * 201}, "at most 200 characters"),
        ("click", {"documents": ("d",)}, "an event of kind click has no 'documents': leave it out"),
        ("click", {"click": "c"}, "an event of kind click has no 'click'"),
        ("click", {"price": 3}, "Extra inputs are not permitted"),
        ("impression", {"documents": ()}, "an event of kind impression needs 'documents'"),
        ("impression", {"documents": ("d",) * (MAX_SHOWN + 1)}, "at most 1000 items"),
        ("impression", {"documents": ("d", 3)}, "valid string"),
        ("impression", {"dwell": 3.0}, "has no 'dwell'"),
        ("dwell", {"click": None}, "an event of kind dwell needs 'click'"),
        ("dwell", {"dwell": None}, "an event of kind dwell needs 'dwell'"),
        ("dwell", {"query": "engine"}, "has no 'query'"),
        ("impression", {"text": "a text"}, "an event of kind impression has no 'text'"),
        ("click", {"text": "x" * (MAX_DOCUMENT + 1)}, "at most 10000 characters"),
        ("click", {"title": "a\0b"}, "text with a zero in it"),
    ],
)
def test_a_bad_event_is_refused(make, kind, changed, message):
    with pytest.raises(ValidationError) as caught:
        Event(**make("e", kind).model_dump() | changed)
    assert message in str(caught.value)


@settings(max_examples=40)
@given(st.text(min_size=1, max_size=MAX_ID))
def test_any_other_text_is_taken(text):
    if storable(text):
        event = Event(id=text, kind="click", user=text, session=text, time=10**15, query=text, document=text, dwell=3)
        assert event.dwell == 3.0
    else:
        with pytest.raises(ValidationError):
            Event(id=text, kind="click", user="ada", time=0, document="d")
