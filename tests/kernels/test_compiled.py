"""Loops that share torch's threads."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from capse.kernels.compiled import numba

PROGRAM = """
import torch
from capse.kernels.distances import pairwise_distances
before = torch.get_num_threads()
pairwise_distances(torch.ones(2, 3), torch.ones(4, 3), 1)
import numba
print(before, torch.get_num_threads(), numba.get_num_threads())
"""


@pytest.mark.skipif(numba is None, reason="numba is not installed")
def test_a_process_that_was_given_one_thread_keeps_to_it():
    """Numba's threads start with the machine's number, and would leave torch that many."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "2"}
    run = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["1", "1", "1"]
