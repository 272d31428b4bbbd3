import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from capse.cli.report import app
from capse.errors import CapseError, RunError, SettingsError
from capse.evaluation.metrics import summarize
from capse.evaluation.ranks import Ranks
from capse.experiments.fit import fit
from capse.experiments.recipe import Recipe
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.reports.figures import POLICIES
from capse.reports.recorded import record_runs, run_names
from capse.reports.report import render

HOSTILE = "<script>alert('x')</script> & \"$5_{}$\" 村"


@pytest.fixture(scope="module")
def recorded(runs):
    return record_runs(runs)


@pytest.fixture(scope="module")
def text(recorded):
    return render(recorded)


def command(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, CapseError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_page_is_well_formed_and_needs_nothing_else(text, read_page):
    page = read_page(text)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [value for _, attributes in page.elements for key, value in attributes.items() if key.endswith("href")]
    assert links
    assert all(link.removeprefix("#") in ids for link in links)
    assert not page.all("script")
    assert not any("src" in attributes for _, attributes in page.elements)
    assert "http" not in text
    assert "prefers-color-scheme: dark" in text


def test_every_figure_is_described(text, read_page):
    page = read_page(text)
    assert len(page.all("figure")) == len(page.all("figcaption")) == len(page.all("svg")) == 6
    assert all(svg["role"] == "img" for svg in page.all("svg"))
    assert len(page.all("title")) == 7  # the page's own, too
    assert all("scope" in header for header in page.all("th"))


def test_hostile_labels_stay_text(text, read_page):
    assert "<script" not in text
    assert "<i>" not in text
    assert HOSTILE in read_page(text).text


def test_all_policies_of_all_models_are_shown(text, read_page, recorded):
    page = read_page(text)
    for run in recorded:
        for policy in POLICIES:
            assert f"{run.evaluation.metrics['both'][policy]['mrr']:.4f}" in page.words
    assert [page.words.count(policy) for policy in POLICIES] == [3] * 4  # in both tables, and below the bars
    assert len([row for row in page.all("tr") if row.get("class") == "main"]) == 2


def test_the_result_is_what_evaluate_gives(runs, recorded):
    for folder, run in zip(runs, recorded, strict=True):
        assert run.evaluation.metrics == LinkPredictor.load(folder).evaluate("test").metrics
        assert run.reciprocal_ranks.mean() == pytest.approx(run.evaluation.metrics["both"]["realistic"]["mrr"])


def test_origin_and_settings_are_told(text, recorded):
    for run in recorded:
        assert run.results["date"] in text
        assert str(run.folder) in text
    assert "learning_rate: " in text
    assert "epoch 2 of 4" in text or "epoch 4 of 4" in text


def test_ties_are_told(recorded):
    everything_tied = Ranks(*(np.full(4, value) for value in (0, 11, 12)))
    tied = dict(zip(["heads", "tails"], [everything_tied] * 2, strict=True))
    metrics = {side: summarize(everything_tied) for side in ("both", "head", "tail")}
    evaluation = type(recorded[0].evaluation)(
        **{**vars(recorded[0].evaluation), **tied, "metrics": metrics, "warnings": ["not to be trusted"]}
    )
    run = type(recorded[0])(**{**vars(recorded[0]), "evaluation": evaluation})
    assert run.tied == 1
    page = render([run])
    assert 'class="note">TransE: not to be trusted' in page
    assert "in 100.0 % of the questions" in page


def test_examples_are_asked_of_all_models(recorded, hostile_graph):
    for run in recorded:
        assert len(run.examples) == 2
        for example in run.examples:
            assert len(example.guesses) == 3
            assert example.rank >= 1
    assert [example.question for example in recorded[0].examples] == [e.question for e in recorded[1].examples]


def test_examples_leave_training_out_and_know_what_is_true(recorded, hostile_graph):
    facts = {
        split: {
            (hostile_graph.entities.labels[h], hostile_graph.relations.labels[r], hostile_graph.entities.labels[t])
            for h, r, t in hostile_graph.split(split)
        }
        for split in ("train", "all")
    }
    for example in recorded[0].examples:
        head, relation, _ = example.question.split(" · ")
        assert (head, relation, example.answer) in facts["all"] - facts["train"]
        for guess in example.guesses:
            assert (head, relation, guess.name) not in facts["train"]
            assert guess.true == ((head, relation, guess.name) in facts["all"])


def test_the_command_writes_a_page(runs, tmp_path, read_page):
    out = tmp_path / "new" / "page.html"
    assert command(*runs, "--out", out).strip() == str(out)
    assert read_page(out.read_text(encoding="utf-8")).all("h1")
    assert [path.name for path in out.parent.iterdir()] == ["page.html"]


def test_one_untrained_run(hostile_graph, tmp_path, read_page):
    fit(
        hostile_graph,
        Recipe.resolve(model="distmult", overrides=["model.dim=4", "training.epochs=0"]),
        out=tmp_path / "run",
    )
    page = read_page(render(record_runs([tmp_path / "run"])))
    assert "not trained at all." in page.text
    assert "Training" not in page.words


def test_runs_of_one_model_are_told_apart_by_folder(runs, tmp_path):
    for copy in ("again", "transe"):
        shutil.copytree(runs[0], tmp_path / copy)
    assert list(run_names([runs[0], tmp_path / "again", runs[1], runs[1]])) == [
        "TransE (transe)",
        "TransE (again)",
        "CapsE",
    ]
    assert list(run_names([runs[0], tmp_path / "transe"])) == [f"TransE ({runs[0]})", f"TransE ({tmp_path / 'transe'})"]


def test_runs_on_different_data_are_refused(runs, planted, tmp_path):
    fit(
        planted,
        Recipe.resolve(model="distmult", overrides=["model.dim=4", "training.epochs=0"]),
        out=tmp_path / "other",
    )
    with pytest.raises(SettingsError, match="different data"):
        record_runs([runs[0], tmp_path / "other"])


@pytest.mark.parametrize("content", [None, "{"])
def test_a_run_that_is_not_whole_is_refused(runs, tmp_path, content):
    shutil.copytree(runs[0], tmp_path / "run")
    (tmp_path / "run" / "results.json").unlink()
    if content:
        (tmp_path / "run" / "results.json").write_text(content)
    with pytest.raises(RunError, match=r"results\.json is (missing or )?damaged"):
        command(tmp_path / "run", "--out", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_a_folder_is_no_file(runs, tmp_path):
    with pytest.raises(SettingsError, match="is a folder"):
        command(runs[0], "--out", tmp_path)
