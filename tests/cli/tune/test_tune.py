"""capse tune: what it prints, and how it goes on."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from capse.experiments.study import StudyFolder
from capse.runs.folder import RunFolder
from tests.cli.tune.processes import scores

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_answer_is_a_table_and_the_rest_is_progress(capse, work):
    status, output, errors = capse("quick.yaml", "--data", "planted", "--out", "study")
    assert status == 0
    rows = [re.findall(r"[\d.]+", line) for line in output.splitlines() if line.startswith("│")]
    values = [float(row[3]) for row in rows]
    assert len(values) == 4
    assert values == sorted(values, reverse=True)
    recipe, run, page = output.splitlines()[-3:]
    assert recipe == "the best recipe: study/best.yaml"
    assert re.fullmatch(r"the best run: study/trials/\S+", run)
    assert page == "table and curves: study/study.html"
    assert errors.splitlines()[0] == "4 trials"
    assert re.search(r"^trial 3: training.learning_rate=0.01, training.seed=1: mrr 0\.\d{4}", errors, re.MULTILINE)


def test_json_and_the_best_recipe_that_train_takes(capse, run_command, work):
    status, output, _ = capse("quick.yaml", "--data", "planted", "--out", "study", "--json")
    first, *rest = json.loads(output)
    assert status == 0
    assert list(first) == ["trial", "settings", "metric", "value", "epochs", "best_epoch", "seconds", "run"]
    assert first["run"] == f"study/trials/00{first['trial']}"
    assert first["value"] == max(row["value"] for row in (first, *rest))
    assert run_command("train", "study/best.yaml", "--out", "again")[0] == 0  # it names its data
    assert RunFolder("again").model.read_bytes() == RunFolder(first["run"]).model.read_bytes()


def test_a_grid_and_no_data_go_on_with_the_study_s_own(capse, work):
    """The recipe that the grid names has no data: the study's name for it stays, and so does study.yaml."""
    _, whole, _ = capse("quick.yaml", "--data", "planted", "--out", "study", "--json")
    study = StudyFolder("study")
    before = study.file.read_bytes()
    study.run(0).results.unlink()  # as if killed just before its end
    shutil.move("planted", "elsewhere")  # the study has a copy
    status, output, errors = capse("quick.yaml", "--resume", "--out", "study", "--json")
    assert (status, scores(output)) == (0, scores(whole))
    assert "4 trials, 3 of them trained before" in errors
    assert "failed" not in errors
    assert study.file.read_bytes() == before


def test_a_damaged_result_is_one_line(capse, work):
    capse("quick.yaml", "--data", "planted", "--out", "study")
    results = StudyFolder("study").run(0).results
    whole = results.read_text()
    for content in (whole[:40], "{}", "3", '{"best_validation": null}'):
        results.write_text(content)
        status, output, errors = capse("--resume", "--out", "study")
        assert (status, output) == (2, "")
        assert errors.splitlines()[-1].startswith("error: study/trials/000/results.json is damaged: delete it")
        assert "Traceback" not in errors
    results.unlink()
    assert capse("--resume", "--out", "study")[0] == 0
    assert json.loads(results.read_text())["best_validation"] == json.loads(whole)["best_validation"]
