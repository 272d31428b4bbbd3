"""Names for the types of NumPy arrays, so that signatures say what an array holds; and arrays that lie on disk."""

from __future__ import annotations

import math
import os
import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt

from capse.errors import StorageError

Bools = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]

_LARGE = 2**25  # bytes


def large_array(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array that is still to be filled: in memory, from 32 MiB on `array_on_disk`."""
    if math.prod(shape) * np.dtype(dtype).itemsize < _LARGE:
        return np.empty(shape, dtype)
    return array_on_disk(shape, dtype)


def array_on_disk(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Zeros in a temporary file, which ends with the array: what is not in use can leave the memory."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    try:
        with tempfile.TemporaryFile(prefix="capse-") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, max(1, size))  # a disk that fills later would end the process
            return np.asarray(np.memmap(file, dtype, "w+", shape=shape))
    except OSError as error:
        where = tempfile.tempdir or "the folder of temporary files"  # not known where each one is full
        raise StorageError(
            f"no room for {size:,} bytes in {where} ({error.strerror})", "free space there, or set TMPDIR to elsewhere"
        ) from error
