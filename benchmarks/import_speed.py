"""How long `capse data import` takes, and how much memory, for ten million made-up triples.

    python benchmarks/import_speed.py [TRIPLES]

The graph is made by one process, imported by a second and loaded by a third, so that each has its own peak of memory.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

ENTITIES, RELATIONS = 1_000_000, 500
_BASE36 = np.frombuffer(b"0123456789abcdefghijklmnopqrstuvwxyz", np.uint8)
_CHUNK = 1_000_000


def run(triples: int = 10_000_000, seed: int = 0) -> dict[str, Any]:
    """Import, split and load ``triples`` lines; seconds and the peak memory (GiB) of each process."""
    with tempfile.TemporaryDirectory() as scratch:
        source, folder = Path(scratch, "triples.tsv"), Path(scratch, "graph")
        maker = "import sys; from benchmarks.import_speed import make; make(sys.argv[1], *map(int, sys.argv[2:]))"
        measure(maker, source, triples, seed)
        imported = measure(
            "from capse.cli.data import app; app()", "import", source, "--out", folder, "--valid", 0.1, "--test", 0.1
        )
        trimmed = measure(
            "from capse.cli.data import app; app()", "import", source, "--out", Path(scratch, "trimmed"), "--trim"
        )
        loaded = measure("import sys; from capse.graph.dataset import load_graph; load_graph(sys.argv[1])", folder)
        return {
            "triples": triples,
            "file_mib": source.stat().st_size / 2**20,
            "folder_mib": sum(path.stat().st_size for path in folder.iterdir()) / 2**20,
            "import": imported,
            "import_line_by_line": trimmed,  # as with --trim, --columns, --encoding or --comment
            "load": loaded,
        }


def make(path: str, triples: int, seed: int) -> None:
    """Write triples with Zipf-like heads, relations and tails, labelled as in Freebase ('/m/0abc12')."""
    random = np.random.default_rng(seed)
    entities = pa.array(_labels("/m/0", random.permutation(36**5)[:ENTITIES]))
    relations = pa.array(_labels("/domain/type/property_", np.arange(RELATIONS)))
    with pacsv.CSVWriter(
        path,
        pa.schema([(column, pa.string()) for column in "hrt"]),
        write_options=pacsv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none"),
    ) as writer:
        for start in range(0, triples, _CHUNK):
            rows = min(_CHUNK, triples - start)
            heads, relation_ids, tails = (
                labels.take(pa.array(_zipf_like(random, len(labels), rows)))
                for labels in (entities, relations, entities)
            )
            writer.write_table(pa.table([heads, relation_ids, tails], names=list("hrt")))


def _zipf_like(random: np.random.Generator, size: int, count: int) -> np.typing.NDArray[np.int64]:
    """Ids of which half are drawn evenly and half with a probability that falls like 1/rank."""
    skewed = np.minimum(size ** random.random(count), size - 1).astype(np.int64)
    return np.where(random.random(count) < 0.5, skewed, random.integers(size, size=count))


def _labels(prefix: str, numbers: np.typing.NDArray[np.int64]) -> list[str]:
    digits = _BASE36[numbers[:, None] // 36 ** np.arange(4, -1, -1) % 36]
    return [prefix + label.decode() for label in np.ascontiguousarray(digits).view("S5").ravel().tolist()]


def measure(code: str, *arguments: object) -> dict[str, float]:
    """Run Python code in a process of its own; its seconds and its peak of memory."""
    start = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], cwd=Path(__file__).parents[1])
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{code} failed")
    unit = 2**30 if sys.platform == "darwin" else 2**20  # ru_maxrss counts bytes there, KiB elsewhere
    return {
        "seconds": seconds,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "peak_gib": usage.ru_maxrss / unit,
    }


def main() -> None:
    """Print the figures as a table."""
    figures = run(*map(int, sys.argv[1:]))
    text, folder = figures["file_mib"], figures["folder_mib"]
    print(f"{figures['triples']:,} triples, {text:,.0f} MiB of text, {folder:,.0f} MiB imported")
    print(f"{'':<20}{'seconds':>10}{'processor s':>13}{'peak GiB':>10}")
    for step in ("import", "import_line_by_line", "load"):
        found = figures[step]
        print(f"{step:<20}{found['seconds']:>10.1f}{found['processor_seconds']:>13.1f}{found['peak_gib']:>10.2f}")


if __name__ == "__main__":
    main()
