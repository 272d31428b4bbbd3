"""capse search train, evaluate and rerank: from a log to results in another order, and what is refused."""

from __future__ import annotations

import json
import re
from functools import partial

import pytest

from capse.cli import main
from capse.search.ingest import ingest
from capse.search.logs.search_log import SearchLog
from capse.search.logs.simulation import SimulationSettings, simulate

QUICK = ["vectors.dimensions=8", "training.epochs=2", "training.device=cpu"]
CAPSE = [*QUICK, "model.filters=4"]

pytestmark = pytest.mark.usefixtures("one_thread")


def sets(*options):
    return [part for option in options for part in ("--set", option)]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """An ingested log."""
    folder = tmp_path_factory.mktemp("log")
    simulated = simulate(SimulationSettings(users=12, topics=6, documents=60, impressions=300, days=30))
    simulated.write_jsonl(folder / "raw")
    ingest(folder / "raw", folder / "log")
    return folder / "log"


@pytest.fixture(scope="module")
def run(log, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    with pytest.raises(SystemExit) as exit:
        main(["search", "train", "--log", str(log), "--method", "capse", "--out", str(out), *sets(*CAPSE)])
    assert not exit.value.code
    return out


@pytest.fixture
def capse(run_command):
    """Runs ``capse search ...``."""
    return partial(run_command, "search")


def test_train_answers_with_the_folder_and_resumes_with_a_bare_command(capse, log, tmp_path):
    out = tmp_path / "run"
    status, output, errors = capse("train", "--log", log, "--method", "transe", "--out", out, *sets(*QUICK))
    assert (status, output) == (0, f"{out}\n")
    assert re.search(r"epoch \d: loss \d+\.\d+, validation MRR 0\.\d+, Hits@1 \d+\.\d % \(best so far\)", errors)
    assert {path.name for path in out.iterdir()} >= {
        "recipe.yaml",
        "model.safetensors",
        "vectors",
        "users.parquet",
        "metrics.jsonl",
        "results.json",
        "checkpoints",
    }
    assert capse("train", "--resume", "--log", log, "--out", out)[0] == 0
    for method in ("transe", "sp"):
        status, _, errors = capse("train", "--log", log, "--method", method, "--out", out)
        assert status == 2
        assert "choose another --out" in errors


def test_evaluate_prints_the_method_beside_what_it_should_be_seen_with(capse, log, run):
    status, output, _ = capse("evaluate", "--log", log, "--method", "capse", "--run", run, "--json")
    found = json.loads(output)
    assert status == 0
    assert found["method"] == "capse"
    assert found["impressions"] == len(SearchLog.load(log).judged("test"))
    assert {"mrr", "hits@1", "ndcg@10", "warm", "cold", "intervals"} <= set(found)
    assert set(found["beside"]) == {"chance", "engine", "document_only", "without_user", "own_document_only"}
    status, output, _ = capse("evaluate", "--log", log, "--method", "capse", "--run", run, "--history", "frozen")
    assert status == 0
    assert f"{found['impressions']} lists with a satisfied click, of 10 users, frozen history" in " ".join(
        output.split()
    )
    assert "without user" in output
    assert {"over_users", "p_value"} <= set(found["comparisons"]["engine"])
    assert " over users." in output


@pytest.mark.parametrize("method", ["se", "ci", "pclick"])
def test_what_needs_no_training_is_evaluated_at_once(capse, log, method):
    status, output, _ = capse("evaluate", "--log", log, "--method", method, "--json")
    assert status == 0
    assert 0 < json.loads(output)["mrr"] < 1


def test_a_method_without_a_run_is_trained_and_the_leak_control_runs_it_all_again(capse, log):
    arguments = ("evaluate", "--log", log, "--method", "transe", "--leak-control", "--json", *sets(*QUICK))
    status, output, errors = capse(*arguments)
    found = json.loads(output)
    assert status == 0
    assert set(found["leak_control"]) >= {"mrr", "chance", "leaks", "p_value"}
    assert errors.count("making vectors of") == 2


@pytest.fixture(scope="module")
def best(log, tmp_path_factory):
    """A run of whatever is trained where no method is named."""
    out = tmp_path_factory.mktemp("runs") / "best"
    with pytest.raises(SystemExit) as exit:
        main(["search", "train", "--log", str(log), "--out", str(out)])
    assert not exit.value.code
    return out


def test_without_a_method_the_best_is_trained_and_served(capse, log, best, run):
    status, output, errors = capse(
        "evaluate", "--log", log, "--run", best, "--against", run, "--against", "se", "--json"
    )
    found = json.loads(output)
    assert (status, found["method"]) == (0, "forests")
    assert set(found["against"]) == {str(run), "se"}
    assert found["comparisons"][str(run)]["difference"] == pytest.approx(
        found["mrr"] - found["against"][str(run)]["mrr"]
    )
    assert found["comparisons"]["se"] == found["comparisons"]["engine"]
    shown = SearchLog.load(log)
    ids = list(shown.documents.ids[:5])
    status, output, _ = capse(
        "rerank", best, "--query", "word", "--documents", ",".join(ids), "--user", shown.users[0], "--json"
    )
    ranked = json.loads(output)["documents"]
    assert status == 0
    assert all(row["score"] is not None for row in ranked)
    status, _, errors = capse("evaluate", "--log", log, "--run", best, "--against", "convkb")
    assert status == 2
    assert "would have to be trained: train it, and give the run's folder" in errors


def test_a_run_of_another_log_is_refused(capse, best, run, tmp_path):
    simulate(SimulationSettings(users=12, topics=6, documents=60, impressions=301, days=30)).write_jsonl(
        tmp_path / "raw"
    )
    ingest(tmp_path / "raw", tmp_path / "other")
    for arguments in (["--run", best], ["--run", run], ["--method", "se", "--against", best]):
        status, output, errors = capse("evaluate", "--log", tmp_path / "other", *arguments)
        assert (status, output) == (2, "")
        assert "was trained on another log ('log') than the one that is given ('other')" in errors


def test_rerank_one_query_and_a_file_of_them(capse, log, best, tmp_path):
    ids = list(SearchLog.load(log).documents.ids[:5])
    asked = ("--query", "word", "--documents", ",".join(ids))
    status, output, _ = capse("rerank", best, *asked, "--clicked", ids[4], "--explain")
    assert status == 0
    assert f"like {ids[4]} (1.00)" in output
    status, output, _ = capse("rerank", best, *asked, "--clicked", ids[4], "--json")
    answer = json.loads(output)["documents"]
    lines = [{"query": "word", "user": "new", "documents": ids, "clicked": [ids[4]]}]
    (tmp_path / "requests.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n\n", encoding="utf-8")
    status, output, _ = capse("rerank", best, "--input", tmp_path / "requests.jsonl")
    assert json.loads(output)["documents"] == answer
    assert sorted(row["position"] for row in answer) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("evaluate --log LOG --method best", "unknown method 'best'"),
        ("evaluate --log LOG --method se --run RUN", "runs are of sp, forests, capsules, transe, convkb, capse, blend"),
        ("evaluate --log LOG --method transe --run RUN", "was trained with capse, not transe"),
        ("evaluate --log LOG --method capse --run RUN --set training.epochs=1", "give either"),
        ("evaluate --log LOG --method sp --set training.epochs=1", "unknown setting 'training'"),
        ("evaluate --log LOG --method se --history all", "choose from prequential, frozen"),
        ("evaluate --log LOG --method capse --set training.epoch=1", "did you mean 'training.epochs'"),
        ("evaluate --log RUN --method se", "log"),
        (
            "train --log LOG --out OUT --method ci",
            "learns nothing: runs are of sp, forests, capsules, transe, convkb, capse, blend",
        ),
        ("train --log LOG --out OUT --method distmult", "unknown method 'distmult'"),
        ("train --log NONE --out OUT", "NONE"),
        ("train --log LOG --out OUT nothing", "give a YAML file or one of"),
        ("rerank RUN", "give one of them"),
        ("rerank RUN --query q", "no documents are named"),
        ("rerank RUN --input NONE", "NONE cannot be read"),
        ("rerank LOG --query q --documents a", "is not a run"),
    ],
)
def test_wrong_input_is_said_in_one_line_with_status_2(capse, log, run, tmp_path, arguments, message):
    places = {"LOG": log, "RUN": run, "OUT": tmp_path / "out"}
    status, output, errors = capse(*(places.get(part, part) for part in arguments.split()))
    assert status == 2
    assert message in errors
    assert len(errors.strip().splitlines()) == 1
    assert not output
    assert not (tmp_path / "out").exists()
