"""Pictures of the page for docs/images: python tools/take_screenshots.py [FOLDER]

Trains two small runs, serves them, and looks at the page with Debian's chromium. The tests of the page start here too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

import capse
from capse.experiments.recipe import Recipe
from capse.experiments.search.fit import fit_search
from capse.experiments.search.recipe import SearchRecipe
from capse.search.logs.documents import Documents
from capse.search.logs.search_log import IMPRESSIONS, RESULTS, SearchLog

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# What 'python' may mean: a search engine cannot tell, a click can.
MEANINGS = {
    "code": "modules packages functions loops tests types classes iterators threads debugging profiling closures",
    "snake": "scales venom terrarium prey feeding humidity habitats eggs shedding rainforest species reptiles",
    "comedy": "sketches troupe films parrots television songs critics stage circus satire costumes reunion",
}
DOCUMENTS = 12  # of each meaning
SHOWN = 9  # in a list


def find_chromium() -> str | None:
    """A Chromium or Chrome of this machine; playwright's own browsers are not needed."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def train_graph_run(folder: Path, *, quick: bool = False) -> Path:
    """CapsE from TransE on the embedded graph, as the demo has it or for fewer epochs, with probabilities."""
    first, second = (["training.epochs=20"], ["training.epochs=5"]) if quick else ([], [])
    capse.fit("countries", Recipe.resolve("demo-transe", overrides=first), out=folder / "transe")
    start = f"start.run={folder / 'transe'}"
    capse.fit("countries", Recipe.resolve("demo-capse", overrides=[start, *second]), out=folder / "capse").calibrate()
    return folder / "capse"


def documents() -> Documents:
    """Titles and texts made of each meaning's words."""
    random = np.random.default_rng(0)
    ids, titles, texts = [], [], []
    for meaning, words in MEANINGS.items():
        for number in range(DOCUMENTS):
            first, second, third = random.choice(words.split(), 3, replace=False)
            ids.append(f"{meaning}-{number + 1}")
            titles.append(f"Python {first}: {second} and {third}")
            texts.append(" ".join(["python", *random.choice(words.split(), 10)]))
    return Documents(ids, titles, texts, [None] * len(ids))


def search_log(impressions: int = 240) -> SearchLog:
    """People who all type 'python', each of whom means one thing, clicks it and reads it."""
    random = np.random.default_rng(1)
    shelf = documents()
    shows, results = [], []
    for number in range(impressions):
        user = int(random.integers(9))
        meant = list(MEANINGS)[user % len(MEANINGS)]
        split = "train" if number < 0.7 * impressions else "valid" if number < 0.85 * impressions else "test"
        time = number * 3_600_000_000
        about = {"user": f"user-{user}", "session": f"s{number}", "query": "python", "split": split}
        shows.append({"impression": f"q{number}", "time": time, **about})
        shown = random.choice(shelf.ids, SHOWN, replace=False)
        wanted = [place for place, label in enumerate(shown) if label.startswith(meant)]
        clicked = int(random.choice(wanted)) if wanted else -1
        for place, label in enumerate(shown):
            click = {"clicked_at": time + 5_000_000, "dwell": 60.0} if place == clicked else {}
            marks = {"clicked": bool(click), "satisfied": bool(click), **click}
            results.append({"impression": number, "position": place + 1, "document": label, **marks})
    tables = pa.Table.from_pylist(shows, IMPRESSIONS), pa.Table.from_pylist(results, RESULTS)
    return SearchLog.from_tables("python", *tables, shelf)


def train_search_run(folder: Path, *, quick: bool = False) -> Path:
    """CapsE on topics of the texts."""
    epochs = 3 if quick else 20
    settings = ["vectors.source=topics", "vectors.topics=4", "model.filters=8", f"training.epochs={epochs}"]
    fit_search(search_log(), SearchRecipe.resolve(model="capse", overrides=settings), out=folder)
    return folder


def engine_list() -> str:
    """What an engine finds for 'python', as the page takes it."""
    shelf = documents()
    lines = [f"{label} | {title}" for label, title in zip(shelf.ids, shelf.titles, strict=True)]
    return "\n".join(np.random.default_rng(2).permutation(lines[:: len(lines) // SHOWN]).tolist())


@contextmanager
def serving(*runs: Path, folder: Path, options: tuple[str, ...] = ()) -> Iterator[str]:
    """The address of a real `capse serve`."""
    command = [
        sys.executable,
        "-m",
        "capse",
        "serve",
        *map(str, runs),
        "--port",
        "0",
        "--db",
        str(folder / "page.db"),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (
        (folder / "serve.log").open("a") as log,
        subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        ) as process,
    ):
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if not address:
                raise RuntimeError(f"capse serve did not start: {(folder / 'serve.log').read_text()}")
            yield address
        finally:
            process.terminate()


@contextmanager
def browsing() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        yield browser
        browser.close()


def look_at_graph(page: Page, address: str) -> None:
    page.goto(f"{address}/#/entity/Kenya?relation=located+in")
    page.locator(".answer").first.wait_for()
    page.get_by_role("button", name="Why").first.click()
    page.locator(".bars").wait_for()


def look_at_search(page: Page, address: str) -> None:
    for user in ("ada", "grace"):
        page.request.delete(f"{address}/v1/users/{user}")
    page.goto(f"{address}/#/search")
    page.get_by_label("Query").fill("python")
    page.get_by_label("What the engine found").fill(engine_list())
    page.get_by_role("button", name="Compare").click()
    for user, kind in (("ada", "code"), ("grace", "snake")):
        column = page.locator("section.list", has=page.get_by_role("heading", name=f"For {user}"))
        column.locator(f'[data-id^="{kind}"]').last.click()
        column.get_by_text("opened", exact=True).wait_for()


def _shrink(path: Path) -> None:
    """To 128 colours, of which a page has fewer but for the edges of its letters, and to a height that is looked at."""
    with Image.open(path) as image:
        image.crop((0, 0, image.width, min(image.height, 2 * image.width + 1800))).quantize(128).save(
            path, optimize=True
        )


def take(runs: list[Path], folder: Path, scratch: Path) -> None:
    """Both parts of the page, light, dark and on a phone."""
    with serving(*runs, folder=scratch) as address, browsing() as browser:
        for name, width, scheme in (("light", 1120, "light"), ("dark", 1120, "dark"), ("phone", 360, "light")):
            for part, look in (("graph", look_at_graph), ("search", look_at_search)):
                page = browser.new_page(
                    viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce"
                )
                look(page, address)
                page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
                page.evaluate("document.querySelector('textarea')?.scrollTo(0, 0)")
                path = folder / f"page-{part}-{name}.png"
                page.screenshot(path=path, full_page=True)
                _shrink(path)
                print(f"wrote {path.name}, {path.stat().st_size / 1024:.0f} KiB")
                page.close()


def main(folder: Path = IMAGES) -> None:
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        take([train_graph_run(scratch), train_search_run(scratch / "search")], folder, scratch)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
