"""What a motif is called by: a family and up to three relations, as one number.

family       relations                  what is counted
EDGE         r                          edges
LOOP         r                          edges from a node to itself
MUTUAL       {r, r'}                    x→y in r with y→x in r'
PATH         (r1, r2)                   x→y in r1 with y→z in r2
CLOSURE      (r1, r2, r3)               such paths with x→z in r3, as a share of the paths
TRIANGLE     (r1, r2, r3), rotated      x→y in r1, y→z in r2, z→x in r3
OUT_EXACTLY  multiset of 1 to 3         nodes with exactly so many edges out, of the relations that are named
OUT_LEAST    multiset of 1 to 3         nodes with at least so many
IN_EXACTLY, IN_LEAST                    the same of edges in
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from capse.arrays import Int32s, Int64s
from capse.kernels.motifs.loops import entry, helper

EDGE, LOOP, MUTUAL, PATH, CLOSURE, TRIANGLE, OUT_EXACTLY, OUT_LEAST, IN_EXACTLY, IN_LEAST = range(10)

_MIX = 0x5BD1E995  # odd and below 2^31, so that its product with 32 bits is a positive int64


class Index(NamedTuple):
    """Which motifs are kept, by key: an open-addressing table."""

    relations: int  # R
    slots: Int64s  # (2^b,) keys, −1 where there is none
    places: Int32s  # (2^b,) each key's place among the motifs that are kept


@helper
def key_of(relations, family, r1, r2, r3):  # type: ignore[no-untyped-def]
    """The number of a motif; R stands for 'no relation'."""
    base = np.int64(relations + 1)  # not compiled, the relations of a graph's edges would stay int32
    return ((family * base + r1) * base + r2) * base + r3


@helper
def cycle_key(relations, r1, r2, r3):  # type: ignore[no-untyped-def]
    """The number of a directed triangle, the same for all of its rotations."""
    first = key_of(relations, TRIANGLE, r1, r2, r3)
    second = key_of(relations, TRIANGLE, r2, r3, r1)
    third = key_of(relations, TRIANGLE, r3, r1, r2)
    return min(first, second, third)


@helper
def star_key(relations, family, r1, r2, r3):  # type: ignore[no-untyped-def]
    """The number of a star; its relations, padded by R, in any order."""
    if r1 > r2:
        r1, r2 = r2, r1
    if r2 > r3:
        r2, r3 = r3, r2
    if r1 > r2:
        r1, r2 = r2, r1
    return key_of(relations, family, r1, r2, r3)


@helper
def equal_star_key(relations, family, relation, size):  # type: ignore[no-untyped-def]
    """The number of a star of one to three edges of one relation."""
    second, third = relation if size >= 2 else relations, relation if size == 3 else relations
    return key_of(relations, family, relation, second, third)


def parts_of(key: int, relations: int) -> tuple[int, tuple[int, ...]]:
    """The family and the relations of a key.

    >>> parts_of(int(key_of(3, PATH, 2, 0, 3)), relations=3)
    (3, (2, 0))
    """
    numbers = []
    for _ in range(3):
        key, number = divmod(key, relations + 1)
        numbers.append(number)
    return key, tuple(number for number in reversed(numbers) if number < relations)


@helper
def slot_of(key, mask):  # type: ignore[no-untyped-def]
    """Where a table of ``mask`` + 1 slots, a power of two, looks for a key first."""
    return ((((key ^ (key >> 32)) & 0xFFFFFFFF) * _MIX) >> 16) & mask


@helper
def place_of(index, key):  # type: ignore[no-untyped-def]
    """The place of a motif among those that are kept; −1 where it is not."""
    mask = len(index.slots) - 1
    slot = slot_of(key, mask)
    while index.slots[slot] != key:
        if index.slots[slot] < 0:
            return -1
        slot = (slot + 1) & mask
    return index.places[slot]


@entry
def _fill(keys, slots, places):  # type: ignore[no-untyped-def]
    mask = len(slots) - 1
    for place in range(len(keys)):
        slot = slot_of(keys[place], mask)
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot], places[slot] = keys[place], place


def build_index(keys: Int64s, relations: int) -> Index:
    """An index over distinct keys (F,).

    >>> index = build_index(np.array([7, 1000], np.int64), relations=3)
    >>> [int(place_of(index, key)) for key in (7, 1000, 8)]
    [0, 1, -1]
    """
    size = 1 << max(4, int(2 * len(keys)).bit_length())
    slots, places = np.full(size, -1, np.int64), np.zeros(size, np.int32)
    _fill(keys, slots, places)
    return Index(relations, slots, places)


def all_keys(relations: int, most: int = 3) -> Int64s:
    """The keys of all motifs of up to ``most`` relations that there can be, ascending.

    >>> len(all_keys(11)), len(all_keys(11)) - 11  # without self-loops as the paper counts them
    (3443, 3432)
    """
    every, none = range(relations), relations
    pairs = [(a, b) for a in every for b in every]
    upward = [(a, b) for a, b in pairs if a <= b]
    stars = [(a, none, none) for a in every] + [(a, b, none) for a, b in upward]
    found = [(family, a, none, none) for family in (EDGE, LOOP) for a in every]
    found += [(MUTUAL, a, b, none) for a, b in upward] + [(PATH, a, b, none) for a, b in pairs]
    if most == 3:
        stars += [(a, b, c) for a, b in upward for c in range(b, relations)]
        found += [(CLOSURE, a, b, c) for a, b in pairs for c in every]
        found += [(TRIANGLE, a, b, c) for a, b in pairs for c in every if (a, b, c) <= min((b, c, a), (c, a, b))]
    found += [(family, *star) for family in (OUT_EXACTLY, OUT_LEAST, IN_EXACTLY, IN_LEAST) for star in stars]
    return np.sort(np.array([key_of(relations, *motif) for motif in found], np.int64))
