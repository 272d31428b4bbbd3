"""How long it takes to refine a run on FB15k-237 with motifs of three relations that occur (M3GM), and how much memory.

    python -m benchmarks refining-dense

One thread of a process of its own, TransE's two epochs before it counted in.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch

import capse
from benchmarks.import_speed import measure
from benchmarks.refining_speed import RECIPE, base_run

LINES = {"minutes": 30, "gib": 8}


def run() -> dict[str, Any]:
    """Seconds and the peak of memory of the whole refinement: features, three epochs of weights, α."""
    taken = measure("from benchmarks.refining_dense import refine_dense; refine_dense()")
    return {"task": f"capse refine --recipe {RECIPE} over TransE, L2, k = 100, on fb15k-237", **taken, "lines": LINES}


def refine_dense() -> None:
    """What is measured."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        capse.refine(base_run("fb15k-237", Path(scratch)), RECIPE, out=Path(scratch) / "refined")
