"""Small graphs with known answers, and the real data where it is at hand."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numba
import pytest
import torch
from hypothesis import Phase, settings
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from capse.graph.dataset import Graph

torch.set_num_threads(2)

# Where Ctrl-C is ignored, as in the background of a shell, the processes that a test starts would ignore it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

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


class LiveFloats(TorchDispatchMode):
    """Follows every tensor that an operation makes while it lives; ``peak`` is the most floats held at a time."""

    def __init__(self, model):
        super().__init__()
        self.own = {StorageWeakRef(tensor.untyped_storage()) for tensor in model.state_dict().values()}
        self.sizes = {}
        self.peak = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                reference = StorageWeakRef(tensor.untyped_storage())
                if reference not in self.own:  # views of the model's tables and weights hold nothing new
                    self.sizes[reference] = tensor.untyped_storage().nbytes() // 4
        self.sizes = {reference: size for reference, size in self.sizes.items() if not reference.expired()}
        self.peak = max(self.peak, sum(self.sizes.values()))
        return result


@pytest.fixture
def live_floats() -> type[LiveFloats]:
    """A context that measures what a model's answer holds beside the model."""
    return LiveFloats
