"""A port that nobody else is given before a program takes it."""

from __future__ import annotations

import socket


def hold_port() -> tuple[socket.socket, int]:
    """A socket that holds a port of 127.0.0.1, and the port: whoever sets SO_REUSEADDR may listen on it meanwhile."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))  # it never listens
    return held, held.getsockname()[1]
