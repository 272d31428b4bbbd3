"""The graphs that the default recipe was chosen on, by their validation sets, and one trial of settings on them.

    python -m benchmarks.default_recipe GRAPH [rank=200] [n3=0.01] [relation_weight=0.5] [batch_size=256] ...

prints the best validation MRR. What was tried is recorded in results/default-recipe/trials.jsonl. Three of the graphs
are made up, so that their kind is known: one term for each pair of people by section, generation and sex; relations
between types that hold for all below them; the highest scores of a bilinear form of few dimensions.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import yaml

import capse
from capse.graph.dataset import load_graph

Fact = tuple[str, str, str]


def try_settings(
    graph: capse.Graph,
    rank: int = 200,
    n3: float = 0.01,
    relation_weight: float = 0.5,
    batch_size: int = 256,
    learning_rate: float = 0.1,
    every: int = 2,
    patience: int = 5,
) -> float:
    """The best validation MRR of ComplEx with these settings."""
    run = capse.fit(
        graph,
        capse.ComplEx(dim=rank, reciprocal=True),
        training=capse.Training(epochs=80, batch_size=batch_size, learning_rate=learning_rate, device="cpu"),
        loss=capse.Loss(name="softmax", reduction="mean", relation_weight=relation_weight),
        negatives=capse.Negatives(sampler="all"),
        optimizer=capse.Optimizer(name="adagrad"),
        regularizer=capse.Regularizer(n3=n3),
        validation=capse.Validation(every=every, metric="mrr", patience=patience),
    )
    assert run.folder is not None
    return float(json.loads(run.folder.results.read_text(encoding="utf-8"))["best_validation"]["mrr"])


def sections(
    people: int = 104, groups: int = 8, generations: int = 4, terms: int = 25, noise: float = 0.04
) -> capse.Graph:
    rng = np.random.default_rng(0)
    group, sex, generation = (rng.integers(0, count, people) for count in (groups, 2, generations))
    table = rng.integers(0, terms, (groups, groups, 3, 2))
    facts = []
    for i, j in itertools.permutations(range(people), 2):
        term = table[group[i], group[j], int(np.sign(generation[j] - generation[i])) + 1, sex[j]]
        if rng.random() < noise:
            term = rng.integers(0, terms)
        facts.append((f"p{i}", f"t{term}", f"p{j}"))
    return _split(facts, "sections")


def types(nodes: int = 135, relations: int = 46, least: int = 6500, noise: float = 0.0) -> capse.Graph:
    rng = np.random.default_rng(0)
    parent = [-1] + [int(rng.integers(max(0, i - 30), i)) for i in range(1, nodes)]
    below = [_below(top, parent) for top in range(nodes)]
    facts = {(f"e{i}", "isa", f"e{parent[i]}") for i in range(1, nodes)}
    while len(facts) < least:
        relation, (a, b) = int(rng.integers(1, relations)), rng.integers(1, nodes, 2)
        pairs = [pair for pair in itertools.product(below[a], below[b]) if rng.random() > noise]
        if len(pairs) < 400:
            facts |= {(f"e{x}", f"r{relation}", f"e{y}") for x, y in pairs}
    return _split(facts, "types")


def _below(top: int, parent: list[int]) -> list[int]:
    found = [top]
    for i in range(top + 1, len(parent)):
        if parent[i] in found:
            found.append(i)
    return found


def latent(nodes: int = 14, relations: int = 55, count: int = 2000, rank: int = 4) -> capse.Graph:
    rng = np.random.default_rng(0)
    e, r, b = rng.normal(size=(nodes, rank)), rng.normal(size=(relations, rank, rank)), rng.normal(size=relations)
    scores = np.einsum("ia,rab,jb->irj", e, r, e) / rank + b[None, :, None] * 0.5
    scores = scores + 0.2 * rng.normal(size=scores.shape)
    places = np.nonzero(scores >= np.sort(scores.ravel())[-count])
    return _split([(f"e{i}", f"r{k}", f"e{j}") for i, k, j in zip(*places, strict=True)], "latent")


def most_frequent(name: str, count: int) -> capse.Graph:
    """The training facts between the most frequent entities."""
    facts = _training_facts(name)
    seen = Counter(entity for head, _, tail in facts for entity in (head, tail))
    kept = {entity for entity, _ in sorted(seen.items(), key=lambda item: (-item[1], item[0]))[:count]}
    return _split([fact for fact in facts if fact[0] in kept and fact[2] in kept], f"{name}-{count}")


def around(name: str, count: int) -> capse.Graph:
    """The training facts between one entity and those that are nearest to it."""
    facts = _training_facts(name)
    near: dict[str, list[str]] = {}
    for head, _, tail in facts:
        near.setdefault(head, []).append(tail)
        near.setdefault(tail, []).append(head)
    first = sorted(near)[int(np.random.default_rng(0).integers(len(near)))]
    reached, known = [first], {first}
    for entity in reached:  # it grows on the way
        fresh = [other for other in dict.fromkeys(near[entity]) if other not in known]
        reached += fresh if len(reached) < count else []
        known |= set(fresh)
    kept = set(reached[:count])
    return _split([fact for fact in facts if fact[0] in kept and fact[2] in kept], f"{name}-{count}")


def _training_facts(name: str) -> list[Fact]:
    with gzip.open(Path(os.environ["CAPSE_DATA"]) / name / "train.txt.gz", "rt", encoding="utf-8") as file:
        return [(head, relation, tail) for head, relation, tail in map(str.split, file)]


def _split(facts: Iterable[Fact], name: str) -> capse.Graph:
    """A tenth for validation, a tenth that nobody looks at, and the rest for training."""
    rows = sorted(set(facts))
    rows = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    first, second = int(len(rows) * 0.1), int(len(rows) * (0.1 + 0.1))
    return capse.Graph.from_triples(rows[second:], rows[:first], rows[first:second], name=name)


GRAPHS: dict[str, Callable[[], capse.Graph]] = {
    "countries": lambda: load_graph("countries"),
    "sections": sections,
    "types": types,
    "latent": latent,
    "fb-400": lambda: most_frequent("fb15k-237", 400),
    "wn-3000": lambda: around("wn18rr", 3000),
}


def main(name: str, *settings: str) -> None:
    given = {key: yaml.safe_load(value) for key, _, value in (text.partition("=") for text in settings)}
    print(f"validation MRR {try_settings(GRAPHS[name](), **given):.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
