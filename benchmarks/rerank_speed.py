"""Ten documents re-ranked for one user, in one process on one core: k = 200 topics, N = 400 filters, d = 10.

Run with ``python -m benchmarks rerank``. The plain formula in torch is timed in turns with it, so that neighbours on
the machine slow both alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from capse.models import model_settings
from capse.search.logs.documents import Documents
from capse.search.rankers.search_run import SearchRun, personal_model
from capse.search.serving.reranker import Reranker
from capse.search.users.user_state import ProfileSettings
from capse.search.vectors.topics import Topics
from capse.search.vectors.vector_files import VectorTable
from capse.search.vectors.vector_space import VectorSettings, VectorSpace

WIDTH, FILTERS, DOCUMENTS, SHOWN, WORDS = 200, 400, 5_000, 10, 5_000
ROUNDS, WARM_UP = 3_000, 50
METHODS = {"transe": {}, "convkb": {"filters": 500}, "capse": {"filters": FILTERS}}
NOW = 1_800_000_000  # seconds


def run() -> dict[str, Any]:
    """Milliseconds of a whole re-ranking, query and user vector included, and of plain torch for the scores alone.

    Both by the clock and of the core: the second leaves out what others do on the machine meanwhile.
    """
    torch.set_num_threads(1)
    return {
        "task": f"{SHOWN} documents re-ranked, k = {WIDTH}, N = {FILTERS} (ConvKB 500), in process",
        "threads": 1,
        "rounds": ROUNDS,
        "milliseconds": {method: _measure(method, options) for method, options in METHODS.items()},
    }


def _measure(method: str, options: dict[str, int]) -> dict[str, Any]:
    random = np.random.default_rng(0)
    trained = untrained_run(method, options, random)
    reranker = Reranker(trained)
    state = reranker.new_user()
    for number in range(60):
        reranker.learn(state, f"d{number}", "s", NOW)
    lists = [[f"d{number}" for number in random.integers(DOCUMENTS, size=SHOWN)] for _ in range(64)]
    scorer = trained.model.scorer
    given = [torch.from_numpy(random.random((n, WIDTH), np.float32)) for n in (1, 1, SHOWN)]

    def ours(round: int) -> None:
        reranker.rerank("a query", lists[round % 64], user="u1", state=state, session="s", time=NOW)

    def explained(round: int) -> None:
        reranker.rerank("a query", lists[round % 64], user="u1", state=state, session="s", time=NOW, explain=True)

    def plain(round: int) -> None:
        with torch.inference_mode():
            scorer.score_triples(*given)

    times = _in_turns({"rerank": ours, "plain_scores": plain})
    times |= _in_turns({"explained": explained})
    found: dict[str, Any] = {name: _percentiles(values) for name, values in times.items()}
    return found | {"ratio_of_medians": found["plain_scores"]["core"]["50"] / found["rerank"]["core"]["50"]}


def _in_turns(functions: dict[str, Callable[[int], None]]) -> dict[str, list[tuple[float, float]]]:
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in functions}
    for round in range(WARM_UP + ROUNDS):
        for name, function in functions.items():
            started, core = time.perf_counter(), time.thread_time()
            function(round)
            if round >= WARM_UP:
                times[name].append((time.perf_counter() - started, time.thread_time() - core))
    return times


def _percentiles(values: list[tuple[float, float]]) -> dict[str, dict[str, float]]:
    clock, core = np.array(values).T * 1e3
    return {
        name: {str(q): round(float(np.percentile(column, q)), 4) for q in (50, 90, 99)}
        for name, column in (("clock", clock), ("core", core))
    }


def untrained_run(method: str, options: dict[str, int], random: np.random.Generator) -> SearchRun:
    """An untrained run: what it costs to score does not depend on what was learned."""
    words = [f"w{number}" for number in range(WORDS)]
    topics = Topics(words, random.random((WIDTH, WORDS), np.float32) + 0.01, 0.05)
    shelf = Documents.of_terms({f"d{number}": {} for number in range(DOCUMENTS)})
    vectors = random.dirichlet(np.full(WIDTH, 0.05), DOCUMENTS).astype(np.float32)
    space = VectorSpace(VectorSettings(topics=WIDTH), VectorTable(shelf.ids, vectors), topics)
    settings = model_settings({"name": method, "dim": WIDTH, **options})
    users = [f"u{number}" for number in range(100)]
    return SearchRun(settings, ProfileSettings(), personal_model(settings, 100, WIDTH).eval(), space, users)


if __name__ == "__main__":
    import json

    print(json.dumps(run(), indent=2))
