"""Refining a finished run: what is found, what is left in the folder, and what goes on after a kill."""

from __future__ import annotations

import json
import shutil
from typing import Any

import numpy as np
import pytest
import torch

import capse
from capse.errors import CapseError, DataError, RunError, SettingsError
from capse.evaluation.ranks import Ranks
from capse.experiments.engine import Listener
from capse.experiments.refine_recipe import RefineRecipe, refine_recipe
from capse.experiments.refined_validation import RefinedValidator
from capse.graph.dataset import Graph
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.link_prediction.ranking import rank_split
from capse.graph.refinement.refined_model import RefinedModel
from capse.runs.folder import RunFolder
from capse.triples import TripleIndex

FEW = capse.Training(epochs=2, batch_size=32)


@pytest.fixture(scope="module")
def mirrored() -> Graph:
    """Random friendships, known one way; held out are some of them the other way round. Nothing else decides."""
    generator = np.random.default_rng(0)
    pairs = {tuple(sorted(generator.choice(60, 2, replace=False).tolist())) for _ in range(160)}
    one_way = [(f"p{a:02}", "knows", f"p{b:02}") for a, b in sorted(pairs)]
    back = [(b, r, a) for a, r, b in one_way]
    likes = [(f"p{a:02}", "likes", f"p{b:02}") for a, b in generator.integers(60, size=(80, 2))]
    return Graph.from_triples([*one_way, *back[::2], *likes], back[1::4], back[3::4], name="mirrored")


@pytest.fixture(scope="module")
def base(mirrored, tmp_path_factory):
    """A run that has hardly learnt anything."""
    out = tmp_path_factory.mktemp("base") / "run"
    return capse.fit(mirrored, capse.ComplEx(dim=4), training=capse.Training(epochs=1), out=out)


@pytest.fixture(scope="module")
def refined(base, tmp_path_factory):
    out = tmp_path_factory.mktemp("refined") / "run"
    return capse.refine(base.folder.path, out=out, training=FEW, refinement=capse.Refinement(top=60))


def mrr(run: Any, split: str = "test") -> float:
    return run.evaluate(split).metrics["both"]["realistic"]["mrr"]


def test_where_the_motif_decides_refining_finds_it(base, refined):
    """Of 60 people the one who knows you: the run itself cannot tell, the edge back can."""
    assert mrr(base) < 0.25
    assert mrr(refined) > 0.75


def test_without_the_motif_nothing_is_gained(mirrored, base):
    """The same with all edges one way: then an edge back speaks for nothing."""
    one_way = Graph.from_triples(
        mirrored.train[mirrored.train[:, 0] < mirrored.train[:, 2]], mirrored.valid, mirrored.test,
        entities=mirrored.entities, relations=mirrored.relations,
    )  # fmt: skip
    run = capse.refine(capse.fit(one_way, capse.ComplEx(dim=4), training=capse.Training(epochs=1)), training=FEW)
    assert mrr(run) < 0.3


def test_a_refined_run_is_a_run_like_any_other(base, refined, tmp_path):
    moved = tmp_path / "elsewhere"
    shutil.copytree(refined.folder.path, moved)
    loaded = LinkPredictor.load(moved, device="cpu")
    assert isinstance(loaded.model, RefinedModel)
    assert mrr(loaded) == mrr(refined)
    answers, expected = (run.predict(relation="knows", head="p03", top=5) for run in (loaded, refined))
    assert answers == expected
    best = answers[0]
    why = loaded.explain(head="p03", relation="knows", tail=best.entity)
    assert why.score == pytest.approx(best.score)
    assert why.moved.score == pytest.approx(base.score([("p03", "knows", best.entity)])[0])
    assert loaded.score([("p03", "knows", best.entity)])[0] == pytest.approx(best.score)
    calibration = loaded.calibrate()
    assert calibration.slope > 0
    loaded.save(tmp_path / "copy")
    assert mrr(capse.load(tmp_path / "copy", device="cpu")) == mrr(refined)


def test_the_record_says_what_the_run_reached_by_itself(base, refined):
    results = json.loads(refined.folder.results.read_text())
    assert results["motifs"] == len(refined.model.weights)
    alone = results["refined_run"]["validation"]["realistic"]["mrr"]
    assert alone < results["best_validation"]["mrr"]
    recipe = RunFolder(refined.folder.path).read_recipe()
    assert recipe["model"] == RunFolder(base.folder.path).read_recipe()["model"]
    assert recipe["refinement"]["top"] == 60


@pytest.mark.parametrize("alpha", ["sum", "one", "relation"])
@pytest.mark.parametrize(("symmetric", "top"), [(False, 7), (True, 7), (True, 500)])
def test_the_validation_ranks_are_those_that_an_evaluation_would_find(mirrored, base, alpha, symmetric, top):
    chosen = capse.Refinement(top=top, symmetric=symmetric, alpha=alpha)
    run: Any = capse.refine(base, training=capse.Training(epochs=1), refinement=chosen)
    stored = RunFolder(run.folder.path).read_recipe()
    validator = RefinedValidator(run.model, mirrored, RefineRecipe.from_mapping({"format": 2, **stored}))
    value, summary = validator()
    known = TripleIndex(np.concatenate([mirrored.train, mirrored.valid]), len(mirrored.entities), 2)
    ranks = Ranks.concatenate(list(rank_split(run.model, mirrored.valid, known)))
    assert value == pytest.approx((1 / ranks.realistic).mean(), abs=1e-12)
    assert summary["realistic"]["mr"] == pytest.approx(ranks.realistic.mean(), abs=1e-12)
    own = Ranks.concatenate(list(rank_split(base.model, mirrored.valid, known)))
    assert validator.of_the_run()["realistic"]["mrr"] == pytest.approx((1 / own.realistic).mean())


def test_alpha_of_each_relation_is_the_best_on_validation(mirrored, base):
    run: Any = capse.refine(base, training=capse.Training(epochs=1), refinement=capse.Refinement(alpha="relation"))
    known = TripleIndex(np.concatenate([mirrored.train, mirrored.valid]), len(mirrored.entities), 2)
    chosen = float(run.model.motifs.weight[0])

    def reached(alpha):
        run.model.motifs.weight[0], run.model.motifs.keep[0] = alpha, 1 - alpha
        return (1 / Ranks.concatenate(list(rank_split(run.model, mirrored.valid, known))).realistic).mean()

    values = {alpha: reached(alpha) for alpha in np.linspace(0, 1, 21)}
    assert values[chosen] == pytest.approx(max(values.values()))


class Stop(Listener):
    """Ctrl-C in the second epoch."""

    def step(self, report):
        if report.epoch == 2 and report.step == 3:
            raise KeyboardInterrupt


def test_a_run_that_was_stopped_ends_with_the_same_bits(base, refined, tmp_path, weights_of):
    settings: dict[str, Any] = {"training": FEW, "refinement": capse.Refinement(top=60)}
    with pytest.raises(KeyboardInterrupt):
        capse.refine(base, out=tmp_path / "run", listener=Stop(), **settings)
    with pytest.raises(RunError, match="is not finished"):
        capse.load(tmp_path / "run")
    again = capse.refine(base, out=tmp_path / "run", resume=True)
    for name, tensor in weights_of(refined.folder.path).items():
        assert torch.equal(tensor, weights_of(again.folder.path)[name]), name


def test_going_on_over_other_weights_is_refused(mirrored, base, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        capse.refine(base, out=tmp_path / "run", training=FEW, listener=Stop())
    other = capse.fit(mirrored, capse.ComplEx(dim=4), training=capse.Training(epochs=1, seed=1), out=tmp_path / "other")
    with pytest.raises(RunError, match="begun over other weights than those of other: restore the run"):
        capse.refine(other, out=tmp_path / "run", resume=True)


def test_a_refined_run_does_not_need_the_run_that_it_was_made_from(mirrored, tmp_path):
    capse.fit(mirrored, capse.DistMult(dim=4), training=capse.Training(epochs=1), out=tmp_path / "gone")
    expected = mrr(capse.refine(tmp_path / "gone", out=tmp_path / "kept", training=FEW))
    shutil.rmtree(tmp_path / "gone")
    assert mrr(capse.load(tmp_path / "kept", device="cpu")) == expected
    with pytest.raises(RunError, match=r"there is no run in .*gone"):
        capse.refine(tmp_path / "gone", out=tmp_path / "again")


def bad(problem, base, mirrored, tmp_path):
    """Arguments that cannot be used, and what is said of them."""
    if problem == "refined twice":
        once = capse.refine(base, out=tmp_path / "once", training=capse.Training(epochs=0))
        return (once,), {}, "once is refined already: name the run that it was made from"
    if problem == "no validation set":
        graph = Graph.from_triples(mirrored.train, entities=mirrored.entities, relations=mirrored.relations)
        run = capse.fit(graph, capse.DistMult(dim=2), training=capse.Training(epochs=0))
        return (run,), {"refinement": capse.Refinement(alpha="relation")}, "no validation triples to choose α on"
    if problem == "unseen relation":
        facts = mirrored.train[mirrored.train[:, 1] == 0]
        graph = Graph.from_triples(facts, entities=mirrored.entities, relations=mirrored.relations)
        run = capse.fit(graph, capse.DistMult(dim=2), training=capse.Training(epochs=0))
        return (run,), {}, "no training fact has the relation 'likes'"
    if problem == "wrong loss":
        return (base,), {"overrides": ["loss.name=softmax"]}, "loss.name=margin"
    if problem == "wrong optimiser":
        return (base,), {"overrides": ["optimizer.name=adam"]}, "optimizer.name=adagrad"
    if problem == "wrong section":
        return (base,), {"overrides": ["model.dim=3"]}, "unknown setting 'model'"
    return (base, "nonsense"), {}, "unknown refinement 'nonsense'"


@pytest.mark.parametrize(
    "problem",
    [
        "refined twice", "no validation set", "unseen relation", "wrong loss", "wrong optimiser", "wrong section",
        "unknown recipe",
    ],
)  # fmt: skip
def test_what_cannot_be_refined_is_said_before_anything_is_written(problem, base, mirrored, tmp_path):
    arguments, options, message = bad(problem, base, mirrored, tmp_path)
    with pytest.raises((SettingsError, DataError, RunError, CapseError), match=message):
        capse.refine(*arguments, out=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_recipe_is_filled_strictly():
    described = {"data": "small", "model": {"name": "distmult"}}
    recipe = refine_recipe(described, training=capse.Training(epochs=7), refinement=capse.Refinement(top=5))
    assert (recipe.training.epochs, recipe.training.batch_size) == (7, 256)
    assert (recipe.refinement.top, recipe.refinement.alpha) == (5, "one")
    assert RefineRecipe.from_mapping(recipe.to_mapping()) == recipe
    with pytest.raises(SettingsError, match=r"did you mean 'refinement\.alpha'"):
        refine_recipe(described, overrides=["refinement.alpa=sum"])
