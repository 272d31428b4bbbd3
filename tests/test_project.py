"""What the project says about itself: version, licence, citation, and the versions that it is developed with."""

from __future__ import annotations

import hashlib
import re
import sys
import tomllib
from importlib.metadata import distributions, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import capse
from capse.models import MODELS

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
WITH_DEV = ("rdf", "search", "service", "tensorboard", "tune", "spark", "docs")
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


def test_the_version_stands_in_the_package_alone(run_command):
    assert PROJECT["dynamic"] == ["version"]
    assert PYPROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "capse.__version__"}
    assert run_command("--version") == (0, f"capse {capse.__version__}\n", "")
    assert version("capse") == capse.__version__
    assert re.search(rf"^## \[{re.escape(capse.__version__)}\] - ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert "version" not in CITATION


def test_constraints_name_one_version_of_every_dependency():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()[1:]
    pinned = {Requirement(line).name: Requirement(line).specifier for line in lines}
    assert len(pinned) == len(lines)
    assert all(str(specifier).startswith("==") and "+" not in str(specifier) for specifier in pinned.values())
    extras = PROJECT["optional-dependencies"]
    for text in [*PROJECT["dependencies"], *extras["dev"], *(one for name in WITH_DEV for one in extras[name])]:
        wanted = Requirement(text)
        if wanted.name != "capse":
            version_of = str(pinned[canonicalize_name(wanted.name)]).removeprefix("==")
            assert wanted.specifier.contains(version_of), text


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the versions are those of Python 3.11")
def test_constraints_name_nothing_that_is_not_installed():
    """What is no longer needed leaves the file when `make constraints` writes it anew."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()[1:]
    installed = {canonicalize_name(one.metadata["Name"]) for one in distributions()}
    assert {Requirement(line).name for line in lines} <= installed


def test_the_licence_is_apaches_word_for_word():
    digest = hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest()
    assert digest == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


def test_the_citation_is_complete():
    """The keys that the Citation File Format 1.2.0 requires, of the software and of the paper."""
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION.keys() >= {"message", "title", "authors", "license"}
    assert CITATION["title"] == PROJECT["name"]
    assert CITATION["license"] == PROJECT["license"]
    assert CITATION["authors"] == PROJECT["authors"]
    (paper,) = CITATION["references"]
    assert paper.keys() >= {"type", "title", "authors", "year", "conference", "doi"}
    assert (paper["type"], paper["year"], paper["conference"]["name"]) == ("conference-paper", 2019, "NAACL-HLT 2019")
    assert [author["family-names"] for author in paper["authors"]] == ["Nguyen", "Vu", "Nguyen", "Nguyen", "Phung"]
    assert paper["title"] in MODELS["capse"].citation
    assert PROJECT["urls"] == {"Paper": paper["url"]}
