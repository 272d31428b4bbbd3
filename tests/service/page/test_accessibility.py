"""The page by mouse, keys and ear: contrast, names, focus, announcements, colours and keys of the API."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.service.page.page_parts import combobox

AUDIT = (Path(__file__).parent / "audit.js").read_text(encoding="utf-8")

pytestmark = pytest.mark.slow


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1100])
@pytest.mark.parametrize("view", ["home", "suggestions", "graph", "search"])
def test_everything_can_be_read_named_and_reached(open_page, address, tool, view, width, scheme):
    page = open_page(viewport={"width": width, "height": 740}, color_scheme=scheme, reduced_motion="reduce")
    visit(page, tool, address, view)
    assert page.evaluate(f"({AUDIT})()") == []


def test_the_audit_finds_what_is_wrong(open_page, address, tool):
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


def test_keys_alone_will_do(open_page):
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


def test_what_changes_is_heard(open_page):
    page = open_page("#/entity/Kenya?relation=borders")
    page.locator("#announcer", has_text=re.compile(r"^10 answers. The first is .+, probability")).wait_for(
        state="attached"
    )
    page.get_by_role("button", name="Why").first.click()
    page.locator("#announcer", has_text="Explanation of").wait_for(state="attached")


def test_colours_follow_the_system_until_they_are_chosen(open_page):
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


def test_a_key_is_asked_for_and_kept_in_this_tab_only(open_page, tool, runs, tmp_path):
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
