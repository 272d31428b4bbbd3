"""How long `capse search ingest` takes, and how much memory, for a made-up log of ten million result rows.

    python -m benchmarks.search_ingest_speed [IMPRESSIONS]

A log of lists of ten is written as Parquet by one process and ingested by a second, DuckDB within it, so that the peak
of memory is that of the whole. What both write is deleted at the end.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.import_speed import measure

LENGTH = 10  # results in a list
USERS, QUERIES, DOCUMENTS = 50_000, 200_000, 200_000
EPOCH, DAYS = 1_704_067_200, 90
TARGET = {"seconds": 120.0, "peak_gib": 4.0}  # for ten million rows on two cores

_CHUNK = 100_000  # impressions written at once


def run(impressions: int = 1_000_000, seed: int = 0) -> dict[str, Any]:
    """Make and ingest a log; seconds and the peak memory (GiB) of the ingesting process, and seconds of each step."""
    code = "import sys; from benchmarks.search_ingest_speed import {0}; {0}(*sys.argv[1:])"
    with tempfile.TemporaryDirectory() as scratch:
        raw, out, steps = Path(scratch, "raw"), Path(scratch, "log"), Path(scratch, "steps.json")
        raw.mkdir()
        measure(code.format("make"), raw, impressions, seed)
        ingested = measure(code.format("ingest_log"), raw, out, steps)
        counts = json.loads((out / "log.json").read_text())["counts"]
        assert counts["impressions"] == impressions
        assert counts["results"]["kept"] == impressions * LENGTH
        return {
            "rows": impressions * LENGTH,
            "clicks": counts["clicks"]["kept"],
            "sessions": counts["sessions"],
            "file_mib": _mib(raw),
            "folder_mib": _mib(out),
            "ingest": ingested,
            "steps": json.loads(steps.read_text()),
            "target": TARGET,
        }


def make(folder: str, impressions: str, seed: str) -> None:
    """Write log.parquet and documents.parquet: no sessions, a click on every other list, most with a dwell."""
    random = np.random.default_rng(int(seed))
    count = int(impressions)
    with pq.ParquetWriter(Path(folder, "log.parquet"), _lists(random, 0, 1).schema, compression="zstd") as writer:
        for start in range(0, count, _CHUNK):
            writer.write_table(_lists(random, start, min(_CHUNK, count - start)))
    labels = _labels("doc-", np.arange(DOCUMENTS))
    titles = [f"All there is to know about {label}" for label in labels.to_pylist()]
    pq.write_table(pa.table({"document": labels, "title": titles}), Path(folder, "documents.parquet"))


def _lists(random: np.random.Generator, first: int, count: int) -> pa.Table:
    numbers = np.arange(first, first + count)
    time_of = (EPOCH + random.random(count) * DAYS * 86_400) * 1e6
    # Ten distinct documents: from a random one on, in steps of an odd number.
    step = 2 * random.integers(1, 1_000, count) + 1
    documents = (random.integers(DOCUMENTS, size=count)[:, None] + step[:, None] * np.arange(LENGTH)) % DOCUMENTS
    clicked = np.zeros((count, LENGTH), bool)
    clicked[np.arange(count), np.minimum(random.geometric(0.3, count), LENGTH) - 1] = random.random(count) < 0.5
    clicked = clicked.ravel()
    waited = random.integers(1, 60, count * LENGTH) * 1e6
    spread = {"impression": _labels("imp-", numbers), "time": time_of.astype("M8[us]")}
    spread["user"] = _labels("user-", random.integers(USERS, size=count))
    spread["query"] = _labels("how to find ", random.integers(QUERIES, size=count))
    owner = np.repeat(np.arange(count), LENGTH)
    return pa.table(
        {name: pa.array(values).take(pa.array(owner)) for name, values in spread.items()}
        | {
            "position": np.tile(np.arange(1, LENGTH + 1), count),
            "document": _labels("doc-", documents.ravel()),
            "clicked": clicked,
            "clicked_at": pa.array((time_of[owner] + waited).astype("M8[us]"), mask=~clicked),
            "dwell": pa.array(random.exponential(40.0, count * LENGTH), mask=~clicked | (waited < 10e6)),
        }
    )


def _labels(prefix: str, numbers: np.typing.NDArray[np.int64]) -> pa.Array:
    distinct, places = np.unique(numbers, return_inverse=True)
    return pa.array([f"{prefix}{number:07}" for number in distinct.tolist()]).take(pa.array(places.ravel()))


def ingest_log(source: str, out: str, steps: str) -> None:
    """Ingest, and write the seconds of each step."""
    from capse.search.ingest import ingest

    begun: list[tuple[str, float]] = []
    ingest(source, out, progress=lambda step: begun.append((step, time.perf_counter())))
    ends = [*(at for _, at in begun[1:]), time.perf_counter()]
    seconds = {step: round(end - at, 2) for (step, at), end in zip(begun, ends, strict=True)}
    Path(steps).write_text(json.dumps(seconds))


def _mib(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.iterdir()) / 2**20


def main() -> None:
    """Print the figures as a table."""
    figures = run(*map(int, sys.argv[1:]))
    found = figures["ingest"]
    sizes = figures["file_mib"], figures["folder_mib"]
    print(f"{figures['rows']:,} rows, {sizes[0]:,.0f} MiB of Parquet, {sizes[1]:,.0f} MiB ingested")
    print(f"{found['seconds']:.1f} s, {found['processor_seconds']:.1f} processor s, peak {found['peak_gib']:.2f} GiB")
    for step, seconds in figures["steps"].items():
        print(f"{step:<24}{seconds:>8.1f} s")


if __name__ == "__main__":
    main()
