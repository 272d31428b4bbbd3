"""Servers in processes of their own: `capse serve` as its clients and the system see it, and PostgreSQL."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONNECTED, LISTENING = "01", "0A"  # as Linux writes the states of a connection

_ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")


@dataclass(frozen=True)
class Service:
    """Where it listens and which process it is: its only one, or the parent of its workers."""

    port: int
    process: int

    def workers(self) -> list[int]:
        """The process ids of the workers that live."""
        tasks = Path(f"/proc/{self.process}/task")
        children = [pid for task in tasks.iterdir() for pid in (task / "children").read_text().split()]
        return [int(pid) for pid in children if "spawn_main" in _command(pid)]

    def answering(self) -> list[int]:
        """Those that clients are connected to."""
        held = {inode for state, _, inode in sockets(self.port) if state == CONNECTED}
        return [pid for pid in self.workers() if held & held_by([pid])]

    def core_seconds(self) -> float:
        """What all processes have spent of the cores so far."""
        spent = 0
        for pid in (self.process, *self.workers()):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            spent += int(fields[11]) + int(fields[12])
        return spent / os.sysconf("SC_CLK_TCK")

    def resident(self) -> int:
        """Bytes of memory that all processes have."""
        status = "".join(Path(f"/proc/{pid}/status").read_text() for pid in (self.process, *self.workers()))
        return 1024 * sum(map(int, re.findall(r"VmRSS:\s+(\d+) kB", status)))


@contextmanager
def served(
    run: Path, folder: Path, *, database: str | None = None, workers: int = 1, options: Sequence[str] = ()
) -> Iterator[Service]:
    """A service; its database is a file in ``folder`` if none is given, where its log is, too."""
    command = [sys.executable, "-m", "capse", "serve", str(run), "--port", "0", "--log-level", "warning"]
    command += ["--db", database or str(folder / f"{run.name}.db"), "--workers", str(workers), *options]
    with (
        (folder / "service.log").open("ab") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=Path(__file__).parents[1]
        ) as process,
    ):
        try:
            assert process.stdout is not None
            address = _ADDRESS.search(process.stdout.readline())
            assert address is not None, (folder / "service.log").read_text()
            yield Service(int(address[1]), process.pid)
        finally:
            process.terminate()
            process.wait(60)


def sockets(port: int) -> Iterator[tuple[str, bool, str]]:
    """Of a server's sockets on this port: the state, whether all that came has been read, and the inode."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, queues, *_, inode = line.split()[:10]
        if int(local.rpartition(":")[2], 16) == port:
            yield state, inode != "0" and int(queues.rpartition(":")[2], 16) == 0, inode


def held_by(processes: list[int]) -> set[str]:
    """The inodes of the sockets that these processes have open."""
    links = [_target(entry) for pid in processes for entry in _entries(Path(f"/proc/{pid}/fd"))]
    return {link.removeprefix("socket:[").removesuffix("]") for link in links if link.startswith("socket:")}


class Postgres:
    """A server of our own, in a temporary folder, on a socket there, run by a user without privileges."""

    def __init__(self, binaries: Path) -> None:
        self.binaries = binaries
        self.folder = Path(tempfile.mkdtemp(prefix="capse-postgres-"))
        self.account: Any = {}
        if os.geteuid() == 0:  # the server refuses to be run by root
            self.account = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            shutil.chown(self.folder, "nobody", "nogroup")
        self.call("initdb", "-D", "data", "-U", "capse", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        self.schemas = 0

    @staticmethod
    def installed() -> Path | None:
        """Where its programs lie, if they are there."""
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        return found[-1] if found else None

    def call(self, program: str, *arguments: str) -> None:
        output = self.folder / "output"
        with output.open("ab") as log:  # a pipe would stay open in the server
            command = [str(self.binaries / program), *arguments]
            done = subprocess.run(command, cwd=self.folder, stdout=log, stderr=log, **self.account)
        assert done.returncode == 0, output.read_text()

    def start(self) -> None:
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder}"
        self.call("pg_ctl", "start", "-w", "-D", "data", "-l", "log", "-o", options)

    def stop(self) -> None:
        self.call("pg_ctl", "stop", "-w", "-D", "data", "-m", "fast")

    def new_database(self) -> str:
        """As good as one: a schema of its own, which costs nothing to make."""
        import psycopg

        self.schemas += 1
        url = f"postgresql://capse@/postgres?host={self.folder}"
        with psycopg.connect(url) as connection:
            connection.execute(f"CREATE SCHEMA test{self.schemas}")
        return f"{url}&options=-csearch_path%3Dtest{self.schemas}"


@contextmanager
def postgres(binaries: Path) -> Iterator[Postgres]:
    """A server that is gone afterwards."""
    server = Postgres(binaries)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.folder)


def _command(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # the process ended
        return []


def _target(entry: Path) -> str:
    try:
        return os.readlink(entry)
    except OSError:  # closed since it was listed
        return ""
