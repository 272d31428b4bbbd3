"""Labels in a column on disk: a sequence of texts of which only those that are asked for are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import overload

import pyarrow as pa

_BATCH = 1 << 16  # labels


class MappedLabels(Sequence[str]):
    """The texts of a column of an Arrow file, mapped into memory."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self.column = column

    @classmethod
    def open(cls, path: Path) -> MappedLabels:
        return cls(pa.ipc.open_file(pa.memory_map(str(path))).read_all().column(0))

    def __len__(self) -> int:
        return len(self.column)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> list[str]: ...

    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            found: list[str] = [self[i] for i in range(len(self))[place]]
            return found
        text: str = self.column[int(place)].as_py()
        return text

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self.column.slice(i, _BATCH).to_pylist() for i in range(0, len(self), _BATCH))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, MappedLabels):
            return bool(self.column.equals(other.column))
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(str.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]  # as a list


def write_labels(path: Path, batches: Iterable[pa.Array]) -> int:
    """Write texts, which come in arrays; returns how many there are."""
    schema, count = pa.schema([("label", pa.large_string())]), 0
    with pa.ipc.new_file(str(path), schema) as writer:
        for batch in batches:
            writer.write_batch(pa.record_batch([batch.cast(pa.large_string())], schema=schema))
            count += len(batch)
    return count
