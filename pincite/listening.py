"""The behaviour that all servers of pincite share: they listen before they announce it, have a private folder, and end
on request."""

from __future__ import annotations

import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.errors import UsageError

ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses that mean all addresses of the machine, each with one that a client can reach."""
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def listener(host: str, port: int) -> socket.socket:
    """Return a listening socket, whose address no other process can take; port 0 picks a free port.

    Raises UsageError.
    """
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(128)
    except (OSError, OverflowError) as error:
        made.close()
        reason = error.strerror if isinstance(error, OSError) else "ports go up to 65535"
        raise UsageError(
            f"{host} port {port} cannot be listened on ({reason}); choose another --port or --host"
        ) from None
    return made


def address_of(host: str, listening: socket.socket) -> str:
    """Return the address of a listening socket as a URL for a browser."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"


@contextmanager
def private_folder(prefix: str) -> Iterator[Path]:
    """Yield a private folder with a short path, since a socket's path is limited to 107 bytes and the path of a state
    folder may be longer."""
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt for every signal that asks the process to end, even an ignored one (`... &`)."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
