"""HTML made of elements: whatever is not an element already is text, and is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from capse.reports.style import STYLESHEET


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(tag: str, *content: str, **attributes: str) -> Markup:
    """An element; a trailing underscore keeps an attribute's name apart from Python's own words.

    >>> element("p", "1 < 2, ", element("b", "always"), class_="note")
    '<p class="note">1 &lt; 2, <b>always</b></p>'
    """
    stated = "".join(f' {name.rstrip("_")}="{escape(value)}"' for name, value in attributes.items() if value)
    return Markup(f"<{tag}{stated}>{join(content)}</{tag}>")


def join(parts: Iterable[str]) -> Markup:
    """Elements and text, one after the other."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts))


def table(
    caption: str, header: Sequence[str], *groups: tuple[str, Sequence[Sequence[str]]], emphasis: str = ""
) -> Markup:
    """A table whose first column names the rows; groups of rows have a heading unless that is empty.

    Rows named ``emphasis`` stand out.
    """
    head = element("thead", element("tr", *(element("th", cell, scope="col") for cell in header)))
    bodies = []
    for heading, rows in groups:
        lines = [element("tr", element("th", heading, scope="rowgroup", colspan=str(len(header))))] if heading else []
        for first, *rest in rows:
            cells = [element("th", first, scope="row"), *(element("td", cell) for cell in rest)]
            lines.append(element("tr", *cells, class_="main" if first == emphasis else ""))
        bodies.append(element("tbody", *lines))
    content = element("table", element("caption", caption), head, *bodies)
    return element("div", content, class_="scroll", tabindex="0", role="region", **{"aria-label": caption})


def definitions(pairs: Iterable[tuple[str, str]]) -> Markup:
    """A list of terms and what each is."""
    return element("dl", *(join([element("dt", term), element("dd", text)]) for term, text in pairs))


def section(title: str, *content: str) -> Markup:
    return element("section", element("h2", title), *content)


def figure(drawing: Markup, caption: str) -> Markup:
    return element("figure", drawing, element("figcaption", caption))


def details(summary: str, *content: str) -> Markup:
    """Something to be opened on demand."""
    return element("details", element("summary", summary), *content)


def page(title: str, *content: str) -> str:
    """A whole document that needs no other file, no network and no script."""
    head = join(
        [
            Markup('<meta charset="utf-8">'),
            Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Markup('<meta name="color-scheme" content="light dark">'),
            element("title", title),
            element("style", Markup(STYLESHEET)),
        ]
    )
    body = element("body", element("main", element("h1", title), *content))
    return f"<!doctype html>\n{element('html', element('head', head), body, lang='en')}\n"
