"""What one more edge changes, from the neighbours of its two ends.

Adding e = (s, r, t) to a graph G changes, with d+ and d− for out- and in-degrees before:

    edges(r)                      by 1, and nothing else where s = t: self-loops have a feature of their own
    mutual {r, r'}                by 1 for each t→s in r'
    paths (r', r) and (r, r')     by d−_r'(s) and by d+_r'(t), paths back to the other end left out
    closures (r1, r2, r3)         C/P becomes (C + ΔC)/(P + ΔP): ΔC counts paths s→x→t that e closes, and with ``legs``
                                  those that e is one of the two edges of
    triangles                     by the number of paths t→x→s
    stars                         where the degrees of s (out) or t (in) begin or cease to fit

Closures that exist are spread over all relations that close a path, so C/P changes for many motifs at once: of a path's
motifs together w·Δ(C/P) = U (1/(P + ΔP) − 1/P) + Σ w ΔC/(P + ΔP), with U = Σ w C kept up to date. So changes come in
two lists: of motifs, and of paths.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from capse.arrays import Float64s, Int64s
from capse.kernels.motifs import keys as k
from capse.kernels.motifs.graph import common_neighbours, first_at_least
from capse.kernels.motifs.keys import cycle_key, equal_star_key, key_of, place_of, star_key
from capse.kernels.motifs.loops import helper

NOWHERE = -1


class Totals(NamedTuple):
    """What closures are shares of. Taking an edge out of the graph, and putting it back, changes these in place."""

    paths: Int64s  # (R²,) P of each pair of relations
    closures: Int64s  # (F,) C of each motif that is a closure, 0 of others
    pair_of: Int64s  # (F,) the pair of a closure
    weighted: Float64s  # (R²,) U = Σ w C over a pair's closures


class Found(NamedTuple):
    """Room for the changes of one edge."""

    places: Int64s  # (n,) motifs, some of them more than once
    amounts: Float64s  # (n,)
    pairs: Int64s  # (2R,) pairs of relations with more paths than before
    added: Int64s  # (2R,) how many
    first: Int64s  # (R,) zeros between calls: how many paths (r', r) are added
    second: Int64s  # (R,) the same of (r, r')
    shared: Int64s  # (m, 3) for common neighbours


@helper
def room_for(relations, size):  # type: ignore[no-untyped-def]
    return Found(
        np.empty(size, np.int64),
        np.empty(size, np.float64),
        np.empty(2 * relations, np.int64),
        np.empty(2 * relations, np.int64),
        np.zeros(relations, np.int64),
        np.zeros(relations, np.int64),
        np.empty((size, 3), np.int64),
    )


@helper
def _add(found, n, index, key, amount):  # type: ignore[no-untyped-def]
    """Enter a change of a motif, if that is kept and there is room; returns how many there are."""
    place = place_of(index, key)
    if place < 0:
        return n
    if n < len(found.places):
        found.places[n], found.amounts[n] = place, amount
    return n + 1


@helper
def _is_skipped(skip, head, relation, tail):  # type: ignore[no-untyped-def]
    return skip[0] == head and skip[1] == relation and skip[2] == tail


@helper
def _degree(side, node, relation):  # type: ignore[no-untyped-def]
    for group in range(side.group_offsets[node], side.group_offsets[node + 1]):
        if side.group_relations[group] == relation:
            return side.group_counts[group]
    return 0


@helper
def add_stars(side, node, r, gone, exactly, at_least, of_three, index, found, n):  # type: ignore[no-untyped-def]
    """Stars of a node that gets another edge of relation r; ``gone`` of those it has do not count.

    With a edges of r before, 'exactly' begins to fit the stars with a + 1 of them and ceases to fit those with a.
    """
    none = index.relations
    a = _degree(side, node, r) - gone
    if a > 3:
        return n
    if a <= 2:
        n = _add(found, n, index, equal_star_key(none, exactly, r, a + 1), 1.0)
        n = _add(found, n, index, equal_star_key(none, at_least, r, a + 1), 1.0)
    if a >= 1:
        n = _add(found, n, index, equal_star_key(none, exactly, r, a), -1.0)
    if a > 2:
        return n
    for i in range(side.group_offsets[node], side.group_offsets[node + 1]):
        b = side.group_relations[i]
        if b == r:
            continue
        n = _add_mixed(b, side.group_counts[i], r, a, exactly, at_least, index, found, n)
        if of_three and a <= 1:
            n = _add_of_three(side, i, side.group_offsets[node + 1], r, a, exactly, at_least, index, found, n)
    return n


@helper
def _add_mixed(b, m, r, a, exactly, at_least, index, found, n):  # type: ignore[no-untyped-def]
    """Stars of relation r, of which there were a, and one other relation b, of which there are m."""
    none = index.relations
    if a == 0:
        n = _add(found, n, index, star_key(none, at_least, r, b, none), 1.0)
        if m >= 2:
            n = _add(found, n, index, star_key(none, at_least, r, b, b), 1.0)
    elif a == 1:
        n = _add(found, n, index, star_key(none, at_least, r, r, b), 1.0)
    if m == 1 and a <= 1:
        n = _add(found, n, index, star_key(none, exactly, r, b, r if a == 1 else none), 1.0)
    if m == 1 and a >= 1:
        n = _add(found, n, index, star_key(none, exactly, r, b, r if a == 2 else none), -1.0)
    if m == 2 and a <= 1:
        n = _add(found, n, index, star_key(none, exactly, r, b, b), 1.0 - 2.0 * a)
    return n


@helper
def _add_of_three(side, i, end, r, a, exactly, at_least, index, found, n):  # type: ignore[no-untyped-def]
    """Stars of relation r, of which there were none or one, the node's i-th and one after that."""
    none = index.relations
    b = side.group_relations[i]
    for j in range(i + 1, end):
        c = side.group_relations[j]
        if c == r:
            continue
        if a == 0:
            n = _add(found, n, index, star_key(none, at_least, r, b, c), 1.0)
        if side.group_counts[i] == 1 and side.group_counts[j] == 1:
            n = _add(found, n, index, star_key(none, exactly, r, b, c), 1.0 - 2.0 * a)
    return n


@helper
def _note_degrees(out, into, s, t, skip, found):  # type: ignore[no-untyped-def]
    """How many edges of each relation lead to s, and from t, into ``first`` and ``second``; ``skip`` does not count."""
    for group in range(into.group_offsets[s], into.group_offsets[s + 1]):
        found.first[into.group_relations[group]] = into.group_counts[group]
    for group in range(out.group_offsets[t], out.group_offsets[t + 1]):
        found.second[out.group_relations[group]] = out.group_counts[group]
    if skip[2] == s:
        found.first[skip[1]] -= 1
    if skip[0] == t:
        found.second[skip[1]] -= 1


@helper
def _add_mutual(out, s, r, t, skip, index, found, n):  # type: ignore[no-untyped-def]
    """Edges back from t to s: they are mutual ones, and t→s→t and s→t→s are no paths."""
    relations, end = index.relations, out.offsets[t + 1]
    place = first_at_least(out.nodes, out.offsets[t], end, s)
    while place < end and out.nodes[place] == s:
        back = out.relations[place]
        place += 1
        if not _is_skipped(skip, t, back, s):
            found.first[back] -= 1
            found.second[back] -= 1
            n = _add(found, n, index, key_of(relations, k.MUTUAL, min(r, back), max(r, back), relations), 1.0)
    return n


@helper
def _add_paths(graph, s, r, t, skip, index, found, n):  # type: ignore[no-untyped-def]
    """Mutual edges, and paths that begin or end with the new edge; returns how many motifs and pairs changed."""
    relations = index.relations
    out, into = graph.out, graph.into
    _note_degrees(out, into, s, t, skip, found)
    n = _add_mutual(out, s, r, t, skip, index, found, n)
    pairs = 0
    for group in range(into.group_offsets[s], into.group_offsets[s + 1]):
        other = into.group_relations[group]
        added = found.first[other] + (found.second[other] if other == r else 0)
        if added:
            found.pairs[pairs], found.added[pairs] = other * relations + r, added
            pairs += 1
            n = _add(found, n, index, key_of(relations, k.PATH, other, r, relations), float(added))
    for group in range(out.group_offsets[t], out.group_offsets[t + 1]):
        other = out.group_relations[group]
        if found.second[other] and not (other == r and _degree(into, s, r)):
            found.pairs[pairs], found.added[pairs] = r * relations + other, found.second[other]
            pairs += 1
            n = _add(found, n, index, key_of(relations, k.PATH, r, other, relations), float(found.second[other]))
    return n, pairs


@helper
def _share(found, totals, relations, r, r1, r2):  # type: ignore[no-untyped-def]
    """One more closure of a path (r1, r2), as a share of the paths that there then are."""
    paths = totals.paths[r1 * relations + r2]
    if r2 == r:
        paths += found.first[r1]
    if r1 == r:
        paths += found.second[r2]
    return 1.0 / paths


@helper
def _add_triangles(graph, s, r, t, skip, totals, legs, raw, index, found, n):  # type: ignore[no-untyped-def]
    """Directed triangles and closures, in which both ends have an edge with the same third node."""
    relations, out, into = index.relations, graph.out, graph.into
    many = common_neighbours(out, s, into, t, found.shared)
    for i in range(min(many, len(found.shared))):
        x, r1, r2 = found.shared[i]
        if not (_is_skipped(skip, s, r1, x) or _is_skipped(skip, x, r2, t)):
            share = 1.0 if raw else _share(found, totals, relations, r, r1, r2)
            n = _add(found, n, index, key_of(relations, k.CLOSURE, r1, r2, r), share)
    room = many
    many = common_neighbours(into, s, out, t, found.shared)
    for i in range(min(many, len(found.shared))):
        x, r1, r2 = found.shared[i]
        if not (_is_skipped(skip, x, r1, s) or _is_skipped(skip, t, r2, x)):
            n = _add(found, n, index, cycle_key(relations, r1, r, r2), 1.0)
    room = max(room, many)
    if not legs:
        return n, room
    many = common_neighbours(out, s, out, t, found.shared)
    for i in range(min(many, len(found.shared))):
        x, r3, r2 = found.shared[i]
        if not (_is_skipped(skip, s, r3, x) or _is_skipped(skip, t, r2, x)):
            share = 1.0 if raw else _share(found, totals, relations, r, r, r2)
            n = _add(found, n, index, key_of(relations, k.CLOSURE, r, r2, r3), share)
    room = max(room, many)
    many = common_neighbours(into, s, into, t, found.shared)
    for i in range(min(many, len(found.shared))):
        x, r1, r3 = found.shared[i]
        if not (_is_skipped(skip, x, r1, s) or _is_skipped(skip, x, r3, t)):
            share = 1.0 if raw else _share(found, totals, relations, r, r1, r)
            n = _add(found, n, index, key_of(relations, k.CLOSURE, r1, r, r3), share)
    return n, max(room, many)


@helper
def changes(graph, index, totals, s, r, t, skip, of_three, legs, raw, stars, found):  # type: ignore[no-untyped-def]
    """What adding (s, r, t) changes in the graph without the edge ``skip`` (3,), which may be −1s.

    ``stars`` are the sides whose stars are wanted: 1 of s, 2 of t, 3 of both. With ``raw`` closures are counted and
    their shares left to the caller. Returns how many motifs and how many pairs changed, and how much room it takes:
    where that is more than there is, the rest was not entered.
    """
    relations = index.relations
    if s == t:
        return _add(found, 0, index, key_of(relations, k.LOOP, r, relations, relations), 1.0), 0, 0
    n = _add(found, 0, index, key_of(relations, k.EDGE, r, relations, relations), 1.0)
    if stars & 1:
        gone = 1 if skip[0] == s and skip[1] == r else 0
        n = add_stars(graph.out, s, r, gone, k.OUT_EXACTLY, k.OUT_LEAST, of_three, index, found, n)
    if stars & 2:
        gone = 1 if skip[2] == t and skip[1] == r else 0
        n = add_stars(graph.into, t, r, gone, k.IN_EXACTLY, k.IN_LEAST, of_three, index, found, n)
    n, pairs = _add_paths(graph, s, r, t, skip, index, found, n)
    room = 0
    if of_three:
        n, room = _add_triangles(graph, s, r, t, skip, totals, legs, raw, index, found, n)
    for group in range(graph.into.group_offsets[s], graph.into.group_offsets[s + 1]):
        found.first[graph.into.group_relations[group]] = 0
    for group in range(graph.out.group_offsets[t], graph.out.group_offsets[t + 1]):
        found.second[graph.out.group_relations[group]] = 0
    return n, pairs, max(room, n)
