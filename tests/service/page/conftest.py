"""The page in a real Chromium, on a real `capse serve`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[3]
WAIT = 20_000  # milliseconds: other tests may run beside


@pytest.fixture(scope="session")
def tool():
    """tools/take_screenshots.py, which trains runs, serves them and starts a browser."""
    pytest.importorskip("playwright")
    spec = importlib.util.spec_from_file_location("take_screenshots", ROOT / "tools" / "take_screenshots.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if module.find_chromium() is None:
        pytest.skip("no chromium is installed here")
    return module


@pytest.fixture(scope="session")
def runs(tool, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    return tool.train_graph_run(folder, quick=True), tool.train_search_run(folder / "search", quick=True)


@pytest.fixture(scope="session")
def address(tool, runs, tmp_path_factory):
    with tool.serving(*runs, folder=tmp_path_factory.mktemp("serve")) as address:
        yield address


@pytest.fixture(scope="module")  # while it is there, an event loop runs, and no other test can start one
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
