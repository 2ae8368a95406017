"""What every server of ours does: listen before it says so, hold a private folder, end when it is asked to."""

from __future__ import annotations

import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.errors import UsageError

ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses that stand for all of the machine's, with one of them."""
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def listener(host: str, port: int) -> socket.socket:
    """A socket that is listened on before its address is said, so that nobody else is; port 0 is any free one.

    Raises UsageError."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(128)
    except (OSError, OverflowError) as error:
        made.close()
        reason = error.strerror if isinstance(error, OSError) else "ports go up to 65535"
        raise UsageError(f"cannot listen on {host} port {port} ({reason}); choose another --port or --host") from None
    return made


def address_of(host: str, listening: socket.socket) -> str:
    """The address of a listener, as a browser takes it."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"


@contextmanager
def private_folder(prefix: str) -> Iterator[Path]:
    """A short one, ours alone: a socket's path has at most 107 bytes, and a state's may have more."""
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def interruptible() -> Iterator[None]:
    """Every signal that asks for an end raises KeyboardInterrupt, also where it was ignored (`... &`)."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
