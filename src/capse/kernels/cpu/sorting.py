"""Sorting short lists of floats in compiled loops.

A radix sort: a comparison sort's branches cannot be guessed, and on a few hundred numbers it takes five times as long.
"""

from __future__ import annotations

import numpy as np

from capse.kernels.cpu.loops import inlined

# One number's sort code: its 35 leading bits as five digits (sign, exponent and mantissa of a float32; written as a
# float64 it has zeros after them) above its place in the list.
DIGITS, DIGIT_BITS = 5, 7
PLACE_BITS = np.uint64(64 - DIGITS * DIGIT_BITS)
PLACE_MASK = np.uint64((1 << (64 - DIGITS * DIGIT_BITS)) - 1)
ONE = np.uint64(1)
MAX_INT64, MIN_INT64 = np.int64(2**63 - 1), np.int64(-(2**63))


@inlined
def argsort(numbers, order, codes, spare):  # type: ignore[no-untyped-def]
    """Fill ``order`` with the places of ``numbers`` in ascending order; ``codes`` and ``spare`` are uint64s for it.

    The codes are all that a float32 has; an insertion sort finishes float64.
    """
    count = len(numbers)
    exact, bits = codes.view(np.float64), codes.view(np.int64)
    ends = np.zeros((DIGITS, 1 << DIGIT_BITS), np.uint64)  # where the next number with each digit goes
    for place in range(count):
        exact[place] = numbers[place]
        ascending = np.uint64(bits[place] ^ (bits[place] >> 63 & MAX_INT64) ^ MIN_INT64)  # ordered as the numbers are
        codes[place] = ascending >> PLACE_BITS << PLACE_BITS | np.uint64(place)
        for digit in range(DIGITS):
            ends[digit, _digit(codes[place], digit)] += ONE
    for digit in range(DIGITS):
        total = np.uint64(0)
        for value in range(1 << DIGIT_BITS):
            before = total
            total += ends[digit, value]
            ends[digit, value] = before
        for code in codes[:count]:
            end = ends[digit, _digit(code, digit)]
            spare[end] = code
            ends[digit, _digit(code, digit)] = end + ONE
        codes, spare = spare, codes
    for n in range(count):
        next_place = np.int64(codes[n] & PLACE_MASK)
        hole = n
        while hole > 0 and numbers[next_place] < numbers[order[hole - 1]]:
            order[hole] = order[hole - 1]
            hole -= 1
        order[hole] = next_place


@inlined
def _digit(code, digit):  # type: ignore[no-untyped-def]
    return code >> (PLACE_BITS + np.uint64(digit * DIGIT_BITS)) & np.uint64((1 << DIGIT_BITS) - 1)
