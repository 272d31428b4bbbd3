"""A small simulated log and an untrained run on it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from capse.models import model_settings
from capse.search.live import ProfileSettings
from capse.search.run import SearchRun, personal_model
from capse.search.simulate import Simulated, SimulationSettings, simulate
from capse.search.vectors import VectorSettings, VectorSpace, build_vectors

WIDTH = 8


@pytest.fixture(scope="session")
def world() -> Simulated:
    return simulate(SimulationSettings(users=12, topics=8, documents=80, impressions=250, days=20))


@pytest.fixture(scope="session")
def space(world: Simulated) -> VectorSpace:
    return build_vectors(world.log, VectorSettings(topics=WIDTH, iterations=3))


@pytest.fixture(scope="session")
def make_run(world: Simulated, space: VectorSpace) -> Callable[..., SearchRun]:
    """An untrained run of a method; the first eight users have offsets."""

    def make(method: str = "capse", profile: ProfileSettings | None = None, **options: object) -> SearchRun:
        name, settings = model_settings({"name": method, "dim": WIDTH, **options})
        profile = profile or ProfileSettings()
        users = list(world.log.users[:8]) if profile.user != "profile" else []
        model = personal_model(name, settings, len(users), WIDTH, seed=1)
        if users:
            model.offsets.data.normal_(std=0.05)
        return SearchRun(name, settings, profile, model.eval(), space, users)

    return make
