"""How `capse data import --on-disk` grows: seconds, memory and disk for one, ten and a hundred million made-up triples.

    python -m benchmarks import-on-disk                    one and ten million
    python -m benchmarks.import_on_disk 1000000 100000000  a hundred million, recorded under a name of its own

With `make FOLDER` before the sizes, triples are written there and nothing is measured; with `from FOLDER` they are read
from there. A tenth as many entities as triples, with labels of 20 to 60 characters; half of the ends are drawn evenly,
half with a probability that falls like 1/rank. Memory is the process's own (RssAnon), mapped pages of files counted
apart; both, and the disk that is in use, are looked at four times a second.
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

SIZES = (1_000_000, 10_000_000)
RELATIONS, FILES = 500, 4
_CHUNK = 1_000_000
_CODE = "from capse.cli.data import app; app()"


def run(sizes: tuple[int, ...] = SIZES, made: Path | None = None) -> dict[str, Any]:
    found = {f"{size:,}": _import(size, made) for size in sizes}
    seconds = [each["processor seconds"] for each in found.values()]
    grown = {"growth": round(seconds[-1] / seconds[0], 2), "growth of triples": sizes[-1] / sizes[0]}
    return {"imports": found, "memory_gib allowed to DuckDB": 2.0, "cores": os.cpu_count(), **grown}


def _import(triples: int, made: Path | None = None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=made) as scratch:
        files = sorted(made.glob(f"{triples}-*.tsv")) if made else _make(Path(scratch), triples)
        text = sum(file.stat().st_size for file in files) / 2**30
        out = Path(scratch, "graph")
        measured = _measured(Path(scratch), "import", *map(str, files), "--on-disk", "--out", str(out))
        folder = sum(path.stat().st_size for path in out.iterdir()) / 2**30
    found = {**measured, "text gib": text, "folder gib": folder}
    print(f"{triples:,}: {found}", flush=True)
    return {key: round(value, 3) for key, value in found.items()}


def _make(folder: Path, triples: int) -> list[Path]:
    random = np.random.default_rng(0)
    entities = triples // 10
    lengths = random.integers(11, 52, entities)
    padding = "the quick brown fox jumps over the lazy dog once again"
    labels = pa.array([f"E{number:08d}{padding[:length]}" for number, length in enumerate(lengths.tolist())])
    relations = pa.array([f"http://example.org/property/P{number}" for number in range(RELATIONS)])
    options = pacsv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    schema = pa.schema([(column, pa.string()) for column in "hrt"])
    paths = [folder / f"{triples}-{number}.tsv" for number in range(FILES)]
    for number, path in enumerate(paths):
        rows = triples // FILES + (triples % FILES if number == 0 else 0)
        with pacsv.CSVWriter(str(path), schema, write_options=options) as writer:
            for start in range(0, rows, _CHUNK):
                count = min(_CHUNK, rows - start)
                ids = (
                    _skewed(random, entities, count),
                    _skewed(random, RELATIONS, count),
                    _skewed(random, entities, count),
                )
                columns = [texts.take(pa.array(i)) for texts, i in zip((labels, relations, labels), ids, strict=True)]
                writer.write_table(pa.table(columns, names=list("hrt")))
    return paths


def _skewed(random: np.random.Generator, size: int, count: int) -> np.typing.NDArray[np.int64]:
    skewed = np.minimum(size ** random.random(count), size - 1).astype(np.int64)
    return np.where(random.random(count) < 0.5, skewed, random.integers(size, size=count))


def _measured(scratch: Path, *arguments: str) -> dict[str, float]:
    """Seconds, and the peaks of memory and disk, of a command in a process of its own."""
    before, started = _disk(scratch), time.perf_counter()
    child = subprocess.Popen([sys.executable, "-c", _CODE, *arguments], cwd=Path(__file__).parents[1])
    peaks = {"own memory gib": 0.0, "mapped gib": 0.0, "disk gib": 0.0}
    while (ended := os.wait4(child.pid, os.WNOHANG))[0] == 0:
        own, mapped = memory(child.pid)
        now = {"own memory gib": own, "mapped gib": mapped, "disk gib": _disk(scratch) - before}
        peaks = {name: max(peak, now[name]) for name, peak in peaks.items()}
        time.sleep(0.25)
    child.returncode = os.waitstatus_to_exitcode(ended[1])
    if child.returncode:
        raise RuntimeError(f"{arguments} failed")
    processor = ended[2].ru_utime + ended[2].ru_stime
    return {"seconds": time.perf_counter() - started, "processor seconds": processor, **peaks}


def memory(process: int) -> tuple[float, float]:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0, 0.0
    kept = {
        name: int(rest.split()[0]) / 2**20 for name, _, rest in (line.partition(":") for line in lines) if "Rss" in name
    }
    return kept.get("RssAnon", 0.0), kept.get("RssFile", 0.0)


def _disk(folder: Path) -> float:
    """GiB in use in a folder."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(root, name)).st_blocks * 512
            except OSError:  # gone meanwhile
                continue
    return total / 2**30


def _main(arguments: list[str]) -> None:
    from benchmarks.__main__ import RESULTS
    from capse.runs.atomic import write_json
    from capse.runs.records import provenance

    made = Path(arguments[1]) if arguments[0] in ("make", "from") else None
    sizes = tuple(map(int, arguments[2:] if made else arguments))
    if arguments[0] == "make" and made:
        for size in sizes:
            _make(made, size)
        return
    name = f"import-on-disk-{sizes[-1] // 1_000_000}-million"
    origin = provenance() | {"command": f"python -m benchmarks.import_on_disk {' '.join(map(str, sizes))}"}
    write_json(RESULTS / "benchmarks" / f"{name}.json", {"benchmark": name, **run(sizes, made), **origin})


if __name__ == "__main__":
    _main(sys.argv[1:])
