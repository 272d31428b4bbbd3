"""A graph as the motif loops read it: distinct edges without self-loops, from both of their ends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from capse.arrays import Int32s, Int64s
from capse.kernels.motifs.loops import helper
from capse.triples import HEAD, RELATION, TAIL, Triples


class Side(NamedTuple):
    """The edges out of each of E nodes, or into it."""

    offsets: Int64s  # (E + 1,) where a node's edges begin
    nodes: Int32s  # (n,) the other end, ascending within a node
    relations: Int32s  # (n,) ascending within a node and another end
    group_offsets: Int64s  # (E + 1,) where a node's groups begin
    group_relations: Int32s  # (g,) the relations of a node's edges, each once, ascending
    group_counts: Int32s  # (g,) how many edges of that relation the node has


class MotifGraph(NamedTuple):
    """All edges twice: by their heads, and by their tails."""

    out: Side
    into: Side


def build_graph(triples: Triples, entities: int) -> MotifGraph:
    """The graph of triples (n, 3); what is there twice counts once, and self-loops are left out."""
    edges = np.unique(triples[triples[:, HEAD] != triples[:, TAIL]].astype(np.int64).reshape(-1, 3), axis=0)
    return MotifGraph(_side(edges, HEAD, TAIL, entities), _side(edges, TAIL, HEAD, entities))


def _side(edges: Int64s, near: int, far: int, entities: int) -> Side:
    edges = edges[np.lexsort((edges[:, RELATION], edges[:, far], edges[:, near]))]
    groups, counts = np.unique(edges[:, [near, RELATION]], axis=0, return_counts=True)
    return Side(
        _offsets(edges[:, near], entities),
        edges[:, far].astype(np.int32),
        edges[:, RELATION].astype(np.int32),
        _offsets(groups[:, 0], entities),
        groups[:, 1].astype(np.int32),
        counts.astype(np.int32),
    )


def _offsets(nodes: Int64s, entities: int) -> Int64s:
    return np.concatenate([[0], np.cumsum(np.bincount(nodes, minlength=entities))]).astype(np.int64)


@helper
def first_at_least(nodes, start, end, node):  # type: ignore[no-untyped-def]
    """The first place from ``start`` on, before ``end``, whose node is ``node`` or a later one."""
    while start < end:
        middle = (start + end) // 2
        if nodes[middle] < node:
            start = middle + 1
        else:
            end = middle
    return start


@helper
def has_edge(out, head, relation, tail):  # type: ignore[no-untyped-def]
    """Whether the graph has an edge."""
    end = out.offsets[head + 1]
    place = first_at_least(out.nodes, out.offsets[head], end, tail)
    while place < end and out.nodes[place] == tail:
        if out.relations[place] == relation:
            return True
        place += 1
    return False


@helper
def common_neighbours(first, a, second, b, pairs):  # type: ignore[no-untyped-def]
    """The nodes that are neighbours of a in ``first`` and of b in ``second``.

    Writes (node, relation of a's edge, relation of b's edge) into ``pairs`` (n, 3) as long as there is room; returns
    how many there are. The shorter list is walked, the longer one searched.
    """
    i, i_end = first.offsets[a], first.offsets[a + 1]
    j, j_end = second.offsets[b], second.offsets[b + 1]
    found = 0
    while i < i_end and j < j_end:
        x, y = first.nodes[i], second.nodes[j]
        if x < y:
            i = first_at_least(first.nodes, i, i_end, y) if i_end - i > 8 * (j_end - j) else i + 1
        elif y < x:
            j = first_at_least(second.nodes, j, j_end, x) if j_end - j > 8 * (i_end - i) else j + 1
        else:
            same = j
            while same < j_end and second.nodes[same] == x:
                if found < len(pairs):
                    pairs[found, 0], pairs[found, 1], pairs[found, 2] = x, first.relations[i], second.relations[same]
                found += 1
                same += 1
            i += 1
    return found


def work_of_three(graph: MotifGraph) -> int:
    """About how many neighbours are compared to count all motifs of three relations."""
    out, into = (np.diff(side.offsets) for side in graph)
    heads, tails = np.repeat(np.arange(len(out)), out), graph.out.nodes
    closed = np.minimum(out[heads], into[tails]) + np.minimum(into[heads], out[tails])
    groups = [np.diff(side.group_offsets).astype(np.float64) ** 3 / 6 for side in graph]
    return int(closed.sum() + sum(each.sum() for each in groups))
