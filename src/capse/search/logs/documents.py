"""What a log shows: documents with an id, a title, a text, and the words in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse

from capse.errors import DataError
from capse.runs.atomic import atomic_path

SCHEMA = pa.schema(
    [
        ("document", pa.string()),
        ("title", pa.string()),
        ("text", pa.string()),
        ("terms", pa.map_(pa.string(), pa.int32())),
    ]
)

_WORD = re.compile(r"[^\W\d_]{2,}")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


def words(text: str) -> list[str]:
    """The words of a text, in lower case: letters only, two or more, camelCase taken apart.

    >>> words("Fix TripleFactories.to_path: see #12")
    ['fix', 'triple', 'factories', 'to', 'path', 'see']
    """
    return [word.lower() for word in _WORD.findall(_HUMP.sub(" ", text))]


@dataclass(frozen=True)
class Documents:
    """D documents; ``texts`` or ``terms`` may be absent (None) for some."""

    ids: Sequence[str]
    titles: Sequence[str]
    texts: Sequence[str | None]
    terms: Sequence[Mapping[str, int] | None]  # word counts as the log gave them

    def __len__(self) -> int:
        return len(self.ids)

    def words_of(self, number: int) -> Mapping[str, int]:
        """Word counts of a document: those of the log, else of its title and text."""
        given = self.terms[number]
        return given if given else Counter(words(self.titles[number] + " " + (self.texts[number] or "")))

    def text_of(self, number: int) -> str:
        """A text for an encoder: title and text, or the most frequent words where there is none."""
        text = self.texts[number]
        if text is None:
            counts = self.terms[number] or {}
            text = " ".join(sorted(counts, key=lambda word: -counts[word])[:100])
        return f"{self.titles[number]}\n{text}".strip()

    def counts(self, vocabulary: Mapping[str, int]) -> scipy.sparse.csr_matrix:
        """Word counts (D, V) over a vocabulary."""
        return count_matrix([self.words_of(number) for number in range(len(self))], vocabulary)

    def counted(self) -> Documents:
        """The same known by their words alone, without a text."""
        terms = [self.words_of(number) for number in range(len(self))]
        return Documents(self.ids, self.titles, [None] * len(self), terms)

    def save(self, path: Path) -> None:
        """Write what `load` reads."""
        terms = [None if counts is None else list(counts.items()) for counts in self.terms]
        with atomic_path(path) as temporary:
            columns = [list(self.ids), list(self.titles), list(self.texts), terms]
            pq.write_table(pa.table(columns, schema=SCHEMA), temporary)

    @classmethod
    def of_terms(cls, terms: Mapping[str, Mapping[str, int]]) -> Documents:
        """Documents known by their word counts only."""
        ids = list(terms)
        return cls(ids, [""] * len(ids), [None] * len(ids), [terms[label] for label in ids])

    @classmethod
    def load(cls, path: Path) -> Documents:
        try:
            table = pq.read_table(path, columns=SCHEMA.names).cast(SCHEMA)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{path} cannot be read ({str(error).splitlines()[0]})", "ingest the log again") from error
        return cls.from_table(table)

    @classmethod
    def from_table(cls, table: pa.Table) -> Documents:
        """Documents from a table of the schema."""
        terms = [None if row is None else dict(row) for row in table["terms"].to_pylist()]
        titles = [title or "" for title in table["title"].to_pylist()]
        return cls(table["document"].to_pylist(), titles, table["text"].to_pylist(), terms)


def count_matrix(counts: Sequence[Mapping[str, int]], vocabulary: Mapping[str, int]) -> scipy.sparse.csr_matrix:
    """Word counts as a sparse matrix (rows, V); words outside the vocabulary are left out.

    >>> count_matrix([{"a": 2, "x": 1}, {"b": 1}], {"a": 0, "b": 1}).toarray()
    array([[2., 0.],
           [0., 1.]])
    """
    columns: list[int] = []
    values: list[int] = []
    ends = [0]
    for row in counts:
        for word, count in row.items():
            place = vocabulary.get(word)
            if place is not None:
                columns.append(place)
                values.append(count)
        ends.append(len(columns))
    data = (np.array(values, np.float64), np.array(columns, np.int32), np.array(ends, np.int64))
    return scipy.sparse.csr_matrix(data, shape=(len(counts), len(vocabulary)))
