"""Measure the size of the code: lines by package, the most complex functions, and what a triple and an impression pass.

    PYTHONPATH=src python tools/measure_code.py [SRC]

A function is passed if it is called, a module if one of its functions is; compiled loops and what runs on import do not
count. The calls are those of the command line, so that two commits can be compared whatever their names are: for a
triple `capse train` (CapsE, one epoch of the embedded graph), `evaluate` and `predict`; for an impression `capse search
train`, `evaluate` and `rerank`, on a simulated log.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from capse.cli import main as capse

SMALL = ["model.filters=4", "training.epochs=1", "training.device=cpu"]


def lines_by_package(source: Path) -> Counter[str]:
    lines: Counter[str] = Counter()
    for path in source.rglob("*.py"):
        lines["/".join(path.relative_to(source).parts[:-1][:2])] += path.read_text(encoding="utf-8").count("\n")
    return lines


def complexities(source: Path, at_least: int = 10) -> list[tuple[int, str]]:
    """The cyclomatic complexity and the place of each function above the bound, the worst first."""
    limits = ["--isolated", "--select", "C901", "--config", f"lint.mccabe.max-complexity={at_least - 1}"]
    found = subprocess.run(
        [sys.executable, "-m", "ruff", "check", *limits, "--output-format", "json", source], capture_output=True
    )
    rows = []
    for one in json.loads(found.stdout):
        name, complexity = one["message"].split("`")[1], int(one["message"].split("(")[1].split(" ")[0])
        rows.append((complexity, f"{Path(one['filename']).relative_to(source.resolve())}:{name}"))
    return sorted(rows, reverse=True)


@contextlib.contextmanager
def passed(source: Path) -> Iterator[set[CodeType]]:
    """Collects the named functions below ``source`` that are called."""
    codes: set[CodeType] = set()
    prefix = str(source.resolve())

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        is_function = code.co_flags & CO_OPTIMIZED and not code.co_name.startswith("<")  # not the body of a class
        if event == "call" and code.co_filename.startswith(prefix) and is_function:
            codes.add(code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield codes
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def call(*arguments: object, settings: list[str] | None = None) -> None:
    options = [part for one in settings or [] for part in ("--set", one)]
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        try:
            capse([*map(str, arguments), *options])
        except SystemExit as end:
            status = end.code
    if status:
        sys.exit(errors.getvalue())


def triple(source: Path, folder: Path) -> set[CodeType]:
    settings = ["model.dim=8", "model.capsule_dim=2", *SMALL]
    with passed(source) as codes:
        call("train", "--data", "countries", "--model", "capse", "--out", folder / "run", settings=settings)
        call("evaluate", folder / "run", "--json")
        call("predict", folder / "run", "--relation", "borders", "--head", "Kenya", "--json")
    return codes


def impression(source: Path, folder: Path) -> set[CodeType]:
    sizes = {"users": 12, "topics": 6, "documents": 60, "impressions": 300, "days": 30}
    call("search", "simulate", "--out", folder / "raw", settings=[f"simulation.{key}={n}" for key, n in sizes.items()])
    call("search", "ingest", folder / "raw", "--out", folder / "log")
    shown = json.loads((folder / "raw" / "log.jsonl").read_text().splitlines()[0])
    with passed(source) as codes:
        out, settings = folder / "search", ["vectors.dimensions=8", *SMALL]
        call("search", "train", "--method", "capse", "--log", folder / "log", "--out", out, settings=settings)
        call("search", "evaluate", "--method", "capse", "--log", folder / "log", "--run", out)
        documents = ",".join(str(one) for one in shown["results"])
        call("search", "rerank", out, "--query", shown["query"], "--user", shown["user"], "--documents", documents)
    return codes


def main() -> None:
    source = Path(sys.argv[1] if len(sys.argv) > 1 else "src")
    for package, lines in sorted(lines_by_package(source).items()):
        print(f"{lines:7,}  {package}")
    print(f"{sum(lines_by_package(source).values()):7,}  in all")
    for complexity, place in complexities(source)[:5]:
        print(f"complexity {complexity}: {place}")
    with tempfile.TemporaryDirectory() as folder:
        for name, journey in (("a triple", triple), ("an impression", impression)):
            codes = journey(source, Path(folder))
            print(f"{name} passes {len({code.co_filename for code in codes})} modules, {len(codes)} functions")


if __name__ == "__main__":
    main()
