"""A port for a program that takes no socket and does not say which port it was given."""

from __future__ import annotations

import os
import socket

_FIRST, _MOST = 20_000, 12_000
"""Ports below those that the system gives to whoever asks for any, so that nobody is given one between the choice of it
and its use. Each process of the tests begins at a place of its own."""
_next = os.getpid() * 61


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nobody listens, and which no other test of this process gets."""
    global _next
    while True:
        _next += 1
        port = _FIRST + _next % _MOST
        with socket.socket() as asked:
            asked.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                asked.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
