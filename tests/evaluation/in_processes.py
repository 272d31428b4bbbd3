"""Ranks of questions that processes divide, many chunks of them, ties among the scores: FILE."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

from capse.evaluation.query_ranks import rank_answers
from capse.evaluation.ranks import NonFiniteScoreError, Ranks
from capse.processes.group import Group, joined


def rank_some(group: Group | None, spoilt: int = -1) -> Ranks:
    """Of 200 questions among 30 candidates with four different scores; question (``spoilt``, 0) has a NaN."""
    rng = np.random.default_rng(0)
    first, second, true = rng.integers(20, size=200), rng.integers(3, size=200), rng.integers(30, size=200)
    table = torch.from_numpy(rng.integers(4, size=(20, 3, 30))).float()
    if spoilt >= 0:
        table[spoilt, 0] = torch.nan
    return rank_answers(
        first,
        second,
        true,
        score=lambda a, b: table[a, b],
        excluded=lambda a, b: None,
        most_rows=7,
        advance=lambda ranks: None,
        group=group,
    )


def error_of(group: Group | None) -> str:
    try:
        rank_some(group, spoilt=13)
    except NonFiniteScoreError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    with joined(60) as everyone:
        ranks = rank_some(everyone)
        path = Path(f"{sys.argv[1]}-{everyone.rank}.npz")
        np.savez(path, greater=ranks.greater, equal=ranks.equal, candidates=ranks.candidates, error=error_of(everyone))
