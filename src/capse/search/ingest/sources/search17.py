"""SEARCH17, in its authors' own files.

    sample_{train,dev,test}.200.txt(.gz)   lists: the relevant document on the first line, the irrelevant ones after it
        sq-335120 r-2 q-33512 u-65-5742 d-140125        (list, the engine's rank, query, user and session, document)
        sq-335120 r-1 d-140124                          (list, the engine's rank, document)
    user2vec.200.init(.gz)                 sessions' profiles; doc2vec and query2vec in the same form, where at hand
        u-65-5742 2.0E-4 3.8E-4 ...

There is no text and there are no times. Query numbers ascend within a user, so a query's number serves as its time, in
seconds after EPOCH. An impression with several clicks became several lists of one query: they get the same time, so
that none has another's click in its history. Vectors are kept with the log as ``vectors/{users,documents,queries}``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from capse.errors import DataError
from capse.search.ingest.sources.files import lines
from capse.search.ingest.staging import Staging, files_of
from capse.search.times import SECOND

EPOCH = 1_341_100_800  # 1 July 2012, when the log was taken, in seconds
USUAL_LENGTH = 10  # results on a page

_LISTS = re.compile(r"sample_(train|dev|test)\b.*\.txt(\.gz)?")
_VECTORS = re.compile(r"(user|doc|query)2vec\b.*\.init(\.gz)?")
_TABLES = {"user": "users", "doc": "documents", "query": "queries"}
_VECTOR = pa.schema([("label", pa.string()), ("vector", pa.list_(pa.float32()))])
_VECTORS_AT_ONCE = 10_000

Vector = npt.NDArray[np.float32]

_FIRST = re.compile(r"(sq-\d+) r-(\d{1,9}) (q-(\d{1,10})) ((u-\d+)-\d+) (d-\S+)")
_OTHER = re.compile(r"(sq-\d+) r-(\d{1,9}) (d-\S+)")


def suits(paths: Sequence[Path]) -> bool:
    """Whether a split is among the files."""
    return any(_LISTS.fullmatch(file.name) for file in files_of(paths) if file.exists())


def stage(paths: Sequence[Path], staging: Staging) -> None:
    """Bring the splits and the vectors into the staged form."""
    found = files_of(paths)
    splits = {match[1]: file for file in found if (match := _LISTS.fullmatch(file.name))}
    if not splits:
        raise DataError(f"{paths[0]}: no split of SEARCH17", "name the folder of sample_train.200.txt and its like")
    read = {split: _Split(split, file, staging) for split, file in splits.items()}
    for part in read.values():
        part.stage()
    for file in found:
        if match := _VECTORS.fullmatch(file.name):
            _stage_vectors(file, _TABLES[match[1]], staging)
    _note(list(read.values()), staging)


@dataclass(frozen=True)
class Counted:
    """A list as far as its engine's order goes."""

    query: str
    length: int
    rank: int  # of the relevant document among those of its list

    @property
    def by_rule(self) -> int:
        """The rank under the rule that the last document of a list longer than a page comes first."""
        if self.length <= USUAL_LENGTH:
            return self.rank
        return 1 if self.rank == self.length else self.rank + 1


@dataclass
class _Split:
    """One split on its way into the staged tables."""

    name: str
    path: Path
    staging: Staging
    lists: list[Counted] = field(default_factory=list)

    def stage(self) -> None:
        head: re.Match[str] | None = None
        positions: list[int] = []
        for number, line in lines(self.path):
            text = line.decode("utf-8", "replace").strip()
            if first := _FIRST.fullmatch(text):
                self._count(head, positions)
                head, positions = first, [int(first[2])]
                self._result(first, positions[0], first[7])
                self.staging.click(first[1], first[7])
            elif other := _OTHER.fullmatch(text):
                if head is None or other[1] != head[1]:
                    self.staging.reject(self.path.name, number, "no relevant document before it in its list", text)
                    continue
                positions.append(int(other[2]))
                self._result(head, positions[-1], other[3])
            else:
                self.staging.reject(self.path.name, number, "neither 'sq r q u d' nor 'sq r d'", text)
        self._count(head, positions)

    def _result(self, head: re.Match[str], position: int, document: str) -> None:
        self.staging.result(
            head[1],
            time=(EPOCH + int(head[4])) * SECOND,
            user=head[6],
            session=head[5],
            query=head[3],
            position=position,
            document=document,
            split=self.name,
        )

    def _count(self, head: re.Match[str] | None, positions: Sequence[int]) -> None:
        if head is not None:
            rank = 1 + sum(position < positions[0] for position in positions[1:])
            self.lists.append(Counted(head[3], len(positions), rank))


def _stage_vectors(path: Path, table: str, staging: Staging) -> None:
    labels: list[str] = []
    vectors: list[Vector] = []
    with pq.ParquetWriter(staging.extra(f"vectors/{table}.parquet"), _VECTOR, compression="zstd") as writer:

        def write() -> None:
            writer.write_table(pa.table([labels, [vector.tolist() for vector in vectors]], schema=_VECTOR))
            labels.clear()
            vectors.clear()

        for label, vector in _vectors(path, staging):
            labels.append(label)
            vectors.append(vector)
            if len(labels) == _VECTORS_AT_ONCE:
                write()
        write()


def _vectors(path: Path, staging: Staging) -> Iterator[tuple[str, Vector]]:
    width = 0
    for number, line in lines(path):
        text = line.decode("utf-8", "replace").strip()
        label, *numbers = text.split()
        try:
            with np.errstate(over="ignore"):  # infinite, which is found below
                vector = np.array(numbers, np.float32)
        except ValueError:
            staging.reject(path.name, number, "a vector that is not all numbers", text)
            continue
        width = width or len(vector)
        if len(vector) != width or not np.isfinite(vector).all():
            staging.reject(path.name, number, f"not a vector of {width} finite numbers", text)
            continue
        yield label, vector


def _note(splits: Sequence[_Split], staging: Staging) -> None:
    staging.note(
        "SEARCH17 has no times: a query's number is its time in seconds, which orders each user's queries; between "
        "users the order means nothing, and neither does a history frozen where a split begins"
    )
    queries = Counter(counted.query for split in splits for counted in split.lists)
    several = sum(count > 1 for count in queries.values())
    staging.note(
        f"{several:,} of {len(queries):,} impressions had several clicks and are several lists: they share their time, "
        "so that none knows another's click"
    )
    for split in splits:
        if artefact := artefact_of(split.lists):
            staging.note(f"{split.name}: {artefact}")


def artefact_of(lists: Sequence[Counted]) -> str:
    """What the lists longer than a page give away; empty if there are none.

    >>> artefact_of([Counted("q-1", 8, 2), Counted("q-2", 12, 12), Counted("q-3", 10, 4)])
    'in 1 of 1 lists longer than 10 the relevant document is the last: that rule alone lifts the MRR from .278 to .583'
    """
    longer = [counted for counted in lists if counted.length > USUAL_LENGTH]
    if not longer:
        return ""
    last = sum(counted.rank == counted.length for counted in longer)
    engine = float(np.mean([1 / counted.rank for counted in lists]))
    rule = float(np.mean([1 / counted.by_rule for counted in lists]))
    return (
        f"in {last:,} of {len(longer):,} lists longer than {USUAL_LENGTH} the relevant document is the last: that rule "
        f"alone lifts the MRR from {_fraction(engine)} to {_fraction(rule)}"
    )


def _fraction(value: float) -> str:
    return f"{value:.3f}".lstrip("0")
