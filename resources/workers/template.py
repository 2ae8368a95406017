"""The process that workers are forked from, as their pool holds it (resources/workers/main.py)."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from resources.child_process import child_command, child_environment
from resources.workers.main import LENGTH, said

MODULE = "resources.workers.main"
START_SECONDS = 60.0
"""For a process to start, and for each model that it loads."""
LOADING_SECONDS = 4 * START_SECONDS
"""For one that loads all models before it says anything."""
_FIRST_WAIT, _LONGEST_WAIT = 0.0005, 0.05


class Template:
    """Starts with its first worker; ends with `close`, or with this process."""

    def __init__(self, folder: Path) -> None:
        own, its = socket.socketpair()
        with its:
            self.process = subprocess.Popen(
                child_command(MODULE),
                stdin=its.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env=child_environment(),
            )
        self._control, self._numbers = own, count()
        self._answers: dict[int, Any] = {}
        self._lost = False
        self.served = False
        """Whether a worker of it has started."""
        own.settimeout(LOADING_SECONDS)

    @property
    def alive(self) -> bool:
        return not self._lost and self.process.poll() is None

    def fork(self, limits: Mapping[str, Any]) -> Forked:
        """A new worker, told these limits. Whether it started is known when it says so, or is at its end."""
        taken, given = os.pipe(), os.pipe()
        number = self._send(limits, [taken[0], given[1]])
        for descriptor in (taken[0], given[1]):
            os.close(descriptor)
        return Forked(self, number, taken[1], given[0])

    def status(self, pid: int) -> int | None:
        """What one of its workers ended with; None while it has not."""
        status: int | None = self.answer(self._send({"pid": pid}))
        return status

    def _send(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> int:
        number = next(self._numbers)
        with suppress(OSError):  # it is gone: its workers are at their end, and are not waited for
            socket.send_fds(self._control, [said({**request, "id": number})], descriptors)
        return number

    def answer(self, number: int) -> Any:
        """To a request; that of SIGKILL where the process is gone, which took its workers with it."""
        while number not in self._answers:
            try:
                (length,) = LENGTH.unpack(self._control.recv(LENGTH.size, socket.MSG_WAITALL))
                told, value = json.loads(self._control.recv(length, socket.MSG_WAITALL))
            except (OSError, struct.error):
                self._lost = True
                return -signal.SIGKILL
            self._answers[told] = value
        return self._answers.pop(number)

    def close(self) -> None:
        """Its workers have been stopped before."""
        self._control.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Forked:
    """A worker, with the methods of subprocess.Popen that are asked for; `input` and `output` are descriptors."""

    def __init__(self, template: Template, number: int, taken: int, given: int) -> None:
        self._template, self._number = template, number
        self.input, self.output = taken, given
        self._pid: int | None = None
        self._status: int | None = None

    @property
    def pid(self) -> int:
        """Of a worker that was forked; waits until it is. Not positive where it never was."""
        if self._pid is None:
            self._pid = int(self._template.answer(self._number))
        return self._pid

    def poll(self) -> int | None:
        if self._status is None:
            self._status = self._template.status(self.pid) if self.pid > 0 else self.pid
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        until, pause = None if timeout is None else time.monotonic() + timeout, _FIRST_WAIT
        while (status := self.poll()) is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired(MODULE, timeout or 0.0)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_WAIT)
        return status

    def kill(self) -> None:
        # A number is not given to another process before the template has asked for its status.
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """What it is told and what it says is at its end."""
        for descriptor in (self.input, self.output):
            with suppress(OSError):
                os.close(descriptor)
