"""w·Δf of candidate edges."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
import torch

from capse.arrays import Float64s, Int64s
from capse.kernels.motifs import keys as k
from capse.kernels.motifs.changes import NOWHERE, Found, Totals, add_stars, changes, room_for
from capse.kernels.motifs.counting import MotifCounts
from capse.kernels.motifs.graph import MotifGraph, has_edge
from capse.kernels.motifs.keys import Index, build_index
from capse.kernels.motifs.loops import entry, helper
from capse.kernels.threads import in_threads

ROOM = 256  # changes of an edge that there is room for at first


class Motifs(NamedTuple):
    """A graph, the motifs of it that are kept, and what is needed to say what an edge changes."""

    graph: MotifGraph
    kept: Index
    totals: Totals  # with U as of the weights it was made for
    starts: Int64s  # (R² + 1,) where the closures of each pair of relations begin: they lie together
    of_three: bool  # whether any motif has three relations
    legs: bool  # whether a path that an edge joins may close


def build_motifs(
    graph: MotifGraph, counted: MotifCounts, keys: Int64s, relations: int, *, legs: bool, weights: Float64s
) -> Motifs:
    """What the loops need, for the motifs with these ``keys`` (F,), ascending, and their ``weights`` (F,)."""
    base = relations + 1
    family, rest = np.divmod(counted.keys, base**3)
    first, second = rest // base**2, rest // base % base
    paths = np.zeros(relations * relations, np.int64)
    is_path = family == k.PATH
    paths[first[is_path] * relations + second[is_path]] = counted.counts[is_path]
    place = np.searchsorted(counted.keys, keys).clip(max=max(len(counted.keys) - 1, 0))
    occurs = counted.keys[place] == keys if len(counted.keys) else np.zeros(len(keys), np.bool_)
    is_closure = keys // base**3 == k.CLOSURE
    closures = np.where(occurs & is_closure, counted.counts[place] if len(counted.keys) else 0, 0)
    rest = keys % base**3
    pair_of = np.where(is_closure, rest // base**2 * relations + rest // base % base, NOWHERE)
    begins = np.searchsorted(keys, k.CLOSURE * base**3)
    starts = begins + np.searchsorted(pair_of[is_closure], np.arange(relations * relations + 1))
    weighted: Float64s = np.bincount(
        pair_of[is_closure], weights=(weights * closures)[is_closure], minlength=relations * relations
    ).astype(np.float64)
    totals = Totals(paths, closures.astype(np.int64), pair_of.astype(np.int64), weighted)
    return Motifs(
        graph, build_index(keys, relations), totals, starts.astype(np.int64), bool(of_three(keys, base)), legs
    )


def copied(totals: Totals) -> Totals:
    """Totals that edges can be taken out of while others read theirs."""
    return Totals(totals.paths.copy(), totals.closures.copy(), totals.pair_of, totals.weighted.copy())


def of_three(keys: Int64s, base: int) -> np.bool_:
    """Whether any of these motifs has three relations."""
    return np.bool_((keys % base != base - 1).any())


def weigh(motifs: Motifs, weights: Float64s, heads: Int64s, relations: Int64s, tails: Int64s) -> Float64s:
    """w·Δf (n,) of candidate edges (n,); one that is in the graph is taken out of it first."""
    scores = np.empty(len(heads), np.float64)
    threads = min(torch.get_num_threads(), os.cpu_count() or 1)
    in_threads(_weigh_share, threads, motifs, weights, heads, relations, tails, scores)
    return scores


def _weigh_share(
    share: int,
    shares: int,
    motifs: Motifs,
    weights: Float64s,
    heads: Int64s,
    relations: Int64s,
    tails: Int64s,
    scores: Float64s,
) -> None:
    """A share of the candidates; what taking an edge out changes is a copy of this thread's own."""
    first, last = (len(heads) * number // shares for number in (share, share + 1))
    part = slice(first, last)
    own = copied(motifs.totals)
    _weigh(
        motifs.graph, motifs.kept, own, motifs.of_three, motifs.legs, weights,
        heads[part], relations[part], tails[part], scores[part],
    )  # fmt: skip


@entry
def _weigh(graph, index, totals, of_three, legs, weights, heads, relations, tails, scores):  # type: ignore[no-untyped-def]
    found = room_for(index.relations, ROOM)
    nothing = np.full(3, NOWHERE, np.int64)
    skip = np.empty(3, np.int64)
    kept_head, kept_tail, kept_relation = NOWHERE, NOWHERE, NOWHERE
    of_head, of_tail = 0.0, 0.0
    for i in range(len(heads)):
        s, r, t = heads[i], relations[i], tails[i]
        if s != t and has_edge(graph.out, s, r, t):
            skip[0], skip[1], skip[2] = s, r, t
            found = exchange(graph, index, totals, skip, -1, of_three, weights, found)
            found, n, pairs = all_changes(graph, index, totals, s, r, t, skip, of_three, legs, 3, found)
            scores[i] = score(found, n, pairs, totals, weights)
            found = exchange(graph, index, totals, skip, 1, of_three, weights, found)
            continue
        # Candidates of one question have one end in common, whose stars are looked at once.
        stars = 0
        if s != t and (s != kept_head or r != kept_relation):
            found, of_head = _of_stars(graph.out, s, r, k.OUT_EXACTLY, k.OUT_LEAST, of_three, index, weights, found)
            kept_head = s
        if s != t and (t != kept_tail or r != kept_relation):
            found, of_tail = _of_stars(graph.into, t, r, k.IN_EXACTLY, k.IN_LEAST, of_three, index, weights, found)
            kept_tail = t
        if s != t:
            kept_relation = r
        found, n, pairs = all_changes(graph, index, totals, s, r, t, nothing, of_three, legs, stars, found)
        scores[i] = score(found, n, pairs, totals, weights) + (of_head + of_tail if s != t else 0.0)


@helper
def _of_stars(side, node, r, exactly, at_least, of_three, index, weights, found):  # type: ignore[no-untyped-def]
    n = add_stars(side, node, r, 0, exactly, at_least, of_three, index, found, 0)
    if n > len(found.places):
        found = room_for(index.relations, 2 * n)
        n = add_stars(side, node, r, 0, exactly, at_least, of_three, index, found, 0)
    total = 0.0
    for i in range(n):
        total += weights[found.places[i]] * found.amounts[i]
    return found, total


@helper
def all_changes(graph, index, totals, s, r, t, skip, of_three, legs, stars, found):  # type: ignore[no-untyped-def]
    """`changes` with as much room as it takes; returns that room, and how many motifs and pairs changed."""
    n, pairs, room = changes(graph, index, totals, s, r, t, skip, of_three, legs, False, stars, found)
    while room > len(found.places):  # again where what did not fit hid how much more there is
        found = room_for(index.relations, 2 * room)
        n, pairs, room = changes(graph, index, totals, s, r, t, skip, of_three, legs, False, stars, found)
    return found, n, pairs


@helper
def score(found, n, pairs, totals, weights):  # type: ignore[no-untyped-def]
    """w·Δf of what `changes` found."""
    total = 0.0
    for i in range(n):
        total += weights[found.places[i]] * found.amounts[i]
    for i in range(pairs):
        paths = totals.paths[found.pairs[i]]
        if paths > 0:
            total += totals.weighted[found.pairs[i]] * (1.0 / (paths + found.added[i]) - 1.0 / paths)
    return total


@helper
def exchange(graph, index, totals, edge, sign, of_three, weights, found):  # type: ignore[no-untyped-def]
    """Take an edge of the graph out of the totals (sign −1), or put it back (1); returns the room that took."""
    s, r, t = edge[0], edge[1], edge[2]
    n, pairs, room = changes(graph, index, totals, s, r, t, edge, of_three, True, True, 0, found)
    while room > len(found.places):  # again where what did not fit hid how much more there is
        found = room_for(index.relations, 2 * room)
        n, pairs, room = changes(graph, index, totals, s, r, t, edge, of_three, True, True, 0, found)
    for i in range(n):
        place = found.places[i]
        pair = totals.pair_of[place]
        if pair >= 0:
            totals.closures[place] += sign
            totals.weighted[pair] += sign * weights[place]
    for i in range(pairs):
        totals.paths[found.pairs[i]] += sign * found.added[i]
    return found


def changes_of(motifs: Motifs, edge: tuple[int, int, int], weights: Float64s) -> tuple[Found, int, int, Totals]:
    """What one candidate edge changes: the lists of `changes`, how many motifs and pairs are in them, and the totals
    of the graph without it."""
    totals = copied(motifs.totals)
    return (*_one(motifs.graph, motifs.kept, totals, motifs.of_three, motifs.legs, weights, *edge), totals)


@entry
def _one(graph, index, totals, of_three, legs, weights, s, r, t):  # type: ignore[no-untyped-def]
    found = room_for(index.relations, ROOM)
    skip = np.full(3, NOWHERE, np.int64)
    if s != t and has_edge(graph.out, s, r, t):
        skip[0], skip[1], skip[2] = s, r, t
        found = exchange(graph, index, totals, skip, -1, of_three, weights, found)
    return all_changes(graph, index, totals, s, r, t, skip, of_three, legs, 3, found)
