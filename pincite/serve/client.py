"""The client for the server that runs on a state, whose models are already loaded.

<state>/serve.json       {"socket", "url", "version", "settings"}: of the running server

Only the state's owner may read the file, and only a server of the same version and settings is asked. Nothing heavy is
imported here.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pincite import __version__
from pipelines.errors import PinciteError
from pipelines.fingerprint import fingerprint

if TYPE_CHECKING:
    from resources.settings_file import Project

FILE = "serve.json"
SECONDS = 600.0
"""Seconds to wait for an answer, since a language model may take long. The server itself ends a search sooner."""
_CREDENTIALS = struct.Struct("3i")
"""Layout of SO_PEERCRED: process, user and group at the other end of a Unix socket."""


class _SocketConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("pincite", timeout=SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(SECONDS)
        self.sock.connect(self._path)
        # A folder for temporary files may be emptied, and another user may then make the same one.
        told = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(told)[1] not in (os.geteuid(), 0):
            raise ConnectionRefusedError("another user's process answers")


class AnsweredError(PinciteError):
    """The error that the server sent instead of a result."""

    def __init__(self, message: str, code: str, exit_code: int) -> None:
        super().__init__(message, code)
        self.exit_code = exit_code


def identity(project: Project) -> str:
    """Return an identity that is equal if the server would answer like the command."""
    settings = project.settings.model_dump_json(exclude={"serve"})
    return fingerprint(__version__, str(project.state), str(project.folder), settings)


def running_server(project: Project) -> dict[str, str] | None:
    """Return the socket and address of the server that runs on a state with these settings, according to its file;
    return None if no server does."""
    try:
        told = json.loads((project.state / FILE).read_text(encoding="utf-8"))
        same = told["settings"] == identity(project) and Path(told["socket"]).is_socket()
        return {name: str(told[name]) for name in ("socket", "url")} if same else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def ask_server(project: Project, command: str, text: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the JSON of `query` or `ask` from the running server; return None if there is no server, or it has just
    ended.

    Raises the PinciteError of the command.
    """
    server = running_server(project)
    if server is None:
        return None
    connection = _SocketConnection(server["socket"])
    try:
        body = json.dumps({**options, "text": text})
        connection.request("POST", f"/owner/{command}", body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        status, found = reply.status, json.loads(reply.read())
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    if not isinstance(found, dict) or (status != 200 and "exit_code" not in found.get("error", {})):
        return None
    if "error" in found:
        error = found["error"]
        raise AnsweredError(error["message"], error["code"], error["exit_code"])
    return found
