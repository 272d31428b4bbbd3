"""A log made from a repository that is made here, commit by commit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from capse.search.ingest.sources import git

START = 1_600_000_000


class Maker:
    """A repository and the commits that are put into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet")

    def git(self, *arguments: str, author: str = "ada@example.org", time: int = START) -> None:
        settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        for role in ("AUTHOR", "COMMITTER"):
            settings |= {f"GIT_{role}_NAME": "x", f"GIT_{role}_EMAIL": author, f"GIT_{role}_DATE": f"{time} +0000"}
        subprocess.run(["git", "-C", str(self.folder), *arguments], check=True, env=os.environ | settings)

    def commit(
        self, subject: str, files: dict[str, str | bytes], *, author: str = "ada@example.org", time: int
    ) -> None:
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--allow-empty-message", "-m", subject, author=author, time=time)


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    made = Maker(tmp_path / "repository")
    made.commit("Add the engine", {"src/engine.py": "steam boiler piston", "README": "about steam"}, time=START)
    made.commit("Boiler pressure", {"src/engine.py": "steam boiler piston pressure"}, time=START + 3_600)
    made.commit("Gardens", {"garden.txt": "roses tulips"}, author="Bob@example.org", time=START + 3_700)
    made.commit(
        "Tulips are spelt so", {"garden.txt": "roses tulips spelt"}, author="bob@example.org", time=START + 90_000
    )
    return made


def test_commits_become_impressions(maker: Maker, staged: Callable) -> None:
    found = staged(git.stage, [maker.folder], salt=b"fixed")
    lists: dict[str, list[str]] = {}
    for row in found.results:
        lists.setdefault(row["query"], []).append(row["document"])
    assert lists == {
        "Add the engine": ["src/engine.py"],
        "Boiler pressure": ["src/engine.py"],
        "Gardens": [],
        "Tulips are spelt so": ["garden.txt"],
    } or set(lists) == {"Add the engine", "Boiler pressure", "Tulips are spelt so"}
    queries = {row["impression"]: row["query"] for row in found.results}
    assert [(queries[row["impression"]], row["document"]) for row in found.clicks] == [
        ("Add the engine", "src/engine.py"),
        ("Boiler pressure", "src/engine.py"),
        ("Tulips are spelt so", "garden.txt"),
    ]
    assert any(note.startswith("3 of 4 commits are impressions") for note in found.notes)
    assert any("from after the commits" in note for note in found.notes)
