"""Tensors on disk: safetensors files, which hold numbers and text and can never execute code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from capse.errors import RunError
from capse.runs.atomic import atomic_path

FORMAT = 1  # raised when the meaning of what is stored changes


def save_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
    """Write tensors and JSON metadata to one file, whole or not at all."""
    header = {"capse": json.dumps({"format": FORMAT, **metadata}, sort_keys=True)}
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, header)
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def load_tensors(path: Path, remedy: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read such a file; ``remedy`` is what to do where it is damaged. NaN or infinity in it is an error."""
    if not path.is_file():
        raise RunError(f"{path} is missing", remedy)
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError, ValueError) as error:
        raise RunError(f"{path} is damaged or not a capse file ({_first_line(error)})", remedy) from error
    try:
        metadata = json.loads(header["capse"])
    except (KeyError, ValueError) as error:
        raise RunError(f"{path} was not written by capse", remedy) from error
    if metadata.get("format") != FORMAT:
        raise RunError(
            f"{path} has format {metadata.get('format')}, this capse reads format {FORMAT}",
            "train it again, or use the version of capse that wrote it",
        )
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise RunError(f"{path} holds NaN or infinity in {name!r}", remedy)
    return tensors, metadata


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
