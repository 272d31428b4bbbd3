"""Processes that work together, started as torchrun starts them, without the seconds that it takes itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from weakref import WeakKeyDictionary

from torch.distributed import TCPStore  # type: ignore[attr-defined]

ROOT = Path(__file__).parents[1]
# Where processes meet: torchrun holds the port in the same way, so that nobody else can take it before they come.
_MEETINGS: WeakKeyDictionary[subprocess.Popen[str], TCPStore] = WeakKeyDictionary()


def start_together(count: int, *arguments: object, **environment: str) -> list[subprocess.Popen[str]]:
    """``python ARGUMENTS`` as each of so many processes."""
    meeting = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    common = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1"}
    common |= {"MASTER_PORT": str(meeting.port), "TORCHELASTIC_USE_AGENT_STORE": "True", "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            cwd=ROOT,
            env={**os.environ, **common, **environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    _MEETINGS.update(dict.fromkeys(processes, meeting))
    return processes


def ends_of(processes: list[subprocess.Popen[str]], seconds: float = 300) -> list[tuple[int, str, str]]:
    """The exit status, the output and the errors of each; none is left alive."""
    try:
        said = [process.communicate(timeout=seconds) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, *lines) for process, lines in zip(processes, said, strict=True)]
