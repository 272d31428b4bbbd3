"""What is scored is scored in chunks, so that temporaries stay within bounds however much it is."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# Floats that the temporaries of one chunk may take: 64 MiB, and on a GPU 2 GiB.
CPU, GPU = 2**24, 2**29


def chunk_size(floats_each: int, device: torch.device) -> int:
    """How many triples, candidates or lists to score at a time, of which each takes ``floats_each``."""
    return max(1, (GPU if device.type == "cuda" else CPU) // max(1, floats_each))


def in_chunks(score: Callable[[Tensor], Tensor], candidates: Tensor, floats_each: int) -> Tensor:
    """Scores (B, C) of candidates (C, k), of which ``score`` gets a few at a time; each takes ``floats_each``."""
    parts = candidates.split(chunk_size(floats_each, candidates.device))
    return torch.cat([score(part) for part in parts], dim=1)
