"""The page in a real Chromium, on a real `capse serve`: what is seen is what the API says, by mouse, keys and ear."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
AUDIT = (Path(__file__).parent / "audit.js").read_text(encoding="utf-8")
WAIT = 20_000  # milliseconds: other tests may run beside


@pytest.fixture(scope="module")
def tool():
    """tools/take_screenshots.py, which trains runs, serves them and starts a browser."""
    pytest.importorskip("playwright")
    spec = importlib.util.spec_from_file_location("take_screenshots", ROOT / "tools" / "take_screenshots.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if module.find_chromium() is None:
        pytest.skip("no chromium is installed here")
    return module


@pytest.fixture(scope="module")
def runs(tool, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    return tool.train_graph_run(folder, quick=True), tool.train_search_run(folder / "search", quick=True)


@pytest.fixture(scope="module")
def address(tool, runs, tmp_path_factory):
    with tool.serving(*runs, folder=tmp_path_factory.mktemp("serve")) as address:
        yield address


@pytest.fixture(scope="module")
def browser(tool):
    with tool.browsing() as browser:
        yield browser


@pytest.fixture
def open_page(browser, address):
    """Opens pages; afterwards, none may have had an error or asked another host."""
    contexts: list[Any] = []
    found: dict[str, Any] = {"errors": [], "hosts": set(), "expected": ()}

    def start(hash="", expected=(), base=address, **options):
        context = browser.new_context(**{"viewport": {"width": 1100, "height": 800}, **options})
        contexts.append(context)
        context.set_default_timeout(WAIT)
        page = context.new_page()
        found["expected"] = expected
        found["hosts"].add(urlsplit(base).netloc)
        page.on(
            "console", lambda message: message.type in ("error", "warning") and found["errors"].append(message.text)
        )
        page.on("pageerror", lambda error: found["errors"].append(str(error)))
        page.on("request", lambda request: found["hosts"].add(urlsplit(request.url).netloc))
        page.goto(f"{base}/{hash}")
        return page

    yield start
    for context in contexts:
        context.close()
    unexpected = [text for text in found["errors"] if not any(part in text for part in found["expected"])]
    assert unexpected == []
    assert len(found["hosts"]) == 1


def ask(address, path, body=None):
    answer = httpx.get(address + path) if body is None else httpx.post(address + path, json=body)
    return answer.raise_for_status().json()


def combobox(page, label):
    return page.get_by_role("combobox", name=label)


def names(locator):
    return [text.strip() for text in locator.all_inner_texts()]


class TestGraph:
    def test_an_entity_is_found_by_the_beginning_of_its_name(self, open_page, address):
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

    def test_a_misspelt_name_is_found_too(self, open_page):
        page = open_page()
        combobox(page, "Find an entity").press_sequentially("Tanzaniia")
        page.get_by_role("option", name="Tanzania similar", exact=True).wait_for()

    def test_facts_are_a_picture_and_the_same_as_a_list(self, open_page, address):
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

    def test_many_neighbours_are_24_in_the_picture_and_none_of_a_relation_hides_another(self, open_page, address):
        page = open_page("#/entity/24-hour%20clock")
        page.locator(".picture svg").wait_for()
        facts = ask(address, f"/v1/entities/{quote('24-hour clock')}")
        assert facts["total"] > 24
        assert page.locator(".picture a").count() == 24
        assert page.locator(".picture text.more").count() >= 1

    def test_counts_agree_and_everything_can_be_reached(self, open_page, address):
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
    def test_answers_are_those_of_the_service(self, open_page, address, side):
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

    def test_relations_between_two_are_those_of_the_service(self, open_page, address):
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

    def test_known_facts_can_be_left_out(self, open_page, address):
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

    def test_an_explanation_says_what_the_service_says(self, open_page, address):
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

    def test_addresses_lead_back_and_the_back_button_works(self, open_page):
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

    def test_what_is_unknown_is_said_in_words(self, open_page):
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
    def test_a_bad_address_says_what_is_wrong_with_it(self, open_page, hash, says):
        page = open_page(hash)
        alert = page.get_by_role("alert")
        alert.wait_for()
        assert "This address leads nowhere" in alert.inner_text()
        assert says in alert.inner_text()
        page.get_by_role("link", name="Begin at the beginning").click()
        page.get_by_role("heading", level=1, name="What is missing in the graph?").wait_for()

    def test_a_service_that_does_not_answer_is_said_in_words(self, open_page):
        page = open_page("#/entity/Kenya", expected=["ERR_FAILED"])
        page.get_by_role("heading", level=1).wait_for()
        page.route("**/v1/predict", lambda route: route.abort())
        combobox(page, "Relation").fill("borders")
        page.keyboard.press("Enter")
        alert = page.get_by_role("alert")
        alert.wait_for()
        assert "The service does not answer" in alert.inner_text()


class TestSearch:
    def column(self, page, user):
        return page.locator("section.list", has=page.get_by_role("heading", name=f"For {user}"))

    def order(self, page, user):
        return [button.get_attribute("data-id") for button in self.column(page, user).locator("[data-id]").all()]

    def compare(self, page, tool, *users):
        page.get_by_label("Query").fill("python")
        for label, user in zip(("First person", "Second person"), users, strict=True):
            page.get_by_label(label).fill(user)
        page.get_by_label("What the engine found").fill(tool.engine_list())
        page.get_by_role("button", name="Compare").click()
        self.column(page, users[0]).wait_for()

    def test_one_query_for_two_people_follows_what_they_open(self, open_page, address, tool):
        page = open_page("#/search")
        self.compare(page, tool, "tess", "omar")
        engine = [line.split(" | ")[0] for line in tool.engine_list().splitlines()]
        assert self.order(page, "tess") == self.order(page, "omar") == engine
        assert "Nothing is known of them" in self.column(page, "tess").inner_text()

        opened = [label for label in engine if label.startswith("snake")][-1]
        self.column(page, "tess").locator(f'[data-id="{opened}"]').click()
        self.column(page, "tess").get_by_text("opened", exact=True).wait_for()
        body = {"query": "python", "documents": engine}
        for user in ("tess", "omar"):
            ranked = ask(address, "/v1/rerank", {"user": user, **body})["documents"]
            assert self.order(page, user) == [one["document"] for one in ranked]
        assert self.order(page, "tess") != engine
        moved = self.column(page, "tess").locator("li .moved").count()
        assert moved == sum(a != b for a, b in zip(self.order(page, "tess"), engine, strict=True))
        assert f"like {opened} (1.00)" in self.column(page, "tess").inner_text()
        stored = ask(address, "/v1/users/tess")
        assert (stored["impressions"], stored["clicks"], stored["satisfied"]) == (1, 1, 1)

        page.reload()
        self.column(page, "tess").get_by_text("1 document opened").wait_for()
        self.column(page, "tess").get_by_role("button", name="Forget tess").click()
        self.column(page, "tess").get_by_text("Nothing is known of them").wait_for()
        assert self.order(page, "tess") == engine
        assert httpx.get(f"{address}/v1/users/tess").status_code == 404

    def test_documents_may_be_texts_that_the_run_does_not_know(self, open_page, address):
        page = open_page("#/search")
        text = "scales venom terrarium prey\nmodules packages functions loops\nfilm-1 | sketches troupe films parrots"
        page.get_by_label("First person").fill("ines")
        page.get_by_label("What the engine found").fill(text)
        page.get_by_role("button", name="Compare").click()
        self.column(page, "ines").get_by_role("button", name="sketches troupe films parrots").click()
        self.column(page, "ines").get_by_text("opened", exact=True).wait_for()
        assert self.order(page, "ines")[0] == "film-1"
        assert ask(address, "/v1/users/ines")["recent"][-1]["id"] == "film-1"

    def test_the_run_offers_lists_of_its_own(self, open_page, address):
        page = open_page("#/search")
        sample = ask(address, "/v1/search/samples")["samples"][0]
        page.get_by_role("button", name=sample["query"], exact=True).click()
        self.column(page, "grace").wait_for()
        assert sorted(self.order(page, "grace")) == sorted(one["id"] for one in sample["documents"])
        shown = [
            text.split(", open as")[0].strip() for text in names(self.column(page, "grace").locator("button.title"))
        ]
        assert {one["title"] for one in sample["documents"]} == set(shown)
        assert all(title.startswith("Python ") for title in shown), "titles of the log's documents"

    def test_people_with_a_history_can_be_chosen(self, open_page, address, tool):
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

    def test_two_orders_stand_side_by_side_on_a_phone(self, open_page, tool):
        page = open_page("#/search", viewport={"width": 390, "height": 844})
        self.compare(page, tool, "tess-phone", "omar-phone")
        boxes = [self.column(page, user).bounding_box() for user in ("tess-phone", "omar-phone")]
        assert boxes[0]["y"] == boxes[1]["y"]
        assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        engine = page.locator(".list.engine details")
        assert engine.get_attribute("open") is None
        tops = [row.bounding_box()["y"] for row in self.column(page, "tess-phone").locator("li").all()]
        assert tops == sorted(tops)

    def test_long_names_are_clamped_and_each_keeps_its_direction(self, open_page):
        page = open_page("#/search")
        titles = {"long": "word " * 200, "hebrew": "פיתון (3)", "plain": "Python"}
        page.get_by_label("First person").fill("vera")
        page.get_by_label("What the engine found").fill("\n".join(" | ".join(pair) for pair in titles.items()))
        page.get_by_role("button", name="Compare").click()
        column = self.column(page, "vera")
        column.locator("[data-id]").nth(2).wait_for()
        heights = {id: column.locator(f'[data-id="{id}"]').bounding_box()["height"] for id in titles}
        assert heights["plain"] < heights["long"] <= 4 * heights["plain"]
        assert heights["hebrew"] == heights["plain"]
        isolated = column.locator("[data-id] bdi").evaluate_all(
            "all => all.map((one) => [one.textContent.trim(), getComputedStyle(one).unicodeBidi])"
        )
        assert dict(isolated) == {title.strip(): "isolate" for title in titles.values()}

    def test_results_glide_unless_somebody_wants_no_motion(self, open_page, tool):
        for motion, moving in (("no-preference", True), ("reduce", False)):
            page = open_page("#/search", reduced_motion=motion)
            page.evaluate("""() => {
                const plain = Element.prototype.animate;
                Element.prototype.animate = function (...given) {
                    window.animated = true;
                    return plain.apply(this, given);
                };
            }""")
            self.compare(page, tool, f"mover-{motion}", "omar")
            self.column(page, f"mover-{motion}").locator("[data-id]").last.click()
            self.column(page, f"mover-{motion}").get_by_text("opened", exact=True).wait_for()
            assert page.evaluate("window.animated === true") == moving


class TestWords:
    """Small functions of the page, called in the page."""

    def call(self, page, module, name, values):
        return page.evaluate(f"values => import('/{module}.js').then(all => values.map(all.{name}))", values)

    def test_labels_that_are_not_made_for_reading_are_made_readable(self, open_page):
        freebase = "/education/institution/students_graduates./education/education/major_field"
        given = ["borders", "located in", "_also_see", "/people/person/place_of_birth", freebase, "/", "a/b"]
        shown = ["borders", "located in", "also see", "place of birth", "students graduates › major field", "/", "a/b"]
        assert self.call(open_page(), "dom", "readable", given) == shown

    def test_numbers_keep_what_matters(self, open_page):
        shown = self.call(open_page(), "dom", "decimal", [0, 1.23456, -0.5, 0.00012])
        assert shown == ["0.000", "1.235", "−0.500", "1.2e−4"]
        assert self.call(open_page(), "answers", "percent", [0, 0.004, 0.5, 0.996, 1]) == (
            ["0 %", "< 1 %", "50 %", "> 99 %", "100 %"]
        )

    def test_documents_are_ids_texts_or_both(self, open_page):
        lines = "d1\n\n d2 | a text | with a bar \na text alone\nd1 | again\n| of no id"
        (found,) = self.call(open_page(), "documents", "parseDocuments", [lines])
        assert found[:2] == [{"id": "d1", "text": ""}, {"id": "d2", "text": "a text | with a bar"}]
        assert [one["text"] for one in found[2:]] == ["a text alone", "of no id"]
        assert all(re.fullmatch("text-[0-9a-f]{8}", one["id"]) for one in found[2:])


def visit(page, tool, address, view):
    if view == "graph":
        tool.look_at_graph(page, address)
    elif view == "search":
        tool.look_at_search(page, address)
    elif view == "suggestions":
        with page.expect_response("**/v1/entities?q=a&**"):
            combobox(page, "Find an entity").press_sequentially("a")
        page.get_by_role("option").first.wait_for()
        page.keyboard.press("ArrowDown")
        page.locator('[role=option][aria-selected="true"]').wait_for()
    elif view == "problem":
        page.goto(f"{address}/#/entity/Kenia")
        page.get_by_role("alert").wait_for()
    else:
        page.locator(".names").wait_for()


class TestEverybody:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("width", [360, 1100])
    @pytest.mark.parametrize("view", ["home", "suggestions", "graph", "search"])
    def test_everything_can_be_read_named_and_reached(self, open_page, address, tool, view, width, scheme):
        page = open_page(viewport={"width": width, "height": 740}, color_scheme=scheme, reduced_motion="reduce")
        visit(page, tool, address, view)
        assert page.evaluate(f"({AUDIT})()") == []

    def test_the_audit_finds_what_is_wrong(self, open_page, address, tool):
        page = open_page()
        visit(page, tool, address, "home")
        page.evaluate("""() => {
            const add = (html) => document.querySelector("main").insertAdjacentHTML("beforeend", html);
            add('<p class="hint" id="main">pale</p><button></button><h4>deep</h4>');
            add('<h1>again</h1><div id="wide">wide</div>');
            document.querySelector("p#main").style.color = "#bbb";
            document.querySelector("#wide").style.width = "3000px";
        }""")
        found = " ".join(page.evaluate(f"({AUDIT})()"))
        for what in (
            "contrast",
            "has no name",
            "level is left out",
            "level 1",
            "twice",
            "sticks out",
            "wide, its window",
        ):
            assert what in found, what

    def test_keys_alone_will_do(self, open_page):
        page = open_page()
        page.locator(".names").wait_for()
        press = page.keyboard.press
        press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        press("Enter")
        press("Tab")
        assert page.evaluate("document.activeElement.getAttribute('role')") == "combobox"
        page.keyboard.type("keny")
        page.get_by_role("option", name="Kenya", exact=True).wait_for()
        press("ArrowDown")
        assert page.locator('[aria-selected="true"]').inner_text() == "Kenya"
        press("Enter")
        page.get_by_role("heading", level=1, name="Kenya").wait_for()

        for _ in range(60):
            press("Tab")
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", page.evaluate("document.activeElement.outerHTML")
            if page.evaluate("document.activeElement.type === 'radio'"):
                break
        press("ArrowDown")
        assert page.get_by_role("radio", name="? → Kenya").is_checked()
        press("ArrowUp")
        press("Tab")
        page.keyboard.type("borders")
        page.get_by_role("option", name="borders", exact=True).wait_for()
        press("Enter")
        page.locator(".answer").nth(9).wait_for()
        for _ in range(4):
            press("Tab")
            if page.evaluate("document.activeElement.textContent") == "Why?":
                break
        press("Enter")
        page.locator(".bars").wait_for()
        assert page.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
        press("Enter")
        page.locator(".bars").wait_for(state="hidden")

    def test_what_changes_is_heard(self, open_page):
        page = open_page("#/entity/Kenya?relation=borders")
        page.locator("#announcer", has_text=re.compile(r"^10 answers. The first is .+, probability")).wait_for(
            state="attached"
        )
        page.get_by_role("button", name="Why").first.click()
        page.locator("#announcer", has_text="Explanation of").wait_for(state="attached")

    def test_colours_follow_the_system_until_they_are_chosen(self, open_page):
        page = open_page(color_scheme="dark")
        ground = "getComputedStyle(document.body).backgroundColor"
        dark = page.evaluate(ground)
        page.get_by_role("button", name="Colours: as the system").click()
        light = page.evaluate(ground)
        assert light != dark
        page.get_by_role("button", name="Colours: light").click()
        assert page.evaluate(ground) == dark
        page.reload()
        page.get_by_role("button", name="Colours: dark").wait_for()
        page.emulate_media(color_scheme="light")
        assert page.evaluate(ground) == dark

    def test_a_key_is_asked_for_and_kept_in_this_tab_only(self, open_page, tool, runs, tmp_path):
        add = [sys.executable, "-m", "capse", "key", "add", "page", "--db", str(tmp_path / "page.db")]
        scopes = [word for scope in ("predict", "rerank", "events", "users") for word in ("--scope", scope)]
        key = subprocess.run([*add, *scopes], check=True, capture_output=True, text=True).stdout.strip()
        with tool.serving(runs[0], folder=tmp_path, options=("--require-keys",)) as guarded:
            page = open_page("#/entity/Kenya", expected=["401"], base=guarded)
            dialog = page.get_by_role("dialog", name="API key")
            dialog.wait_for()
            dialog.get_by_label("Key", exact=True).fill("wrong")
            page.keyboard.press("Enter")
            dialog.get_by_text("not valid").wait_for()
            dialog.get_by_label("Key", exact=True).fill(key)
            dialog.get_by_role("button", name="Use this key").click()
            page.get_by_role("heading", level=1, name="Kenya").wait_for()
            assert page.evaluate("Object.values(sessionStorage)") == [key]
            assert key not in str(page.evaluate("[Object.values(localStorage), document.cookie, location.href]"))
            page.get_by_role("button", name="API key").click()
            dialog.get_by_role("button", name="Forget it").click()
            dialog.wait_for()
            assert page.evaluate("sessionStorage.length") == 0


def test_the_browser_is_told_to_load_nothing_from_elsewhere(address):
    answer = httpx.get(address)
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert re.search(r"(default|script)-src '(self|none)'", policy)
