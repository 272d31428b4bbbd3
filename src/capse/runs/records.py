"""Where a figure comes from: command, commit, machine and versions, stored beside every recorded result."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_info

import capse

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "lightgbm", "bm25s")


def provenance() -> dict[str, Any]:
    """What a reader needs to repeat a measurement."""
    return {
        "command": command(),
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """What the last digits of a figure may depend on: libraries, and NumPy's BLAS with its kernels for this CPU."""
    found = {"capse": capse.__version__, "python": platform.python_version(), "torch": torch.__version__}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    of_numpy = [one for one in threadpool_info() if one["user_api"] == "blas" and "numpy" in one["filepath"]]
    if of_numpy:
        found["blas"] = " ".join(str(of_numpy[0][key]) for key in ("internal_api", "version", "architecture"))
    return found


def command() -> str:
    """The command line of this process, without the folders that Python and the program lie in."""
    program = Path(sys.argv[0])
    name = "capse" if program.parent.name == "capse" and program.stem == "__main__" else program.name
    return shlex.join([name, *sys.argv[1:]])


def commit() -> str | None:
    """The commit of the source tree this package runs from, with '+' where files were changed since.

    A copy of the tree does not know its history; ``CAPSE_COMMIT`` says what it is a copy of.
    """
    if named := os.environ.get("CAPSE_COMMIT"):
        return named
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def machine() -> dict[str, Any]:
    """Processor, cores, memory and GPU."""
    facts: dict[str, Any] = {"processor": _processor(), "cores": os.cpu_count(), "threads": torch.get_num_threads()}
    if torch.cuda.is_available():
        facts["gpu"] = torch.cuda.get_device_name()
    return facts


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
