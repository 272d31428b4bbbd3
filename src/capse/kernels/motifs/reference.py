"""All motifs of a graph, counted anew in plain Python: slow, and the definition of every feature.

``values(edges)`` is f of a set of (head, relation, tail). What an edge e changes is f(G ∪ {e}) − f(G), e not being in
G. Closures are the exception: where ``legs`` is false, those in which e is one of the two edges of the path are left
out of the first term (`changed_by`), as in the published model.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import combinations_with_replacement, product

from capse.kernels.motifs import keys as k

Edge = tuple[int, int, int]


def changed_by(edge: Edge, others: Iterable[Edge], relations: int, *, legs: bool) -> dict[int, float]:
    """What each motif's value changes by when ``edge`` joins the ``others``, by key; zeros are left out."""
    before = set(others) - {edge}
    left_out = None if legs else edge
    after, now = values(before | {edge}, relations, leg_left_out=left_out), values(before, relations)
    changes = {key: after.get(key, 0.0) - now.get(key, 0.0) for key in after.keys() | now.keys()}
    return {key: change for key, change in changes.items() if change}


def values(edges: Iterable[Edge], relations: int, *, leg_left_out: Edge | None = None) -> dict[int, float]:
    """f of a graph: the value of every motif, by key."""
    counted = counts(edges, relations, leg_left_out=leg_left_out)
    found = {}
    for key, count in counted.items():
        family, named = k.parts_of(key, relations)
        paths = counted[k.key_of(relations, k.PATH, *named[:2], relations)] if family == k.CLOSURE else 1
        found[key] = count / paths
    return found


def counts(edges: Iterable[Edge], relations: int, *, leg_left_out: Edge | None = None) -> Counter[int]:
    """How often each motif occurs, by key."""
    every = set(edges)
    found: Counter[int] = Counter()
    for head, relation, tail in every:
        found[k.key_of(relations, k.LOOP if head == tail else k.EDGE, relation, relations, relations)] += 1
    plain = sorted(edge for edge in every if edge[0] != edge[2])
    _count_pairs(found, plain, relations, leg_left_out)
    for end, exactly, at_least in ((0, k.OUT_EXACTLY, k.OUT_LEAST), (2, k.IN_EXACTLY, k.IN_LEAST)):
        degrees: defaultdict[int, Counter[int]] = defaultdict(Counter)
        for edge in plain:
            degrees[edge[end]][edge[1]] += 1
        for degree in degrees.values():
            _count_stars(found, degree, relations, exactly, at_least)
    return found


def _count_pairs(found: Counter[int], edges: list[Edge], relations: int, left_out: Edge | None) -> None:
    """Mutual edges and paths, and what closes a path."""
    joined: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for head, relation, tail in edges:
        joined[head, tail].append(relation)
    for first, second in product(edges, edges):
        (x, r1, y), (start, r2, z) = first, second
        if y != start:
            continue
        if x == z:
            if first <= second:  # each pair once
                found[k.key_of(relations, k.MUTUAL, min(r1, r2), max(r1, r2), relations)] += 1
            continue
        found[k.key_of(relations, k.PATH, r1, r2, relations)] += 1
        closing = [] if left_out in (first, second) else joined.get((x, z), [])
        found.update(k.key_of(relations, k.CLOSURE, r1, r2, r3) for r3 in closing)
        if x < min(y, z):  # each triangle once, from its first node
            found.update(k.cycle_key(relations, r1, r2, r3) for r3 in joined.get((z, x), []))


def _count_stars(found: Counter[int], degree: Counter[int], relations: int, exactly: int, at_least: int) -> None:
    """The stars of one node that has ``degree[r]`` edges of relation r."""
    for size in (1, 2, 3):
        for star in combinations_with_replacement(sorted(degree), size):
            wanted = Counter(star)
            key = [*star, *[relations] * (3 - size)]
            if all(degree[r] == count for r, count in wanted.items()):
                found[k.star_key(relations, exactly, *key)] += 1
            if all(degree[r] >= count for r, count in wanted.items()):
                found[k.star_key(relations, at_least, *key)] += 1
