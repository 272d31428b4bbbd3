"""Tensors on disk: safetensors files, which hold numbers and text and can never execute code."""

from __future__ import annotations

import json
import zlib
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
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    stored = {"format": FORMAT, "checksum": _checksum(tensors, metadata), **metadata}
    content = save(tensors, {"capse": json.dumps(stored, sort_keys=True)})
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
        metadata: dict[str, Any] = dict(json.loads(header["capse"]))
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{path} was not written by capse", remedy) from error
    found = metadata.pop("format", None)
    if found != FORMAT:
        raise RunError(
            f"{path} has format {found}, this capse reads format {FORMAT}",
            "train it again, or use the version of capse that wrote it",
        )
    if metadata.pop("checksum", None) != _checksum(tensors, metadata):
        raise RunError(f"{path} is damaged: its numbers are not those that were written", remedy)
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise RunError(f"{path} holds NaN or infinity in {name!r}", remedy)
    return tensors, metadata


def _checksum(tensors: dict[str, Tensor], metadata: dict[str, Any]) -> int:
    """CRC-32 of all that is stored: safetensors notices a file that was cut, not one with a flipped bit."""
    checksum = zlib.crc32(json.dumps(metadata, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        checksum = zlib.crc32(f"{name} {tensor.dtype} {list(tensor.shape)}".encode(), checksum)
        if tensor.numel():
            checksum = zlib.crc32(tensor.flatten().view(torch.uint8).numpy().data, checksum)
    return checksum


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
