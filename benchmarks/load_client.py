"""A client that puts a bounded load on a service of this machine, in a process of its own.

    echo PLAN | python -m benchmarks.load_client        PLAN and the answer are JSON

A plan has a ``port``, a ``path``, ``bodies`` to send in turn, and ``seconds``. With ``connections`` as many
clients each send a request when the last one is answered (closed loop). With ``rate`` requests begin at fixed times,
answered or not (open loop), and a latency counts from when a request should have begun: a service that stalls cannot
hide it by keeping the client from asking.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

MOST_REQUESTS = 200_000
CONNECTIONS = 64  # of the open loop


class Connection:
    """One connection to a service of this machine that is kept."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def send(self, path: str, body: bytes = b"", method: str = "POST") -> tuple[int, bytes]:
        """Send one request; the status and the body of its answer."""
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        assert self.reader is not None
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        self.writer.write(head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return int(answer[9:12]), await self.reader.readexactly(length)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


async def closed_loop(plan: dict[str, Any], bodies: list[bytes]) -> list[tuple[float, int]]:
    until = time.perf_counter() + plan["seconds"]
    measured: list[tuple[float, int]] = []

    async def client(number: int) -> None:
        connection, turn = Connection(plan["port"]), number
        while time.perf_counter() < until and len(measured) < MOST_REQUESTS:
            started = time.perf_counter()
            status, _ = await connection.send(plan["path"], bodies[turn % len(bodies)])
            measured.append((time.perf_counter() - started, status))
            turn += plan["connections"]

    await asyncio.gather(*(client(number) for number in range(plan["connections"])))
    return measured


async def open_loop(plan: dict[str, Any], bodies: list[bytes]) -> list[tuple[float, int]]:
    idle: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        idle.put_nowait(Connection(plan["port"]))
    count = min(MOST_REQUESTS, int(plan["rate"] * plan["seconds"]))
    begin = time.perf_counter() + 0.2
    measured: list[tuple[float, int]] = []

    async def one(number: int) -> None:
        due = begin + number / plan["rate"]
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        connection = await idle.get()
        status, _ = await connection.send(plan["path"], bodies[number % len(bodies)])
        measured.append((time.perf_counter() - due, status))
        idle.put_nowait(connection)

    await asyncio.gather(*(one(number) for number in range(count)))
    return measured


def main() -> None:
    plan = json.load(sys.stdin)
    bodies = [json.dumps(body).encode() for body in plan["bodies"]]
    loop = open_loop if "rate" in plan else closed_loop
    started = time.perf_counter()
    measured = asyncio.run(loop(plan, bodies))
    json.dump({"seconds": time.perf_counter() - started, "measured": measured}, sys.stdout)


if __name__ == "__main__":
    main()
