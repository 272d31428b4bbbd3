"""What capsules consist of: the list is whole, and all of it can be trained, here on a small graph."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from capse.experiments.recipe import Recipe
from capse.graph.link_prediction.predictor import LinkPredictor
from capse_paper.findings.collect import collect
from capse_paper.jobs.training import missing_jobs
from capse_paper.plans.ablation import ABLATION, DISTANCE, RANK
from capse_paper.plans.experiment import FB15K237, WN18RR
from capse_paper.plans.graphs import named, needed, plan_of
from capse_paper.report.blocks import blocks

pytestmark = pytest.mark.usefixtures("one_thread")
TINY = {"": 4, f"model.dim={RANK}": 6, f"model.dim={RANK + DISTANCE}": 10, f"model.dim={2 * RANK}": 12}


def tiny(experiment):
    """The same on the embedded graph, with short vectors and one epoch at most."""
    dim = TINY[next((change for change in experiment.overrides if change.startswith("model.dim")), "")]
    epochs = 0 if "training.epochs=0" in experiment.overrides else 1
    model = Recipe.resolve(experiment.recipe).model_name
    sizes = ("model.distance_dims=4",) if "capse" in model else ()
    quick = (f"model.dim={dim}", f"training.epochs={epochs}", "training.precision=float32", "validation.triples=20")
    return replace(
        experiment, dataset="countries", overrides=(*experiment.overrides, *sizes, *quick, "validation.every=1")
    )


# Without routing, whose loops take a minute to compile on a CPU
SMALL = [tiny(row) for row in ABLATION if row.dataset == WN18RR and "-m3-" not in row.name]


def test_both_data_sets_have_the_same_rows():
    rows = [[row for row in ABLATION if row.dataset == data] for data in (WN18RR, FB15K237)]
    names = [[(row.name.removesuffix(f"-{row.dataset}"), row.model) for row in part] for part in rows]
    assert set(names[0]) < set(names[1])  # which has the headline rows at full rank as well
    assert {name for name, _ in set(names[1]) - set(names[0])} == {"complex-1000", "capsules-1000"}
    assert len({row.name for row in ABLATION}) == len(ABLATION)
    assert plan_of("ablation") is ABLATION
    assert needed(ABLATION, "ablation") == list(ABLATION)


@pytest.mark.parametrize("experiment", ABLATION, ids=lambda experiment: experiment.name)
def test_what_a_row_starts_from_fits_into_its_vectors(experiment):
    def sizes(row):
        model = Recipe.resolve(row.recipe, data=row.dataset, overrides=list(row.overrides)).model
        return model.dim, getattr(model, "distance_dims", 0)

    starts = [sizes(named(ABLATION, name))[0] for name in experiment.starts.values()]
    dim, distance = sizes(experiment)
    if starts:
        assert sum(starts) == dim + (distance if "capsules" in experiment.name else 0)
    if experiment.against:
        assert named(ABLATION, experiment.against).dataset == experiment.dataset


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    for job in missing_jobs(SMALL, SMALL, folder, seeds=[0]):
        job.run()
    return folder


def test_all_of_it_is_trained_and_compared(out):
    plan = SMALL
    assert missing_jobs(plan, plan, out, seeds=[0]) == []
    for row in plan:
        compared = out / "runs" / row.name / "seed-0" / "paired.json"
        assert compared.is_file() == bool(row.against)
        if row.against:
            assert json.loads(compared.read_text())["against"] == f"{row.against}/seed-0"


def test_two_seeds_added_up_score_the_sum_of_their_scores(out):
    runs = out / "runs"
    once, again = (LinkPredictor.load(runs / f"complex-{RANK}-wn18rr" / f"seed-{seed}") for seed in (0, 1))
    twice = LinkPredictor.load(runs / f"complex-{RANK}-twice-wn18rr" / "seed-0")
    scores = [run.model.scorer.score_triples(*_vectors(run)) for run in (once, again, twice)]
    assert scores[2].tolist() == pytest.approx((scores[0] + scores[1]).tolist(), rel=1e-4, abs=1e-5)
    assert not (runs / f"complex-{RANK}-wn18rr" / "seed-2").exists()


def _vectors(run):
    """Of ten training facts, and of their inverses."""
    h, r, t = (run.model.entities, run.model.relations, run.model.entities)
    triples = run.graph.train[:10]
    inverse = run.model.relation_count
    heads, relations, tails = triples.T
    return (
        h[[*heads, *tails]].detach(),
        r[[*relations, *(relations + inverse)]].detach(),
        t[[*tails, *heads]].detach(),
    )


def test_the_report_shows_it_once_something_is_recorded(planted_results):
    rows = collect(planted_results, ABLATION, "ablation").rows["ablation"]
    assert [row["ours"] for row in rows] == [None] * len(ABLATION)
    text = "\n".join(block.to_text() for block in blocks("ablation", rows))
    assert "What capsules consist of, FB15k-237: MRR on the test set" in text
    assert "ablation" not in collect(planted_results, ABLATION, "all").rows
