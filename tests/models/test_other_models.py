"""What single models promise beyond their formula: dropout, starts, constraints, magnitudes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from capse import ComplEx, ConvE, ConvKB, DistMult, TransE
from capse.models import MODELS, build_model, model_settings
from capse.models.conve import ConvEScorer
from capse.models.convkb import ConvKBScorer

TRANSLATIONS = ["transe", "transh", "transr", "transd", "stranse"]


DROPOUTS = {
    "conve": ["input_dropout", "feature_dropout", "hidden_dropout"],
    "convkb": ["dropout"],
    "distmult": ["entity_dropout", "relation_dropout"],
    "complex": ["entity_dropout", "relation_dropout"],
}


class TestDropout:
    """Active in training, absent in evaluation."""

    @staticmethod
    def models(name, **settings):
        """The same weights with and without dropout."""
        make: Any = MODELS[name].Settings
        none = dict.fromkeys(settings, 0.0)
        sizes = {"dim": 60, "filters": 8} if name in ("conve", "convkb") else {"dim": 60}
        return [build_model(make(**sizes, **extra), entities=20, relations=3, seed=4) for extra in (settings, none)]

    EACH = pytest.mark.parametrize(
        ("name", "setting"), [(name, setting) for name, settings in DROPOUTS.items() for setting in settings]
    )

    @EACH
    def test_in_training_scores_vary(self, name, setting):
        dropping, _ = self.models(name, **{setting: 0.5})
        ids = torch.arange(20), torch.arange(20) % 3, torch.arange(20).flip(0)
        torch.manual_seed(0)
        first, second = dropping.train().score_triples(*ids), dropping.score_triples(*ids)
        assert not torch.allclose(first, second, atol=0)
        first, second = dropping.score_tails(*ids[:2]), dropping.score_tails(*ids[:2])
        assert not torch.allclose(first, second, atol=0)

    @EACH
    def test_in_evaluation_it_does_nothing(self, name, setting):
        dropping, plain = (model.eval() for model in self.models(name, **{setting: 0.5}))
        heads, relations = torch.arange(20), torch.arange(20) % 3
        with torch.no_grad():
            scores = dropping.score_tails(heads, relations)
            assert torch.equal(scores, dropping.score_tails(heads, relations))
            assert torch.equal(scores, plain.score_tails(heads, relations))

    @pytest.mark.parametrize("name", DROPOUTS)
    def test_no_dropout_is_exact_in_training(self, name):
        _, plain = self.models(name, **dict.fromkeys(DROPOUTS[name], 0.5))
        ids = torch.arange(20), torch.arange(20) % 3, torch.arange(20).flip(0)
        with torch.no_grad():
            assert torch.equal(plain.train().score_triples(*ids), plain.score_triples(*ids))

    def test_conve_drops_whole_feature_maps(self):
        settings = ConvE(dim=60, filters=8, input_dropout=0, feature_dropout=0.5, hidden_dropout=0)
        torch.manual_seed(0)
        scorer, seen = ConvEScorer(settings).train(), []
        scorer.hidden.register_forward_pre_hook(lambda module, inputs: seen.extend(inputs))
        scorer.score_triples(torch.randn(16, 61), torch.randn(16, 60), torch.randn(16, 61))
        maps = seen[0].unflatten(1, (8, -1))  # (16, 8, positions)
        dropped = (maps == 0).all(-1)
        assert 0.3 < dropped.float().mean() < 0.7
        assert (maps[~dropped] > 0).any(-1).all()


class TestConvE:
    def test_evaluation_uses_the_running_statistics(self):
        """In evaluation a triple's score does not depend on its batch, nor do the statistics move."""
        model = build_model(ConvE(dim=60, filters=4), entities=20, relations=3)
        ids = torch.arange(20), torch.arange(20) % 3, torch.arange(20).flip(0)
        with torch.no_grad():
            model.train().score_triples(*ids)
            before = {name: value.clone() for name, value in model.state_dict().items()}
            model.eval()
            together = model.score_triples(*ids)
            alone = torch.cat([model.score_triples(*(x[i : i + 1] for x in ids)) for i in range(20)])
        torch.testing.assert_close(alone, together)
        assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())

    def test_training_moves_the_running_statistics(self):
        model = build_model(ConvE(dim=60, filters=4), entities=20, relations=3).train()
        before = {name: value.clone() for name, value in model.state_dict().items() if "running" in name}
        model.score_triples(torch.arange(20), torch.arange(20) % 3, torch.arange(20))
        assert len(before) == 6
        assert not any(torch.equal(value, model.state_dict()[name]) for name, value in before.items())

    def test_the_entity_bias_starts_at_zero_and_adds_to_tails_only(self):
        model = build_model(ConvE(dim=60, filters=4, reciprocal=False), entities=5, relations=2).eval()
        heads, relations = torch.arange(5), torch.arange(5) % 2
        with torch.no_grad():
            assert not model.entities[:, -1].any()
            before = model.score_tails(heads, relations)
            model.entities[:, -1] = torch.arange(5.0)
            torch.testing.assert_close(model.score_tails(heads, relations), before + torch.arange(5.0))
            torch.testing.assert_close(model.score_heads(relations, heads), before_heads(model) + heads[:, None])

    def test_it_is_reciprocal_by_default(self):
        assert ConvE().reciprocal
        assert build_model(ConvE(dim=60), entities=2, relations=3).relations.shape[0] == 6


def before_heads(model):
    """Scores of heads without the tails' biases."""
    bias = model.entities[:, -1].clone()
    model.entities[:, -1] = 0
    scores = model.score_heads(torch.arange(5) % 2, torch.arange(5))
    model.entities[:, -1] = bias
    return scores


class TestUnitBall:
    """The translation family keeps entity vectors at length 1 or less."""

    @staticmethod
    def model(name, **settings):
        model = build_model(MODELS[name].Settings(dim=4, **settings), entities=6, relations=2)
        with torch.no_grad():
            model.relations.normal_(0, 3, generator=torch.Generator().manual_seed(0))
            model.entities.normal_(0, 3, generator=torch.Generator().manual_seed(1))
            model.entities[0, :4] = torch.tensor([0.3, 0.0, -0.4, 0.0])  # inside
            model.entities[1, :4] = 0
            model.entities[2, :4] = torch.tensor([0.0, 1.0, 0.0, 0.0])  # on the sphere
            model.entities[3, :4] = torch.tensor([3.0, 0.0, 4.0, 0.0])  # outside, length 5
        return model

    @pytest.mark.parametrize("name", TRANSLATIONS)
    def test_long_vectors_are_shortened_and_others_kept(self, name):
        model = self.model(name)
        before = model.entities.detach().clone()
        model.constrain()
        vectors = model.entities.detach()[:, :4]
        assert torch.equal(vectors[:3], before[:3, :4])
        torch.testing.assert_close(vectors[3], torch.tensor([0.6, 0.0, 0.8, 0.0]))
        assert (vectors.norm(dim=1) <= 1 + 1e-6).all()
        torch.testing.assert_close(
            torch.nn.functional.normalize(vectors, dim=1), torch.nn.functional.normalize(before[:, :4], dim=1)
        )

    @pytest.mark.parametrize("name", TRANSLATIONS)
    def test_nothing_else_moves(self, name):
        """Neither relations nor TransD's transfer vectors."""
        model = self.model(name)
        entities, relations = model.entities.detach().clone(), model.relations.detach().clone()
        model.constrain()
        assert not torch.equal(model.entities, entities)
        assert torch.equal(model.entities[:, 4:], entities[:, 4:])
        assert torch.equal(model.relations, relations)

    @pytest.mark.parametrize("name", TRANSLATIONS)
    def test_it_can_be_switched_off(self, name):
        model = self.model(name, unit_ball=False)
        before = model.entities.detach().clone()
        model.constrain()
        assert torch.equal(model.entities, before)

    @pytest.mark.parametrize("name", TRANSLATIONS)
    def test_all_vectors_can_be_kept_in_it(self, name):
        """Each k numbers of either table by themselves: relations, and projections with them."""
        model = self.model(name, bounded="all")
        tables = [table.detach().clone().view(-1, 4) for table in model.tables]
        model.constrain()
        for table, before in zip(model.tables, tables, strict=True):
            vectors = table.detach().view(-1, 4)
            expected = before / before.norm(dim=1, keepdim=True).clamp(min=1)
            torch.testing.assert_close(vectors, expected)
        assert not torch.equal(model.relations.detach().view(-1, 4), tables[1])

    @pytest.mark.parametrize("name", TRANSLATIONS)
    def test_a_fresh_model_is_in_the_ball(self, name):
        model = build_model(MODELS[name].Settings(dim=20), entities=50, relations=7)
        assert (model.entities.detach()[:, :20].norm(dim=1) <= 1 + 1e-6).all()

    def test_it_survives_training_steps(self):
        model = build_model(TransE(dim=4), entities=6, relations=2)
        optimiser = torch.optim.SGD(model.parameters(), lr=10.0)
        outside = 0
        for step in range(5):
            optimiser.zero_grad()
            model.score_tails(torch.arange(6), torch.arange(6) % 2)[:, step].sum().backward()
            optimiser.step()
            outside += int((model.entities.detach().norm(dim=1) > 1).sum())
            model.constrain()
            assert (model.entities.detach().norm(dim=1) <= 1 + 1e-6).all()
            assert model.entities.requires_grad
        assert outside > 0

    @pytest.mark.parametrize("name", ["distmult", "complex"])
    def test_others_have_no_constraint(self, name):
        model = build_model(MODELS[name].Settings(dim=4), entities=6, relations=2)
        with torch.no_grad():
            model.entities.mul_(100)
        before = model.entities.detach().clone()
        model.constrain()
        assert torch.equal(model.entities, before)


class TestStarts:
    @pytest.mark.parametrize("name", ["transr", "stranse"])
    @pytest.mark.parametrize("norm", [1, 2])
    @pytest.mark.parametrize("start", ["uniform", "normal"])
    def test_identity_matrices_start_as_transe(self, name, norm, start):
        sizes = {"dim": 4, "norm": norm, "vector_start": start}
        model, transe = (build_model(MODELS[x].Settings(**sizes), 5, 3, seed=2) for x in (name, "transe"))
        ids = torch.arange(5), torch.tensor([2, 0, 1, 1, 2]), torch.arange(5).flip(0)
        with torch.no_grad():
            transe.entities.copy_(model.entities)
            transe.relations.copy_(model.relations[:, :4])
            torch.testing.assert_close(model.score_triples(*ids), transe.score_triples(*ids))

    @pytest.mark.parametrize("name", TRANSLATIONS)
    def test_translations_start_at_length_one(self, name):
        """Bordes et al. 2013, Algorithm 1: uniform in ±6/√k, relation vectors then normalised."""
        model = build_model(MODELS[name].Settings(dim=4), entities=5, relations=9)
        torch.testing.assert_close(model.relations.detach()[:, :4].norm(dim=1), torch.ones(9))

    def test_translations_can_start_near_zero(self):
        """Normal of deviation 1/k, in entities and relations alike, as Nguyen et al.'s program has it."""
        settings = TransE(dim=50, vector_start="normal")
        model = build_model(settings, entities=400, relations=400)
        for table in model.tables:
            assert table.std().item() == pytest.approx(1 / 50, rel=0.05)
            assert table.mean().item() == pytest.approx(0, abs=1e-3)

    @pytest.mark.parametrize("name", ["transe", "transd"])
    def test_translations_can_start_on_the_sphere(self, name):
        """Every vector of length 1, TransD's projections by themselves, and no direction before others."""
        settings = model_settings({"name": name, "dim": 20, "vector_start": "sphere"})
        model = build_model(settings, entities=300, relations=200)
        for table in model.tables:
            vectors = table.detach().view(-1, 20)
            torch.testing.assert_close(vectors.norm(dim=1), torch.ones(len(vectors)))
            assert vectors.mean(0).abs().max() < 0.06
        transfer = model.entities.detach()[:, -20:]
        assert (name == "transd") == (not torch.equal(transfer, model.entities.detach()[:, :20]))

    @pytest.mark.parametrize("name", ["distmult", "complex"])
    def test_products_can_start_with_scores_of_one_spread(self, name):
        """Cai and Wang 2018: deviation 1/3.3 at 50 numbers, so that scores have deviation 0.2."""
        width = {"distmult": 50, "complex": 25}[name]
        settings = model_settings({"name": name, "dim": width, "vector_start": "normal"})
        model = build_model(settings, entities=400, relations=50)
        for table in model.tables:
            assert table.std().item() == pytest.approx(1 / 3.3, rel=0.05)
        if name == "distmult":
            scores = model.score_tails(torch.arange(50), torch.arange(50)).detach()
            assert scores.std().item() == pytest.approx(0.2, rel=0.1)

    @pytest.mark.parametrize("norm", [1, 2])
    def test_a_perfect_translation_has_the_highest_score(self, norm):
        model = build_model(TransE(dim=4, norm=norm), entities=5, relations=1)
        with torch.no_grad():
            model.entities[3] = model.entities[0] + model.relations[0]
            scores = model.score_tails(torch.tensor([0]), torch.tensor([0]))[0]
        assert scores[3] == 0
        assert (scores[[0, 1, 2, 4]] < 0).all()


class TestMagnitudes:
    def test_complex_numbers_have_a_modulus(self):
        scorer = build_model(ComplEx(dim=2), entities=2, relations=2).scorer
        vectors = torch.tensor([[3.0, 0.0, -4.0, 2.0], [0.0, -1.0, 0.0, 0.0]])  # 3 − 4i, 2i; 0, −1
        torch.testing.assert_close(scorer.magnitudes(vectors), torch.tensor([[5.0, 2.0], [0.0, 1.0]]))

    def test_real_numbers_have_an_absolute_value(self):
        scorer = build_model(DistMult(dim=2), entities=2, relations=2).scorer
        assert torch.equal(scorer.magnitudes(torch.tensor([-2.0, 3.0])), torch.tensor([2.0, 3.0]))


class TestSymmetry:
    """What DistMult cannot say and ComplEx can."""

    def test_distmult_is_symmetric_and_complex_is_not(self):
        for settings, symmetric in ((DistMult(dim=4), True), (ComplEx(dim=4), False)):
            model = build_model(settings, entities=5, relations=2).double()
            heads, relations, tails = torch.arange(4), torch.arange(4) % 2, torch.arange(1, 5)
            forward, backward = (
                model.score_triples(heads, relations, tails),
                model.score_triples(tails, relations, heads),
            )
            assert torch.allclose(forward, backward) == symmetric


def test_convkb_starts_from_transes_filters():
    """All filters (0.1, 0.1, −0.1): every feature is relu(0.1·(h + r − t))."""
    model = build_model(ConvKB(dim=3, filters=2), entities=3, relations=1)
    assert isinstance(model.scorer, ConvKBScorer)
    assert torch.equal(model.scorer.filters, torch.tensor([[0.1, 0.1], [0.1, 0.1], [-0.1, -0.1]]))
    h, r, t = model.entities[0], model.relations[0], model.entities[2]
    features = (0.1 * (h + r - t)).clamp(min=0)
    torch.testing.assert_close(
        model.score_triples(torch.tensor(0), torch.tensor(0), torch.tensor(2)), features @ model.scorer.weights.sum(1)
    )


def test_starts_of_convkbs_w():
    """Xavier's for a layer from kN numbers to one, as the released program has it, or normal, cut at two deviations."""
    scorers = [ConvKBScorer(ConvKB(dim=50, filters=40, weight_start=start)) for start in ("xavier", "normal")]
    xavier, normal = (scorer.weights.detach() for scorer in scorers)
    bound = (6 / 2001) ** 0.5
    assert 0.95 * bound < xavier.max() <= bound
    assert xavier.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)
    assert normal.abs().max() <= 0.2
    assert normal.std().item() == pytest.approx(0.088, rel=0.1)


def test_conve_trains_on_a_batch_of_one_question() -> None:
    model = build_model(ConvE(dim=12, height=3, filters=2), entities=4, relations=2)
    loss = model.train().score_tails(torch.tensor([1]), torch.tensor([0])).sum()
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
