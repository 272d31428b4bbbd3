"""A small simulated log with an untrained run on it, and smaller ones in which everything repeats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from capse.models import model_settings
from capse.search.logs.documents import Documents
from capse.search.logs.search_log import NO_TIME, SearchLog
from capse.search.logs.simulation import Simulated, SimulationSettings, simulate
from capse.search.rankers.search_run import SearchRun, personal_model
from capse.search.users.user_state import ProfileSettings
from capse.search.vectors.vector_space import VectorSettings, VectorSpace, build_vectors

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
        settings = model_settings({"name": method, "dim": WIDTH, **options})
        profile = profile or ProfileSettings()
        users = list(world.log.users[:8]) if profile.user != "profile" else []
        model = personal_model(settings, len(users), WIDTH, seed=1)
        if users:
            model.offsets.data.normal_(std=0.05)
        return SearchRun(settings, profile, model.eval(), space, users)

    return make


@pytest.fixture(scope="session")
def busy_log() -> Callable[[int], SearchLog]:
    """Small logs in which everything repeats: few users, sessions, queries and documents, ties in time, late clicks."""

    def make(seed: int) -> SearchLog:
        draw = np.random.default_rng(seed)
        records, time = [], 0
        for number in range(40):
            time += int(draw.integers(0, 3))
            shown = draw.choice(9, int(draw.integers(1, 6)), replace=False)
            records.append(
                {
                    "time": time,
                    "user": f"u{draw.integers(3)}",
                    "session": f"s{draw.integers(4)}",
                    "query": ("fix it", "Fix  IT", "fix", "add the docs", "docs")[draw.integers(5)],
                    "results": [f"d{d}" for d in shown],
                    "clicks": [f"d{d}" for d in shown if draw.random() < 0.4],
                    "split": "train" if number < 25 else "valid" if number < 30 else "test",
                }
            )
        titles = [f"site{number % 2}/{'ab'[number % 3 % 2]}/fix_{number}.py" for number in range(9)]
        terms = [{"fix": number + 1, "docs": 9 - number, f"word{'abc'[number % 3]}": 2} for number in range(9)]
        documents = Documents([f"d{number}" for number in range(9)], titles, [None] * 9, terms)
        log = SearchLog.from_records(records, documents)
        late = draw.integers(0, 6, len(log.document)) * 1_000_000
        return replace(log, clicked_at=np.where(log.satisfied, log.clicked_at + late, NO_TIME))

    return make
