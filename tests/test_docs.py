"""The documentation holds: examples run, links resolve, the reference says what the code says, names stay."""

from __future__ import annotations

import doctest
import html
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import capse
from capse.cli import COMMANDS
from capse.models import MODELS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
RUN = [*sorted(DOCS.glob("*.md")), *sorted((DOCS / "how-to").glob("*.md"))]
# What `import capse` promises. Changing this list is a decision, and a line in the changelog.
PUBLIC = [
    "Actions", "Adversary", "Answers", "Calibration", "Candidates", "CapsE", "CapseError", "Carrier", "Classifier",
    "ComplEx", "ComplexCapsE", "Contributions", "ConvE", "ConvKB", "Decisions", "Dimensions", "DistMult",
    "DocumentText", "Documents", "Encoder", "EventWeights", "Everyone", "Explanation", "Fact", "FactPath",
    "FieldSchema", "FoldIn", "Graph", "Group", "Judgements", "LinkPredictionResult", "LinkPredictor", "Listed",
    "Listener", "Listeners", "LogFields", "Loss", "ModelSettings", "MotifReason", "Moved", "NearDocument", "NearFact",
    "Negatives", "Neighbour", "Optimizer", "PastAction", "PastClick", "Patterns", "PersonalModel", "PositionBias",
    "PredictedRelation", "Prediction", "ProfileSettings", "PublicClick", "RankedDocument", "Ranker", "Ranks",
    "Reasons", "Recipe", "RefineRecipe", "Refinement", "Regularizer", "RelationPattern", "ReliabilityBin", "Removal",
    "Reranker", "RuleSupport", "Rules", "RunFolder", "STransE", "Sampled", "ScaledCapsE", "Scorable", "Scorer",
    "SearchLog", "SearchRecipe", "SearchRun", "SearchValidation", "Seen", "SharedTopic", "Shown", "ShownDocument",
    "Standing", "Start", "Statistics", "StepReport", "TextSets", "Topics", "Training", "TrainingPast", "TransD",
    "TransE", "TransH", "TransR", "TripleIndex", "TripleModel", "UserState", "Validation", "VectorSettings",
    "VectorSpace", "VectorTable", "Vectors", "Verdict", "Vocabulary", "__version__", "describe", "errors", "evaluate",
    "fit", "fit_search", "fold_in_texts", "from_pykeen", "inductive_split", "load", "load_graph", "load_recipe",
    "load_search_recipe", "predict_file",
    "read_graph", "refine", "retrain_without", "save_graph", "split_graph", "to_pykeen",
]  # fmt: skip


def tool(name):
    """A script in tools/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec
    assert spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


examples, reference, results = tool("markdown_examples"), tool("reference"), tool("record_results")


def relative(path):
    return str(path.relative_to(ROOT))


class TestPages:
    @pytest.mark.parametrize("page", RUN, ids=relative)
    def test_every_example_runs(self, page, tmp_path):
        examples.run_page(page, tmp_path)

    @pytest.mark.parametrize("page", [*ROOT.glob("*.md")], ids=relative)
    def test_links_of_pages_that_the_site_does_not_check_lead_somewhere(self, page):
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
            path, _, anchor = target.partition("#")
            there = (page.parent / path).resolve() if path else page
            assert re.match(r"https?://", target) or there.exists(), f"{target} is not there"
            assert not anchor or anchor in anchors(there), f"{there.name} has no heading {anchor}"

    @pytest.mark.parametrize("page", PAGES, ids=relative)
    def test_nothing_of_one_machine_is_named(self, page):
        found = re.search(r"/(work|home|root|tmp)/|pypi\.org|pythonhosted|npmjs", page.read_text(encoding="utf-8"))
        assert found is None, found


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_site_builds_strictly_and_has_everything(tmp_path):
    """A page outside the navigation, a broken link or anchor, or an unknown name is an error."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        check=False, text=True, capture_output=True, cwd=ROOT, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

    loaded = re.compile(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
    pages = {page.stem: page.read_text(encoding="utf-8") for page in tmp_path.rglob("*.html") if page.stem != "report"}
    elsewhere = {name: found for name, page in pages.items() if (found := loaded.findall(page))}
    assert elsewhere == {}

    for name in MODELS:
        assert f'id="{name}"' in pages["models"], name
        assert html.escape(MODELS[name].citation, quote=False) in pages["models"], name
    for name in COMMANDS:
        assert f'id="capse-{name}"' in pages["command-line"], name
    for name in PUBLIC:  # settings stand on the pages of recipes and models, everything else on that of Python
        shown = any(f'id="capse.{name}"' in page for page in pages.values())
        assert shown or name in ("__version__", "errors"), name


def test_the_architecture_shows_every_folder():
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^  (\w+/|\w+\.py) ", page, re.MULTILINE))
    package = [path for path in (ROOT / "src" / "capse").iterdir() if not path.name.startswith("__")]
    assert shown == {f"{path.name}/" if path.is_dir() else path.name for path in package} - {"py.typed"}


def test_the_errors_that_are_explained_are_those_of_the_code():
    """A part of each message that no value interrupts is in the source."""
    source = "".join(path.read_text(encoding="utf-8") for path in [*(ROOT / "src").rglob("*.py"), ROOT / "Makefile"])
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    messages = re.findall(r"^\*\*`([^`]+)`", page, re.MULTILINE)
    assert len(messages) > 15
    for message in messages:
        parts = re.split(r"\.\.\.|'[^']*'|\d+|runs/\w+|: ", message)
        assert any(len(part) > 10 and part.strip() in source for part in parts), message


class TestReference:
    def test_every_setting_is_explained(self):
        """By a comment at the end of the field's line, which the site shows."""
        import griffe

        package = griffe.load(
            "capse",
            search_paths=[ROOT / "src"],
            extensions=griffe.load_extensions("dataclasses", str(ROOT / "tools" / "field_comments.py")),
        )
        for settings in reference.settings_classes():
            path = f"{settings.__module__}.{settings.__qualname__}".removeprefix("capse.")
            for field in package[path].docstring.parsed[-1].value:
                assert field.description, f"say what {settings.__qualname__}.{field.name} is, beside the field"

    def test_every_file_of_a_run_is_described(self):
        from capse.runs.folder import RunFolder

        page = (DOCS / "reference" / "run-folder.md").read_text(encoding="utf-8")
        for path in vars(RunFolder("run")).values():
            assert path.name == "run" or f"`{path.name}" in page, path.name


@pytest.mark.parametrize("name", results.PAGES)
def test_the_results_on_a_page_are_those_recorded(name):
    shown = (ROOT / name).read_text(encoding="utf-8").split(results.BEGIN)[1].split(results.END)[0]
    assert shown.strip() == results.PAGES[name]().strip(), "run: python tools/record_results.py"


def test_the_tests_that_hold_off_faults_exist():
    page = (ROOT / "results" / "faults.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:\w+/)+\w+\.py)?(?:::(\w+)[^`]*)?`", page.partition("| --- |")[2])
    content = ""
    for file, test in named:
        content = (ROOT / "tests" / file).read_text(encoding="utf-8") if file else content
        assert f"def {test}(" in content if test else file, (file, test)


def test_the_tools_own_examples_hold():
    assert doctest.testmod(examples) == (0, 1)  # failed, attempted


def test_decisions_are_numbered_short_and_of_one_form():
    pages = sorted((DOCS / "decisions").iterdir())
    assert len({page.name[:4] for page in pages}) == len(pages)
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert text.startswith(f"# {page.name[:3]} ")
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequence"], page.name
        assert len(text.splitlines()) <= 45, page.name


class TestPublicNames:
    def test_are_these(self):
        assert sorted(vars(capse)["__all__"]) == PUBLIC == dir(capse)
        assert all(getattr(capse, name) is not None for name in PUBLIC)

    def test_importing_is_quick(self):
        """Neither `import capse` nor `capse --help` waits for torch."""
        code = "import sys, capse.cli; assert not {'torch', 'numpy', 'numba', 'pyarrow'} & set(sys.modules), 'heavy'"
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_contributings_targets_exist():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for target in re.findall(r"`make ([a-z-]+)`", page):
        examples.check_command(["make", target])
