"""Every model against the equation of its paper, in NumPy float64, one triple at a time, with loops and plain sums.

Nothing here uses our layers. A formula gets the model's numbers as arrays by name, its settings and one triple of ids;
all it knows of our layouts is how an entity's and a relation's row is divided, which it says where it reads the row.
Ours are higher-is-better: where a paper writes a distance, the last line flips the sign.
"""

from __future__ import annotations

import math
import re
from importlib.metadata import entry_points
from typing import Any

import numpy as np
import pytest

from capse.models import MODELS

# Models of other packages bring their formulas along, as entry points of this group.
FORMULAS: dict[str, Any] = {entry.name: entry.load() for entry in entry_points(group="capse.model_formulas")}


def formula(name):
    def register(function):
        FORMULAS[name] = function
        return function

    return register


# --- capsules and convolutions ---------------------------------------------------------------------------------------


def relu(x):
    return x if x > 0 else 0.0


def feature_maps(p, h, r, t):
    """q_n,i = relu(ω_n·A_i,: + b_n), A = [v_h, v_r, v_t]: q is (N, k)."""
    a = np.column_stack([p["entities"][h], p["relations"][r], p["entities"][t]])  # (k, 3)
    omega, bias = p["scorer.filters"].T, p["scorer.bias"]  # N filters of 3 numbers
    return np.array(
        [
            [relu(sum(w * x for w, x in zip(o, row, strict=True)) + b) for row in a]
            for o, b in zip(omega, bias, strict=True)
        ]
    )


def squash(s, epsilon=0.0):
    """‖s‖²/(1 + ‖s‖²) · s/‖s‖, the ‖s‖ that is divided by being √(‖s‖² + ε)."""
    square = sum(x * x for x in s)
    return square / (1 + square) * s / math.sqrt(square + epsilon) if square + epsilon else 0 * s


def softmax(b):
    exponentials = [math.exp(x - max(b)) for x in b]
    return [x / sum(exponentials) for x in exponentials]


def algorithm_1(votes, iterations, *, factor, epsilon):
    """The paper's routing, line by line: s and e = squash(s). ``factor`` multiplies c (k in the released program)."""
    b = [0.0 for _ in votes]
    for _ in range(iterations):
        c = [factor * x for x in softmax(b)]
        s = sum(c_i * vote for c_i, vote in zip(c, votes, strict=True))
        e = squash(s, epsilon)
        b = [b_i + sum(vote * e) for b_i, vote in zip(b, votes, strict=True)]
    return s, e


def first_layer(p, h, r, t):
    """Capsule i holds the entries at dimension i of all feature maps."""
    return list(feature_maps(p, h, r, t).T)


def votes(p, u):
    """û_i = W_i u_i with W_i ∈ R^{d×N}."""
    return [np.array([sum(row * u_i) for row in w_i.T]) for w_i, u_i in zip(p["scorer.weights"], u, strict=True)]


@formula("capse")
def capse(p, settings, h, r, t):
    """Nguyen et al. 2019, section 2: f = ‖capsnet(g([v_s, v_r, v_o] ∗ Ω))‖; the released program: decision 012."""
    released = settings.variant == "released"
    epsilon = 1e-9 if released else 0.0
    u = first_layer(p, h, r, t)
    if released:
        u = [squash(u_i, epsilon) for u_i in u]
    _, e = algorithm_1(votes(p, u), settings.routing, factor=len(u) if released else 1, epsilon=epsilon)
    score = math.sqrt(sum(e * e) + epsilon)
    if settings.readout == "sigmoid":
        score = 1 / (1 + math.exp(-score))
    return -score if released else score  # released: the shorter, the more plausible


@formula("scaled-capse")
def scaled_capse(p, settings, h, r, t):
    """Ours: γ‖s‖, where s is what section 2 of Nguyen et al. 2019 would squash into the output capsule."""
    s, _ = algorithm_1(votes(p, first_layer(p, h, r, t)), settings.routing, factor=1, epsilon=0.0)
    return p["scorer.scale"] * math.sqrt(sum(s * s))


@formula("complex-capse")
def complex_capse(p, settings, h, r, t):
    """Ours: squash(p) − w ‖x + y − z‖₁ where p = Re Σ h_i r_i conj(t_i) and squash(p) = p · p²/(θ² + p²)."""
    k = settings.dim
    rows = p["entities"][h], p["relations"][r], p["entities"][t]
    a, b, c = (row[:k] + 1j * row[k : 2 * k] for row in rows)
    x, y, z = (row[2 * k :] for row in rows)
    total = sum((a_i * b_i * c_i.conjugate()).real for a_i, b_i, c_i in zip(a, b, c, strict=True))
    kept = total**2 / (settings.threshold**2 + total**2) if settings.threshold else 1
    return kept * total - settings.distance_weight * sum(abs(x + y - z))


@formula("convkb")
def convkb(p, settings, h, r, t):
    """Nguyen et al. 2018, eq. 1: f = concat(g([v_h, v_r, v_t] ∗ Ω))·w."""
    q = feature_maps(p, h, r, t)
    w = p["scorer.weights"]  # (k, N)
    return sum(q[n, i] * w[i, n] for n in range(q.shape[0]) for i in range(q.shape[1]))


@formula("conve")
def conve(p, settings, h, r, t):
    """Dettmers et al. 2018, eq. 1: ψ = f(vec(f([ē_s; r̄_r] ∗ ω)) W) e_o, with the normalisations and the entity bias of
    its authors' program (batch normalisation of the picture, of the feature maps, and of the hidden layer)."""

    def normalised(x, layer, channel):
        mean, variance = p[f"{layer}.running_mean"][channel], p[f"{layer}.running_var"][channel]
        return (x - mean) / math.sqrt(variance + 1e-5) * p[f"{layer}.weight"][channel] + p[f"{layer}.bias"][channel]

    head, relation = p["entities"][h][:-1], p["relations"][r]  # an entity is [vector, bias]
    tail, tail_bias = p["entities"][t][:-1], p["entities"][t][-1]
    width = settings.dim // settings.height
    picture = [list(x[row * width : (row + 1) * width]) for x in (head, relation) for row in range(settings.height)]
    picture = [[normalised(x, "scorer.picture_norm", 0) for x in row] for row in picture]

    features = []
    for f in range(settings.filters):
        omega = p["scorer.convolution.weight"][f, 0]
        for y in range(len(picture) - settings.kernel + 1):
            for x in range(width - settings.kernel + 1):
                window = [(i, j) for i in range(settings.kernel) for j in range(settings.kernel)]
                total = sum(omega[i, j] * picture[y + i][x + j] for i, j in window)
                total += p["scorer.convolution.bias"][f]
                features.append(relu(normalised(total, "scorer.feature_norm", f)))

    weight, bias = p["scorer.hidden.0.weight"], p["scorer.hidden.0.bias"]
    hidden = [sum(weight[j] * features) + bias[j] for j in range(settings.dim)]
    hidden = [relu(normalised(x, "scorer.hidden.2", j)) for j, x in enumerate(hidden)]
    return sum(x * y for x, y in zip(hidden, tail, strict=True)) + tail_bias


# --- translations ----------------------------------------------------------------------------------------------------
# Wang (TransH), Lin (TransR) and Ji (TransD) print the *squared* L2 length; ours is the length, in L1 or L2 by choice,
# as in Bordes (TransE) and Nguyen (STransE). Squaring changes no ranking.


def norm(x, p):
    return sum(abs(value) for value in x) if p == 1 else math.sqrt(sum(value * value for value in x))


def times(matrix, vector):
    return np.array([sum(a * x for a, x in zip(row, vector, strict=True)) for row in matrix])


@formula("transe")
def transe(p, settings, h, r, t):
    """Bordes et al. 2013: d(h + ℓ, t)."""
    return -norm(p["entities"][h] + p["relations"][r] - p["entities"][t], settings.norm)


@formula("transh")
def transh(p, settings, h, r, t):
    """Wang et al. 2014: ‖(h − w_rᵀh w_r) + d_r − (t − w_rᵀt w_r)‖ with ‖w_r‖₂ = 1."""
    d, w = np.split(p["relations"][r], 2)  # a relation is [d_r, w_r]
    w = w / norm(w, 2)
    h, t = p["entities"][h], p["entities"][t]
    return -norm((h - sum(w * h) * w) + d - (t - sum(w * t) * w), settings.norm)


@formula("transr")
def transr(p, settings, h, r, t):
    """Lin et al. 2015, eqs. 7 and 8: h_r = hM_r, t_r = tM_r, ‖h_r + r − t_r‖. (Their vectors are rows.)"""
    k = settings.dim
    d, m = p["relations"][r][:k], p["relations"][r][k:].reshape(k, k)  # a relation is [d_r, M_r by rows]
    return -norm(times(m, p["entities"][h]) + d - times(m, p["entities"][t]), settings.norm)


@formula("transd")
def transd(p, settings, h, r, t):
    """Ji et al. 2015, eqs. 11 to 14: M_rh = r_p h_pᵀ + I, M_rt = r_p t_pᵀ + I, ‖M_rh h + r − M_rt t‖."""
    (h, h_p), (t, t_p) = np.split(p["entities"][h], 2), np.split(p["entities"][t], 2)  # an entity is [x, x_p]
    d, r_p = np.split(p["relations"][r], 2)  # a relation is [d_r, r_p]
    k = settings.dim
    m_rh = [[r_p[i] * h_p[j] + (i == j) for j in range(k)] for i in range(k)]
    m_rt = [[r_p[i] * t_p[j] + (i == j) for j in range(k)] for i in range(k)]
    return -norm(times(m_rh, h) + d - times(m_rt, t), settings.norm)


@formula("stranse")
def stranse(p, settings, h, r, t):
    """Nguyen et al. 2016, eq. 1: ‖W_r,1 h + r − W_r,2 t‖, L1 or L2."""
    k = settings.dim
    d, w_1, w_2 = np.split(p["relations"][r], [k, k + k * k])  # a relation is [d_r, W_r,1, W_r,2], matrices by rows
    moved = times(w_1.reshape(k, k), p["entities"][h]) + d
    return -norm(moved - times(w_2.reshape(k, k), p["entities"][t]), settings.norm)


# --- bilinear forms --------------------------------------------------------------------------------------------------


@formula("distmult")
def distmult(p, settings, h, r, t):
    """Yang et al. 2015, eq. 2 with a diagonal M_r: y_hᵀ M_r y_t."""
    bilinear = times(np.diag(p["relations"][r]), p["entities"][t])
    return sum(x * y for x, y in zip(p["entities"][h], bilinear, strict=True))


@formula("complex")
def complex_(p, settings, h, r, t):
    """Trouillon et al. 2016, eq. 9: Re(Σ_k w_rk e_sk conj(e_ok))."""
    h, r, t = (
        x[: settings.dim] + 1j * x[settings.dim :] for x in (p["entities"][h], p["relations"][r], p["entities"][t])
    )
    return sum(w * s * o.conjugate() for w, s, o in zip(r, h, t, strict=True)).real


# --- the comparisons -------------------------------------------------------------------------------------------------


def expected_scores(case, model, triples):
    numbers = {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}
    settings = MODELS[case.name].Settings(**case.settings)
    return np.array([FORMULAS[case.name](numbers, settings, *triple) for triple in triples.tolist()])


def test_double_precision_scores_follow_the_papers_equation(case, make, everything):
    model = make().double()
    expected = expected_scores(case, model, everything)
    actual = model.score_triples(*everything.T).detach().numpy()
    assert np.ptp(expected) > 1e-2 * abs(expected).max(), "the triples hardly differ: the comparison would prove little"
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)


def test_single_precision_scores_follow_the_papers_equation(case, make, everything):
    model = make()
    expected = expected_scores(case, model, everything)
    actual = model.score_triples(*everything.T).detach()
    assert actual.dtype.itemsize == 4
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-5, atol=1e-6 * abs(expected).max())


def test_the_models_start_follows_the_equation_too(case, everything):
    """Fresh weights are special (identities, zero biases, equal filters), so they are compared as well."""
    model = case.build(seed=3).eval().double()
    np.testing.assert_allclose(
        model.score_triples(*everything.T).detach().numpy(),
        expected_scores(case, model, everything),
        rtol=1e-9,
        atol=1e-15,
    )


@pytest.mark.parametrize("name", MODELS)
class TestEveryRegisteredModel:
    def test_has_a_formula_here(self, name):
        assert name in FORMULAS, f"write the equation of {name}'s paper in NumPy, in {__file__}"

    def test_names_its_paper(self, name):
        """Authors, title, venue and year, said by the class itself and not inherited."""
        citation = vars(MODELS[name]).get("citation", "")
        assert re.fullmatch(r"\w[\w\s]+ et al\., .{10,}, [A-Za-z]+ (19|20)\d\d", citation), citation

    def test_states_its_equation(self, name):
        doc = vars(MODELS[name])["__doc__"] or ""
        assert re.search(r"f\(h, r, t\) = \S+", doc), f"begin {name}'s docstring with its scoring function"
