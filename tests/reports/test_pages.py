"""The parts that every page is made of."""

from __future__ import annotations

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from capse.reports.pages import environment

HOSTILE = "<script>alert(1)</script>"
PAGE = """
{% extends "page.html.j2" %}
{% from "parts.html.j2" import table, figure, list, origin %}
{% block title %}{{ text }}{% endblock %}
{% block content %}
{{ table(text, [text, text], [(text, [(text, text)])]) }}
{{ figure(drawing, text) }}
{{ list([text]) }}
{{ origin(record, text) }}
<pre>{{ {"key": text} | yaml }}</pre>
{% endblock %}
"""


def test_text_is_escaped_wherever_it_goes(read_page):
    record = {"command": HOSTILE, "commit": HOSTILE, "date": HOSTILE, "machine": {"a": HOSTILE}, "versions": {}}
    written = environment().from_string(PAGE).render(text=HOSTILE, drawing=Markup("<svg></svg>"), record=record)
    assert "<script" not in written
    page = read_page(written)
    assert page.text.count(HOSTILE) == 16
    assert {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": HOSTILE} in page.all("div")


def test_a_table_says_what_its_headers_head(read_page):
    text = """{% from "parts.html.j2" import table %}{{ table("caption", ["name", "value"], groups, "b") }}"""
    groups = [("first", [("a", "1")]), ("second", [("b", "2")])]
    page = read_page(environment().from_string(text).render(groups=groups))
    assert [header["scope"] for header in page.all("th")] == ["col", "col", "rowgroup", "row", "rowgroup", "row"]
    assert [row.get("class") for row in page.all("tr")] == [None, None, None, None, "main"]


def test_a_page_is_complete(read_page):
    text = """{% extends "page.html.j2" %}{% block title %}Title{% endblock %}"""
    written = environment().from_string(text).render()
    assert written.startswith("<!doctype html>")
    page = read_page(written)
    assert page.all("html") == [{"lang": "en"}]
    assert {"charset": "utf-8"} in page.all("meta")
    assert page.text.count("Title") == 2


def test_what_a_template_is_not_given_is_an_error():
    with pytest.raises(UndefinedError):
        environment().from_string("{{ absent }}").render()
