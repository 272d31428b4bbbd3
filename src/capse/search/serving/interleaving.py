"""Two orders of one list as one, by a team draft (Radlinski, Kurup and Joachims, CIKM 2008).

The orders pick in turn, each the best that is left to it; a coin says who picks first in each round. So both have as
many documents near the top, and whose documents are clicked more is the better order, whatever place does to clicks.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from capse.search.serving.reranker import RankedDocument

T = TypeVar("T", bound=Hashable)


def team_draft(a: Sequence[T], b: Sequence[T], coins: Iterable[bool]) -> tuple[list[T], str]:
    """The joint order, and for each of its places whose it is; a coin that is true lets ``a`` pick first.

    >>> team_draft("xyz", "zyx", [True, False])
    (['x', 'z', 'y'], 'abb')
    """
    chosen: list[T] = []
    teams = ""
    taken: set[T] = set()
    toss = iter(coins)
    turn = ""
    while len(chosen) < len(a):
        turn = turn or ("ab" if next(toss) else "ba")
        team, turn = turn[0], turn[1:]
        best = next(one for one in (a if team == "a" else b) if one not in taken)
        taken.add(best)
        chosen.append(best)
        teams += team
    return chosen, teams


def coins(*about: str) -> Iterator[bool]:
    """Fair ones, the same for the same texts: who loads a page again sees the same list."""
    draw = random.Random("\0".join(about))
    while True:
        yield draw.random() < 0.5


def interleave(
    a: Sequence[RankedDocument], b: Sequence[RankedDocument], tosses: Iterable[bool]
) -> tuple[list[RankedDocument], str]:
    """Two rankings of the same list as one, each document as its own team has it but for its rank."""
    of = {"a": {one.position: one for one in a}, "b": {one.position: one for one in b}}
    places, teams = team_draft([one.position for one in a], [one.position for one in b], tosses)
    drafted = enumerate(zip(places, teams, strict=True), start=1)
    return [replace(of[team][place], rank=rank) for rank, (place, team) in drafted], teams
