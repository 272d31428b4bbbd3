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
from safetensors.numpy import load_file

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## How to add an? (.+?)\n(.*?)(?=^## )", PAGE, re.M | re.S))
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.M | re.S)


def changed(path: Path, diff: str) -> str:
    """A file's text with the lines of a diff in the place of those it takes away, which must stand there once."""
    lines = diff.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if not line.startswith("+"))
    after = "".join(line[1:] for line in lines if not line.startswith("-"))
    whole = path.read_text(encoding="utf-8")
    assert whole.count(before) == 1, f"{path} does not have these lines once:\n{before}"
    return whole.replace(before, after)


def apply(section: str, tree: Path) -> list[str]:
    """Do what a section says: write or lengthen its files, apply its diffs; returns the commands that it names."""
    commands = []
    for language, name, text in _BLOCK.findall(section):
        path = tree / name
        if language == "sh":
            commands += text.splitlines()
        elif language == "diff":
            path.write_text(changed(path, text), encoding="utf-8")
        elif path.exists():
            path.write_text(path.read_text(encoding="utf-8") + "\n\n" + text, encoding="utf-8")
        else:
            path.write_text(text, encoding="utf-8")
    return commands


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a checkout holds, without recorded results."""
    folder = tmp_path_factory.mktemp("tree")
    for name in ("src", "tests", "tools", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / file, folder / file)
    return folder


def test_the_page_has_the_four_examples() -> None:
    assert list(SECTIONS) == ["model", "loss", "log source", "endpoint"]


def test_the_files_that_the_page_changes_are_as_it_says() -> None:
    """So that whoever moves a registry's lines is told at once, and not by the slow tests."""
    diffs = [(name, text) for language, name, text in _BLOCK.findall(PAGE) if language == "diff"]
    assert len(diffs) == 4
    for name, text in diffs:
        changed(ROOT / name, text)


@pytest.mark.slow
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
    return installed(source, site)


def installed(source: Path, site: Path) -> dict[str, str]:
    """The environment of a process for which a package is installed into a folder of its own."""
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


@pytest.mark.slow
def test_a_model_and_a_loss_from_outside_train_and_evaluate(outside: dict[str, str], run: Path) -> None:
    evaluated = capse(outside, "evaluate", run, "--json")
    assert evaluated.returncode == 0, evaluated.stderr
    found = json.loads(evaluated.stdout)
    chance = 0.01  # 1/804 is the share of the first rank; an untrained RotatE has an MRR of about .01
    assert found["metrics"]["both"]["realistic"]["mrr"] > 3 * chance
    assert "focus: 1.5" in (run / "recipe.yaml").read_text(encoding="utf-8")


@pytest.mark.slow
def test_errors_list_what_is_registered_outside(outside: dict[str, str], tmp_path: Path) -> None:
    options = ["--data", "countries", "--out", tmp_path / "run"]
    unknown = capse(outside, "train", "--model", "x", *options)
    assert (unknown.returncode, "rotate" in unknown.stderr) == (2, True)
    unknown = capse(outside, "train", "--model", "transe", "--set", "loss.name=x", *options)
    assert (unknown.returncode, "focal" in unknown.stderr) == (2, True)
    assert "rotate" not in capse(dict(os.environ), "train", "--model", "x", *options).stderr


@pytest.mark.slow
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


@pytest.mark.slow
def test_an_endpoint_from_outside_answers_and_is_described(address: str) -> None:
    with urllib.request.urlopen(f"{address}/v1/degree/Kenya") as answer:
        assert json.load(answer)["facts"] > 3
    with urllib.request.urlopen(f"{address}/openapi.json") as answer:
        assert "/v1/degree/{entity}" in json.load(answer)["paths"]


OTHER_ADDITIONS = {
    "pyproject.toml": """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "capse-others"
version = "1.0"
dependencies = ["capse"]

[tool.setuptools]
py-modules = ["capse_others", "capse_greeting"]

[project.entry-points]
"capse.regularizers" = { l1 = "capse_others:l1" }
"capse.graph_formats" = { ".pipes" = "capse_others:PIPES" }
"capse.search_methods" = { reversed = "capse_others:REVERSED" }
"capse.commands" = { greet = "capse_greeting:app" }
""",
    "capse_others.py": """
from capse.experiments.search.methods import SearchMethod
from capse.graph.readers.files import lines
from capse.graph.readers.formats import GraphFormat


def l1(model, batch):
    return model.entity(batch[:, 0]).abs().sum() / len(batch)


class Pipes(GraphFormat):
    def rows(self, path):
        for number, line in lines(path):
            yield number, [field or None for field in line.strip().split("|")]


class Reversed(SearchMethod):
    "The engine's order, upside down."

    def fit(self, log, recipe=None, *, seed=None, listener=None):
        return self

    def score(self, log, impressions, cutoffs):
        return log.position[log.rows(impressions)].astype(float)


PIPES, REVERSED = Pipes(), Reversed("reversed")
""",
    "capse_greeting.py": """
from capse.cli.options import command_app
from capse.cli.output import echo

app = command_app("Say hello.")


@app.command()
def greet(name: str) -> None:
    echo(f"hello {name}")
""",
}


@pytest.mark.slow
def test_a_penalty_a_graph_format_a_search_method_and_a_command_from_outside(tmp_path: Path) -> None:
    source = tmp_path / "capse-others"
    source.mkdir()
    for name, text in OTHER_ADDITIONS.items():
        (source / name).write_text(text, encoding="utf-8")
    environment = installed(source, tmp_path / "site")

    def said(*arguments: object) -> str:
        done = capse(environment, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert said("greet", "Ada") == "hello Ada\n"
    assert "Say hello." in said("--help")

    facts, graph = tmp_path / "facts.pipes", tmp_path / "graph"
    facts.write_text("".join(f"a{i}|before|a{j}\n" for i in range(12) for j in range(i + 1, 12)))
    said("data", "import", facts, "--out", graph)
    settings = ["--set", "training.epochs=3", "--set", "model.dim=4"]
    sizes = []
    for strength in (0, 100):
        run = tmp_path / str(strength)
        chosen = [*settings, "--set", f"regularizer.l1={strength}"]
        said("train", "--data", graph, "--model", "distmult", "--out", run, *chosen)
        sizes.append(abs(load_file(run / "model.safetensors")["entities"]).sum())
        assert f"l1: {strength}.0" in (run / "recipe.yaml").read_text(encoding="utf-8")
    assert sizes[1] < sizes[0]

    few = ["users=6", "topics=4", "documents=40", "impressions=120", "days=20"]
    words = [word for one in few for word in ("--set", f"simulation.{one}")]
    said("search", "simulate", "--out", tmp_path / "raw", *words)
    evaluate = ["search", "evaluate", "--log", tmp_path / "raw", "--json", "--method"]
    upside_down, engine = (json.loads(said(*evaluate, name)) for name in ("reversed", "se"))
    assert upside_down["mrr"] < engine["mrr"]
