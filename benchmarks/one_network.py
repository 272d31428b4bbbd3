"""One network for all that is known of a list, `--method capsules`, beside SP's trees: what it adds to LambdaMART.

    python -m benchmarks.one_network gitsearch 0 1 2 3 4

Four rankers are compared on the test lists: LambdaMART as SP has it, the network, the mean of both's scores
standardised within the list, and LambdaMART with the network's cross-fitted scores among its features, as the blend has
CapsE's. All of them see the same features, which are made once. One file for each seed under ``results/one-network``;
``python tools/record_results.py`` makes the page of them.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.search_served import find_log
from capse.arrays import Float64s, Int64s
from capse.experiments.search.capsule_training import fit_network
from capse.runs.atomic import write_json
from capse.runs.records import provenance
from capse.search.evaluation.list_metrics import list_metrics
from capse.search.features import log_features
from capse.search.features.feature_table import FeatureTable, standardised
from capse.search.logs.history import cutoffs
from capse.search.logs.search_log import SPLITS, SearchLog
from capse.search.rankers.baselines import in_engine_order
from capse.search.rankers.capsule_network import CapsuleNetwork, NetworkSettings
from capse.search.rankers.lambdamart import LabelledLists, LambdaMART, LambdaMARTSettings
from capse.search.rankers.list_vectors import ListVectors
from capse.search.rankers.sp_lambdamart import score_columns
from capse.search.vectors.vector_space import VectorSettings, build_vectors

RESULTS = Path(__file__).parents[1] / "results" / "one-network"
PARTS = 4  # that the training period is cut into for scores of lists that were not seen


def parts_of(log: SearchLog) -> tuple[dict[str, LabelledLists], Int64s]:
    """The judged lists of each split, with everything known before each of them, and whose the test lists are."""
    known, space = cutoffs(log), build_vectors(log, VectorSettings())
    documents = space.vectors(log).documents
    found: dict[str, LabelledLists] = {}
    for split in SPLITS:
        judged = log.judged(split)
        table = log_features(log, judged, known, vectors=documents)
        vectors = ListVectors.of_log(log, judged, known, space)
        found[split] = LabelledLists(table, log.satisfied[log.rows(judged)], log.lengths[judged], vectors=vectors)
    return found, log.user[log.judged("test")].astype(np.int64)


def some(lists: LabelledLists, start: int, stop: int) -> LabelledLists:
    """The lists of these places."""
    assert lists.vectors is not None
    ends = np.concatenate([[0], np.cumsum(lists.lengths)])
    rows = np.arange(ends[start], ends[stop])
    table = FeatureTable(lists.features.names, lists.features.values[rows])
    vectors = lists.vectors.take(np.arange(start, stop), rows)
    return LabelledLists(table, lists.relevant[rows], lists.lengths[start:stop], vectors=vectors)


def compare(parts: dict[str, LabelledLists], seed: int) -> dict[str, Float64s]:
    """(test lists,) reciprocal ranks of the four."""
    train, valid, test = (parts[split] for split in SPLITS)
    settings = LambdaMARTSettings(seed=seed)
    trees = LambdaMART.fit(train, valid, settings).predict(test.features)
    nothing = some(valid, 0, 0)
    learned = [train.followed_by(valid), train]
    final, of_train = (fit_network(lists, nothing, NetworkSettings(seed=seed)) for lists in learned)
    network = scores_of(final, test)
    mean = standardised(trees, test.lengths) + standardised(network, test.lengths)

    scored = [
        with_scores(train, cross_fitted(train, seed)),
        *(with_scores(lists, scores_of(of_train, lists)) for lists in (valid, test)),
    ]
    blended = LambdaMART.fit(scored[0], scored[1], settings).predict(scored[2].features)
    found = {"lambdamart": trees, "network": network, "mean": mean, "among_features": blended}
    return {name: reciprocal_ranks(test, scores) for name, scores in found.items()}


def cross_fitted(train: LabelledLists, seed: int) -> Float64s:
    """(rows,) scores by networks that were trained on earlier lists; NaN for the first part, which has none."""
    blocks = np.array_split(np.arange(len(train.lengths)), PARTS)
    found = [np.full(int(train.lengths[blocks[0]].sum()), np.nan)]
    for block in blocks[1:]:
        network = fit_network(some(train, 0, block[0]), some(train, 0, 0), NetworkSettings(seed=seed))
        found.append(scores_of(network, some(train, block[0], block[-1] + 1)))
    return np.concatenate(found)


def scores_of(network: CapsuleNetwork, lists: LabelledLists) -> Float64s:
    assert lists.vectors is not None
    return network.predict(lists.features, lists.vectors, lists.lengths)


def with_scores(lists: LabelledLists, scores: Float64s) -> LabelledLists:
    columns = score_columns({"network": scores}, lists.lengths)
    return replace(lists, features=FeatureTable.beside([lists.features, columns]))


def reciprocal_ranks(lists: LabelledLists, scores: Float64s) -> Float64s:
    """(lists,) as SP ranks: results that tie follow the engine's order."""
    assert lists.vectors is not None
    ranked = in_engine_order(scores, lists.vectors.position.astype(np.int32))
    return list_metrics(ranked, lists.relevant, lists.lengths).mrr


def main(name: str, *seeds: str) -> None:
    parts: dict[str, LabelledLists] = {}
    for seed in map(int, seeds):
        path = RESULTS / name / f"seed-{seed}.json"
        if path.is_file():
            continue
        if not parts:
            parts, owners = parts_of(find_log(name))
        ranks = compare(parts, seed)
        mrr = {one: float(found.mean()) for one, found in ranks.items()}
        content: dict[str, Any] = {"log": name, "seed": seed, "mrr": mrr}
        content |= provenance() | {"owners": owners.tolist()}
        content["reciprocal_ranks"] = {one: np.round(r, 6).tolist() for one, r in ranks.items()}
        write_json(path, content)
        print(name, seed, content["mrr"], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
