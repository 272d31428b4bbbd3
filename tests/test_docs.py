"""The documentation holds: examples run, links resolve, the reference says what the code says, names stay."""

from __future__ import annotations

import dataclasses
import doctest
import hashlib
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

import capse
from capse.experiments.recipe import Recipe
from capse.models import MODELS, build_model

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
RUN = [DOCS / "tutorial.md", *sorted((DOCS / "how-to").glob("*.md"))]
# What `import capse` promises. Changing this list is a decision, and a line in the changelog.
PUBLIC = [
    "CapseError",
    "Explanation",
    "Graph",
    "LinkPredictionResult",
    "LinkPredictor",
    "Listener",
    "Prediction",
    "RankedDocument",
    "Recipe",
    "Reranker",
    "SearchLog",
    "ShownDocument",
    "UserState",
    "__version__",
    "describe",
    "errors",
    "evaluate",
    "fit",
    "fit_search",
    "load",
    "load_graph",
    "load_recipe",
    "predict_file",
    "read_graph",
    "save_graph",
    "split_graph",
]


def tool(name):
    """A script in tools/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


examples, reference, results = tool("markdown_examples"), tool("render_reference"), tool("record_results")


def relative(path):
    return str(path.relative_to(ROOT))


class TestPages:
    @pytest.mark.parametrize("page", RUN, ids=relative)
    def test_every_example_runs(self, page, tmp_path):
        assert examples.run_page(page, tmp_path)

    @pytest.mark.parametrize("page", PAGES, ids=relative)
    def test_links_lead_somewhere(self, page):
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
            if re.match(r"https?://", target):
                continue
            path, _, anchor = target.partition("#")
            there = (page.parent / path).resolve() if path else page
            assert there.exists(), f"{target} is not there"
            if anchor:
                assert anchor in anchors(there), f"{there.name} has no heading {anchor}"

    @pytest.mark.parametrize("page", PAGES, ids=relative)
    def test_nothing_of_one_machine_is_named(self, page):
        found = re.search(r"/(work|home|root|tmp)/|pypi\.org|pythonhosted|npmjs", page.read_text(encoding="utf-8"))
        assert found is None, found

    def test_every_page_can_be_reached(self):
        """From the README or the index of the docs, by links."""
        reached, queue = set(), [ROOT / "README.md", DOCS / "index.md"]
        while queue:
            page = queue.pop()
            if page not in reached:
                reached.add(page)
                targets = re.findall(r"\]\(([^)#\s]+\.md)", page.read_text(encoding="utf-8"))
                local = [(page.parent / target).resolve() for target in targets if "://" not in target]
                queue += [path for path in local if path.is_file()]
        assert set(PAGES) <= reached


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class TestReference:
    @pytest.mark.parametrize("name", reference.PAGES)
    def test_is_up_to_date(self, name):
        stored = (reference.FOLDER / name).read_text(encoding="utf-8")
        assert stored == reference.PAGES[name](), "run: python tools/render_reference.py"

    def test_every_setting_is_explained(self):
        page = (reference.FOLDER / "recipes.md").read_text(encoding="utf-8")
        rows = dict(re.findall(r"^\| `(\w+\.\w+)` \|.* \| ([^|]*(?:\\\|[^|]*)*) \|$", page, re.MULTILINE))
        sections = {key: value for key, value in Recipe.from_mapping({}).to_mapping().items() if key != "data"}
        sections["model"] = {f.name for model in MODELS.values() for f in dataclasses.fields(model.Settings)}
        for section, keys in sections.items():
            for key in keys:
                assert rows.get(f"{section}.{key}", "").strip(), f"say what {section}.{key} is, beside the field"

    def test_no_explanation_outlives_its_setting(self):
        sections = Recipe.from_mapping({}).to_mapping()
        classes = {model.Settings.__name__: model.Settings for model in MODELS.values()}
        for name in reference.MEANINGS:
            owner, key = name.split(".")
            known = sections[owner] if owner in sections else {f.name for f in dataclasses.fields(classes[owner])}
            assert key in known, name

    def test_every_file_of_a_run_is_described(self):
        from capse.runs.folder import RunFolder

        page = (reference.FOLDER / "run-folder.md").read_text(encoding="utf-8")
        for path in vars(RunFolder("run")).values():
            assert path.name == "run" or f"`{path.name}" in page, path.name


@pytest.mark.parametrize("name", results.PAGES)
def test_the_results_on_a_page_are_those_recorded(name):
    shown = (ROOT / name).read_text(encoding="utf-8").split(results.BEGIN)[1].split(results.END)[0]
    assert shown.strip() == results.PAGES[name]().strip(), "run: python tools/record_results.py"


def test_the_tools_own_examples_hold():
    assert doctest.testmod(examples) == (0, 2)  # failed, attempted


def test_decisions_are_numbered_short_and_of_one_form():
    pages = sorted((DOCS / "decisions").iterdir())
    assert [page.name[:4] for page in pages] == [f"{number:03}-" for number in range(1, len(pages) + 1)]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert text.startswith(f"# {page.name[:3]} ")
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequence"], page.name
        assert len(text.splitlines()) <= 40, page.name


class TestPublicNames:
    def test_are_these(self):
        assert sorted(capse.__all__) == PUBLIC == dir(capse)
        assert all(getattr(capse, name) is not None for name in PUBLIC)

    def test_have_types(self):
        """The stub names what the module names."""
        stub = (ROOT / "src" / "capse" / "__init__.pyi").read_text(encoding="utf-8")
        names = re.findall(r" as (\w+)$", stub, re.MULTILINE) + re.findall(r"^(\w+)(?::| =)", stub, re.MULTILINE)
        assert sorted(names) == PUBLIC

    def test_load_is_the_predictors(self):
        assert capse.load == capse.LinkPredictor.load

    def test_another_name_is_an_ordinary_error(self):
        with pytest.raises(AttributeError, match="module 'capse' has no attribute 'train'"):
            _ = capse.train

    def test_importing_is_quick(self):
        """Neither `import capse` nor `capse --help` waits for torch."""
        code = "import sys, capse.cli; assert not {'torch', 'numpy', 'numba', 'pyarrow'} & set(sys.modules), 'heavy'"
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


class TestProjectFiles:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def test_one_version_everywhere(self):
        version = self.project["version"]
        assert capse.__version__ == version
        assert re.search(rf"^## \[{re.escape(version)}\] - ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
        assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version

    def test_the_licence_is_apaches_word_for_word(self):
        digest = hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest()
        assert digest == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"

    def test_the_citation_is_complete(self):
        """The keys that the Citation File Format 1.2.0 requires, of the software and of the paper."""
        citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
        assert citation["cff-version"] == "1.2.0"
        assert citation.keys() >= {"message", "title", "authors", "version", "license"}
        assert citation["license"] == self.project["license"]
        (paper,) = citation["references"]
        assert paper.keys() >= {"type", "title", "authors", "year", "conference", "doi"}
        assert (paper["type"], paper["year"], paper["conference"]["name"]) == (
            "conference-paper",
            2019,
            "NAACL-HLT 2019",
        )
        assert [author["family-names"] for author in paper["authors"]] == ["Nguyen", "Vu", "Nguyen", "Nguyen", "Phung"]
        assert paper["title"] in MODELS["capse"].citation


class TestAddingAModel:
    """The example in CONTRIBUTING.md, taken from the page."""

    @pytest.fixture
    def parts(self):
        page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
        return {block.file: block.text for block in examples.blocks(page) if block.file}

    @pytest.fixture
    def scorer(self, parts, monkeypatch):
        namespace = {"__name__": "capse.models.rotate"}
        exec(parts["src/capse/models/rotate.py"], namespace)
        monkeypatch.setitem(MODELS, "rotate", namespace["RotatE"])
        return namespace["RotatE"]

    @pytest.fixture
    def model(self, scorer, parts):
        """The case of the page with random numbers, in double precision."""
        settings = {}
        exec(parts["tests/models/conftest.py"], {"Case": lambda name, values: settings.update({name: values})})
        model = build_model("rotate", scorer.Settings(**settings["rotate"]), entities=5, relations=3).double()
        with torch.no_grad():
            for number, parameter in enumerate(model.parameters()):
                parameter.normal_(generator=torch.Generator().manual_seed(number))
        return model.eval()

    def test_its_directions_agree(self, model):
        entities, relations = torch.arange(5), torch.arange(3)
        with torch.no_grad():
            every = model.score_triples(
                entities[:, None, None], relations[:, None], entities
            )  # (heads, relations, tails)
            pairs = torch.cartesian_prod(entities, relations).T
            tails, heads = model.score_tails(*pairs), model.score_heads(*pairs.flip(0))
        torch.testing.assert_close(tails.view(5, 3, 5), every)
        torch.testing.assert_close(heads.view(5, 3, 5), every.permute(2, 1, 0))

    def test_it_follows_its_formula(self, model, parts):
        formulas = {}
        exec(
            parts["tests/models/test_formulas.py"],
            {"np": np, "formula": lambda name: lambda f: formulas.update({name: f})},
        )
        numbers = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
        settings = MODELS["rotate"].Settings(dim=model.relations.shape[1])
        triples = torch.cartesian_prod(torch.arange(5), torch.arange(3), torch.arange(5))
        expected = [formulas["rotate"](numbers, settings, *triple) for triple in triples.tolist()]
        np.testing.assert_allclose(model.score_triples(*triples.T).detach().numpy(), expected, rtol=1e-9)

    def test_its_recipe_trains(self, scorer, parts, planted, tmp_path):
        path = tmp_path / "rotate.yaml"
        path.write_text(parts["src/capse/recipes/rotate.yaml"], encoding="utf-8")
        quick = ["model.dim=16", "training.epochs=60", "training.batch_size=32", "training.learning_rate=0.02"]
        with examples.one_thread():
            run = capse.fit(planted, str(path), out=tmp_path / "run", overrides=quick)
        assert run.evaluate("test").metrics["tail"]["realistic"]["mrr"] > 0.9

    def test_it_says_where_it_comes_from(self, scorer):
        assert re.fullmatch(r"\w[\w\s]+ et al\., .{10,}, [A-Za-z]+ (19|20)\d\d", scorer.citation)
        assert re.search(r"f\(h, r, t\) = \S+", scorer.__doc__)

    def test_it_is_formatted_as_make_check_wants_it(self, parts):
        for command in (["format", "--check"], ["check"]):
            done = subprocess.run(
                [sys.executable, "-m", "ruff", *command, "--stdin-filename", "src/capse/models/rotate.py", "-"],
                input=parts["src/capse/models/rotate.py"], text=True, capture_output=True, check=False, cwd=ROOT,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr

    def test_its_targets_exist(self):
        page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
        for block in examples.blocks(page):
            if block.language in ("console", "sh"):
                for command in examples.commands(block):
                    examples.check_command(command.words)
        for target in re.findall(r"`make ([a-z-]+)`", page):
            examples.check_command(["make", target])
