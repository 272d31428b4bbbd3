"""The page over a search run: one query for two people, and what they open."""

from __future__ import annotations

import httpx
import pytest

from tests.service.page.page_parts import ask, names

pytestmark = pytest.mark.slow


def column(page, user):
    return page.locator("section.list", has=page.get_by_role("heading", name=f"For {user}"))


def order(page, user):
    return [button.get_attribute("data-id") for button in column(page, user).locator("[data-id]").all()]


def compare(page, tool, *users):
    page.get_by_label("Query").fill("python")
    for label, user in zip(("First person", "Second person"), users, strict=True):
        page.get_by_label(label).fill(user)
    page.get_by_label("What the engine found").fill(tool.engine_list())
    page.get_by_role("button", name="Compare").click()
    column(page, users[0]).wait_for()


def test_one_query_for_two_people_follows_what_they_open(open_page, address, tool):
    page = open_page("#/search")
    compare(page, tool, "tess", "omar")
    engine = [line.split(" | ")[0] for line in tool.engine_list().splitlines()]
    assert order(page, "tess") == order(page, "omar") == engine
    assert "Nothing is known of them" in column(page, "tess").inner_text()

    opened = [label for label in engine if label.startswith("snake")][-1]
    column(page, "tess").locator(f'[data-id="{opened}"]').click()
    column(page, "tess").get_by_text("opened", exact=True).wait_for()
    body = {"query": "python", "documents": engine}
    for user in ("tess", "omar"):
        ranked = ask(address, "/v1/rerank", {"user": user, **body})["documents"]
        assert order(page, user) == [one["document"] for one in ranked]
    assert order(page, "tess") != engine
    moved = column(page, "tess").locator("li .moved").count()
    assert moved == sum(a != b for a, b in zip(order(page, "tess"), engine, strict=True))
    assert f"like {opened} (1.00)" in column(page, "tess").inner_text()
    stored = ask(address, "/v1/users/tess")
    assert (stored["impressions"], stored["clicks"], stored["satisfied"]) == (1, 1, 1)

    page.reload()
    column(page, "tess").get_by_text("1 document opened").wait_for()
    column(page, "tess").get_by_role("button", name="Forget tess").click()
    column(page, "tess").get_by_text("Nothing is known of them").wait_for()
    assert order(page, "tess") == engine
    assert httpx.get(f"{address}/v1/users/tess").status_code == 404


def test_documents_may_be_texts_that_the_run_does_not_know(open_page, address):
    page = open_page("#/search")
    text = "scales venom terrarium prey\nmodules packages functions loops\nfilm-1 | sketches troupe films parrots"
    page.get_by_label("First person").fill("ines")
    page.get_by_label("What the engine found").fill(text)
    page.get_by_role("button", name="Compare").click()
    column(page, "ines").get_by_role("button", name="sketches troupe films parrots").click()
    column(page, "ines").get_by_text("opened", exact=True).wait_for()
    assert order(page, "ines")[0] == "film-1"
    assert ask(address, "/v1/users/ines")["recent"][-1]["id"] == "film-1"


def test_the_run_offers_lists_of_its_own(open_page, address):
    page = open_page("#/search")
    sample = ask(address, "/v1/search/samples")["samples"][0]
    page.get_by_role("button", name=sample["query"], exact=True).click()
    column(page, "grace").wait_for()
    assert sorted(order(page, "grace")) == sorted(one["id"] for one in sample["documents"])
    shown = [text.split(", open as")[0].strip() for text in names(column(page, "grace").locator("button.title"))]
    assert {one["title"] for one in sample["documents"]} == set(shown)
    assert all(title.startswith("Python ") for title in shown), "titles of the log's documents"


def test_people_with_a_history_can_be_chosen(open_page, address, tool):
    label = tool.engine_list().split(" | ")[0]
    now = {"session": "s", "time": 1_700_000_000, "document": label}
    for user in ("hilda", "igor"):
        ask(address, "/v1/events", {"id": f"of-{user}", "kind": "click", "user": user, **now})
    page = open_page("#/search")
    users = ask(address, "/v1/users")["users"]
    page.get_by_role("button", name=f"{users[0]} and {users[1]}").click()
    assert page.get_by_label("First person").input_value() == users[0]
    assert page.get_by_label("Second person").input_value() == users[1]
    offered = page.locator("datalist option").evaluate_all("all => all.map((one) => one.value)")
    assert {"hilda", "igor"} <= set(offered)


def test_two_orders_stand_side_by_side_on_a_phone(open_page, tool):
    page = open_page("#/search", viewport={"width": 390, "height": 844})
    compare(page, tool, "tess-phone", "omar-phone")
    boxes = [column(page, user).bounding_box() for user in ("tess-phone", "omar-phone")]
    assert boxes[0]["y"] == boxes[1]["y"]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    engine = page.locator(".list.engine details")
    assert engine.get_attribute("open") is None
    tops = [row.bounding_box()["y"] for row in column(page, "tess-phone").locator("li").all()]
    assert tops == sorted(tops)


def test_long_names_are_clamped_and_each_keeps_its_direction(open_page):
    page = open_page("#/search")
    titles = {"long": "word " * 200, "hebrew": "פיתון (3)", "plain": "Python"}
    page.get_by_label("First person").fill("vera")
    page.get_by_label("What the engine found").fill("\n".join(" | ".join(pair) for pair in titles.items()))
    page.get_by_role("button", name="Compare").click()
    shown = column(page, "vera")
    shown.locator("[data-id]").nth(2).wait_for()
    heights = {id: shown.locator(f'[data-id="{id}"]').bounding_box()["height"] for id in titles}
    assert heights["plain"] < heights["long"] <= 4 * heights["plain"]
    assert heights["hebrew"] == heights["plain"]
    isolated = shown.locator("[data-id] bdi").evaluate_all(
        "all => all.map((one) => [one.textContent.trim(), getComputedStyle(one).unicodeBidi])"
    )
    assert dict(isolated) == {title.strip(): "isolate" for title in titles.values()}


def test_results_glide_unless_somebody_wants_no_motion(open_page, tool):
    for motion, moving in (("no-preference", True), ("reduce", False)):
        page = open_page("#/search", reduced_motion=motion)
        page.evaluate("""() => {
            const plain = Element.prototype.animate;
            Element.prototype.animate = function (...given) {
                window.animated = true;
                return plain.apply(this, given);
            };
        }""")
        compare(page, tool, f"mover-{motion}", "omar")
        column(page, f"mover-{motion}").locator("[data-id]").last.click()
        column(page, f"mover-{motion}").get_by_text("opened", exact=True).wait_for()
        assert page.evaluate("window.animated === true") == moving
