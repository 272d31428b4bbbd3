"""CapsE by hand, at the sizes of the paper's Figure 1: k = 4, N = 5, d = 2. Read from top to bottom.

The numbers are chosen so that everything up to the score is a small whole number. The text does the sums; the tests
below it hold our code to each step's result.
"""

from __future__ import annotations

from math import exp, sqrt

import numpy as np
import pytest
import torch

from capse import CapsE
from capse.kernels import reference
from capse.models.capse import CapsEScorer

K, N, D = 4, 5, 2

# Step 0. A triple (s, r, o) is three embeddings of size k, put side by side: the matrix A ∈ R^{k×3}.
V_S = [1.0, 2.0, 0.0, -1.0]  # the rows of A: (1, 0, 1), (2, 1, −1), (0, 1, 2), (−1, 2, 0)
V_R = [0.0, 1.0, 1.0, 2.0]
V_O = [1.0, -1.0, 2.0, 0.0]

# Step 1. Each of the N filters ω ∈ R^{1×3}, with its bias b, passes over the rows of A: q_i = relu(ω·A_i + b).
FILTERS = [  # ω, b, and in the comment ω·A_i + b before the ReLU
    ((1.0, 1.0, -1.0), 0.0),  # TransE's h + r − t: 0, 4, −1, 1
    ((1.0, 0.0, 0.0), 0.0),  # 1, 2, 0, −1
    ((0.0, -1.0, 1.0), 0.0),  # 1, −2, 1, −2
    ((-1.0, 1.0, 0.0), -1.0),  # −2, −2, 0, 2
    ((0.0, 0.0, 1.0), 1.0),  # 2, 0, 3, 1
]
FEATURE_MAPS = [  # q, one row per filter: negative numbers became zero
    [0.0, 4.0, 0.0, 1.0],
    [1.0, 2.0, 0.0, 0.0],
    [1.0, 0.0, 1.0, 0.0],
    [0.0, 0.0, 0.0, 2.0],
    [2.0, 0.0, 3.0, 1.0],
]

# Step 2. The first layer has k capsules; capsule i holds the i-th entries of all feature maps: the columns of q.
CAPSULES = [  # u_i ∈ R^N
    [0.0, 1.0, 1.0, 0.0, 2.0],
    [4.0, 2.0, 0.0, 0.0, 0.0],
    [0.0, 0.0, 1.0, 0.0, 3.0],
    [1.0, 0.0, 0.0, 2.0, 1.0],
]

# Step 3. Each capsule predicts the output capsule with a matrix of its own: û_i = W_i u_i.
W = [  # W_i ∈ R^{d×N}
    [[1.0, 0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0, -1.0]],
    [[0.5, 0.0, 1.0, 0.0, 0.0], [0.0, -1.0, 0.0, 1.0, 0.0]],
    [[0.0, 1.0, -1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0, 1.0]],
    [[2.0, 0.0, 0.0, -1.0, 0.0], [1.0, 1.0, 0.0, 1.0, 1.0]],
]
VOTES = [  # û_i ∈ R^d
    [3.0, -1.0],  # 1·1 + 1·2, 1·1 − 1·2
    [2.0, -2.0],  # 0.5·4, −1·2
    [-1.0, 3.0],  # −1·1, 1·3
    [0.0, 4.0],  # 2·1 − 1·2, 1·1 + 1·2 + 1·1
]

# Step 4. Routing (Algorithm 1) decides how much of each vote counts. Iteration 1 starts from b = 0:
#   c = softmax(0, 0, 0, 0) = 1/4 each,  s = (3 + 2 − 1 + 0, −1 − 2 + 3 + 4)/4 = (1, 1),  ‖s‖² = 2,
#   e = squash(s) = ‖s‖²/(1 + ‖s‖²)·s/‖s‖ = 2/3·(1, 1)/√2 = (√2/3, √2/3).
S_1 = [1.0, 1.0]
E_1 = [sqrt(2) / 3, sqrt(2) / 3]
# With m = 1 this is all. The score is the length of e, ‖s‖²/(1 + ‖s‖²):
SCORE_1 = 2 / 3

# With m = 2 the votes that agree with e gain: b_i = û_i·e = (2, 0, 2, 4)·√2/3, so the fourth capsule leads:
#   c = softmax(b) = (0.2017, 0.0786, 0.2017, 0.5179),  s = Σ c_i û_i.
S_2 = [0.560666557304, 2.318000328089]  # ‖s‖² = 5.687472509498
E_2 = [0.199941201477, 0.826629954264]
SCORE_2 = 0.850466675029

# With m = 3, b grows once more, by û_i·e of the second iteration, to (0.7160, −1.2534, 3.2228, 5.1921);
# c = (0.0099, 0.0014, 0.1211, 0.8677), and s is now almost the fourth capsule's vote (0, 4).
S_3 = [-0.088707538141, 3.821297962725]  # ‖s‖² = 14.610187147251
E_3 = [-0.021721024547, 0.935687187212]
SCORE_3 = 0.935939268981

ITERATIONS = [(S_1, E_1, SCORE_1), (S_2, E_2, SCORE_2), (S_3, E_3, SCORE_3)]  # s, e and the score after each

# The released program squashes the first layer too. With n = ‖u_i‖² = 6, 20, 10, 6 a capsule shrinks by √n/(1 + n),
# and so does its vote; c is four times as large, 1 each at m = 1; and the *shorter* e is the more plausible:
#   s = Σ √n/(1 + n)·û_i = (1.188219, 1.486303),  ‖s‖² = 3.620961,  and −‖s‖²/(1 + ‖s‖²) is the score at m = 1.
RELEASED_SCORES = {1: -0.783594820877, 2: -0.869089118714, 3: -0.937608086912}  # −√(‖e‖² + 1e-9)


def tensor(numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def close(actual, expected):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=0, atol=1e-11)


def capse(**settings):
    """A CapsE with the numbers above; our weights are W_i transposed, our filters the columns of a 3×N matrix."""
    scorer = CapsEScorer(CapsE(dim=K, filters=N, capsule_dim=D, **settings)).double().eval()
    with torch.no_grad():
        scorer.filters.copy_(tensor([omega for omega, _ in FILTERS]).T)
        scorer.bias.copy_(tensor([bias for _, bias in FILTERS]))
        scorer.weights.copy_(tensor(W).transpose(1, 2))
    return scorer


def score(scorer):
    with torch.no_grad():
        return scorer.score_triples(tensor(V_S), tensor(V_R), tensor(V_O)).item()


def features():
    scorer = capse()
    return reference.features(tensor(V_S), tensor(V_R), tensor(V_O), scorer.filters, scorer.bias).detach()


def test_step_1_filters_make_feature_maps():
    close(features().T, FEATURE_MAPS)


def test_step_2_the_ith_entries_of_all_maps_are_capsule_i():
    close(features(), CAPSULES)


def test_step_3_each_capsule_votes_with_its_own_matrix():
    close(reference.predictions(tensor(CAPSULES), tensor(W).transpose(1, 2)), VOTES)
    close(reference.summed_predictions(tensor(CAPSULES), tensor(W).transpose(1, 2)), [4.0, 4.0])


@pytest.mark.parametrize("iteration", [1, 2, 3])
def test_step_4_routing(iteration):
    s, e, length = ITERATIONS[iteration - 1]
    close(reference.route(tensor(VOTES), iteration, scale=1.0, epsilon=0.0, last_gradient_only=False), s)
    close(reference.squash(tensor(s)), e)
    close(reference.length(tensor(e)), length)


@pytest.mark.parametrize(("routing", "expected"), [(1, SCORE_1), (2, SCORE_2), (3, SCORE_3)])
def test_step_5_the_score_is_the_length_of_e(routing, expected):
    close(score(capse(routing=routing)), expected)


@pytest.mark.parametrize(("routing", "length"), [(1, SCORE_1), (3, SCORE_3)])
def test_the_sigmoid_read_out_changes_the_number_and_not_the_order(routing, length):
    close(score(capse(routing=routing, readout="sigmoid")), 1 / (1 + exp(-length)))


@pytest.mark.parametrize("routing", [1, 2, 3])
def test_the_released_program_squashes_the_first_layer_and_routes_with_fourfold_couplings(routing):
    close(score(capse(variant="released", routing=routing)), RELEASED_SCORES[routing])
