"""M3GM's rows: refined runs of a plan, and the candidates of the released evaluation."""

from __future__ import annotations

import json

import numpy as np
import pytest

import capse
from capse.graph.dataset import Graph
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.triples import HEAD, TAIL
from capse_paper.findings.rows import table2
from capse_paper.jobs.refining import evaluate_as_released, main
from capse_paper.jobs.training import missing_jobs
from capse_paper.plans.graphs import Experiment
from capse_paper.recorded.runs import Results, departing

pytestmark = pytest.mark.usefixtures("one_thread")
QUICK = ("model.dim=6", "training.epochs=1", "validation.triples=20", "validation.every=1")
BASE = Experiment("base-tiny", "M3GM's association", "countries", "own", "demo-transe", QUICK, seeds=(0,))
REFINED = Experiment(
    "m3gm-tiny", "M3GM", "countries", "own", "m3gm-own", ("training.epochs=1", "refinement.relations=2"),
    refines="base-tiny", against="base-tiny", seeds=(0,),
)  # fmt: skip


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    for job in missing_jobs((REFINED, BASE), (REFINED,), folder):
        job.run()
    return folder


def test_what_is_refined_is_trained_first_and_both_are_recorded(out):
    assert missing_jobs((REFINED, BASE), (REFINED,), out) == []
    results = Results(out)
    (record,) = results.records(REFINED)
    assert record.comparison["against"] == "base-tiny/seed-0"
    assert departing(results, (REFINED, BASE)) == []
    mean = record.evaluation["metrics"]["both"]["realistic"]["mrr"]
    before = results.records(BASE)[0].evaluation["metrics"]["both"]["realistic"]["mrr"]
    assert record.comparison["difference"] == pytest.approx(mean - before)
    assert record.released["triples"] == 311
    assert 0 <= record.released["dropped"] <= 311


def test_other_settings_than_the_plans_are_told(out):
    other = Experiment(**{**REFINED.__dict__, "overrides": ("training.epochs=1", "refinement.top=7")})
    (line,) = departing(Results(out), (other,))
    assert "refinement.top: 100, not 7" in line


def test_the_released_protocol_has_a_row_of_its_own(out):
    countries = {"M3GM": Experiment(**{**REFINED.__dict__, "dataset": "countries"})}
    rows = {row["model"]: row for row in table2(Results(out), tuple(countries.values()))}
    assert rows["M3GM"]["ours"]["realistic"]["mrr"]["seeds"] == [0]


def test_candidates_are_left_out_as_the_released_evaluation_does(tmp_path):
    """Against the same said in plain Python."""
    generator = np.random.default_rng(0)
    facts = {(f"e{a}", f"r{r}", f"e{b}") for a, r, b in generator.integers([8, 2, 8], size=(60, 3))}
    ring = [(f"e{i}", f"r{r}", f"e{(i + 1) % 8}") for i in range(8) for r in range(2)]
    rest = sorted(facts - set(ring))
    graph = Graph.from_triples([*ring, *rest[::3]], rest[1::3], rest[2::3])
    run = capse.fit(graph, capse.DistMult(dim=3), training=capse.Training(epochs=0))
    refined = capse.refine(run, training=capse.Training(epochs=1))
    found = evaluate_as_released(refined)
    every, known = (
        {tuple(map(int, row)) for row in rows} for rows in (graph.split("all"), [*graph.train, *graph.valid])
    )
    scores = {free: plain_scores(refined, free) for free in (HEAD, TAIL)}
    reciprocal, dropped = [], []
    for h, r, t in map(tuple, graph.test.tolist()):
        dropped += [(t, r, h) in known] * 2
        for free, given, true in ((HEAD, t, h), (TAIL, h, t)):
            own = scores[free][r, given]

            def edge(answer, free=free, given=given, r=r):
                return (answer, r, given) if free == HEAD else (given, r, answer)

            rivals = [
                own[e] for e in range(8)
                if e not in (true, given) and edge(e) not in every and edge(e)[::-1] not in known
            ]  # fmt: skip
            higher, same = sum(s > own[true] for s in rivals), sum(s == own[true] for s in rivals)
            reciprocal.append(1 / (1 + higher + same / 2))
    assert (found["triples"], found["dropped"]) == (len(graph.test), sum(dropped) // 2)
    assert 0 < sum(dropped) < len(dropped)
    assert found["metrics"]["both"]["realistic"]["mrr"] == pytest.approx(np.mean(reciprocal))
    left = np.array(reciprocal)[~np.array(dropped)]
    assert found["without_dropped"]["both"]["realistic"]["mrr"] == pytest.approx(left.mean())


def plain_scores(run, free):
    """All scores of every question, one at a time."""
    import torch

    graph = run.graph
    found = {}
    for r in range(len(graph.relations)):
        for node in range(len(graph.entities)):
            ids = torch.tensor([r]), torch.tensor([node])
            with torch.no_grad():
                answer = run.model.score_heads(*ids) if free == HEAD else run.model.score_tails(*reversed(ids))
            found[r, node] = answer[0].tolist()
    return found


def test_one_command_does_all_that_a_row_needs(tmp_path, capsys):
    run = capse.fit("countries", capse.DistMult(dim=4), training=capse.Training(epochs=1), out=tmp_path / "base")
    changes = ["--set", "training.epochs=1", "--set", "refinement.relations=2"]
    main([str(run.folder.path), "--out", str(tmp_path / "refined"), *changes])
    assert "released protocol" in capsys.readouterr().out
    written = {path.name for path in (tmp_path / "refined").iterdir()}
    assert {"evaluation.json", "released.json", "paired.json", "model.safetensors"} <= written
    assert json.loads((tmp_path / "refined" / "paired.json").read_text())["against"] == "base"
    assert LinkPredictor.load(tmp_path / "refined").graph.name == "countries"
