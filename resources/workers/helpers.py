"""The helper programs of workers: the template process starts each for its worker, confined like the worker.

A worker sends a request for a program (resources/programs.py). Requests are not trusted, since they may come from a
hostile document: they may only name a program that the pool allows, and values that its command accepts. The program is
confined like the worker before it runs, can start nothing (`sandbox.become`), and has separate limits. It ends at its
worker's request, with its worker, and with this process. A worker has one program at a time.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resources.child_process import end_with_parent
from resources.programs import COMMANDS, MOST_REQUEST, environment
from resources.workers.sandbox import become, let_become, limit_memory

MOST_CPU_SECONDS = 120
"""Most seconds of processor time for one program. The kernel kills it two seconds later."""
_START_SECONDS = 30.0
_CODE = frozenset({"libreoffice", "rapidocr"})
"""Programs written in Python."""


@dataclass
class _Client:
    """A worker: the socket of its requests, its limits, and its running program."""

    socket: socket.socket
    limits: Mapping[str, Any]
    received: bytes = b""
    program: int = 0
    alive: int = -1
    """The reading end of a pipe that closes when the program ends."""


class Helpers:
    """The helper programs of all workers of this process."""

    def __init__(self) -> None:
        self._clients: dict[int, _Client] = {}

    def add(self, worker: int, asking: socket.socket, limits: Mapping[str, Any]) -> None:
        """Serve a new worker over this process's end of its socket. `limits` has its folder, its memory and its
        programs."""
        asking.setblocking(False)
        self._clients[worker] = _Client(asking, limits)

    def end(self, worker: int) -> None:
        """Kill the program of an ended worker, and delete all data of both."""
        client = self._clients.pop(worker, None)
        if client is not None:
            self._finish(client)
            client.socket.close()

    def forget(self) -> None:
        """Close, in a new process, the descriptors of other workers."""
        for client in self._clients.values():
            client.socket.close()
            if client.alive >= 0:
                os.close(client.alive)
        self._clients.clear()

    def attend(self, control: socket.socket) -> None:
        """Serve the workers until `control` has data to read."""
        while True:
            waiting = select.poll()
            waiting.register(control, select.POLLIN)
            asking = {client.socket.fileno(): worker for worker, client in self._clients.items()}
            running = {client.alive: worker for worker, client in self._clients.items() if client.program}
            for descriptor in (*asking, *running):
                waiting.register(descriptor, select.POLLIN)
            ready = {descriptor for descriptor, _ in waiting.poll()}
            for descriptor in ready & running.keys():
                self._end(self._clients[running[descriptor]])
            for descriptor in ready & asking.keys():
                try:
                    self._read_requests(self._clients[asking[descriptor]])
                except Exception:  # a document may make its worker send anything
                    self.end(asking[descriptor])
            if control.fileno() in ready:
                return

    # ------------------------------------------------------------ a request

    def _read_requests(self, client: _Client) -> None:
        """Read the pending requests. Raise an error if the worker is gone, or sends an invalid request."""
        data = client.socket.recv(MOST_REQUEST)
        client.received += data
        if not data or len(client.received) > MOST_REQUEST:
            raise ValueError("no request")
        *lines, client.received = client.received.split(b"\n")
        for line in lines:  # a request and its stop may come together
            self._take(client, json.loads(line))

    def _take(self, client: _Client, request: Any) -> None:
        if "stop" in request:
            if client.program:
                self._end(client)
        elif client.program:
            raise ValueError("a second program")
        else:
            self._start(client, request["program"], request["values"], request["folder"])

    def _start(self, client: _Client, name: str, values: Mapping[str, Any], folder: str) -> None:
        place = client.limits["programs"].get(name)
        if place is None:
            self._answer(client, {"reason": f"{name} is not installed"})
            return
        command = COMMANDS[name](place["path"], values)
        own, template = Path(client.limits["folder"]), os.getpid()
        if Path(folder).parent != own:
            raise ValueError("a folder of others")
        ours, its = socket.socketpair()
        client.alive, held = os.pipe()
        try:
            client.program = os.fork()
        except OSError as error:  # no more processes
            for descriptor in (client.alive, held):
                os.close(descriptor)
            client.alive = -1
            self._answer(client, {"reason": f"{name} cannot be started: {error.strerror}"})
            return
        if client.program == 0:
            try:
                end_with_parent()
                if os.getppid() == template:
                    os.set_inheritable(held, True)
                    _close_all_but(held, its.fileno())
                    _limit(client.limits["memory_mb"])
                    become(
                        command, place["reads"], own, Path(folder), environment(name, Path(folder)), its, name in _CODE
                    )
            finally:
                os._exit(127)
        os.close(held)
        its.close()
        with ours:
            _let_start(ours)

    def _end(self, client: _Client) -> None:
        self._answer(client, {"status": self._finish(client)})

    def _finish(self, client: _Client) -> int:
        """Kill the program of a client if it is still running, and return its exit status."""
        if not client.program:
            return 0
        with suppress(ProcessLookupError):
            os.kill(client.program, signal.SIGKILL)
        _, status = os.waitpid(client.program, 0)
        os.close(client.alive)
        client.program, client.alive = 0, -1
        return os.waitstatus_to_exitcode(status)

    def _answer(self, client: _Client, value: Mapping[str, Any]) -> None:
        with suppress(OSError):  # the worker is gone, or does not read: its pool ends it
            client.socket.send(json.dumps(value).encode() + b"\n")


def _let_start(ours: socket.socket) -> None:
    """Answer the single question whether a process may become its program. If this fails, the start fails too."""
    ours.settimeout(_START_SECONDS)
    with suppress(OSError):
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        try:
            for listener in descriptors:
                let_become(listener, _START_SECONDS)
        finally:
            for listener in descriptors:
                os.close(listener)


def _close_all_but(*kept: int) -> None:
    for name in os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"):
        if int(name) > 2 and int(name) not in kept:
            with suppress(OSError):
                os.close(int(name))


def _limit(memory_mb: int) -> None:
    limit_memory(memory_mb)
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, MOST_CPU_SECONDS + 2))
