"""Labels and their ids."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from operator import lt
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from capse.errors import CapseError, DataError, UnknownNameError
from capse.graph.mapped_labels import MappedLabels
from capse.graph.names import shortlist
from capse.graph.readers.files import READ_ERRORS
from capse.graph.readers.rows import label_problem
from capse.runs.atomic import atomic_path


@dataclass(frozen=True)
class Vocabulary:
    """The labels of a graph's entities or relations; an id is a position in the sorted list of labels.

    >>> countries = Vocabulary.of(["nl", "be", "de"], {"de": "Germany", "nl": "Netherlands"}, kind="entity")
    >>> countries.labels
    ['be', 'de', 'nl']
    >>> countries.id("de"), countries.id("Germany"), countries.name(1), countries.name(0)
    (1, 1, 'Germany', 'be')
    >>> countries.id("Germny")
    Traceback (most recent call last):
    capse.errors.UnknownNameError: unknown entity 'Germny': did you mean 'Germany'?
    """

    labels: Sequence[str]  # sorted, unique: ids do not depend on the order of a file
    names: Sequence[str] | None = None  # a label without a name stands for itself
    kind: str = "label"  # 'entity' or 'relation', for messages

    def __post_init__(self) -> None:
        if isinstance(self.labels, MappedLabels):
            return  # checked when they were written
        if not all(map(lt, self.labels, islice(self.labels, 1, None))):
            raise ValueError("the labels of a vocabulary must be sorted and unique")
        if self.names is not None and len(self.names) != len(self.labels):
            raise ValueError("a vocabulary needs one name for each label")

    @classmethod
    def of(cls, labels: Iterable[str], names: Mapping[str, str] | None = None, kind: str = "label") -> Vocabulary:
        """Sort ``labels``, and look up their names if any of them has one."""
        ordered = sorted(set(labels))
        if not names or not any(label in names for label in ordered):
            return cls(ordered, None, kind)
        return cls(ordered, [names.get(label, label) for label in ordered], kind)

    @classmethod
    def in_order(cls, labels: Sequence[str] | Vocabulary, kind: str) -> tuple[Vocabulary, npt.NDArray[np.int32]]:
        """A vocabulary of distinct labels in any order, and the id of each of them.

        >>> vocabulary, ids = Vocabulary.in_order(["nl", "be"], "entity")
        >>> vocabulary.labels, ids
        (['be', 'nl'], array([1, 0], dtype=int32))
        """
        if isinstance(labels, Vocabulary):
            return labels, np.arange(len(labels), dtype=np.int32)
        wrong = [label for label in labels if not isinstance(label, str) or label_problem(label)]
        if wrong or len(set(labels)) != len(labels):
            problem = f"cannot be {str(wrong[0])[:40]!r}" if wrong else "must be distinct"
            raise DataError(f"the labels of {kind} ids {problem}", "give each id a label of its own, as text")
        vocabulary = cls.of(labels, kind=kind)
        return vocabulary, np.searchsorted(vocabulary.labels, labels).astype(np.int32)

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, label: object) -> bool:
        return isinstance(label, str) and self._place(label) is not None

    def id(self, text: str) -> int:
        """The id of a label, or of a name that only one label has."""
        place = self.find(text)
        if place is None:
            names = [name for name, label in zip(self.names or [], self.labels, strict=False) if name != label]
            near = shortlist(text, [*self.labels, *names])
            raise UnknownNameError(self.kind, text, dict.fromkeys(near), "give a label or a name from the data")
        return place

    def find(self, text: str) -> int | None:
        """The id as `id` gives it, but None where there is none: quick, as it looks for nothing similar."""
        place = self._place(text)
        if place is not None or text not in self._last_of_name:
            return place
        if self._last_of_name[text] != self._first_of_name[text]:
            labels = [label for i, label in enumerate(self.labels) if self.name(i) == text]
            some = ", ".join(map(repr, labels[:10])) + (", ..." if len(labels) > 10 else "")
            raise CapseError(f"{len(labels):,} labels have the name {text!r}", f"give one of them: {some}")
        return self._last_of_name[text]

    def name(self, i: int) -> str:
        """The name of id ``i``, or its label if it has none."""
        return self.labels[i] if self.names is None else self.names[i]

    def arrow(self) -> pa.Array:
        """All labels in one column."""
        if isinstance(self.labels, MappedLabels):
            return pa.concat_arrays(self.labels.column.chunks).cast(pa.string())
        return pa.array(self.labels, pa.string())

    def save(self, path: str | Path) -> None:
        """Write a Parquet file with the columns label and name."""
        names = pa.nulls(len(self), pa.string()) if self.names is None else pa.array(self.names, pa.string())
        table = pa.table({"label": self.arrow(), "name": names})
        with atomic_path(path) as temporary:
            pq.write_table(table.replace_schema_metadata({"kind": self.kind}), temporary, compression="zstd")

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """Read what ``save`` wrote."""
        try:
            table = pq.read_table(path, columns=["label", "name"])
            names = None if table["name"].null_count == len(table) else table["name"].to_pylist()
            kind = (table.schema.metadata or {}).get(b"kind", b"label").decode()
            return cls(table["label"].to_pylist(), names, kind)
        except (*READ_ERRORS, pa.ArrowException, ValueError, TypeError) as error:
            raise DataError(
                f"{path}: not a readable vocabulary", "restore the file from the run it belongs to"
            ) from error

    def _place(self, label: str) -> int | None:
        place = bisect_left(self.labels, label)
        return place if place < len(self.labels) and self.labels[place] == label else None

    @cached_property
    def _last_of_name(self) -> dict[str, int]:
        names = self.names or []
        return dict(zip(names, range(len(names)), strict=True))

    @cached_property
    def _first_of_name(self) -> dict[str, int]:
        names = self.names or []
        return dict(zip(reversed(names), reversed(range(len(names))), strict=True))
