"""How often every motif occurs in a graph, by compiled loops: the numbers of `reference.counts`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from capse.arrays import Int64s
from capse.kernels.motifs import keys as k
from capse.kernels.motifs.graph import MotifGraph, common_neighbours, first_at_least
from capse.kernels.motifs.keys import cycle_key, equal_star_key, key_of, star_key
from capse.kernels.motifs.loops import entry, helper


class MotifCounts(NamedTuple):
    """Motifs by key, ascending, and how often each occurs."""

    keys: Int64s  # (F,)
    counts: Int64s  # (F,) above zero


class TooManyMotifsError(Exception):
    """A graph has more different motifs than there is room for."""


def count_motifs(graph: MotifGraph, loops: Int64s, relations: int, *, relations_at_most: int, room: int) -> MotifCounts:
    """All motifs of up to so many relations that a graph has; ``loops`` (R,) is how often each relation joins a node
    to itself. Raises `TooManyMotifsError` where there are more than ``room`` different ones."""
    slots, counts, used = _count(graph.out, graph.into, loops, relations, relations_at_most == 3, room)
    if used > room:
        raise TooManyMotifsError
    there = slots >= 0
    order = np.argsort(slots[there])
    return MotifCounts(slots[there][order], counts[there][order])


@helper
def _bump(slots, counts, key):  # type: ignore[no-untyped-def]
    """Count a key once more; returns 1 where it is a new one."""
    mask = len(slots) - 1
    slot = k.slot_of(key, mask)
    while slots[slot] != key:
        if slots[slot] < 0:
            slots[slot] = key
            counts[slot] = 1
            return 1
        slot = (slot + 1) & mask
    counts[slot] += 1
    return 0


@helper
def _grown(slots, counts, used):  # type: ignore[no-untyped-def]
    """The table itself, or one of twice the size where it is half full."""
    if 2 * used < len(slots):
        return slots, counts
    wider, more = np.full(2 * len(slots), -1, np.int64), np.zeros(2 * len(slots), np.int64)
    for old in range(len(slots)):
        if slots[old] >= 0:
            slot = k.slot_of(slots[old], len(wider) - 1)
            while wider[slot] >= 0:
                slot = (slot + 1) & (len(wider) - 1)
            wider[slot], more[slot] = slots[old], counts[old]
    return wider, more


@entry
def _count(out, into, loops, relations, of_three, room):  # type: ignore[no-untyped-def]
    slots, counts, used = np.full(1024, -1, np.int64), np.zeros(1024, np.int64), 0
    pairs = np.empty((1024, 3), np.int64)
    for r in range(relations):
        for _ in range(loops[r]):
            used += _bump(slots, counts, key_of(relations, k.LOOP, r, relations, relations))
        slots, counts = _grown(slots, counts, used)
    for x in range(len(out.offsets) - 1):
        if used > room:
            break
        for side, exactly, at_least in ((out, k.OUT_EXACTLY, k.OUT_LEAST), (into, k.IN_EXACTLY, k.IN_LEAST)):
            slots, counts, used = _count_stars(side, x, exactly, at_least, relations, of_three, slots, counts, used)
        slots, counts, used = _count_paths(out, into, x, relations, slots, counts, used)
        for edge in range(out.offsets[x], out.offsets[x + 1]):
            y, r = out.nodes[edge], out.relations[edge]
            used += _bump(slots, counts, key_of(relations, k.EDGE, r, relations, relations))
            used = _count_mutual(out, x, y, r, relations, slots, counts, used)
            slots, counts = _grown(slots, counts, used)
            if of_three:
                slots, counts, used, pairs = _count_triangles(out, into, x, y, r, relations, slots, counts, used, pairs)
    return slots, counts, used


@helper
def _found(slots, key):  # type: ignore[no-untyped-def]
    slot = k.slot_of(key, len(slots) - 1)
    while slots[slot] != key:
        slot = (slot + 1) & (len(slots) - 1)
    return slot


@helper
def _count_paths(out, into, x, relations, slots, counts, used):  # type: ignore[no-untyped-def]
    """Paths through x, those back to where they came from among them."""
    for i in range(into.group_offsets[x], into.group_offsets[x + 1]):
        for j in range(out.group_offsets[x], out.group_offsets[x + 1]):
            key = key_of(relations, k.PATH, into.group_relations[i], out.group_relations[j], relations)
            used += _bump(slots, counts, key)
            slot = _found(slots, key)
            counts[slot] += np.int64(into.group_counts[i]) * out.group_counts[j] - 1
        slots, counts = _grown(slots, counts, used)
    return slots, counts, used


@helper
def _count_triangles(out, into, x, y, r, relations, slots, counts, used, pairs):  # type: ignore[no-untyped-def]
    """What the edge x→y closes, x→z→y, and what closes it, y→z→x; ``pairs`` is room for common neighbours."""
    for is_cycle in (False, True):
        first, second = (into, out) if is_cycle else (out, into)
        found = common_neighbours(first, x, second, y, pairs)
        if found > len(pairs):
            pairs = np.empty((2 * found, 3), np.int64)
            common_neighbours(first, x, second, y, pairs)
        for i in range(found):
            z, of_x, of_y = pairs[i]
            if not is_cycle:
                used += _bump(slots, counts, key_of(relations, k.CLOSURE, of_x, of_y, r))
            elif x < min(y, z):  # each once, from its first node
                used += _bump(slots, counts, cycle_key(relations, r, of_y, of_x))
            slots, counts = _grown(slots, counts, used)
    return slots, counts, used, pairs


@helper
def _count_mutual(out, x, y, r, relations, slots, counts, used):  # type: ignore[no-untyped-def]
    """Edges back from y to x, each pair of edges once: from its lower relation, or its lower node."""
    end = out.offsets[y + 1]
    place = first_at_least(out.nodes, out.offsets[y], end, x)
    while place < end and out.nodes[place] == x:
        back = out.relations[place]
        if r < back or (r == back and x < y):
            used += _bump(slots, counts, key_of(relations, k.MUTUAL, r, back, relations))
        place += 1
    # A path x→y→x is no path.
    place = first_at_least(out.nodes, out.offsets[y], end, x)
    while place < end and out.nodes[place] == x:
        key = key_of(relations, k.PATH, r, out.relations[place], relations)
        used += _bump(slots, counts, key)
        counts[_found(slots, key)] -= 2
        place += 1
    return used


@helper
def _count_equal_stars(a, n, exactly, at_least, relations, of_three, slots, counts, used):  # type: ignore[no-untyped-def]
    """The stars of a node's n edges of relation a."""
    for size in range(1, min(n, 3 if of_three else 2) + 1):
        used += _bump(slots, counts, equal_star_key(relations, at_least, a, size))
        if size == n:
            used += _bump(slots, counts, equal_star_key(relations, exactly, a, size))
    return used


@helper
def _count_stars(side, node, exactly, at_least, relations, of_three, slots, counts, used):  # type: ignore[no-untyped-def]
    """The stars of one node, of one to three of its edges."""
    none = relations
    start, end = side.group_offsets[node], side.group_offsets[node + 1]
    for i in range(start, end):
        a, n = side.group_relations[i], side.group_counts[i]
        used = _count_equal_stars(a, n, exactly, at_least, relations, of_three, slots, counts, used)
        for j in range(start, end):
            if j == i:
                continue
            b, m = side.group_relations[j], side.group_counts[j]
            if j > i:
                used += _bump(slots, counts, star_key(relations, at_least, a, b, none))
                if n == 1 and m == 1:
                    used += _bump(slots, counts, star_key(relations, exactly, a, b, none))
            if of_three and n >= 2:
                used += _bump(slots, counts, star_key(relations, at_least, a, a, b))
                if n == 2 and m == 1:
                    used += _bump(slots, counts, star_key(relations, exactly, a, a, b))
            slots, counts = _grown(slots, counts, used)
            if of_three and j > i:
                slots, counts, used = _count_stars_of_three(
                    side, i, j, end, exactly, at_least, relations, slots, counts, used
                )
    return slots, counts, used


@helper
def _count_stars_of_three(side, i, j, end, exactly, at_least, relations, slots, counts, used):  # type: ignore[no-untyped-def]
    """The stars of a node's i-th and j-th relation and one after them."""
    a, b = side.group_relations[i], side.group_relations[j]
    both_once = side.group_counts[i] == 1 and side.group_counts[j] == 1
    for h in range(j + 1, end):
        c = side.group_relations[h]
        used += _bump(slots, counts, key_of(relations, at_least, a, b, c))
        if both_once and side.group_counts[h] == 1:
            used += _bump(slots, counts, key_of(relations, exactly, a, b, c))
        slots, counts = _grown(slots, counts, used)
    return slots, counts, used
