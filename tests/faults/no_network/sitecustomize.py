"""Loaded by every Python process that has this folder in PYTHONPATH: refuses to dial anything that is neither a
socket file nor this machine, and writes down that it was tried, in the file `dialled` beside it. That is opened at
once: later the process may be confined."""

import os
import socket
import sys

LOG = os.open(os.path.join(os.path.dirname(__file__), "dialled"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
HERE = ("127.", "::1", "localhost")
DIALS = {
    "socket.connect": 1,
    "socket.sendto": 1,
    "socket.sendmsg": 1,
    "socket.getaddrinfo": 0,
    "socket.gethostbyname": 0,
}


def _outside(event, arguments):
    """What an event dials, None where that is allowed."""
    told = arguments[DIALS[event]] if DIALS[event] < len(arguments) else None
    if DIALS[event] and (told is None or arguments[0].family == getattr(socket, "AF_UNIX", None)):
        return None
    host = str(told[0] if isinstance(told, tuple) else told)
    return None if host == "None" or host.startswith(HERE) else host


def _guard(event, arguments):
    if event in DIALS and (host := _outside(event, arguments)) is not None:
        os.write(LOG, f"{event} {host} by {' '.join(sys.argv)[:200]}\n".encode())
        raise PermissionError(f"no network here: {host}")


sys.addaudithook(_guard)
