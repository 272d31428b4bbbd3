"""Small graphs with known answers, and the real data where it is at hand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numba
import pytest
import torch
from hypothesis import Phase, settings

from capse.graph.dataset import Graph

torch.set_num_threads(2)

# Every run tries the same examples, so that a change and not chance turns a test red, and a failure is reported at once
# instead of being shrunk for minutes. `pytest --hypothesis-profile=explore` draws others, and shrinks what fails.
settings.register_profile(
    "steady",
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile("steady")


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Everything that torch and numba do, in one thread."""
    before = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    yield
    torch.set_num_threads(before[0])
    numba.set_num_threads(before[1])


@pytest.fixture(scope="session")
def planted() -> Graph:
    """A graph whose missing facts follow from the others: 8 regions, each with a market, a school and 10 towns.

    Everyone of a region goes to its own market and school. For two towns of each region the market is hidden, and can
    be inferred from where the town lies and where its children go to school.
    """
    train, valid, test = [], [], []
    for town in range(80):
        region, number = town % 8, town // 8
        name = f"town {town:02}"
        train.append((name, "lies in", f"region {region}"))
        train.append((name, "schools at", f"school {region}"))
        hidden = valid if number == 8 else test if number == 9 else train
        hidden.append((name, "trades at", f"market {region}"))
    return Graph.from_triples(train, valid, test, name="planted")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets, or a skip that says what is missing."""
    folder = os.environ.get("CAPSE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("CAPSE_DATA names no folder with wn18rr and fb15k-237")
    return Path(folder)
