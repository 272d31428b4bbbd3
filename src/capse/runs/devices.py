"""Where to compute."""

from __future__ import annotations

import torch

from capse.errors import RunError


def choose_device(name: str | torch.device) -> torch.device:
    """'auto' is a GPU when there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        remedy = "choose cpu, auto, or cuda where a GPU is present (training.device or --device)"
        raise RunError(f"there is no device {name!r} here", remedy) from error
    return device
