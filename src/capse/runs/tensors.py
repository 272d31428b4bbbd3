"""Tensors on disk: safetensors files, which hold numbers and text and can never execute code."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from capse.arrays import array_on_disk
from capse.errors import RunError
from capse.runs.atomic import atomic_path

FORMAT = 1  # raised when the meaning of what is stored changes
_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_ROWS_OF_PIECE = 2**14


class Pieces(NamedTuple):
    """A table whose rows come in pieces, in their order: one is in memory at a time."""

    dtype: torch.dtype
    shape: Sequence[int]
    rows: Iterable[Tensor]

    @classmethod
    def of(cls, tensor: Tensor) -> Pieces:
        return cls(tensor.dtype, tensor.shape, _pieces(tensor.detach()))

    @property
    def size(self) -> int:
        """Bytes."""
        return self.dtype.itemsize * math.prod(self.shape)


def save_tensors(path: Path, tensors: Mapping[str, Tensor | Pieces], metadata: dict[str, Any]) -> None:
    """Write tensors and JSON metadata to one file, whole or not at all, without a copy of them in memory."""
    parts = {name: Pieces.of(x) if isinstance(x, Tensor) else x for name, x in tensors.items()}
    described: dict[str, dict[str, Any]] = {}
    end = 0
    for name in sorted(parts, key=lambda name: (-parts[name].dtype.itemsize, name)):  # so that all lie at multiples
        part = parts[name]
        span = [end, end := end + part.size]
        described[name] = {"dtype": _NAMES[part.dtype], "shape": list(part.shape), "data_offsets": span}

    def header(checksum: int) -> bytes:
        stored = json.dumps({"format": FORMAT, "checksum": checksum, **metadata}, sort_keys=True)
        return json.dumps({"__metadata__": {"capse": stored}, **described}).encode()

    room = -(-len(header(2**32 - 1)) // 8) * 8  # the longest that it can become
    checksum = _checksum_of(metadata)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        for name, part in sorted(parts.items()):
            checksum = zlib.crc32(_line_of(name, part.dtype, part.shape), checksum)
            file.seek(8 + room + described[name]["data_offsets"][0])
            for piece in part.rows:
                data = _bytes_of(piece)
                checksum = zlib.crc32(data, checksum)
                file.write(data)
        file.seek(0)
        file.write(room.to_bytes(8, "little") + header(checksum).ljust(room))


def table_on_disk(rows: int, width: int) -> Tensor:
    """A table of float32 in a temporary file, which ends with it: what is not in use can leave the memory."""
    return torch.from_numpy(array_on_disk((rows, width), np.float32))


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
        if tensor.is_floating_point() and not all(torch.isfinite(piece).all() for piece in _pieces(tensor)):
            raise RunError(f"{path} holds NaN or infinity in {name!r}", remedy)
    return tensors, metadata


def _checksum(tensors: dict[str, Tensor], metadata: dict[str, Any]) -> int:
    """CRC-32 of all that is stored: safetensors notices a file that was cut, not one with a flipped bit."""
    checksum = _checksum_of(metadata)
    for name, tensor in sorted(tensors.items()):
        checksum = zlib.crc32(_line_of(name, tensor.dtype, tensor.shape), checksum)
        for piece in _pieces(tensor):
            checksum = zlib.crc32(_bytes_of(piece), checksum)
    return checksum


def _checksum_of(metadata: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(metadata, sort_keys=True).encode())


def _pieces(tensor: Tensor) -> Sequence[Tensor]:
    return tensor.split(_ROWS_OF_PIECE) if tensor.dim() else [tensor]


def _bytes_of(piece: Tensor) -> bytes | memoryview:
    if not piece.numel():
        return b""  # an array without anything has no memory to look at
    return piece.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data


def _line_of(name: str, dtype: torch.dtype, shape: Sequence[int]) -> bytes:
    return f"{name} {dtype} {list(shape)}".encode()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
