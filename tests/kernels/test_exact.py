"""Counts of float64 from float32 scores, compared with counts of scores that are all float64."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from capse.errors import SettingsError
from capse.experiments.fit import fit
from capse.experiments.recipe import Recipe
from capse.graph.benchmarks import EMBEDDED
from capse.graph.dataset import load_graph
from capse.graph.link_prediction.evaluation import evaluate
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.link_prediction.ranking import rank_split
from capse.kernels.counting import count_competitors
from capse.kernels.exact import GROUP, SAMPLE, count_exactly
from capse.kernels.scoring import forced
from capse.models import build_model, model_settings

MODELS: dict[str, dict[str, Any]] = {
    "paper": {"name": "capse", "filters": 20, "capsule_dim": 6},
    "paper-routed": {"name": "capse", "filters": 20, "capsule_dim": 6, "routing": 2},
    "released": {"name": "capse", "filters": 20, "capsule_dim": 6, "variant": "released"},
    "convkb": {"name": "convkb", "filters": 20},
    "transe": {"name": "transe"},
    "distmult": {"name": "distmult"},
    "conve": {"name": "conve", "dim": 16, "height": 4},
}
DIM = 12


@pytest.fixture(autouse=True, scope="module")
def in_one_thread(one_thread: None) -> None:
    """Tensors this small are done before a second thread has woken up."""


@pytest.fixture(scope="session")
def countries():
    return load_graph(EMBEDDED)


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Models of the embedded graph after a few epochs, by name."""
    made = {}

    def get(name):
        if name not in made:
            options = [f"model.{key}={value}" for key, value in MODELS[name].items() if key != "name"]
            options += [f"model.dim={DIM}", "training.epochs=5", "training.device=cpu", "validation.every=0"]
            options += ["training.batch_size=128", "training.learning_rate=0.01"]
            run = tmp_path_factory.mktemp("exact") / name
            fit(EMBEDDED, Recipe.resolve(model=MODELS[name]["name"], overrides=options), out=run)
            made[name] = LinkPredictor.load(run, "cpu").model
        return made[name]

    return get


def random_model(name, graph, seed=0, **options):
    filled = model_settings({"dim": DIM, **MODELS[name], **options})
    return build_model(filled, len(graph.entities), len(graph.relations), seed).eval()


def assert_ranks_are_those_of_float64(model, graph):
    """Where float64 itself decides: two ways to add the same numbers up agree."""
    triples = graph.test[:100]
    wide = copy.deepcopy(model).double()
    with forced("reference"):
        expected = rank_split(wide, triples, graph.known)
    other = rank_split(wide, triples, graph.known)
    for ours, exact, again in zip(rank_split(model, triples, graph.known, exact=True), expected, other, strict=True):
        decided = (exact.greater == again.greater) & (exact.equal == again.equal)
        assert decided.mean() >= 0.98
        assert (ours.greater == exact.greater)[decided].all()
        assert (ours.equal == exact.equal)[decided].all()
        assert (ours.candidates == exact.candidates).all()


@pytest.mark.parametrize("name", ["paper", "released", "convkb", "transe"])
def test_trained_models(trained, countries, name):
    assert_ranks_are_those_of_float64(trained(name), countries)


@pytest.mark.parametrize("name", ["paper", "released", "convkb"])
def test_scores_of_trained_models(trained, countries, name):
    """Within 1e-5 of a question's largest score, and the true answer's the same among few as among all."""
    model = trained(name)
    heads, relations, tails = torch.from_numpy(countries.test[:50].astype(np.int64)).unbind(1)
    with torch.no_grad(), forced("reference"):
        exact = copy.deepcopy(model).double().score_tails(heads, relations)
    with torch.no_grad(), forced("cpu"):
        scores, few = model.score_tails(heads, relations), model.score_tails(heads, relations, tails)
    assert ((scores - exact).abs() / exact.abs().amax(1, keepdim=True)).max() <= 1e-5
    assert few.diagonal().equal(scores.gather(1, tails[:, None])[:, 0])


@pytest.mark.parametrize("name", MODELS)
def test_random_models(countries, name):
    assert_ranks_are_those_of_float64(random_model(name, countries), countries)


@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("name", ["paper", "paper-routed", "released", "convkb"])
def test_models_most_of_whose_filters_are_off(countries, name, reciprocal):
    model = random_model(name, countries, reciprocal=reciprocal, filter_start="normal")
    with torch.no_grad():
        for table in (model.entities, model.relations):
            table.normal_(0, 0.5, generator=torch.Generator().manual_seed(0))
        model.scorer.bias.fill_(-0.25)
    ranks = rank_split(model, countries.test[:100], countries.known, exact=True)
    assert any(side.equal.any() for side in ranks)
    assert_ranks_are_those_of_float64(model, countries)


@pytest.mark.parametrize("name", ["paper", "distmult"])
def test_entities_so_near_to_each_other_that_float32_errs(countries, name):
    """Also those with equal vectors, which tie."""
    model = random_model(name, countries)
    with torch.no_grad():
        model.entities.copy_(model.entities[:1] + 1e-5 * model.entities)
        model.entities[::5] = model.entities[0]
    plain = rank_split(model, countries.test[:100], countries.known)
    exact = rank_split(model, countries.test[:100], countries.known, exact=True)
    assert any((p.greater != e.greater).any() for p, e in zip(plain, exact, strict=True))
    assert_ranks_are_those_of_float64(model, countries)


def test_scores_whose_errors_are_beyond_the_usual_band(countries):
    """Entities far from the origin and near to each other: float32 has lost most of what tells them apart."""
    settings = model_settings({"name": "transe", "dim": DIM, "unit_ball": False})
    model = build_model(settings, len(countries.entities), len(countries.relations), 0).eval()
    with torch.no_grad():
        model.entities.mul_(0.01).add_(1000)
        model.relations.mul_(0.01)
    assert_ranks_are_those_of_float64(model, countries)


def test_scores_that_are_rounded_on_purpose_have_no_exact_ranks(countries):
    model = random_model("released", countries, readout="sigmoid")
    with pytest.raises(SettingsError, match="ranks by rounded scores"):
        rank_split(model, countries.test, countries.known, exact=True)


def test_a_model_that_is_no_triple_model_is_refused(countries):
    class Table:
        device = torch.device("cpu")

        def score_tails(self, heads, relations):
            return torch.zeros(len(heads), len(countries.entities))

    with pytest.raises(Exception, match="exact ranks of a Table: they need a TripleModel"):
        evaluate(Table(), countries, exact=True)  # type: ignore[arg-type] # that is the mistake


class TestCounting:
    @pytest.fixture
    def table(self):
        """Float64 scores, many of them equal or next to it."""
        generator = np.random.default_rng(0)
        return torch.from_numpy(generator.integers(0, 40, (30, 200)) + 1e-7 * generator.integers(0, 3, (30, 200)))

    @pytest.mark.parametrize("queries", [0, 1, GROUP, 2 * GROUP + 5])
    def test_from_scores_with_errors(self, table, queries):
        generator = np.random.default_rng(1)
        rows, true = generator.integers(0, 30, queries), generator.integers(0, 200, queries)
        lengths = generator.integers(0, 9, 30)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        known = np.concatenate([np.sort(generator.choice(200, length, replace=False)) for length in lengths])
        error = torch.from_numpy(generator.uniform(-1, 1, table.shape))
        scores = (table + 9e-6 * table.amax(1, keepdim=True) * error).float()
        asked = []

        def rescore(rows, candidates):
            asked.append(len(rows) * len(candidates))
            return table[torch.from_numpy(rows)][:, torch.from_numpy(candidates)]

        found = count_exactly(scores, rows, true, offsets, known, rescore)
        expected = count_competitors(table, rows, true, offsets, known)
        assert all((ours == exact).all() for ours, exact in zip(found, expected, strict=True))
        if queries > 1:
            assert (count_competitors(scores, rows, true, offsets, known).greater != expected.greater).any()

    def test_only_what_is_near_is_scored_again(self):
        scores = torch.linspace(-1, 1, 1001).expand(3, -1)
        asked = []

        def rescore(rows, candidates):
            asked.append((rows.tolist(), candidates.tolist()))
            return scores[: len(rows), torch.from_numpy(candidates)].double()

        nothing = np.zeros(4, np.int64)
        counts = count_exactly(scores, np.array([0, 2, 2]), np.array([400, 400, 7]), nothing, nothing[:0], rescore)
        ((rows, candidates),) = asked
        assert rows == [0, 2]
        assert {7, 400} <= set(candidates)
        assert len(candidates) <= 2 + 1.1 * SAMPLE
        assert counts.greater.tolist() == [600, 600, 993]

    def test_not_a_number(self, table):
        table[3, 5] = float("nan")
        nothing = np.zeros(31, np.int64)
        counts = count_exactly(
            table.float(), np.array([2, 3]), np.array([0, 0]), nothing, nothing[:0], lambda *_: pytest.fail("asked")
        )
        assert counts.finite.tolist() == [True, False]
