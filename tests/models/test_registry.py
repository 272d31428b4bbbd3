"""Building models by name: reproducible, without side effects, savable, and wrong settings refused in words."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from capse.errors import SettingsError, UnknownNameError
from capse.models import MODELS, ModelSettings, Scorer, build_model, model_settings, name_of


def equal_weights(one, other):
    one, other = one.state_dict(), other.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


class TestNames:
    @pytest.mark.parametrize("name", MODELS)
    def test_settings_know_the_name_of_their_model(self, name):
        assert name_of(MODELS[name].Settings()) == name
        assert name_of(model_settings({"name": name, "dim": MODELS[name].Settings().dim})) == name

    @pytest.mark.parametrize("name", MODELS)
    def test_a_name_gives_its_scorer(self, name):
        assert issubclass(MODELS[name], Scorer)
        assert issubclass(MODELS[name].Settings, ModelSettings)

    def test_a_misspelt_name_is_answered_with_the_nearest(self):
        with pytest.raises(UnknownNameError, match=r"unknown model 'distmul': did you mean 'distmult'\?"):
            MODELS["distmul"]

    def test_a_strange_name_is_answered_with_all(self):
        with pytest.raises(
            UnknownNameError, match=r"choose one of capse, scaled-capse, complex-capse, convkb, .*complex"
        ):
            model_settings({"name": "zzz"})

    @pytest.mark.parametrize("name", MODELS)
    def test_settings_are_frozen(self, name):
        with pytest.raises(dataclasses.FrozenInstanceError):
            MODELS[name].Settings().dim = 3  # type: ignore[misc] # that is the mistake

    def test_defaults_are_the_papers(self):
        settings: Any = MODELS["capse"].Settings()
        assert (settings.dim, settings.filters, settings.capsule_dim, settings.routing) == (100, 50, 10, 1)
        assert (settings.variant, settings.readout, settings.reciprocal) == ("paper", "length", False)


class TestSeeds:
    def test_the_same_seed_gives_the_same_weights(self, case):
        assert equal_weights(case.build(seed=7), case.build(seed=7))

    def test_settings_that_belong_to_no_model_are_refused(self):
        with pytest.raises(SettingsError, match=r"ModelSettings is not the settings of a model: register its scorer"):
            build_model(ModelSettings(), entities=3, relations=1)

    def test_another_seed_gives_others(self, case):
        assert not torch.equal(case.build(seed=7).entities, case.build(seed=8).entities)

    def test_what_was_drawn_before_does_not_matter(self, case):
        first = case.build(seed=7)
        torch.rand(11)
        assert equal_weights(first, case.build(seed=7))

    def test_the_global_generators_are_untouched(self, case):
        def states():
            of_numpy = np.random.get_state(legacy=False)["state"]["key"].copy()  # noqa: NPY002
            return torch.random.get_rng_state(), random.getstate(), of_numpy

        before = states()
        case.build(seed=7)
        after = states()
        assert torch.equal(before[0], after[0])
        assert before[1] == after[1]
        assert (before[2] == after[2]).all()

    def test_the_gpus_generators_are_untouched(self, monkeypatch):
        """`torch.manual_seed` seeds every GPU as well, and `fork_rng(devices=[])` does not put that back."""
        reseeded: list[int] = []
        monkeypatch.setattr(torch.cuda, "manual_seed_all", reseeded.append)
        build_model(MODELS["distmult"].Settings(dim=2), 3, 2, seed=7)
        assert reseeded == []


class TestSavedState:
    def test_safetensors_keeps_every_number(self, case, make, everything):
        """Plain tensors that share no memory: all that safetensors takes. Loading them restores every score."""
        model = make()
        state = model.state_dict()
        assert all(type(value) is torch.Tensor for value in state.values())
        assert {name for name, _ in model.named_parameters()} <= state.keys()
        loaded = safetensors.torch.load(safetensors.torch.save(state))

        other = case.build(seed=99).eval()
        other.load_state_dict(loaded)
        with torch.no_grad():
            scores = model.score_triples(*everything.T)
            assert torch.equal(other.score_triples(*everything.T), scores)
            assert not torch.allclose(case.build(seed=99).eval().score_triples(*everything.T), scores)

    def test_a_state_of_another_size_is_refused(self, case):
        with pytest.raises(RuntimeError, match="size mismatch for entities"):
            case.build(entities=4).load_state_dict(case.build(entities=5).state_dict())


WRONG_SETTINGS = [
    *((name, {"dim": size}, "model.dim is") for name in MODELS for size in (0, -3)),
    *((name, {"filters": 0}, "model.filters is 0") for name in ("capse", "convkb", "conve")),
    ("capse", {"capsule_dim": 0}, "model.capsule_dim is 0"),
    ("capse", {"routing": 0}, "model.routing is 0"),
    ("capse", {"routing": -1}, "model.routing is -1"),
    *(("convkb", {"dropout": share}, "model.dropout is") for share in (-0.1, 1.0, 1.5)),
    *(
        ("conve", {f"{where}_dropout": 1.5}, f"model.{where}_dropout is 1.5")
        for where in ("input", "feature", "hidden")
    ),
    *(
        (name, {f"{where}_dropout": 1.0}, f"model.{where}_dropout is 1.0")
        for name in ("distmult", "complex")
        for where in ("entity", "relation")
    ),
    ("conve", {"dim": 200, "height": 7}, "model.height is 7, which does not make a picture of model.dim = 200 numbers"),
    ("conve", {"dim": 200, "height": 0}, "model.height is 0"),
    ("conve", {"dim": 200, "height": 1}, "model.height is 1"),
    ("conve", {"kernel": 0}, "model.kernel is 0"),
    ("conve", {"dim": 200, "height": 10, "kernel": 21}, "model.height is 10"),
    ("conve", {"dim": 200, "height": -10}, "model.height is -10"),
    ("conve", {"dim": 200, "height": 100}, "model.height is 100"),  # two columns: no room for a 3×3 filter
]


class TestSettings:
    @pytest.mark.parametrize(("name", "changes", "message"), WRONG_SETTINGS, ids=str)
    def test_nonsense_is_refused_with_a_remedy(self, name, changes, message):
        with pytest.raises(SettingsError) as error:
            MODELS[name].Settings(**changes)
        assert error.value.message.startswith(message)
        assert error.value.remedy

    @pytest.mark.parametrize(
        ("name", "changes"),
        [
            ("transe", {"dim": 1}),
            ("transr", {"dim": 1}),
            ("complex", {"dim": 1}),
            ("convkb", {"dim": 1, "filters": 1}),
            ("capse", {"dim": 1, "filters": 1, "capsule_dim": 1, "routing": 2}),
            ("conve", {"dim": 6, "height": 2, "filters": 1}),
        ],
        ids=str,
    )
    def test_the_smallest_model_works(self, name, changes):
        model = build_model(MODELS[name].Settings(**changes), entities=2, relations=1).eval()
        with torch.no_grad():
            scores = model.score_tails(torch.tensor([0, 1]), torch.tensor([0, 0]))
        assert scores.shape == (2, 2)
        assert scores.isfinite().all()
