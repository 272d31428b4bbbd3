"""The plain torch formulas against loops, and their derivatives where formulas have corners."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from capse.kernels.reference import features, length, predictions, route, score, squash, summed_predictions
from capse.kernels.stage import Stage

K, N, D = 5, 4, 3


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tensors this small are computed before a second thread has woken up."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def random(*shape, seed=0, scale=1.0):
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def looped_squash(s, epsilon=0.0):
    square = sum(x * x for x in s)
    return s * square / (1 + square) / math.sqrt(square + epsilon)


def looped_routing(votes, iterations, scale, epsilon):
    """Algorithm 1 of the paper, for one triple: votes (k, d) to the last s (d,) and the couplings (k,) that made it."""
    b = np.zeros(len(votes))
    for _ in range(iterations):
        c = scale * np.exp(b) / sum(np.exp(b))
        s = sum(c_i * vote for c_i, vote in zip(c, votes, strict=True))
        e = looped_squash(s, epsilon)
        b = b + np.array([sum(vote * e) for vote in votes])
    return s, c


class TestFeatures:
    def test_each_filter_passes_over_each_row(self):
        h, r, t = random(3, 2, K)
        filters, bias = random(3, N, seed=1), random(N, seed=2)
        result = features(h, r, t, filters, bias)
        assert result.shape == (2, K, N)
        for index in np.ndindex(result.shape):
            triple, i, n = index
            row = h[triple, i], r[triple, i], t[triple, i]
            expected = max(0.0, sum(w * x for w, x in zip(filters[:, n], row, strict=True)) + bias[n])
            assert float(result[index]) == pytest.approx(float(expected), abs=1e-14)
        assert 0 < (result == 0).sum() < result.numel()

    def test_leading_dimensions_broadcast(self):
        h, r, t = random(2, 1, 1, K), random(3, 1, K, seed=1), random(4, K, seed=2)
        filters, bias = random(3, N, seed=3), random(N, seed=4)
        together = features(h, r, t, filters, bias)
        assert together.shape == (2, 3, 4, K, N)
        torch.testing.assert_close(together[1, 2, 3], features(h[1, 0, 0], r[2, 0], t[3], filters, bias))

    def test_inputs_are_left_alone(self):
        """The ReLU works in place, on the feature maps only."""
        inputs = [random(2, K), random(2, K, seed=1), random(2, K, seed=2), random(3, N, seed=3), random(N, seed=4)]
        before = [x.clone() for x in inputs]
        features(*inputs)
        assert all(torch.equal(x, y) for x, y in zip(inputs, before, strict=True))

    def test_gradients(self):
        inputs = [random(2, K), random(2, K, seed=1), random(2, K, seed=2), random(3, N, seed=3), random(N, seed=4)]
        assert torch.autograd.gradcheck(features, [x.requires_grad_(True) for x in inputs])

    @pytest.mark.parametrize(("value", "slope"), [(-1.0, 0.0), (0.0, 0.0), (1.0, 1.0)])
    def test_the_derivative_at_the_breakpoint_is_zero(self, value, slope):
        """h + r − t = value; at exactly 0 the filter counts as off."""
        h, r, t = (torch.tensor([x], requires_grad=True) for x in (value + 0.25, 0.5, 0.75))
        filters = torch.tensor([[1.0], [1.0], [-1.0]], requires_grad=True)
        bias = torch.zeros(1, requires_grad=True)
        gradients = torch.autograd.grad(features(h, r, t, filters, bias).sum(), [h, r, t, filters, bias])
        assert [x.tolist() for x in gradients] == [
            [slope],
            [slope],
            [-slope],
            [[slope * (value + 0.25)], [slope * 0.5], [slope * 0.75]],
            [slope],
        ]


class TestSquash:
    @pytest.mark.parametrize("epsilon", [0.0, 1e-9, 0.1])
    def test_formula(self, epsilon):
        vectors = random(2, 3, D)
        result = squash(vectors, epsilon)
        for i, j in np.ndindex(2, 3):
            np.testing.assert_allclose(result[i, j], looped_squash(vectors[i, j].numpy(), epsilon), rtol=1e-13)

    @pytest.mark.parametrize(("number", "expected"), [(3.0, 0.9), (-1.0, -0.5), (0.5, 0.2), (0.0, 0.0)])
    def test_numbers_by_hand(self, number, expected):
        """In one dimension squash(x) = x|x|/(1 + x²)."""
        assert squash(torch.tensor([number], dtype=torch.float64)).item() == pytest.approx(expected)

    @settings(deadline=None)
    @given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=4))
    def test_it_keeps_the_direction_and_shortens_to_below_one(self, numbers):
        vector = torch.tensor(numbers, dtype=torch.float64)
        result = squash(vector)
        size = math.sqrt(sum(x * x for x in numbers))
        assert result.norm().item() == pytest.approx(size**2 / (1 + size**2), abs=1e-12)
        torch.testing.assert_close(result * (1 + size**2), vector * size, rtol=1e-9, atol=1e-300)

    @pytest.mark.parametrize("epsilon", [0.0, 1e-9])
    def test_the_derivative_at_zero_is_zero(self, epsilon):
        zero = torch.zeros(2, D, requires_grad=True, dtype=torch.float64)
        jacobian = torch.autograd.functional.jacobian(lambda x: squash(x, epsilon), zero)
        assert torch.equal(jacobian, torch.zeros_like(jacobian))

    @pytest.mark.parametrize("epsilon", [0.0, 1e-9])
    def test_the_derivative_elsewhere(self, epsilon):
        assert torch.autograd.gradcheck(lambda x: squash(x, epsilon), [random(4, D).requires_grad_(True)])

    @pytest.mark.parametrize("epsilon", [0.0, 1e-9])
    def test_tiny_vectors_in_single_precision_give_no_nan(self, epsilon):
        tiny = torch.tensor([[1e-30, 0.0], [1e-20, 1e-20], [1e-38, -1e-38]], requires_grad=True)
        result = squash(tiny, epsilon)
        (gradient,) = torch.autograd.grad(result.sum(), tiny)
        assert result.isfinite().all()
        assert gradient.isfinite().all()
        assert gradient.abs().max() < 1e-4


class TestLength:
    @pytest.mark.parametrize(("epsilon", "expected"), [(0.0, 5.0), (11.0, 6.0)])
    def test_formula(self, epsilon, expected):
        assert length(torch.tensor([[3.0, -4.0]]), epsilon).tolist() == [pytest.approx(expected)]

    @pytest.mark.parametrize("epsilon", [0.0, 1e-9])
    def test_the_derivative_at_zero_is_zero(self, epsilon):
        zero = torch.zeros(2, D, requires_grad=True)
        (gradient,) = torch.autograd.grad(length(zero, epsilon).sum(), zero)
        assert torch.equal(gradient, torch.zeros(2, D))

    @pytest.mark.parametrize("epsilon", [0.0, 1e-9])
    def test_the_derivative_elsewhere(self, epsilon):
        assert torch.autograd.gradcheck(lambda x: length(x, epsilon), [random(4, D).requires_grad_(True)])


class TestScore:
    """Of whole stages, one triple at a time, from the loops above."""

    @pytest.mark.parametrize("routing", [1, 3])
    @pytest.mark.parametrize("sigmoid", [False, True])
    @pytest.mark.parametrize(
        ("kind", "scale", "epsilon", "gamma"),
        [("length", 1.0, 0.0, None), ("length", 1.0, 0.0, -2.5), ("paper", 1.0, 0.0, None), ("released", K, 0.3, None)],
    )
    def test_kinds(self, kind, scale, epsilon, gamma, sigmoid, routing):
        filters, bias, weights = random(3, N, seed=1), random(N, seed=2), random(K, N, D, seed=3)
        scaled = None if gamma is None else torch.tensor(gamma, dtype=torch.float64)
        stage = Stage(filters, bias, weights, kind, routing, scale, epsilon, sigmoid, scaled)
        h, r, t = random(3, 2, K)
        for triple in range(2):
            u = features(h[triple], r[triple], t[triple], filters, bias).numpy()
            if kind == "released":
                u = np.array([looped_squash(u_i, epsilon) for u_i in u])
            votes = [w_i.T @ u_i for w_i, u_i in zip(weights.numpy(), u, strict=True)]
            s, _ = looped_routing(votes, routing, scale, epsilon)
            output = s if kind == "length" else looped_squash(s, epsilon)
            expected = math.sqrt(sum(output * output) + epsilon) * (1 if gamma is None else gamma)
            expected = 1 / (1 + math.exp(-expected)) if sigmoid else expected
            expected = -expected if kind == "released" else expected
            assert float(score(stage, h, r, t)[triple]) == pytest.approx(expected, rel=1e-12)

    def test_a_linear_stage(self):
        """ConvKB: Σ_i w_i·u_i, no capsule."""
        filters, bias, weights = random(3, N, seed=1), random(N, seed=2), random(K, N, 1, seed=3)
        h, r, t = random(3, 2, K)
        expected = (features(h, r, t, filters, bias) * weights[..., 0]).sum((-1, -2))
        torch.testing.assert_close(score(Stage(filters, bias, weights, "linear"), h, r, t), expected)


class TestPredictions:
    def test_each_capsule_has_a_matrix_of_its_own(self):
        capsules, weights = random(2, K, N), random(K, N, D, seed=1)
        result = predictions(capsules, weights)
        assert result.shape == (2, K, D)
        for b, i, j in np.ndindex(2, K, D):
            expected = sum(capsules[b, i, n] * weights[i, n, j] for n in range(N))
            assert float(result[b, i, j]) == pytest.approx(float(expected), abs=1e-13)

    @pytest.mark.parametrize("leading", [(), (2,), (2, 3)])
    def test_the_sum_is_the_sum(self, leading):
        capsules, weights = random(*leading, K, N), random(K, N, D, seed=1)
        expected = sum(predictions(capsules, weights)[..., i, :] for i in range(K))
        torch.testing.assert_close(summed_predictions(capsules, weights), expected)


class TestRouting:
    @pytest.mark.parametrize("iterations", [1, 2, 3, 5])
    @pytest.mark.parametrize(("scale", "epsilon"), [(1.0, 0.0), (float(K), 1e-9)], ids=["paper", "released"])
    def test_algorithm_1(self, iterations, scale, epsilon):
        votes = random(2, 3, K, D)
        result = route(votes, iterations, scale=scale, epsilon=epsilon, last_gradient_only=False)
        assert result.shape == (2, 3, D)
        for index in np.ndindex(2, 3):
            expected, _ = looped_routing(votes[index].numpy(), iterations, scale, epsilon)
            np.testing.assert_allclose(result[index], expected, rtol=1e-12)

    def test_one_iteration_is_the_mean(self):
        votes = random(2, K, D)
        torch.testing.assert_close(
            route(votes, 1, scale=1.0, epsilon=0.0, last_gradient_only=False), sum(votes[:, i] for i in range(K)) / K
        )

    def test_agreement_is_rewarded(self):
        """Four votes agree, the fifth contradicts: with every iteration it counts less and s nears the four."""
        votes = torch.tensor([[1.0, 2.0]] * 4 + [[-1.0, -2.0]])
        sizes = [
            length(route(votes, m, scale=1.0, epsilon=0.0, last_gradient_only=False)).item() for m in (1, 2, 3, 5, 8)
        ]
        assert sizes[0] == pytest.approx(0.6 * math.sqrt(5))
        assert sizes == sorted(sizes)
        assert sizes[-1] == pytest.approx(math.sqrt(5), abs=1e-3)

    @pytest.mark.parametrize("iterations", [1, 2, 3])
    @pytest.mark.parametrize(("scale", "epsilon"), [(1.0, 0.0), (float(K), 1e-9)], ids=["paper", "released"])
    def test_gradients_flow_through_all_iterations(self, iterations, scale, epsilon):
        votes = random(2, K, D).requires_grad_(True)
        assert torch.autograd.gradcheck(
            lambda x: route(x, iterations, scale=scale, epsilon=epsilon, last_gradient_only=False), [votes]
        )

    @pytest.mark.parametrize("iterations", [1, 2, 3])
    def test_gradients_flow_through_the_last_iteration_alone(self, iterations):
        """s = Σ c_i û_i with c a constant: ∂(g·s)/∂û_i = c_i g."""
        votes, g = random(K, D).requires_grad_(True), random(D, seed=1)
        options = {"scale": float(K), "epsilon": 1e-9}
        s = route(votes, iterations, **options, last_gradient_only=True)
        (gradient,) = torch.autograd.grad(g @ s, votes)
        expected, c = looped_routing(votes.detach().numpy(), iterations, **options)
        np.testing.assert_allclose(s.detach(), expected, rtol=1e-12)
        np.testing.assert_allclose(gradient, c[:, None] * g.numpy(), rtol=1e-12)

        (full,) = torch.autograd.grad(g @ route(votes, iterations, **options, last_gradient_only=False), votes)
        assert torch.allclose(full, gradient) == (iterations == 1)

    def test_large_votes_do_not_overflow(self):
        votes = 1e4 * random(2, K, D).float()
        assert route(votes, 3, scale=1.0, epsilon=0.0, last_gradient_only=False).isfinite().all()

    @pytest.mark.parametrize("last_gradient_only", [False, True])
    def test_zero_votes_have_finite_gradients(self, last_gradient_only):
        votes = torch.zeros(2, K, D, requires_grad=True)
        s = route(votes, 3, scale=1.0, epsilon=0.0, last_gradient_only=last_gradient_only)
        (gradient,) = torch.autograd.grad(s.sum(), votes)
        torch.testing.assert_close(gradient, torch.full_like(gradient, 1 / K))
