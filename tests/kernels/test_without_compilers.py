"""Everything works where neither numba nor Triton is installed: slower, and with the same ranks."""

from __future__ import annotations

import json
import subprocess
import sys

from capse.graph.benchmarks import EMBEDDED
from capse.graph.dataset import load_graph
from capse.graph.link_prediction.ranking import rank_split
from capse.models import build_model, model_settings

RANKS = """
import json, sys
{prepare}
from capse.graph.benchmarks import EMBEDDED
from capse.graph.dataset import load_graph
from capse.graph.link_prediction.ranking import rank_split
from capse.models import build_model, model_settings

graph = load_graph(EMBEDDED)
found = {{}}
for options in json.loads(sys.argv[1]):
    settings = model_settings(options)
    model = build_model(settings, len(graph.entities), len(graph.relations), 0)
    ranks = rank_split(model, graph.test[:20], graph.known, exact=True)
    found[json.dumps(options)] = [[side.greater.tolist(), side.equal.tolist()] for side in ranks]
    model.score_tails(*__import__("torch").arange(2).expand(2, 2)).sum().backward()
print(json.dumps(found))
assert not [name for name in ("numba", "llvmlite", "triton") if sys.modules.get(name)]
"""
MODELS = [
    {"name": "capse", "dim": 8, "filters": 6, "capsule_dim": 3},
    {"name": "capse", "dim": 8, "filters": 6, "capsule_dim": 3, "variant": "released", "routing": 2},
    {"name": "convkb", "dim": 8, "filters": 6},
    {"name": "transe", "dim": 8},
    {"name": "distmult", "dim": 8},
]


def test_ranks_and_gradients():
    missing = 'sys.modules["numba"] = sys.modules["llvmlite"] = sys.modules["triton"] = None'
    code = RANKS.format(prepare=missing)
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(MODELS)], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    graph = load_graph(EMBEDDED)
    for options, found in json.loads(done.stdout).items():
        settings = model_settings(json.loads(options))
        model = build_model(settings, len(graph.entities), len(graph.relations), 0)
        ranks = rank_split(model, graph.test[:20], graph.known, exact=True)
        assert found == [[side.greater.tolist(), side.equal.tolist()] for side in ranks], options


MOTIFS = """
import json, sys
{prepare}
import numpy as np
from capse.graph.benchmarks import EMBEDDED
from capse.graph.dataset import load_graph
from capse.graph.refinement.features import Features
from capse.graph.refinement.settings import Refinement
from capse.kernels.motifs.scoring import weigh

graph = load_graph(EMBEDDED)
features = Features.of(graph.train, len(graph.entities), len(graph.relations), most=3)
keys = features.kept(Refinement())
weights = np.random.default_rng(0).normal(size=len(keys))
heads, relations, tails = (np.ascontiguousarray(part) for part in graph.test[:40].astype(np.int64).T)
scores = weigh(features.motifs(keys, weights, legs=True), weights, heads, relations, tails[::-1].copy())
print(json.dumps(scores.tolist()))
"""


def test_motifs():
    missing = 'sys.modules["numba"] = sys.modules["llvmlite"] = sys.modules["triton"] = None'
    plain, compiled = (
        json.loads(
            subprocess.run(
                [sys.executable, "-W", "error::RuntimeWarning", "-c", MOTIFS.format(prepare=prepare)],
                capture_output=True, text=True, check=True, timeout=600,
            ).stdout
        )
        for prepare in (missing, "")
    )  # fmt: skip
    assert plain == compiled
    assert len(set(plain)) > 20
