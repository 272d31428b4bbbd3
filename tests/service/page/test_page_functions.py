"""Small functions of the page, called in the page."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.slow


def call(page, module, name, values):
    return page.evaluate(f"values => import('/{module}.js').then(all => values.map(all.{name}))", values)


def test_labels_that_are_not_made_for_reading_are_made_readable(open_page):
    freebase = "/education/institution/students_graduates./education/education/major_field"
    given = ["borders", "located in", "_also_see", "/people/person/place_of_birth", freebase, "/", "a/b"]
    shown = ["borders", "located in", "also see", "place of birth", "students graduates › major field", "/", "a/b"]
    assert call(open_page(), "dom", "readable", given) == shown


def test_numbers_keep_what_matters(open_page):
    shown = call(open_page(), "dom", "decimal", [0, 1.23456, -0.5, 0.00012])
    assert shown == ["0.000", "1.235", "−0.500", "1.2e−4"]
    assert call(open_page(), "answers", "percent", [0, 0.004, 0.5, 0.996, 1]) == (
        ["0 %", "< 1 %", "50 %", "> 99 %", "100 %"]
    )


def test_documents_are_ids_texts_or_both(open_page):
    lines = "d1\n\n d2 | a text | with a bar \na text alone\nd1 | again\n| of no id"
    (found,) = call(open_page(), "documents", "parseDocuments", [lines])
    assert found[:2] == [{"id": "d1", "text": ""}, {"id": "d2", "text": "a text | with a bar"}]
    assert [one["text"] for one in found[2:]] == ["a text alone", "of no id"]
    assert all(re.fullmatch("text-[0-9a-f]{8}", one["id"]) for one in found[2:])
