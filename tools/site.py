"""mkdocs' hooks: pages that are made when the site is built, and links that lead out of docs/.

The reference is written from the code, notebooks become Markdown with their outputs, and a few files of the repository
stand on the site under their own paths. A link to any other file of the repository becomes plain text.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbconvert import MarkdownExporter

sys.path.insert(0, str(Path(__file__).parent))
import reference

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
OUTSIDE = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "results/README.md",
    "results/benchmarks/scoring.svg",
    "results/figures/figure2.png",
    "results/report.html",
    "results/tried.md",
    "src/capse/graph/embedded/LICENSE.md",
]
_LINK = re.compile(r"(?P<open>!?\[)(?P<text>[^\]]*)\]\((?P<target>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> None:
    """The decisions stand in the navigation in their order."""
    project: list[Any] = next(entry["Project"] for entry in config.nav if "Project" in entry)
    project.append({"Decisions": [f"decisions/{page.name}" for page in sorted((DOCS / "decisions").glob("*.md"))]})


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add what does not lie in docs/ as it is shown."""
    for name in reference.PAGES:
        files.append(File.generated(config, name, content=reference.render(name)))
    for name in OUTSIDE:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for notebook in sorted((DOCS / "notebooks").glob("*.ipynb")):
        folder = {"output_files_dir": notebook.stem, "unique_key": notebook.stem}  # of pictures
        text, resources = MarkdownExporter().from_filename(str(notebook), resources=folder)
        files.remove(files.src_uris[f"notebooks/{notebook.name}"])
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=text))
        for name, picture in resources["outputs"].items():
            files.append(File.generated(config, f"notebooks/{name}", content=picture))


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Links out of docs/, written for readers of the repository, lead to the same place on the site."""
    uri = page.file.src_uri
    folder = posixpath.dirname(uri if uri in OUTSIDE else f"docs/{uri}")

    def moved(link: re.Match[str]) -> str:
        there = posixpath.normpath(posixpath.join(folder, link["target"]))
        if there.startswith("docs/") or there in OUTSIDE:
            path = re.sub(r"\.ipynb$", ".md", there.removeprefix("docs/"))
            target = posixpath.relpath(path, posixpath.dirname(uri) or ".") + (link["anchor"] or "")
            return f"{link['open']}{link['text']}]({target})"
        return link["text"]

    return _LINK.sub(moved, markdown)
