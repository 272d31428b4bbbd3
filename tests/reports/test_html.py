from capse.reports.html import Markup, definitions, details, element, figure, page, section, table

HOSTILE = "<script>alert(1)</script>"


def test_text_is_escaped_wherever_it_goes(read_page):
    parts = [
        element("p", HOSTILE, title=f'"{HOSTILE}'),
        table(HOSTILE, [HOSTILE, HOSTILE], (HOSTILE, [(HOSTILE, HOSTILE)])),
        definitions([(HOSTILE, HOSTILE)]),
        section(HOSTILE, HOSTILE),
        details(HOSTILE, HOSTILE),
        figure(Markup("<svg></svg>"), HOSTILE),
    ]
    written = page(HOSTILE, *parts)
    assert "<script" not in written
    assert read_page(written).text.count(HOSTILE) == 16


def test_a_table_says_what_its_headers_head(read_page):
    text = table("caption", ["name", "value"], ("first", [("a", "1")]), ("second", [("b", "2")]), emphasis="b")
    scopes = [attributes["scope"] for attributes in read_page(text).all("th")]
    assert scopes == ["col", "col", "rowgroup", "row", "rowgroup", "row"]
    assert [row.get("class") for row in read_page(text).all("tr")] == [None, None, None, None, "main"]


def test_a_page_is_complete(read_page):
    read = read_page(page("Title", "text"))
    assert read.all("html") == [{"lang": "en"}]
    assert {"charset": "utf-8"} in read.all("meta")
    assert read.text.count("Title") == 2
