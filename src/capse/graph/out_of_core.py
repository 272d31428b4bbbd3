"""Import of triples that do not fit into memory: DuckDB reads, sorts and joins on disk.

It ends in a folder of columns (see `capse.graph.columns`) whose vocabularies and splits are, row for row, those that
the import in memory makes of the same files. A line that it would refuse is *quarantined* here, with a reason, and
counted: a dump of a hundred million lines has some.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from capse.errors import DataError, MissingExtraError, SettingsError
from capse.graph.columns import describe_columns, write_triples
from capse.graph.drawn_splits import TEST, TRAIN, VALID, draw_splits
from capse.graph.encoding import IntTriples
from capse.graph.iris import local_name
from capse.graph.mapped_labels import write_labels
from capse.graph.splits import wanted_sizes
from capse.graph.triples_in_sql import Keep, reading_of, unescaped
from capse.runs.atomic import atomic_folder, check_free
from capse.runs.duckdb_errors import duckdb_errors

_BATCH = 1 << 18  # rows
_ROWS_AT_ONCE = 1 << 24  # whose labels are brought together
_NUMBERS = {"train": TRAIN, "valid": VALID, "test": TEST}


@dataclass(frozen=True)
class Shares:
    """What is held out, and how it is drawn."""

    valid: float = 0.1
    test: float = 0.1
    seed: int = 0
    allow_unseen: bool = False


@dataclass(frozen=True)
class Imported:
    """What a folder has, and what became of lines that are no triple of it."""

    entities: int
    relations: int
    triples: Mapping[str, int]  # by split
    repeated: int
    skipped: int  # statements with a literal or a blank node that were not to be kept
    quarantined: Mapping[str, int] = field(default_factory=dict)  # by reason


def import_out_of_core(
    files: Mapping[str, Sequence[Path]],
    out: Path,
    shares: Shares | None = None,
    keep: Keep | None = None,
    *,
    memory_gib: float = 2.0,
    progress: Callable[[str], None] = lambda what: None,
) -> Imported:
    """Import the files of each split; those of train alone are divided into ``shares`` where these are given.

    ``memory_gib`` is what DuckDB may use before it spills to disk beside ``out``.
    """
    check_free(out)
    if shares is not None:
        wanted_sizes(0, shares.valid, shares.test)
    if memory_gib <= 0:
        raise SettingsError(f"the memory is {memory_gib:g} GiB", "allow 1 or more, as much as can be spared")
    out.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.", suffix=".scratch") as scratch,
        duckdb_errors("allow it more with --memory-gib"),
        _database(Path(scratch), memory_gib) as database,
        atomic_folder(out) as folder,
    ):
        job = _Import(database, Path(scratch), folder, progress)
        job.read(files, keep or Keep())
        return job.write(shares)


class _Import:
    """The steps, each of which leaves a table that the next one reads."""

    def __init__(self, database: Any, scratch: Path, folder: Path, progress: Callable[[str], None]) -> None:
        self.database, self.scratch, self.folder, self.progress = database, scratch, folder, progress

    def read(self, files: Mapping[str, Sequence[Path]], keep: Keep) -> None:
        """``stated``: each line's triple as labels, or what is the matter with it."""
        self._do(
            "CREATE TABLE stated(split UTINYINT, problem VARCHAR, head VARCHAR, relation VARCHAR, tail VARCHAR, "
            "iri BOOLEAN)"
        )
        number = 0
        for split, paths in files.items():
            for path in paths:
                self.progress(f"reading {path}")
                reading = reading_of(path, number, keep)
                self._do(f"INSERT INTO stated SELECT {_NUMBERS[split]}, * FROM ({reading})")
                number += 1
        if self._number("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'reject_errors'"):  # made by text
            self._do(
                "INSERT INTO stated SELECT 0, 'not UTF-8 text, or too long a line', csv_line, NULL, NULL, false "
                "FROM (SELECT DISTINCT scan_id, file_id, line, csv_line FROM reject_errors)"
            )

    def write(self, shares: Shares | None) -> Imported:
        sizes = {kind: self._vocabulary(kind, columns) for kind, columns in _COLUMNS_OF.items()}
        if not sizes["entities"]:
            raise DataError("no triples in these files", "head, relation and tail are wanted on each line")
        self.progress("looking up ids")
        self._encode()
        found, repeated = self._distinct(tuple(_NUMBERS) if shares is None else ("train",))
        counts = {split: len(triples) for split, triples in found.items()}
        if shares is None:
            for split, triples in found.items():
                write_triples(self.folder, split, len(triples), _chunks(triples))
        else:
            counts = self._divide(found["train"], sizes, shares)
        problems = self._problems()
        skipped = problems.pop("skipped", 0)
        if problems:
            self._quarantine()
        told = {"entities": sizes["entities"], "relations": sizes["relations"]}
        said = {**told, "triples": counts, "repeated": repeated, "skipped": skipped, "quarantined": problems}
        describe_columns(self.folder, said)
        return Imported(**told, triples=counts, repeated=sum(repeated.values()), skipped=skipped, quarantined=problems)

    def _vocabulary(self, kind: str, columns: Sequence[str]) -> int:
        """Sort the labels that occur in these columns, give each its id, and write them and what people are shown."""
        self.progress(f"sorting the labels of {kind}")
        # In parts, then among what the parts gave, then in order: each within the memory that the next one needs too.
        self._do("CREATE TABLE met(label VARCHAR, iri BOOLEAN)")
        for start in range(0, self._number("SELECT coalesce(max(rowid) + 1, 0) FROM stated"), _ROWS_AT_ONCE):
            rows = f"FROM stated WHERE problem IS NULL AND rowid >= {start} AND rowid < {start + _ROWS_AT_ONCE}"
            every = " UNION ALL ".join(f"SELECT {column} AS label, iri {rows}" for column in columns)
            self._do(f"INSERT INTO met SELECT label, bool_or(iri) FROM ({every}) GROUP BY label")
        self._do("CREATE TABLE distinct_labels AS SELECT label, bool_or(iri) AS iri FROM met GROUP BY label")
        self._do("DROP TABLE met")
        self._do(
            f"CREATE TABLE {kind} AS SELECT label, iri, (row_number() OVER (ORDER BY label) - 1)::INTEGER AS id "
            "FROM distinct_labels"
        )
        self._do("DROP TABLE distinct_labels")
        labels = (batch.column("label") for batch in self._batches(f"SELECT label FROM {kind} ORDER BY id"))
        count = write_labels(self.folder / f"{kind}.arrow", labels)
        # Of several names an English or untagged one, and of several of these the first by its letters.
        self._do(
            f"CREATE TABLE {kind}_names AS SELECT head AS label, min(tail) AS name FROM (SELECT head, tail, "
            "rank() OVER (PARTITION BY head ORDER BY relation) AS place FROM stated "
            "WHERE problem = 'name' AND tail <> '') "
            f"WHERE place = 1 AND head IN (SELECT label FROM {kind}) GROUP BY head"
        )
        named = self._number(f"SELECT (SELECT count(*) FROM {kind}_names) + (SELECT count(*) FROM {kind} WHERE iri)")
        if named:
            rows = f"SELECT {kind}.label, iri, name FROM {kind} LEFT JOIN {kind}_names USING (label) ORDER BY id"
            write_labels(self.folder / f"{kind}.names.arrow", (_shown(batch) for batch in self._batches(rows)))
        return count

    def _encode(self) -> None:
        """``ids``: the triples by numbers. One column at a time, so that one table of labels is in memory."""
        self._do(
            "CREATE TABLE with_heads AS SELECT split, entities.id AS h, relations.id AS r, tail FROM stated "
            "JOIN entities ON head = entities.label JOIN relations ON relation = relations.label WHERE problem IS NULL"
        )
        self._do("DELETE FROM stated WHERE problem IS NULL")
        self._do("CREATE TABLE ids AS SELECT split, h, r, id AS t FROM with_heads JOIN entities ON tail = label")
        for table in ("with_heads", "entities", "relations"):
            self._do(f"DROP TABLE {table}")

    def _distinct(self, splits: Sequence[str]) -> tuple[dict[str, IntTriples], dict[str, int]]:
        """The sorted distinct triples of each split, mapped from disk, and how many were left out."""
        found, repeated = {}, dict.fromkeys(_NUMBERS, 0)
        for split in splits:
            self.progress(f"sorting the triples of {split}")
            path, count, kept = self.scratch / f"{split}.raw", 0, 0
            last = np.full((1, 3), -1, np.int32)
            query = f"SELECT h, r, t FROM ids WHERE split = {_NUMBERS[split]} ORDER BY h, r, t"
            with path.open("wb") as file:
                for batch in self._batches(query):
                    rows = np.stack([column.to_numpy() for column in batch.columns], 1)
                    new = rows[(np.diff(np.concatenate([last, rows]), axis=0) != 0).any(1)]
                    file.write(new.astype(np.int32).tobytes())  # `tofile` does not say why it fails
                    last, count, kept = rows[-1:], count + len(rows), kept + len(new)
            empty = np.empty((0, 3), np.int32)
            found[split] = np.memmap(path, np.int32, "r", shape=(kept, 3)) if kept else empty
            repeated[split] = count - kept
        self._do("DROP TABLE ids")  # and so what DuckDB keeps of it in memory
        if "train" in found and not len(found["train"]):
            raise DataError("no training triples in these files", "head, relation and tail are wanted on each line")
        return found, repeated

    def _divide(self, triples: IntTriples, sizes: Mapping[str, int], shares: Shares) -> dict[str, int]:
        self.progress("drawing the splits")
        splits = draw_splits(
            triples,
            sizes["entities"],
            sizes["relations"],
            shares.valid,
            shares.test,
            shares.seed,
            shares.allow_unseen,
        )
        counts = {}
        for split, number in _NUMBERS.items():
            counts[split] = int(np.count_nonzero(splits == number))
            chosen = (rows[splits[start : start + len(rows)] == number] for start, rows in _numbered(triples))
            write_triples(self.folder, split, counts[split], chosen)
        return counts

    def _problems(self) -> dict[str, int]:
        rows = self.database.sql(
            "SELECT problem, count(*) FROM stated WHERE problem NOT IN ('name', 'comment') GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        return {str(problem): int(count) for problem, count in rows}

    def _quarantine(self) -> None:
        """The lines that are no triples, with the reason, for whoever wants to see them."""
        self._do(
            "COPY (SELECT problem AS reason, head AS line FROM stated "
            "WHERE problem NOT IN ('name', 'comment', 'skipped') "
            f"ORDER BY ALL) TO '{_quoted(self.folder / 'quarantine.parquet')}' (FORMAT parquet)"
        )

    def _do(self, query: str) -> None:
        self.database.execute(query).fetchall()

    def _number(self, query: str) -> int:
        return int(self.database.sql(query).fetchall()[0][0])

    def _batches(self, query: str) -> Iterator[pa.RecordBatch]:
        yield from self.database.sql(query).to_arrow_reader(_BATCH)


_COLUMNS_OF = {"entities": ("head", "tail"), "relations": ("relation",)}


def _shown(batch: pa.RecordBatch) -> pa.Array:
    """What people are shown: a name that is stated, else an IRI's last part, else the label."""
    rows = zip(*(batch.column(name).to_pylist() for name in ("label", "iri", "name")), strict=True)
    return pa.array([name or (local_name(label) if iri else label) for label, iri, name in rows], pa.large_string())


def _numbered(triples: IntTriples) -> Iterator[tuple[int, IntTriples]]:
    for start, stop in pairwise([*range(0, len(triples), _BATCH), len(triples)]):
        yield start, triples[start:stop]


def _chunks(triples: IntTriples) -> Iterator[IntTriples]:
    for _, rows in _numbered(triples):
        yield rows


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


@contextmanager
def _database(scratch: Path, memory_gib: float) -> Iterator[Any]:
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtraError("importing out of core", "large") from error
    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": os.cpu_count() or 1,
        "memory_limit": f"{memory_gib}GiB",
        "temp_directory": str(scratch / "spill"),
        "preserve_insertion_order": False,
    }
    with duckdb.connect(str(scratch / "import.duckdb"), config=settings) as database:
        database.execute("SET enable_progress_bar = false").fetchall()  # or DuckDB draws one on standard output
        database.create_function("unescaped", unescaped, ["VARCHAR"], "VARCHAR")
        yield database
