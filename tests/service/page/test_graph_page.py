"""The page over a graph: what is seen is what the API says."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

import pytest

from tests.service.page.page_parts import ask, combobox, names

pytestmark = pytest.mark.slow


def test_an_entity_is_found_by_the_beginning_of_its_name(open_page, address):
    page = open_page()
    field = combobox(page, "Find an entity")
    field.press_sequentially("keny")
    options = page.get_by_role("option")
    options.filter(has_text=re.compile("^Kenya$")).wait_for()
    assert field.get_attribute("aria-expanded") == "true"
    found = ask(address, "/v1/entities?q=keny&limit=8")["entities"]
    assert [text.split("\n")[0] for text in names(options)] == [row["name"] for row in found]
    options.filter(has_text=re.compile("^Kenya$")).click()
    page.get_by_role("heading", level=1, name="Kenya").wait_for()
    assert urlsplit(page.url).fragment == "/entity/Kenya"


def test_a_misspelt_name_is_found_too(open_page):
    page = open_page()
    combobox(page, "Find an entity").press_sequentially("Tanzaniia")
    page.get_by_role("option", name="Tanzania similar", exact=True).wait_for()


def test_facts_are_a_picture_and_the_same_as_a_list(open_page, address):
    page = open_page("#/entity/Kenya")
    page.locator(".picture svg").wait_for()
    facts = ask(address, "/v1/entities/Kenya?limit=5000")["facts"]
    neighbours = {fact["tail"] if fact["head"] == "Kenya" else fact["head"] for fact in facts}
    listed = page.locator(".facts .names a")
    assert set(names(listed)) == neighbours
    drawn = page.locator(".picture a")
    assert {link.get_attribute("href") for link in drawn.all()} == {f"#/entity/{quote(n)}" for n in neighbours}
    assert 0 < drawn.count() <= 24
    drawn.filter(has_text="Tanzania").click()
    page.get_by_role("heading", level=1, name="Tanzania").wait_for()


def test_many_neighbours_are_24_in_the_picture_and_none_of_a_relation_hides_another(open_page, address):
    page = open_page("#/entity/24-hour%20clock")
    page.locator(".picture svg").wait_for()
    facts = ask(address, f"/v1/entities/{quote('24-hour clock')}")
    assert facts["total"] > 24
    assert page.locator(".picture a").count() == 24
    assert page.locator(".picture text.more").count() >= 1


def test_counts_agree_and_everything_can_be_reached(open_page, address):
    entity = "24-hour clock"
    facts = ask(address, f"/v1/entities/{quote(entity)}?limit=5000")
    page = open_page(f"#/entity/{quote(entity)}")
    page.locator(".picture svg").wait_for()
    assert f"{facts['total']} known facts" in page.locator(".entity").inner_text()
    groups = page.locator(".facts .group").all()
    told = 0
    for group in groups:
        number = group.locator(".count").inner_text().strip()
        told += int(re.search(r"(\d+) facts", number)[1]) if "both ways" in number else int(number)
        more = group.get_by_role("button")
        shown = group.locator(".names li").count()
        if more.count():
            hidden = int(more.inner_text().split()[0].replace(",", ""))
            assert shown + hidden == int(re.match(r"\d+", number)[0])
            more.click()
            group.locator(".names li").nth(shown).wait_for()
        assert group.locator(".names li").count() == int(re.match(r"\d+", number)[0])
    assert told == facts["total"]
    neighbours = {f["tail"] if f["head"] == entity else f["head"] for f in facts["facts"]}
    assert set(names(page.locator(".facts .names a"))) == neighbours
    whole = {int(re.match(r"\d+", group.locator(".count").inner_text().strip())[0]) for group in groups}
    drawn = {int(text.split()[-1]) for text in page.locator(".picture text.more").all_text_contents()}
    assert drawn
    assert drawn <= whole


@pytest.mark.parametrize("side", ["tail", "head"])
def test_answers_are_those_of_the_service(open_page, address, side):
    page = open_page("#/entity/Kenya")
    if side == "head":
        page.get_by_role("radio", name="? → Kenya").check()
    combobox(page, "Relation").fill("bord")
    page.get_by_role("option", name="borders").click()
    page.locator(".answer").nth(9).wait_for()
    known = {"head": "Kenya"} if side == "tail" else {"tail": "Kenya"}
    rows = ask(address, "/v1/predict", {"relation": "borders", "top": 10, **known})["predictions"]
    assert names(page.locator(".answer .name a")) == [row["name"] for row in rows]
    shown = page.locator(".answer").all()
    assert [row.get_by_text("known").count() == 1 for row in shown] == [row["known"] for row in rows]
    for row, answer in zip(shown, rows, strict=True):
        text = row.locator(".worth").inner_text()
        assert text.startswith("probability")
        assert f"{answer['probability'] * 100:.0f} %" in text


def test_relations_between_two_are_those_of_the_service(open_page, address):
    page = open_page("#/entity/Kenya")
    page.get_by_role("radio", name="Kenya ? another").check()
    page.get_by_text("Choose another entity").wait_for()
    combobox(page, "The other entity").fill("Ugan")
    page.get_by_role("option", name="Uganda", exact=True).click()
    page.locator(".answer").nth(2).wait_for()
    rows = ask(address, "/v1/predict", {"head": "Kenya", "tail": "Uganda", "top": 10})["predictions"]
    assert names(page.locator(".answer .name a")) == [row["name"] for row in rows]
    assert [row.get_by_text("known").count() == 1 for row in page.locator(".answer").all()] == [
        row["known"] for row in rows
    ]
    first = page.locator(".ranked > li").first
    first.get_by_role("button", name=f"Why {rows[0]['name']}?").click()
    first.get_by_role("heading", name="What carried the score").wait_for()
    page.reload()
    page.locator(".ranked > li").first.locator(".bars").wait_for()
    assert combobox(page, "The other entity").input_value() == "Uganda"


def test_known_facts_can_be_left_out(open_page, address):
    relations = [row["relation"] for row in ask(address, "/v1/relations?q=&limit=100")["relations"]]
    queries = [{"relation": relation, "head": "Kenya", "top": 10} for relation in relations]
    results = ask(address, "/v1/predict", {"queries": queries})["results"]
    pairs = zip(relations, results, strict=True)
    relation = next(relation for relation, rows in pairs if any(row["known"] for row in rows))
    page = open_page(f"#/entity/Kenya?relation={quote(relation)}")
    page.get_by_text("known", exact=True).first.wait_for()
    page.get_by_role("checkbox", name="Leave known facts out").check()
    page.get_by_text("known", exact=True).first.wait_for(state="detached")
    page.locator(".answer").nth(9).wait_for()
    assert "new=1" in page.url


def test_an_explanation_says_what_the_service_says(open_page, address):
    page = open_page("#/entity/Kenya?relation=borders")
    first = page.locator(".ranked > li").first
    name = first.locator(".name a").inner_text()
    first.get_by_role("button", name=f"Why {name}?").click()
    first.get_by_role("heading", name="What carried the score").wait_for()
    why = ask(address, "/v1/explain", {"head": "Kenya", "relation": "borders", "tail": name})
    shown = first.locator(".near").first.locator("li > span:first-child")
    facts = [near["fact"] for near in why["nearest"]]
    assert names(shown) == [" ".join((f["head_name"], f["relation_name"], f["tail_name"])) for f in facts]
    strongest = sorted(enumerate(why["dimensions"]["values"]), key=lambda pair: -abs(pair[1]))[:10]
    assert names(first.locator(".bars tbody th")) == [str(place) for place, _ in strongest]
    assert names(first.locator(".bars .number")) == [f"{value:+.3f}".replace("-", "−") for _, value in strongest]
    assert f"{why['dimensions']['total']:.3f}" in first.inner_text()
    assert why["note"] in first.inner_text()
    told = names(first.locator(".carriers li"))
    assert len(told) == len(why["carriers"]) > 0
    for text, one in zip(told, why["carriers"], strict=True):
        assert f"dimension {one['dimension']}" in text
        assert one["like"][0]["head_name"] in text
        assert text.startswith("Against it" if one["value"] < 0 else "For it")


def test_addresses_lead_back_and_the_back_button_works(open_page):
    page = open_page("#/entity/Kenya?relation=borders")
    first = page.locator(".ranked > li").first
    first.get_by_role("button", name="Why").click()
    first.locator(".bars").wait_for()
    deep = page.url
    page.go_back()
    first.locator(".bars").wait_for(state="hidden")
    page.go_back()
    page.go_forward()
    page.goto("about:blank")
    page.goto(deep)
    page.locator(".ranked > li").first.locator(".bars").wait_for()


def test_what_is_unknown_is_said_in_words(open_page):
    page = open_page("#/entity/Kenia", expected=["422"])
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert "unknown entity 'Kenia'" in alert.inner_text()
    page.get_by_role("link", name="Kenya", exact=True).click()
    page.get_by_role("heading", level=1, name="Kenya").wait_for()


@pytest.mark.parametrize(
    ("hash", "says"),
    [
        ("#/entty/Kenya", "there is no part “entty/Kenya” here"),
        ("#/entity/", "the name of an entity is missing"),
        ("#/entity/%E0%A4%A", "holds a % that no letter follows"),
        ("#/entity/a/b", "has a / in it, which is written %2F"),
        ("#/entity/Kenya?side=up", "side is “up”, and can be tail, head, relation"),
    ],
)
def test_a_bad_address_says_what_is_wrong_with_it(open_page, hash, says):
    page = open_page(hash)
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert "This address leads nowhere" in alert.inner_text()
    assert says in alert.inner_text()
    page.get_by_role("link", name="Begin at the beginning").click()
    page.get_by_role("heading", level=1, name="What is missing in the graph?").wait_for()


def test_a_service_that_does_not_answer_is_said_in_words(open_page):
    page = open_page("#/entity/Kenya", expected=["ERR_FAILED"])
    page.get_by_role("heading", level=1).wait_for()
    page.route("**/v1/predict", lambda route: route.abort())
    combobox(page, "Relation").fill("borders")
    page.keyboard.press("Enter")
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert "The service does not answer" in alert.inner_text()
