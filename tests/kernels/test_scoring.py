"""Exact scoring of all candidates, compared with the plain formula in float64."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from capse import CapsE, ConvKB, ScaledCapsE
from capse.errors import CapseError, SettingsError
from capse.evaluation.ranks import rank_scores
from capse.kernels import cpu, scoring
from capse.models.capse import CapsEScorer
from capse.models.convkb import ConvKBScorer
from capse.models.scaled_capse import ScaledCapsEScorer

E = 300
SIZES = {"dim": 9, "filters": 40, "d": 20, "queries": 4, "candidates": 150}  # the largest that hypothesis tries

FORMS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "convkb": (ConvKBScorer, ConvKB, {}),
    "paper": (CapsEScorer, CapsE, {}),
    "paper-routed": (CapsEScorer, CapsE, {"routing": 3}),
    "paper-sigmoid": (CapsEScorer, CapsE, {"readout": "sigmoid"}),
    "scaled": (ScaledCapsEScorer, ScaledCapsE, {}),
    "scaled-routed": (ScaledCapsEScorer, ScaledCapsE, {"routing": 2}),
    "released": (CapsEScorer, CapsE, {"variant": "released"}),
    "released-routed": (CapsEScorer, CapsE, {"variant": "released", "routing": 3}),
    "released-sigmoid": (CapsEScorer, CapsE, {"variant": "released", "readout": "sigmoid"}),
}
forms = pytest.mark.parametrize("form", FORMS)
styles = pytest.mark.parametrize("style", ["random", "mostly off", "large", "some zeros"])
SIDES = ["tails", "heads", "relations"]
sides = pytest.mark.parametrize("side", SIDES)


@pytest.fixture(autouse=True, scope="module")
def in_one_thread(one_thread: None) -> None:
    """Tensors this small are done before a second thread has woken up."""


def build(form, style="random", *, dim=12, filters=30, d=5, seed=0):
    """A scorer with random parameters; style says of which kind."""
    scorer, options, chosen = FORMS[form]
    sizes = {"dim": dim, "filters": filters} | ({} if form == "convkb" else {"capsule_dim": d})
    model = scorer(options(**sizes, **chosen)).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.5, generator=generator)
        if style == "mostly off":
            model.bias.sub_(1.5)
        if style == "some zeros":
            model.filters[:, :: max(2, filters // 5)] = 0
            model.filters[2, 1::4] = 0
    return model


def vectors(count, dim, style="random", seed=1):
    numbers = torch.randn(count, dim, generator=torch.Generator().manual_seed(seed)) * (30 if style == "large" else 0.5)
    if style == "some zeros":
        numbers[torch.rand(count, dim, generator=torch.Generator().manual_seed(seed + 1)) < 0.3] = 0
    return numbers


@torch.no_grad()
def score(model, side, first, second, candidates, *, kernel="cpu"):
    with scoring.forced(kernel):
        scores: torch.Tensor = getattr(model, f"score_{side}")(first, second, candidates)
        return scores


def in_float64(model, side, *tensors):
    return score(copy.deepcopy(model).double(), side, *(tensor.double() for tensor in tensors), kernel="reference")


def case(form, style="random", *, queries=7, candidates=E, dim=12, seed=0, **sizes):
    model = build(form, style, dim=dim, seed=seed, **sizes)
    known = (vectors(queries, dim, style, seed + 2), vectors(queries, dim, style, seed + 4))
    return model, *known, vectors(candidates, dim, style, seed + 6)


class TestAccuracy:
    @forms
    @styles
    @sides
    def test_within_1e5_of_the_largest_score(self, form, style, side):
        model, *tensors = case(form, style)
        exact = in_float64(model, side, *tensors)
        error = (score(model, side, *tensors) - exact).abs() / exact.abs().amax(1, keepdim=True)
        assert error.max() < 1e-5

    @forms
    @styles
    def test_about_as_accurate_as_plain_float32(self, form, style):
        """Its own error depends on how the machine's matrix products add up: ours was up to 1.43 times as large."""
        model, *tensors = case(form, style)
        exact = in_float64(model, "tails", *tensors)
        ours = score(model, "tails", *tensors) - exact
        plain = score(model, "tails", *tensors, kernel="reference") - exact
        assert ours.square().mean() <= 2 * plain.square().mean()

    @forms
    @styles
    def test_float64(self, form, style):
        model, *tensors = case(form, style)
        tensors = [tensor.double() for tensor in tensors]
        exact = in_float64(model, "tails", *tensors)
        scores = score(model.double(), "tails", *tensors)
        assert scores.dtype == torch.float64
        torch.testing.assert_close(scores, exact, rtol=1e-11, atol=1e-12 * exact.abs().max().item())

    @pytest.mark.parametrize("d", [1, 2, 15, 16, 17, 33])
    @pytest.mark.parametrize("form", ["paper", "paper-routed", "released", "released-routed"])
    def test_any_capsule_size(self, form, d):
        model, *tensors = case(form, d=d)
        exact = in_float64(model, "heads", *tensors)
        error = (score(model, "heads", *tensors) - exact).abs() / exact.abs().amax(1, keepdim=True)
        assert error.max() < 1e-5

    @given(data=st.data())
    @settings(max_examples=60, deadline=None)
    def test_any_shape(self, data):
        form = data.draw(st.sampled_from(sorted(FORMS)))
        sizes = {name: data.draw(st.integers(1, most), name) for name, most in SIZES.items()}
        model, *tensors = case(form, data.draw(st.sampled_from(["random", "mostly off", "some zeros"])), **sizes)
        side = data.draw(st.sampled_from(SIDES))
        exact = in_float64(model, side, *tensors)
        scores = score(model, side, *tensors)
        assert scores.shape == (sizes["queries"], sizes["candidates"])
        scale = exact.abs().amax(1, keepdim=True).clamp(min=1e-6)
        assert ((scores - exact).abs() / scale).max() < 1e-5

    @given(data=st.data())
    @settings(max_examples=60, deadline=None)
    def test_small_whole_numbers_are_exact(self, data):
        """With breakpoints and sums that float32 holds exactly, every score is exact, on breakpoints too."""
        dim, filters, candidates = (data.draw(st.integers(1, most)) for most in (3, 9, 70))
        model = build("convkb", dim=dim, filters=filters)

        def draw(*shape):
            size = math.prod(shape)
            numbers = data.draw(st.lists(st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0]), min_size=size, max_size=size))
            return torch.tensor(numbers).view(shape)

        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(draw(*parameter.shape))
        tensors = [draw(2, dim), draw(2, dim), draw(candidates, dim)]
        side = data.draw(st.sampled_from(SIDES))
        assert score(model, side, *tensors).double().equal(in_float64(model, side, *tensors))


class TestCounts:
    @forms
    @pytest.mark.parametrize("style", ["random", "mostly off", "some zeros"])
    def test_in_float64_they_are_those_of_the_plain_formula(self, form, style):
        model, *tensors = case(form, style, queries=40)
        exact = rank_scores(in_float64(model, "tails", *tensors), np.arange(40))
        model, tensors = model.double(), [tensor.double() for tensor in tensors]
        ours = rank_scores(score(model, "tails", *tensors), np.arange(40))
        assert (ours.greater == exact.greater).all()
        assert (ours.equal == exact.equal).all()

    @forms
    def test_exact_once_the_error_band_is_scored_again(self, form):
        """Scores nearer to the true one than the error allows are taken from float64, the others from float32."""
        model, *tensors = case(form, queries=40, candidates=500)
        scores = score(model, "tails", *tensors)
        wide = score(copy.deepcopy(model).double(), "tails", *(tensor.double() for tensor in tensors))
        band = 1e-5 * scores.abs().amax(1, keepdim=True)
        near = (scores - scores[:, :40].diag()[:, None]).abs() <= 2 * band
        assert near.double().mean() < 0.2
        ours = rank_scores(torch.where(near, wide, scores.double()), np.arange(40))
        exact = rank_scores(in_float64(model, "tails", *tensors), np.arange(40))
        assert (ours.greater == exact.greater).all()
        assert (ours.equal == exact.equal).all()

    @pytest.mark.parametrize("form", [name for name in FORMS if "sigmoid" not in name])
    def test_about_as_often_off_as_plain_float32(self, form):
        """Among candidates so near to each other that float32 often cannot tell which is better."""
        ours = plain = 0
        for seed in (0, 10):
            model, first, second, candidates = case(form, queries=20, candidates=150, filters=60, seed=seed)
            tensors = first, second, candidates[:1] + 1e-4 * candidates
            exact = rank_scores(in_float64(model, "tails", *tensors), np.arange(20))
            formula = score(model, "tails", *tensors, kernel="reference")
            plain += _difference(rank_scores(formula, np.arange(20)), exact)
            ours += _difference(rank_scores(score(model, "tails", *tensors), np.arange(20)), exact)
        assert 0 < ours <= 1.25 * plain


def _difference(ranks, exact):
    return abs(ranks.greater - exact.greater).sum() + abs(ranks.equal - exact.equal).sum()


class TestTies:
    @forms
    @sides
    def test_all_filters_off(self, form, side):
        """Every candidate then has the same score, that of the constants."""
        model, *tensors = case(form, "some zeros", candidates=9000)
        with torch.no_grad():
            model.bias.copy_(torch.where(model.filters.any(0), -100.0, 0.3))
        scores = score(model, side, *tensors)
        assert (scores == scores[:, :1]).all()

    @forms
    def test_off_in_different_places(self, form):
        """Beyond all breakpoints on either side, where sums end, nothing is left of them."""
        model, first, second, _ = case(form)
        with torch.no_grad():
            model.bias.fill_(-1.0)
            model.filters[2].abs_()
            model.filters[:2] = 0
        candidates = -vectors(E, 12).abs()
        scores = score(model, "tails", first, second, candidates)
        assert (scores == score(model, "tails", first, second, torch.zeros(1, 12))).all()

    @forms
    @styles
    def test_equal_vectors_wherever_they_stand(self, form, style):
        model, first, second, few = case(form, style, candidates=50)
        which = torch.randint(50, (9000,), generator=torch.Generator().manual_seed(0))
        scores = score(model, "tails", first, second, few[which])
        assert scores.equal(score(model, "tails", first, second, few)[:, which])


class TestNothingElseMatters:
    """A score depends on the query and the candidate alone, to the last bit."""

    @forms
    @pytest.mark.parametrize("tile", [1, 7, 64, 100, 299])
    def test_tile_size(self, monkeypatch, form, tile):
        model, *tensors = case(form)
        scores = score(model, "tails", *tensors)
        monkeypatch.setattr(cpu, "TILE", tile)
        assert score(model, "tails", *tensors).equal(scores)

    @forms
    @pytest.mark.parametrize("queries", [1, 2, 7])
    def test_threads(self, monkeypatch, form, queries):
        model, *tensors = case(form, queries=queries)
        scores = score(model, "heads", *tensors)
        monkeypatch.setattr(cpu, "SMALL", 0)
        monkeypatch.setattr(cpu, "TILE", 50)
        for threads in (1, 2, 3, 5):
            monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
            assert score(model, "heads", *tensors).equal(scores)

    @forms
    def test_other_queries(self, form):
        model, first, second, candidates = case(form)
        scores = score(model, "tails", first, second, candidates)
        for query in range(len(first)):
            assert score(model, "tails", first[[query]], second[[query]], candidates).equal(scores[[query]])

    @forms
    def test_other_candidates(self, form):
        model, first, second, candidates = case(form)
        chosen = torch.randperm(E, generator=torch.Generator().manual_seed(0))[:20]
        scores = score(model, "tails", first, second, candidates)
        assert score(model, "tails", first, second, candidates[chosen]).equal(scores[:, chosen])

    def test_the_sign_of_zero(self):
        model, first, second, candidates = case("released", "some zeros")
        scores = score(model, "tails", first, second, candidates)
        negative = torch.where(candidates == 0, -candidates, candidates)
        assert score(model, "tails", first, second, negative).equal(scores)


class TestTensors:
    @pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
    @pytest.mark.parametrize("kernel", ["cpu", "reference"])
    @pytest.mark.parametrize("form", ["convkb", "paper"])
    @pytest.mark.parametrize("name", ["filters", "bias", "weights"])
    def test_a_bad_parameter_is_named(self, form, name, kernel, number):
        model, *tensors = case(form)
        with torch.no_grad():
            getattr(model, name).view(-1)[3] = number
        for side in ("tails", "heads"):
            with pytest.raises(CapseError, match=f"NaN or infinity in its {name}"):
                score(model, side, *tensors, kernel=kernel)

    @pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
    @pytest.mark.parametrize("kernel", ["cpu", "reference"])
    @sides
    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_a_bad_vector_is_named(self, place, side, kernel, number):
        model, *tensors = case("paper")
        tensors[place][2, 3] = number
        known = {"tails": ["head", "relation"], "heads": ["relation", "tail"], "relations": ["head", "tail"]}[side]
        names = [*known, "candidates'"]
        with pytest.raises(CapseError, match=f"NaN or infinity in its {names[place]} vectors"):
            score(model, side, *tensors, kernel=kernel)

    def test_candidates_that_change_are_noticed(self):
        """However they are changed: columns are kept for a tensor only while it holds the same numbers."""
        model, first, second, candidates = case("paper")
        score(model, "tails", first, second, candidates)
        candidates.data[5] += 1
        assert score(model, "tails", first, second, candidates).equal(
            score(model, "tails", first, second, candidates.clone())
        )
        candidates.data[7, 0] = float("nan")
        with pytest.raises(CapseError):
            score(model, "tails", first, second, candidates)

    def test_columns_live_as_long_as_the_candidates(self):
        model, first, second, candidates = case("paper")
        kept = cpu._cache._kept
        before = set(kept)
        score(model, "tails", first, second, candidates)
        (added,) = set(kept) - before
        del candidates
        assert added not in kept

    @pytest.mark.parametrize(("queries", "candidates"), [(0, 5), (3, 0), (0, 0)])
    @pytest.mark.parametrize("form", ["convkb", "released-routed"])
    def test_nothing_to_score(self, form, queries, candidates):
        model, *tensors = case(form, queries=queries, candidates=candidates)
        assert score(model, "tails", *tensors).shape == (queries, candidates)

    def test_layouts(self):
        """Transposed and sliced tensors, and one relation for all heads."""
        model, first, second, candidates = case("paper")
        scores = score(model, "tails", first, second[:1].expand_as(first), candidates)
        assert score(model, "tails", first, second[:1], candidates).equal(scores)
        assert score(model, "tails", first.T.contiguous().T, second[:1], candidates.T.contiguous().T).equal(scores)
        assert score(model, "tails", first[::2], second[:1], candidates[::3]).equal(scores[::2, ::3])


class TestChoice:
    @pytest.fixture
    def used(self, monkeypatch):
        """How often the compiled kernel was called."""
        calls = []
        compiled = cpu.score_candidates
        monkeypatch.setattr(cpu, "score_candidates", lambda *call: calls.append(1) or compiled(*call))
        return calls

    def test_by_itself(self, used):
        model, *tensors = case("paper")
        score(model, "tails", *tensors, kernel="auto")
        assert len(used) == 1

    @pytest.mark.parametrize("kernel", ["reference", "cpu"])
    def test_by_environment(self, monkeypatch, used, kernel):
        monkeypatch.setenv("CAPSE_KERNEL", kernel)
        model, *tensors = case("convkb")
        with torch.no_grad():
            model.score_heads(*tensors)
        assert len(used) == (kernel == "cpu")

    def test_unknown(self, monkeypatch):
        monkeypatch.setenv("CAPSE_KERNEL", "abacus")
        model, *tensors = case("convkb")
        with torch.no_grad(), pytest.raises(SettingsError, match=r"'abacus'.*reference"):
            model.score_heads(*tensors)

    def test_a_gpu_that_the_tensors_are_not_on(self, monkeypatch):
        monkeypatch.setitem(scoring.INSTALLED, "triton", True)
        model, *tensors = case("convkb")
        with pytest.raises(SettingsError, match=r"'gpu', but not all tensors are on the GPU"):
            score(model, "tails", *tensors, kernel="gpu")
        monkeypatch.setitem(scoring.INSTALLED, "triton", False)
        with pytest.raises(SettingsError, match="triton is not installed"):
            score(model, "tails", *tensors, kernel="gpu")

    def test_other_number_formats(self, used):
        model, *tensors = case("convkb")
        model, tensors = model.bfloat16(), [tensor.bfloat16() for tensor in tensors]
        assert score(model, "tails", *tensors, kernel="auto").dtype == torch.bfloat16
        with pytest.raises(SettingsError, match="neither all float32 nor all float64"):
            score(model, "tails", *tensors, kernel="cpu")
        assert not used

    def test_without_numba(self, monkeypatch, used):
        """Slower, and the same numbers."""
        model, *tensors = case("released")
        fast = score(model, "tails", *tensors)
        monkeypatch.setitem(scoring.INSTALLED, "numba", False)
        torch.testing.assert_close(score(model, "tails", *tensors, kernel="auto"), fast, rtol=1e-5, atol=1e-6)
        with pytest.raises(SettingsError, match="numba is not installed"):
            score(model, "tails", *tensors, kernel="cpu")
        assert len(used) == 1

    def test_dropout_while_training(self, used):
        model = ConvKBScorer(ConvKB(dim=12, filters=30, dropout=0.5)).train()
        _, *tensors = case("convkb")
        score(model, "tails", *tensors)
        assert not used
