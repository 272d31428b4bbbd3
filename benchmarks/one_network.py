"""One network for all that is known of a list: capsules that see SP's features as well as topics, beside SP's trees.

    python -m benchmarks.one_network gitsearch 0 1 2 3 4
    python -m benchmarks.one_network                            # the page of all that is recorded

CapsE's matrix [q, u, d] has a row for each number of a vector. It gets two more for each feature x of a result:
(1, 0, x), with x as its quantile among the training results, from −1 to 1, and once more less the mean of its list. So
rank, text match, history and numbers go through the same filters and capsules as topics do, and every capsule is a
piecewise linear function of one feature. Settings were chosen on the training and validation lists (results/tried.md).

Four rankers are compared on the test lists: LambdaMART as SP has it, the network, the mean of both's scores
standardised within the list, and LambdaMART with the network's cross-fitted scores among its features, as the blend has
CapsE's. One file for each seed under ``results/one-network``.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.search_served import find_log
from capse.arrays import Float32s, Float64s, Int64s
from capse.models import ScaledCapsE
from capse.models.personal import PersonalModel
from capse.models.scaled_capse import ScaledCapsEScorer
from capse.runs.atomic import write_json, write_text
from capse.runs.records import provenance
from capse.search.evaluation.comparison import compare_lists
from capse.search.evaluation.list_metrics import list_metrics
from capse.search.features import FeatureTable, log_features
from capse.search.features.feature_table import standardised
from capse.search.logs.history import cutoffs
from capse.search.logs.search_log import SearchLog
from capse.search.rankers.baselines import in_engine_order
from capse.search.rankers.lambdamart import LabelledLists, LambdaMART, LambdaMARTSettings
from capse.search.rankers.neural import UserVectors
from capse.search.rankers.sp_lambdamart import score_columns
from capse.search.users.user_state import ProfileSettings
from capse.search.vectors.vector_space import VectorSettings, build_vectors
from capse.training.list_objective import ListObjective, Lists, Shown
from capse.training.losses import Loss

RESULTS = Path(__file__).parents[1] / "results" / "one-network"
FILTERS, CAPSULE, DROPOUT = 16, 8, 0.2
EPOCHS, BATCH, RATE, DECAY, WARM_UP = 15, 128, 3e-3, 0.1, 0.15
KNOTS = 64  # quantiles of a feature
PARTS = 4  # that the training period is cut into for scores of lists that were not seen


@dataclass(frozen=True)
class Part:
    """Lists one after the other: what trees see of them, and what the network sees beside that."""

    lists: LabelledLists
    position: Float64s  # (rows,)
    queries: Float32s  # (lists, k)
    users: Float32s  # (lists, k)
    documents: Float32s  # (rows, k)
    owners: Int64s  # (lists,)

    def __getitem__(self, chosen: slice) -> Part:
        ends = np.concatenate([[0], np.cumsum(self.lists.lengths)])
        start, stop, _ = chosen.indices(len(self.lists.lengths))
        rows = slice(int(ends[start]), int(ends[stop]))
        table = FeatureTable(self.lists.features.names, self.lists.features.values[rows])
        lists = LabelledLists(table, self.lists.relevant[rows], self.lists.lengths[chosen])
        of_lists = (getattr(self, name)[chosen] for name in ("queries", "users"))
        return Part(lists, self.position[rows], *of_lists, self.documents[rows], self.owners[chosen])

    def followed_by(self, other: Part) -> Part:
        names = ("position", "queries", "users", "documents", "owners")
        joined = (np.concatenate([getattr(self, name), getattr(other, name)]) for name in names)
        return Part(self.lists.followed_by(other.lists), *joined)

    def reciprocal_ranks(self, scores: Float64s) -> Float64s:
        """(lists,) as SP ranks: results that tie follow the engine's order."""
        ranked = in_engine_order(scores, self.position)
        return list_metrics(ranked, self.lists.relevant, self.lists.lengths).mrr


def parts_of(log: SearchLog) -> dict[str, Part]:
    """The judged lists of each split, with everything known before each of them."""
    known, space = cutoffs(log), build_vectors(log, VectorSettings())
    vectors = space.vectors(log)
    users = UserVectors.of(log, vectors, known, ProfileSettings(scale="nearest", user="profile"), {})
    found = {}
    for split in ("train", "valid", "test"):
        judged = log.judged(split)
        rows = log.rows(judged)
        table = log_features(log, judged, known, vectors=vectors.documents)
        lists = LabelledLists(table, log.satisfied[rows], log.lengths[judged])
        of_lists = vectors.queries[judged], users.profiles[judged], vectors.documents[log.document[rows]]
        found[split] = Part(lists, log.position[rows].astype(np.float64), *of_lists, log.user[judged].astype(np.int64))
    return found


class Network:
    """Scaled CapsE over the rows of topics and of features."""

    def __init__(self, train: Part, seed: int) -> None:
        values = np.where(np.isfinite(train.lists.features.values), train.lists.features.values, np.nan)
        places = np.linspace(0, 1, KNOTS)
        self.quantiles = [
            np.unique(np.nanquantile(column, places)) if np.isfinite(column).any() else np.zeros(1)
            for column in values.T
        ]
        torch.manual_seed(seed)
        width = 2 * len(self.quantiles) + train.documents.shape[1]
        settings = ScaledCapsE(
            dim=width, filters=FILTERS, capsule_dim=CAPSULE, dropout=DROPOUT, filter_start="distance"
        )
        self.model = PersonalModel(ScaledCapsEScorer(settings), 0)
        self._train(train, seed)

    def _train(self, train: Part, seed: int) -> None:
        objective = ListObjective(self.model, self._lists(train), Loss(name="softmax", reduction="mean"), Shown())
        optimizer = torch.optim.AdamW(self.model.parameters(), RATE, weight_decay=DECAY)
        batches = math.ceil(len(objective.examples) / BATCH)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=EPOCHS * batches, pct_start=WARM_UP)
        generator = torch.Generator().manual_seed(seed)
        for _ in range(EPOCHS):
            self.model.train()
            for batch in torch.randperm(len(objective.examples), generator=generator).split(BATCH):
                optimizer.zero_grad()
                objective(batch, generator).backward()
                optimizer.step()
                schedule.step()

    def score(self, part: Part) -> Float64s:
        """(rows,)"""
        lists = self._lists(part)
        nobody = torch.full((BATCH,), -1)
        found = []
        self.model.eval()
        with torch.inference_mode():
            for chosen in torch.arange(len(lists.users)).split(BATCH):
                documents = lists.documents[chosen]
                given = lists.queries[chosen], lists.profiles[chosen], nobody[: len(chosen)]
                scores = self.model.score_lists(*given, lists.vectors[documents.clamp(min=0)])
                found.append(scores[documents >= 0])
        return torch.cat(found).double().numpy()

    def _lists(self, part: Part) -> Lists:
        """Every result as a document of its own: the rows [1, q], [0, u] and [x, d] of its list's matrix."""
        lengths = part.lists.lengths
        places = np.arange(int(lengths.max()))
        documents = np.full((len(lengths), len(places)), -1, np.int64)
        documents[places < lengths[:, None]] = np.arange(len(part.position))
        relevant = documents >= 0
        relevant[relevant] = part.lists.relevant
        features = self._features(part)
        ones = np.ones((len(lengths), features.shape[1]), np.float32)
        arrays = (
            np.hstack([ones, part.queries]),
            np.hstack([0 * ones, part.users]),
            np.full(len(lengths), -1),
            documents,
            relevant,
            np.hstack([features, part.documents]),
        )
        return Lists(*map(torch.from_numpy, arrays))

    def _features(self, part: Part) -> Float32s:
        """(rows, 2F) quantiles, 0 where a feature has no value, and the same less the list's mean."""
        values, found = part.lists.features.values, np.zeros(part.lists.features.values.shape, np.float32)
        for place, quantiles in enumerate(self.quantiles):
            if len(quantiles) > 1:
                found[:, place] = 2 * np.interp(values[:, place], quantiles, np.linspace(0, 1, len(quantiles))) - 1
        found[~np.isfinite(values)] = 0
        starts = np.cumsum(part.lists.lengths) - part.lists.lengths
        means = np.add.reduceat(found, starts) / part.lists.lengths[:, None]
        return np.hstack([found, found - np.repeat(means, part.lists.lengths, axis=0)]).astype(np.float32)


def compare(parts: dict[str, Part], seed: int) -> dict[str, Float64s]:
    """(test lists,) reciprocal ranks of the four."""
    train, valid, test = (parts[split] for split in ("train", "valid", "test"))
    settings = LambdaMARTSettings(seed=seed)
    trees = LambdaMART.fit(train.lists, valid.lists, settings).predict(test.lists.features)
    network = Network(train.followed_by(valid), seed).score(test)
    lengths = test.lists.lengths
    mean = standardised(trees, lengths) + standardised(network, lengths)

    blocks = np.array_split(np.arange(len(train.lists.lengths)), PARTS)
    seen = [Network(train[: block[0]], seed).score(train[block[0] : block[-1] + 1]) for block in blocks[1:]]
    first = np.full(int(train.lists.lengths[blocks[0]].sum()), np.nan)
    of_train = np.concatenate([first, *seen])
    last = Network(train, seed)
    scored = [
        _with_scores(part.lists, scores)
        for part, scores in ((train, of_train), (valid, last.score(valid)), (test, last.score(test)))
    ]
    blended = LambdaMART.fit(scored[0], scored[1], settings).predict(scored[2].features)
    found = {"lambdamart": trees, "network": network, "mean": mean, "among_features": blended}
    return {name: test.reciprocal_ranks(scores) for name, scores in found.items()}


def _with_scores(lists: LabelledLists, scores: Float64s) -> LabelledLists:
    columns = score_columns({"network": scores}, lists.lengths)
    return LabelledLists(FeatureTable.beside([lists.features, columns]), lists.relevant, lists.lengths)


def page() -> str:
    """Means over seeds; intervals and tests over users of each list's mean over seeds."""
    lines = [
        "| log | ranker | MRR by seed | mean | over LambdaMART | over users | p |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for folder in sorted(path for path in RESULTS.iterdir() if path.is_dir()):
        records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("seed-*.json"))]
        owners = np.array(records[0]["owners"])
        ranks = {name: np.array([one["reciprocal_ranks"][name] for one in records]) for name in records[0]["mrr"]}
        for name, found in ranks.items():
            compared = compare_lists(found.mean(0), ranks["lambdamart"].mean(0), owners)
            low, high, p = compared.over_users.low, compared.over_users.high, compared.over_users.p_value
            against = (
                "– | – | –"
                if name == "lambdamart"
                else f"{compared.difference:+.4f} | {low:+.4f} to {high:+.4f} | {p:.2g}"
            )
            seeds = ", ".join(f"{one:.4f}" for one in found.mean(1))
            lines.append(f"| {folder.name} | {name} | {seeds} | {found.mean():.4f} | {against} |")
    return "\n".join(lines) + "\n"


def main(name: str = "", *seeds: str) -> None:
    if not name:
        write_text(RESULTS / "README.md", f"# One network\n\n{__doc__}\n{page()}")
        print(page())
        return
    parts: dict[str, Part] = {}
    for seed in map(int, seeds):
        path = RESULTS / name / f"seed-{seed}.json"
        if path.is_file():
            continue
        parts = parts or parts_of(find_log(name))
        ranks = compare(parts, seed)
        content: dict[str, Any] = {"log": name, "seed": seed, "mrr": {one: float(r.mean()) for one, r in ranks.items()}}
        content |= provenance() | {"owners": parts["test"].owners.tolist()}
        content["reciprocal_ranks"] = {one: np.round(r, 6).tolist() for one, r in ranks.items()}
        write_json(path, content)
        print(name, seed, content["mrr"], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
