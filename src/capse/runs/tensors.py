"""Tensors on disk: safetensors files, which hold numbers and text and can never execute code."""

from __future__ import annotations

import json
import math
import tempfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from capse.errors import RunError
from capse.runs.atomic import atomic_path

FORMAT = 1  # raised when the meaning of what is stored changes
_NAMES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}

Pieces = Iterable[Tensor]  # of a table's rows, in their order


def save_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
    """Write tensors and JSON metadata to one file, whole or not at all."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    stored = {"format": FORMAT, "checksum": _checksum(tensors, metadata), **metadata}
    content = save(tensors, {"capse": json.dumps(stored, sort_keys=True)})
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def table_on_disk(rows: int, width: int) -> Tensor:
    """A table of float32 in a temporary file, which ends with it: what is not in use can leave the memory."""
    with tempfile.NamedTemporaryFile(prefix="capse-") as file:
        return torch.from_file(file.name, shared=True, size=rows * width, dtype=torch.float32).view(rows, width)


def save_with_table(path: Path, tensors: Mapping[str, Tensor], name: str, shape: Sequence[int], pieces: Pieces) -> None:
    """What `save_tensors` writes of some tensors and a table of float32 of this shape, whose rows come in pieces.

    One piece is in memory at a time.
    """
    parts: dict[str, tuple[torch.dtype, Sequence[int], Pieces]] = {name: (torch.float32, shape, pieces)}
    parts |= {key: (x.dtype, x.shape, [x]) for key, x in tensors.items()}
    described: dict[str, dict[str, Any]] = {}
    end = 0
    for key in sorted(parts, key=lambda key: (-parts[key][0].itemsize, key)):  # so that all lie at their multiples
        dtype, size = parts[key][0], parts[key][0].itemsize * math.prod(parts[key][1])
        described[key] = {"dtype": _NAMES[dtype], "shape": list(parts[key][1]), "data_offsets": [end, end + size]}
        end += size

    def header(checksum: int) -> bytes:
        stored = json.dumps({"format": FORMAT, "checksum": checksum}, sort_keys=True)
        return json.dumps({"__metadata__": {"capse": stored}, **described}).encode()

    room = -(-len(header(2**32 - 1)) // 8) * 8  # the longest that it can become
    checksum = zlib.crc32(b"{}")
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        for key, (dtype, of_shape, found) in sorted(parts.items()):
            checksum = zlib.crc32(_line_of(key, dtype, of_shape), checksum)
            file.seek(8 + room + described[key]["data_offsets"][0])
            for piece in found:
                data = piece.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data
                checksum = zlib.crc32(data, checksum) if len(data) else checksum
                file.write(data)
        file.seek(0)
        file.write(room.to_bytes(8, "little") + header(checksum).ljust(room))


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
        checksum = zlib.crc32(_line_of(name, tensor.dtype, tensor.shape), checksum)
        if tensor.numel():
            checksum = zlib.crc32(tensor.flatten().view(torch.uint8).numpy().data, checksum)
    return checksum


def _line_of(name: str, dtype: torch.dtype, shape: Sequence[int]) -> bytes:
    return f"{name} {dtype} {list(shape)}".encode()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
