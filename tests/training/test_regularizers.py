"""Penalties against their formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from capse.errors import SettingsError
from capse.training.losses import Loss
from capse.training.negatives import Negatives
from capse.training.objectives import build_objective
from capse.training.regularizers import Regularizer, penalty

BATCH = torch.tensor([[0, 1, 2], [3, 0, 3], [0, 2, 5]])


def vectors(model):
    """The nine vectors of the batch's three triples, as NumPy arrays."""
    entities, relations = model.entities.detach().numpy(), model.relations.detach().numpy()
    return [vector for h, r, t in BATCH.tolist() for vector in (entities[h], relations[r], entities[t])]


def charge(settings, model):
    with torch.no_grad():
        return float(penalty(settings, model, BATCH))


def test_n3_is_the_cube_of_absolute_values(make_model):
    model = make_model("distmult")
    expected = 0.3 / 3 * sum((np.abs(v) ** 3).sum() for v in vectors(model))
    assert charge(Regularizer(n3=0.3), model) == pytest.approx(expected, rel=1e-6)


def test_n3_of_complex_numbers_is_the_cube_of_their_modulus(make_model):
    """Lacroix et al. (ICML 2018): Σ |h_i|³ + |r_i|³ + |t_i|³ over complex h_i, not over its two real parts."""
    model = make_model("complex")
    modulus = [np.abs(v[:4] + 1j * v[4:]) for v in vectors(model)]
    expected = 0.3 / 3 * sum((m**3).sum() for m in modulus)
    assert charge(Regularizer(n3=0.3), model) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["distmult", "complex"])
def test_l2(make_model, name):
    model = make_model(name)
    expected = 0.2 / 3 * sum((v**2).sum() for v in vectors(model))
    assert charge(Regularizer(l2=0.2), model) == pytest.approx(expected, rel=1e-6)


def test_weights_are_the_scorers_own(make_model):
    model = make_model("capse", filters=3, capsule_dim=2)
    parameters = [model.scorer.filters, model.scorer.bias, model.scorer.weights]
    expected = 0.01 / 2 * sum((p.detach().numpy() ** 2).sum() for p in parameters)
    assert charge(Regularizer(weights=0.01), model) == pytest.approx(expected, rel=1e-6)
    assert charge(Regularizer(weights=0.01), make_model("distmult")) == 0


def test_of_convkbs_weights_only_w_is_held_small(make_model):
    """Nguyen et al. (NAACL 2018): λ/2 ‖w‖²."""
    model = make_model("convkb", filters=3)
    expected = 0.01 / 2 * (model.scorer.weights.detach().numpy() ** 2).sum()
    assert charge(Regularizer(weights=0.01), model) == pytest.approx(expected, rel=1e-6)


def test_penalties_add_up_and_reach_the_objective(make_model, triples):
    model = make_model("convkb", filters=3)
    settings = Regularizer(n3=0.1, l2=0.2, weights=0.3)
    parts = [Regularizer(n3=0.1), Regularizer(l2=0.2), Regularizer(weights=0.3)]
    total = sum(charge(part, model) for part in parts)
    assert charge(settings, model) == pytest.approx(total)
    assert penalty(Regularizer(), model, BATCH) is None

    plain, penalised = (
        build_objective(model, triples, Loss(), Negatives(), regularizer) for regularizer in (Regularizer(), settings)
    )
    losses = [float(o(BATCH, torch.Generator().manual_seed(0)).detach()) for o in (plain, penalised)]
    assert losses[1] - losses[0] == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("loss", ["bce", "kl"])
@pytest.mark.parametrize("reciprocal", [False, True])
def test_penalties_reach_losses_of_whole_questions(make_model, triples, loss, reciprocal):
    """A question is charged for its entity twice and its relation once: it stands for a triple with its answer."""
    model = make_model("convkb", filters=3, reciprocal=reciprocal)
    settings = Regularizer(n3=0.1, l2=0.2, weights=0.3)
    plain, penalised = (
        build_objective(model, triples, Loss(name=loss), Negatives(sampler="all"), regularizer)
        for regularizer in (Regularizer(), settings)
    )
    questions = plain.examples[torch.arange(3)]
    batch = questions[:, [0, 1, 0]]
    losses = [float(o(questions, torch.Generator().manual_seed(0)).detach()) for o in (plain, penalised)]
    with torch.no_grad():
        assert losses[1] - losses[0] == pytest.approx(float(penalty(settings, model, batch)), rel=1e-4)


@pytest.mark.parametrize("key", ["n3", "l2", "weights"])
def test_rewards_are_no_penalties(key):
    with pytest.raises(SettingsError, match=rf"regularizer\.{key} is -0\.1: choose 0 or more"):
        Regularizer(**{key: -0.1})


def test_dura_charges_entities_and_their_products_with_the_relation(make_model):
    """Zhang et al. (NeurIPS 2020): ½(‖h‖² + ‖t‖²) + 1½(‖h ∘ r‖² + ‖t ∘ r̄‖²), over complex numbers."""
    model = make_model("complex")
    h, r, t = (np.stack(vectors(model)[i::3]) for i in range(3))
    h, r, t = (v[:, :4] + 1j * v[:, 4:] for v in (h, r, t))
    squares = [(np.abs(x) ** 2).sum() for x in (h, t, h * r, t * r.conj())]
    expected = 0.2 / 3 * (0.5 * (squares[0] + squares[1]) + 1.5 * (squares[2] + squares[3]))
    assert charge(Regularizer(dura=0.2), model) == pytest.approx(expected, rel=1e-6)


def test_dura_is_refused_where_there_is_no_product(make_model):
    with pytest.raises(SettingsError, match=r"regularizer\.dura .*: use distmult or complex"):
        charge(Regularizer(dura=0.2), make_model("transe"))
