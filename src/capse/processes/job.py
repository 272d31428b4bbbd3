"""What torchrun tells the processes that it starts together; known before torch is loaded."""

from __future__ import annotations

import os
import time


def size_of_job() -> int:
    """How many processes were started together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank_in_job() -> int:
    """The number of this process among them."""
    return int(os.environ.get("RANK", "0"))


def is_started_together() -> bool:
    """Whether torchrun started this process, if only as the only one."""
    return "WORLD_SIZE" in os.environ and "RANK" in os.environ


def wait_for_first_rank(seconds: float = 10.0) -> None:
    """In other processes of a job: wait, since torchrun ends them when the first has said what they would say too."""
    if rank_in_job() and size_of_job() > 1:
        time.sleep(seconds)
