"""The page's files: shipped, whole, and without anything from elsewhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import capse

ROOT = Path(__file__).parents[2]
PAGE = Path(capse.__file__).parent / "service" / "page"
FILES = sorted(PAGE.iterdir())


def test_they_are_in_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "service/page/*" in project["tool"]["setuptools"]["package-data"]["capse"]
    assert {file.suffix for file in FILES} == {".html", ".css", ".js", ".svg"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_nothing_comes_from_elsewhere(file):
    text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert re.search(r"https?://|//cdn|@import|eval\(|innerHTML|document\.write", text) is None


def test_the_index_has_neither_scripts_nor_styles_in_it():
    text = (PAGE / "index.html").read_text(encoding="utf-8")
    assert re.search(r"<style|\sstyle=|\son\w+=|javascript:", text) is None
    assert re.findall(r"<script[^>]*>([^<]*)</script>", text) == [""]


def test_every_file_that_is_named_is_there_and_every_file_is_named():
    named = {"index.html"}
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        named |= set(re.findall(r'from "\./([\w.]+)"', text)) | set(
            re.findall(r'(?:src|href)="([\w]+\.(?:js|css|svg))"', text)
        )
    assert named == {file.name for file in FILES}


def test_every_import_is_exported():
    for file in PAGE.glob("*.js"):
        for imported, source in re.findall(r'import \{([^}]+)\} from "\./([\w.]+)"', file.read_text(encoding="utf-8")):
            there = (PAGE / source).read_text(encoding="utf-8")
            exported = set(re.findall(r"export (?:async )?(?:function|const|class) (\w+)", there))
            assert {name.strip() for name in imported.split(",") if name.strip()} <= exported, file.name


def test_pictures_in_the_docs_are_small():
    pictures = sorted((ROOT / "docs" / "images").glob("page-*.png"))
    assert len(pictures) == 6
    assert all(picture.stat().st_size < 200 * 1024 for picture in pictures)
