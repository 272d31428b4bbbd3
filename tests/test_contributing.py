"""CONTRIBUTING.md is true: its examples, put into a copy of the tree word for word, pass the tests that the page names;
and the same files work from a package of their own."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## How to add an? (.+?)\n(.*?)(?=^## )", PAGE, re.M | re.S))
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.M | re.S)


def apply(section: str, tree: Path) -> list[str]:
    """Do what a section says: write or lengthen its files, apply its diffs; returns the commands that it names."""
    commands = []
    for language, name, text in _BLOCK.findall(section):
        path = tree / name
        if language == "sh":
            commands += text.splitlines()
        elif language == "diff":
            lines = text.splitlines(keepends=True)
            before = "".join(line[1:] for line in lines if not line.startswith("+"))
            after = "".join(line[1:] for line in lines if not line.startswith("-"))
            whole = path.read_text(encoding="utf-8")
            assert whole.count(before) == 1, f"{name} does not have these lines once:\n{before}"
            path.write_text(whole.replace(before, after), encoding="utf-8")
        elif path.exists():
            path.write_text(path.read_text(encoding="utf-8") + "\n\n" + text, encoding="utf-8")
        else:
            path.write_text(text, encoding="utf-8")
    return commands


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a checkout holds, without recorded results."""
    folder = tmp_path_factory.mktemp("tree")
    for name in ("src", "tests", "tools"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / file, folder / file)
    return folder


def test_the_page_has_the_four_examples() -> None:
    assert list(SECTIONS) == ["model", "loss", "log source", "endpoint"]


@pytest.mark.parametrize("name", ["model", "loss", "log source", "endpoint"])
def test_an_example_passes_the_tests_that_the_page_names(name: str, tree: Path) -> None:
    commands = apply(SECTIONS[name], tree)
    assert commands
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "pytest"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *arguments, "-p", "no:cacheprovider"],
            cwd=tree,
            env=os.environ | {"PYTHONPATH": str(tree / "src")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-4000:]
        assert re.search(r"\d+ passed", done.stdout)


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that has the page's package installed beside capse."""
    source, site = tmp_path_factory.mktemp("capse-extension"), tmp_path_factory.mktemp("site")
    package = source / "capse_extension"
    package.mkdir()
    (package / "__init__.py").touch()
    for language, name, text in _BLOCK.findall(PAGE):
        if name == "pyproject.toml":
            (source / name).write_text(text, encoding="utf-8")
        elif language == "python" and name.startswith("src/"):
            (package / Path(name).name).write_text(text, encoding="utf-8")
    assert {path.stem for path in package.iterdir()} == {"__init__", "rotate", "focal", "wide_csv", "degree"}
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--target", str(site)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True)
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}


def capse(environment: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "capse", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def run(outside: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """RotatE, trained with the focal loss; both are the package's."""
    path = tmp_path_factory.mktemp("runs") / "rotate"
    settings = [
        "loss.name=focal",
        "loss.focus=1.5",
        "training.epochs=20",
        "model.dim=20",
        "negatives.sampler=bernoulli",
    ]
    chosen = [word for setting in settings for word in ("--set", setting)]
    trained = capse(outside, "train", "--model", "rotate", "--data", "countries", "--out", path, *chosen)
    assert trained.returncode == 0, trained.stderr
    return path


def test_a_model_and_a_loss_from_outside_train_and_evaluate(outside: dict[str, str], run: Path) -> None:
    evaluated = capse(outside, "evaluate", run, "--json")
    assert evaluated.returncode == 0, evaluated.stderr
    found = json.loads(evaluated.stdout)
    chance = 0.01  # 1/804 is the share of the first rank; an untrained RotatE has an MRR of about .01
    assert found["metrics"]["both"]["realistic"]["mrr"] > 3 * chance
    assert "focus: 1.5" in (run / "recipe.yaml").read_text(encoding="utf-8")


def test_errors_list_what_is_registered_outside(outside: dict[str, str], tmp_path: Path) -> None:
    options = ["--data", "countries", "--out", tmp_path / "run"]
    unknown = capse(outside, "train", "--model", "x", *options)
    assert (unknown.returncode, "rotate" in unknown.stderr) == (2, True)
    unknown = capse(outside, "train", "--model", "transe", "--set", "loss.name=x", *options)
    assert (unknown.returncode, "focal" in unknown.stderr) == (2, True)
    assert "rotate" not in capse(dict(os.environ), "train", "--model", "x", *options).stderr


def test_a_log_source_from_outside_is_ingested(outside: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("when,who,asked,shown,opened\n2026-03-01T12:00:00Z,ada,graph paths,d7 d2 d9,d2\n")
    ingested = capse(outside, "search", "ingest", tmp_path / "log.csv", "--out", tmp_path / "log")
    assert ingested.returncode == 0, ingested.stderr
    assert "1 impressions" in ingested.stdout
    assert "wide-csv" in capse(outside, "search", "ingest", "--help").stdout


@pytest.fixture
def address(outside: dict[str, str], run: Path, tmp_path: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "capse", "serve", str(run), "--port", "0"]
    with subprocess.Popen(
        command, env=outside, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


def test_an_endpoint_from_outside_answers_and_is_described(address: str) -> None:
    with urllib.request.urlopen(f"{address}/v1/degree/Kenya") as answer:
        assert json.load(answer)["facts"] > 3
    with urllib.request.urlopen(f"{address}/openapi.json") as answer:
        assert "/v1/degree/{entity}" in json.load(answer)["paths"]
