"""CapsE beyond its formula: what its gradients are, where they vanish, and what its two variants promise."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from capse import CapsE
from capse.models.capse import CapsEScorer

K, N, D = 5, 4, 3


def capse(seed=0, **settings):
    """A scorer with every parameter random, in float64, and three vectors to score."""
    scorer = CapsEScorer(CapsE(dim=K, filters=N, capsule_dim=D, **settings)).double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in scorer.parameters():
            parameter.normal_(0, 0.8, generator=generator)
    h, r, t = torch.randn(3, K, generator=generator, dtype=torch.float64)
    return scorer, (h, r, t)


def squashed(x, epsilon=1e-9):
    square = x @ x
    return x * square / (1 + square) / np.sqrt(square + epsilon)


def released_score(h, r, t, filters, bias, weights, iterations, couplings=None):
    """The released program in NumPy; with ``couplings`` given, routing is skipped and these are used."""
    capsules = np.maximum(np.stack([h, r, t], -1) @ filters + bias, 0)  # (k, N)
    votes = np.array([squashed(u) @ w for u, w in zip(capsules, weights, strict=True)])
    if couplings is None:
        logits = np.zeros(K)
        for _ in range(iterations - 1):
            couplings = K * np.exp(logits) / np.exp(logits).sum()
            logits = logits + votes @ squashed(couplings @ votes)
        couplings = K * np.exp(logits) / np.exp(logits).sum()
    e = squashed(couplings @ votes)
    return -np.sqrt(e @ e + 1e-9), couplings


def numerical_gradient(function, x, step=1e-6):
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[index] += step
        down[index] -= step
        gradient[index] = (function(up) - function(down)) / (2 * step)
    return gradient


@pytest.mark.parametrize("which", ["h", "r", "t", "filters", "bias", "weights"])
def test_released_gradients_treat_the_couplings_as_constants(which):
    """Only the last iteration passes gradients: the couplings found before are numbers, not functions."""
    scorer, triple = capse(routing=3, variant="released")
    inputs = dict(zip(["h", "r", "t"], triple, strict=True)) | dict(scorer.named_parameters())
    for value in inputs.values():
        value.requires_grad_(True)
    (actual,) = torch.autograd.grad(scorer.score_triples(*triple), inputs[which])

    numbers = {name: value.detach().numpy() for name, value in inputs.items()}
    _, couplings = released_score(**numbers, iterations=3)
    frozen = numerical_gradient(
        lambda x: released_score(**numbers | {which: x}, iterations=3, couplings=couplings)[0], numbers[which]
    )
    full = numerical_gradient(lambda x: released_score(**numbers | {which: x}, iterations=3)[0], numbers[which])
    np.testing.assert_allclose(actual.numpy(), frozen, rtol=1e-6, atol=1e-9)
    assert not np.allclose(frozen, full, rtol=1e-2), "routing would not matter here: choose other numbers"


@pytest.mark.parametrize("routing", [1, 3])
def test_paper_gradients_are_those_of_the_whole_routing(routing):
    scorer, triple = capse(routing=routing)
    names = [name for name, _ in scorer.named_parameters()]

    def score(h, r, t, *parameters):
        named = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(scorer, named, (h, r, t))

    scorer.forward = scorer.score_triples
    inputs = [x.detach().clone().requires_grad_(True) for x in (*triple, *scorer.parameters())]
    assert torch.autograd.gradcheck(score, inputs, eps=1e-6, atol=1e-7)


def test_one_iteration_has_no_couplings_to_freeze():
    """At m = 1 the released variant's gradients are complete."""
    scorer, triple = capse(variant="released")
    inputs = [x.detach().clone().requires_grad_(True) for x in triple]
    assert torch.autograd.gradcheck(scorer.score_triples, inputs, eps=1e-6, atol=1e-7)


@pytest.mark.parametrize("routing", [1, 3])
@pytest.mark.parametrize("variant", ["paper", "released"])
class TestWhenEveryFilterIsOff:
    """All capsules are zero then, which is common: the score is its lowest, exactly equal for all such triples."""

    def scored(self, variant, routing):
        scorer, _ = capse(variant=variant, routing=routing)
        with torch.no_grad():
            scorer.bias.fill_(-100)
        h, r, t = torch.randn(3, 6, K, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        inputs = [x.requires_grad_(True) for x in (h, r, t)]
        return scorer, inputs, scorer.score_triples(*inputs)

    def test_all_such_triples_tie(self, variant, routing):
        _, _, scores = self.scored(variant, routing)
        assert torch.equal(scores, torch.full_like(scores, 0.0 if variant == "paper" else -(1e-9**0.5)))

    def test_gradients_are_zero_and_not_nan(self, variant, routing):
        scorer, inputs, scores = self.scored(variant, routing)
        for gradient in torch.autograd.grad(scores.sum(), [*inputs, *scorer.parameters()]):
            assert torch.equal(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_a_filter_at_its_breakpoint_is_off(variant):
    """ω·A_i + b = 0 exactly: it contributes nothing and gets no gradient, as if it were negative."""
    scorer, triple = capse(variant=variant)
    with torch.no_grad():
        scorer.filters[:, 0] = 0
        scorer.bias[0] = 0
    gradients = torch.autograd.grad(scorer.score_triples(*triple), [scorer.filters, scorer.bias, scorer.weights])
    filters, bias, weights = gradients
    assert not filters[:, 0].any()
    assert bias[0] == 0
    assert not weights[:, 0].any()
    assert all(gradient.any() for gradient in gradients), "the other filters must learn"


class TestReadOut:
    @pytest.mark.parametrize(("variant", "sign"), [("paper", 1), ("released", -1)])
    def test_sigmoids_are_read_in_evaluation_only(self, variant, sign):
        """Training sees the length; only ranking imitates the released program's sigmoid."""
        length, triple = capse(variant=variant)
        sigmoid, _ = capse(variant=variant, readout="sigmoid")
        with torch.no_grad():
            expected = length.score_triples(*triple)
            assert torch.equal(sigmoid.train().score_triples(*triple), expected)
            evaluated = sigmoid.eval().score_triples(*triple)
        torch.testing.assert_close(evaluated, sign * torch.sigmoid(sign * expected))

    def test_sigmoids_tie_where_lengths_differ(self):
        """Short vectors whose lengths differ by several per cent get the same float32 sigmoid."""
        lengths: list[float] = []
        sigmoids: list[float] = []
        for factor in (1.0, 1.05):
            for readout, scores in (("length", lengths), ("sigmoid", sigmoids)):
                scorer, triple = capse(variant="released", readout=readout)
                with torch.no_grad():
                    scorer.weights.mul_(1e-3 * factor)
                    scores.append(scorer.float().score_triples(*(x.float() for x in triple)).item())
        assert lengths[0] != lengths[1]
        assert sigmoids[0] == sigmoids[1]

    @pytest.mark.parametrize(("variant", "low", "high"), [("paper", 0.0, 1.0), ("released", -1.0, 0.0)])
    def test_longer_is_better_in_the_paper_and_worse_in_the_program(self, variant, low, high):
        scorer, triple = capse(variant=variant)
        scores = []
        with torch.no_grad():
            for _ in range(6):
                scores.append(scorer.score_triples(*triple).item())
                scorer.weights.mul_(3)  # every vote grows, and with it the output capsule
        assert scores == sorted(scores, reverse=variant == "released")
        assert all(low < score < high for score in scores)


def test_the_starts_of_the_two_variants():
    """W: deviation 0.01 as the released program has it, 1 for the paper's form, which divides by k."""
    deviations = {}
    for variant in ("paper", "released"):
        torch.manual_seed(0)
        deviations[variant] = CapsEScorer(CapsE(dim=50, filters=20, variant=variant)).weights.std().item()
    assert deviations["released"] == pytest.approx(0.01, rel=0.05)
    assert deviations["paper"] == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("name", ["normal", "translation"])
def test_filters_start(name):
    torch.manual_seed(0)
    scorer = CapsEScorer(CapsE(dim=4, filters=2000, filter_start=name))
    assert not scorer.bias.any()
    if name == "translation":
        assert torch.equal(scorer.filters, torch.tensor([[0.1], [0.1], [-0.1]]).expand(3, 2000))
    else:  # a normal distribution cut at two deviations has 0.88 of its deviation
        assert scorer.filters.abs().max() <= 0.2
        assert scorer.filters.std().item() == pytest.approx(0.088, rel=0.05)


def test_dropout_is_for_training_alone():
    scorer = CapsEScorer(CapsE(dim=6, filters=4, capsule_dim=3, dropout=0.5))
    plain = CapsEScorer(CapsE(dim=6, filters=4, capsule_dim=3))
    plain.load_state_dict(scorer.state_dict())
    h, r, t = torch.randn(3, 8, 6)
    torch.testing.assert_close(scorer.eval().score_triples(h, r, t), plain.score_triples(h, r, t))
    torch.testing.assert_close(scorer.score_tails(h, r, t), plain.score_tails(h, r, t))
    scorer.train()
    assert not torch.equal(scorer.score_triples(h, r, t), plain.score_triples(h, r, t))
    assert not torch.equal(scorer.score_tails(h, r, t), plain.score_tails(h, r, t))
