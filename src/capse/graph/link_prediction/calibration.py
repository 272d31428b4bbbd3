"""Scores to probabilities: Platt scaling on the validation set.

A score only ranks. `calibrate` fits p(s) = 1 / (1 + exp(−(a·s + b))) with a > 0 to the scores of validation triples and
of corrupted ones. What p means: take as many true triples as triples whose head or tail was replaced by an entity drawn
uniformly from those that make no training or validation triple; among those of them that score s, the share p is true.
So p is relative to odds of one to one. It orders candidates as scores do, and the p of all candidates do not sum to 1.
Where one triple in k + 1 is true instead of one in two, the odds p / (1 − p) are k times smaller.

Platt, Probabilistic Outputs for Support Vector Machines, 1999; for knowledge graphs: Tabacof and Costabello,
Probability Calibration for Knowledge Graph Embedding Models, ICLR 2020.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import torch

from capse.arrays import Bools, Float64s
from capse.errors import RunError, SettingsError
from capse.evaluation.judgements import brier_score as brier_score
from capse.evaluation.judgements import expected_calibration_error as expected_calibration_error
from capse.evaluation.ranks import NonFiniteScoreError
from capse.graph.dataset import Graph
from capse.kernels.workspace import chunk_size
from capse.models import TripleModel
from capse.runs.atomic import write_json
from capse.runs.folder import RunFolder
from capse.runs.manifest import entering, is_whole
from capse.runs.settings import fill
from capse.triples import HEAD, TAIL, TripleIndex, Triples


@dataclass(frozen=True)
class Calibration:
    """p(s) = 1 / (1 + exp(−(slope·s + intercept))), and how far it can be trusted.

    One half of the validation triples gave slope and intercept, the other half gave the figures of reliability.

    >>> calibration = Calibration(
    ...     slope=2.0, intercept=-1.0, triples=310, seed=0, brier_score=0.05, expected_calibration_error=0.02
    ... )
    >>> calibration.probability(np.array([0.0, 0.5, 4.0])).round(3)
    array([0.269, 0.5  , 0.999])
    """

    slope: float
    intercept: float
    triples: int  # of the validation set, both halves
    seed: int
    brier_score: float  # 0 is perfect; 0.25 is what p = 0.5 for everything gives
    expected_calibration_error: float  # 0 is perfect

    def probability(self, scores: npt.NDArray[np.floating]) -> Float64s:
        """The probability of each score; it never falls as the score rises."""
        return _sigmoid(self.slope * np.asarray(scores, np.float64) + self.intercept)

    def save(self, run: RunFolder) -> None:
        with entering(run.path, run.calibration):
            write_json(run.calibration, asdict(self))

    @classmethod
    def load(cls, run: RunFolder) -> Calibration | None:
        """What ``save`` wrote, or None for a run that was not calibrated."""
        if not is_whole(run.path, run.calibration):
            return None
        try:
            calibration = fill(cls, json.loads(run.calibration.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, SettingsError) as error:
            raise _damaged(run) from error
        if calibration.slope <= 0:
            raise _damaged(run)
        return calibration


def _damaged(run: RunFolder) -> RunError:
    return RunError(f"{run.calibration} is damaged", f"fit it again with 'capse predict {run.path} --calibrate'")


def calibrate(model: TripleModel, graph: Graph, seed: int = 0) -> Calibration:
    """Fit and test a calibration on the validation triples; ``seed`` is for the corrupted ones and for the halves.

    Every validation triple is asked for its head and for its tail, once as it is and once corrupted. The test triples
    play no part. A triple that no entity can corrupt is left out.
    """
    if len(graph.valid) < 2:
        raise SettingsError(
            f"{graph.name} has {len(graph.valid)} validation triples, too few to calibrate on",
            "train on data with a larger file valid.tsv",
        )
    generator = np.random.default_rng(seed)
    triples = generator.permutation(graph.valid)
    halves = [_scored(model, graph, half, generator) for half in np.array_split(triples, 2)]
    slope, intercept = fit_platt(*halves[0])
    scores, true = halves[1]
    p = _sigmoid(slope * scores + intercept)
    return Calibration(slope, intercept, len(triples), seed, brier_score(p, true), expected_calibration_error(p, true))


def fit_platt(scores: Float64s, true: Bools) -> tuple[float, float]:
    """Slope and intercept of greatest likelihood, with Platt's targets, which keep separable scores from infinity.

    >>> slope, intercept = fit_platt(np.array([1.0, 2.0, 3.0, 4.0]), np.array([False, True, False, True]))
    >>> slope > 0
    True
    """
    from scipy.optimize import minimize  # slow to import, and only this function needs it

    centre, spread = scores.mean(), scores.std()
    if np.ptp(scores) == 0:
        raise SettingsError("the model gives all validation triples the same score", "train it before calibrating")
    x = (scores - centre) / spread
    positives = true.sum()
    target = np.where(true, (positives + 1) / (positives + 2), 1 / (len(true) - positives + 2))

    def loss(parameters: Float64s) -> tuple[float, Float64s]:
        z = parameters[0] * x + parameters[1]
        residual = _sigmoid(z) - target
        return float((np.logaddexp(0, z) - target * z).mean()), np.array([(residual * x).mean(), residual.mean()])

    a, b = minimize(loss, np.zeros(2), jac=True, method="BFGS", options={"gtol": 1e-8}).x
    if a <= 0:
        raise SettingsError(
            "the model does not score validation triples higher than corrupted ones", "train it longer, or differently"
        )
    return float(a / spread), float(b - a * centre / spread)


def _scored(
    model: TripleModel, graph: Graph, triples: Triples, generator: np.random.Generator
) -> tuple[Float64s, Bools]:
    """Scores of the triples and of one corruption of each by either side; and which are true."""
    known = TripleIndex(np.concatenate([graph.train, graph.valid]), len(graph.entities), len(graph.relations))
    scores: list[Float64s] = []
    true: list[Bools] = []
    for free in (HEAD, TAIL):
        corrupted, possible = _corrupted(triples, free, known, generator)
        if not possible.any():
            raise SettingsError(f"every entity answers every validation triple of {graph.name}", "use a larger graph")
        for part, truth in ((triples[possible], True), (corrupted[possible], False)):
            scores.append(_score(model, part, free))
            true.append(np.full(len(part), truth))
    return np.concatenate(scores), np.concatenate(true)


def _corrupted(
    triples: Triples, free: int, known: TripleIndex, generator: np.random.Generator
) -> tuple[Triples, Bools]:
    """The triples with an entity in the free slot that makes no known triple; and for which of them there is one."""
    heads, relations, tails = triples.T
    answers = known.heads(relations, tails) if free == HEAD else known.tails(heads, relations)
    choices = known.entities - np.diff(answers.offsets)
    drawn = generator.integers(np.maximum(choices, 1))  # a place among the entities that are no answer
    corrupted = triples.copy()
    for i, place in enumerate(drawn):
        others_before = answers[i] - np.arange(len(answers[i]))
        corrupted[i, free] = place + np.searchsorted(others_before, place, side="right")
    return corrupted, choices > 0


@torch.no_grad()
def _score(model: TripleModel, triples: Triples, free: int) -> Float64s:
    """The score of each triple as a completion of the query for its free side."""
    h, r, t = torch.from_numpy(triples.astype(np.int64)).to(model.device).unbind(1)
    size = chunk_size(model.scorer.floats_per_triple, model.device)
    parts = zip(h.split(size), r.split(size), t.split(size), strict=True)
    scores: Float64s = torch.cat([model.score_answers(free, *part) for part in parts]).double().cpu().numpy()
    if not np.isfinite(scores).all():
        row = int(np.isfinite(scores).argmin())
        raise NonFiniteScoreError(float(scores[row]), row, int(triples[row, free]), "a validation triple")
    return scores


def _sigmoid(z: Float64s) -> Float64s:
    return np.asarray(np.exp(-np.logaddexp(0, -z)))
