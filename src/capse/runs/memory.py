"""How much memory there is, said before it runs out: a system that lends more than it has ends the process later."""

from __future__ import annotations

import resource
from pathlib import Path

from capse.errors import SettingsError

_CGROUP = Path("/sys/fs/cgroup")


def check_memory(what: str, needed: int, remedy: str) -> None:
    """Refuse ``what`` needs more bytes than there are; where nobody knows how many there are, nothing is refused."""
    there = available()
    if there is not None and needed > there:
        raise SettingsError(f"{what} takes at least {_size(needed)} of memory, and {_size(there)} are free", remedy)


def available() -> int | None:
    """The bytes that this process can still take, as the machine, its container and ``ulimit -v`` allow."""
    of_machine = _fields(Path("/proc/meminfo")).get("MemAvailable")
    limits = [None if of_machine is None else 1024 * of_machine, _left_in_container()]
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY:
        limits.append(most - 1024 * _fields(Path("/proc/self/status")).get("VmSize", 0))
    return min((max(limit, 0) for limit in limits if limit is not None), default=None)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of Python's, NumPy's, Arrow's or torch's says that memory ran out."""
    words = ("can't allocate memory", "out of memory", "Storage size calculation overflowed")
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)


def _left_in_container() -> int | None:
    try:
        return int((_CGROUP / "memory.max").read_text()) - int((_CGROUP / "memory.current").read_text())
    except (OSError, ValueError):  # none, or no limit
        return None


def _fields(path: Path) -> dict[str, int]:
    """The numbers in a file of lines such as 'MemAvailable: 1234 kB'."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {parts[0].rstrip(":"): int(parts[1]) for parts in lines if len(parts) > 1 and parts[1].isdigit()}


def _size(count: float) -> str:
    """
    >>> _size(3.2e12), _size(123)
    ('2.9 TiB', '0.0 MiB')
    """
    units = ("MiB", "GiB", "TiB")
    step = next((step for step in range(len(units)) if count < 1024 ** (step + 3)), len(units) - 1)
    return f"{count / 1024 ** (step + 2):,.1f} {units[step]}"
