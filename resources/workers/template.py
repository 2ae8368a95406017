"""The template process and the workers that are forked from it: the start of a confined process, and the running of its
function.

The template never reads a document. It imports the modules of all workers once, and loads the models on request, so
that a worker starts in milliseconds and shares this memory with the others. Confinement applies to the calling thread
and to the threads that it starts; a fork has only one thread, even if pyarrow has started others in the template. The
template also starts the workers' helper programs (resources/workers/helpers.py).

Requests come on a worker's standard input. Replies are written to the original standard output; everything that
libraries print goes to standard error. The process is confined before it takes any request. End of input ends it at
once, even in the middle of a document, so a worker never outlives its parent.
"""

from __future__ import annotations

import gc
import importlib
import itertools
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO, Protocol

from resources.child_process import child_command, child_environment, end_with_parent
from resources.memory import arrow_without_pandas
from resources.programs import start_by
from resources.workers.frames import Message, pack, read_message
from resources.workers.helpers import Helpers
from resources.workers.sandbox import confine, limit_memory

# ---------------------------------------------------------------- function


FUNCTIONS = frozenset({"resources.documents.tasks:DocumentTasks"})
"""The functions that workers may run, by module and name. No other name is imported."""

Values = Mapping[str, Any]


class Function(Protocol):
    """The work of a worker on each request. The object is created once, in the template, and every fork has a copy."""

    def load(self, kinds: Sequence[str] = ()) -> None:
        """Load all models, and the readers of these media types, before any request arrives."""

    def warm(self) -> None:
        """Load, in a thread of a new worker, the modules that nearly every request needs."""

    def __call__(self, request: Message, worker: Worker) -> tuple[Values, Values]:
        """Process a request. Return the values and the blobs of the reply."""

    def failure(self, request: Message, error: Exception, worker: Worker) -> dict[str, Any]:
        """Return the values of the reply to a failed request."""


def _make_function(name: str) -> Function:
    if name not in FUNCTIONS:
        sys.exit(f"{name!r} is no function that workers run; they run {', '.join(sorted(FUNCTIONS))}")
    module, _, attribute = name.partition(":")
    made: Function = getattr(importlib.import_module(module), attribute)()
    return made


# ---------------------------------------------------------------- held by a pool

MODULE = "resources.workers.template"
START_SECONDS = 60.0
"""Seconds for a process to start, and for each model that it loads."""
LOADING_SECONDS = 4 * START_SECONDS
"""Seconds for a process that loads all models before it sends anything."""
_FIRST_WAIT, _LONGEST_WAIT = 0.0005, 0.05


class Template:
    """The template process, from the view of its pool. Its workers run `function`. It ends with `close`, or with this
    process."""

    def __init__(self, function: str, folder: Path) -> None:
        own, its = socket.socketpair()
        with its:
            self.process = subprocess.Popen(
                child_command(MODULE, function),
                stdin=its.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env=child_environment(),
            )
        self._control, self._numbers = own, itertools.count()
        self._answers: dict[int, Any] = {}
        self._lost = False
        self.served = False
        """True after one of its workers has started."""
        own.settimeout(LOADING_SECONDS)

    @property
    def alive(self) -> bool:
        return not self._lost and self.process.poll() is None

    def load(self, kinds: Sequence[str]) -> None:
        """Load all models, and the readers of these media types. Forks that are asked for meanwhile wait."""
        self._send({"kinds": list(kinds)})

    def fork(self, limits: Mapping[str, Any]) -> Forked:
        """Fork a worker with these limits. The worker reports its start; if its output ends before, it has failed."""
        taken, given = os.pipe(), os.pipe()
        number = self._send(limits, [taken[0], given[1]])
        for descriptor in (taken[0], given[1]):
            os.close(descriptor)
        return Forked(self, number, taken[1], given[0])

    def status(self, pid: int) -> int | None:
        """Return the exit status of one of its workers, or None while it runs."""
        status: int | None = self.answer(self._send({"pid": pid}))
        return status

    def _send(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> int:
        number = next(self._numbers)
        with suppress(OSError):  # it is gone, and so are its workers: nobody waits for them
            socket.send_fds(self._control, [_pack({**request, "id": number})], descriptors)
        return number

    def answer(self, number: int) -> Any:
        """Return the answer to a request. If the template has ended, so have its workers; then return SIGKILL's
        status."""
        while number not in self._answers:
            try:
                (length,) = _LENGTH.unpack(self._control.recv(_LENGTH.size, socket.MSG_WAITALL))
                told, value = json.loads(self._control.recv(length, socket.MSG_WAITALL))
            except (OSError, struct.error):
                self._lost = True
                return -signal.SIGKILL
            self._answers[told] = value
        return self._answers.pop(number)

    def close(self) -> None:
        """End the template. Its workers must have been stopped before."""
        self._control.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Forked:
    """A worker, with the needed methods of subprocess.Popen. `input` and `output` are descriptors."""

    def __init__(self, template: Template, number: int, taken: int, given: int) -> None:
        self._template, self._number = template, number
        self.input, self.output = taken, given
        self._pid: int | None = None
        self._status: int | None = None

    @property
    def pid(self) -> int:
        """The worker's process id, which is not positive if it was never forked. Waits for the fork."""
        if self._pid is None:
            self._pid = int(self._template.answer(self._number))
        return self._pid

    def poll(self) -> int | None:
        if self._status is None:
            self._status = self._template.status(self.pid) if self.pid > 0 else self.pid
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit status. Raise subprocess.TimeoutExpired."""
        until, pause = None if timeout is None else time.monotonic() + timeout, _FIRST_WAIT
        while (status := self.poll()) is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired(MODULE, timeout or 0.0)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_WAIT)
        return status

    def kill(self) -> None:
        # The id is not given to another process before the template has asked for its status.
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close the worker's input and output."""
        for descriptor in (self.input, self.output):
            with suppress(OSError):
                os.close(descriptor)


# ---------------------------------------------------------------- template process


_LENGTH = struct.Struct("!I")
_CONTROL = 0
"""The descriptor of standard input, a socket with `Template` at its other end."""


def _pack(value: Any) -> bytes:
    """Return a packed message in either direction: its length, and JSON. Descriptors are sent with the length."""
    data = json.dumps(value).encode()
    return _LENGTH.pack(len(data)) + data


def main() -> None:
    gc.disable()  # imports make little garbage; it is collected before a worker is forked
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    end_with_parent()
    arrow_without_pandas()
    import pyarrow  # noqa: F401 - every worker sends and gets tables, and a fork has what is imported here

    function = _make_function("".join(sys.argv[1:]))
    try:
        control = socket.socket(fileno=os.dup(_CONTROL))
    except OSError:
        function.load()
        sys.exit("nothing is wrong with what it imports and loads; pincite starts it with a socket")
    loaded, helpers = False, Helpers()
    while os.getppid() == parent:
        helpers.attend(control)
        head, descriptors, _, _ = socket.recv_fds(control, _LENGTH.size, 2)
        if not head:
            os._exit(0)  # freeing what is loaded takes a second
        (length,) = _LENGTH.unpack(head)
        request: dict[str, Any] = json.loads(control.recv(length, socket.MSG_WAITALL))
        answer: int | None = None
        if "pid" in request:
            answer = _status(request["pid"])
            if answer is not None:
                helpers.end(request["pid"])
        elif "kinds" in request:
            function.load(request["kinds"])
            loaded = True
        else:
            if request["load"] and not loaded:
                function.load()
                loaded = True
            gc.collect()
            gc.freeze()  # else the collector would copy every page of a fork
            asked, asking = socket.socketpair()
            own, answer = os.getpid(), os.fork()
            if answer == 0:
                control.close()
                asked.close()
                helpers.forget()
                start_by(asking.detach())
                _work(own, request, descriptors, function)
            asking.close()
            helpers.add(answer, asked, request)
        for descriptor in descriptors:
            os.close(descriptor)
        control.sendall(_pack([request["id"], answer]))


def _status(pid: int) -> int | None:
    """Return a worker's exit status, or minus the signal that killed it, or None while it runs. After its end, the
    status can be read only once."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return -signal.SIGKILL
    return os.waitstatus_to_exitcode(status) if ended else None


def _work(template: int, limits: Values, descriptors: Sequence[int], function: Function) -> None:
    """Run a worker from its start to its end. Never return."""
    try:
        if len(os.listdir("/proc/self/task") if os.path.isdir("/proc/self/task") else "1") != 1:
            raise RuntimeError("more than one thread")
        end_with_parent()
        if os.getppid() != template:
            os._exit(1)
        os.dup2(descriptors[0], 0)
        out = os.fdopen(os.dup(descriptors[1]), "wb")
        os.dup2(2, 1)
        for descriptor in descriptors:
            os.close(descriptor)
        folder = Path(limits["folder"])
        os.chdir(folder)
        confine([folder], [folder])
        serve(limits, out, function)
    finally:
        os._exit(1)


# ---------------------------------------------------------------- worker


_MEGABYTE = 1 << 20
_STACK_BYTES = 64 * _MEGABYTE
_REQUESTS_BETWEEN_COLLECTIONS = 16


class Worker:
    """A worker, from the view of its function. It writes its replies to `out`."""

    def __init__(self, out: BinaryIO, memory_mb: int, function: Function) -> None:
        self._out, self.memory_mb, self._function = out, memory_mb, function

    def say(self, kind: str, blobs: Values | None = None, **values: Any) -> None:
        self._out.write(pack({"kind": kind, **values}, blobs))
        self._out.flush()

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Remove the memory limit, and announce this, while a model loads, since the document is not charged for its
        time and memory."""
        self.say("loading")
        limit_memory(0)
        yield
        limit_memory(self.memory_mb)
        self.say("loaded")

    def answer(self, request: Message) -> None:
        try:
            limit_memory(self.memory_mb)
            values, blobs = self._function(request, self)
            self.say("done", blobs, **values)
        except Exception as error:  # an unexpected error fails this request only
            limit_memory(0)  # the failure must be told even if the document has taken all memory
            self.say("failed", **self._function.failure(request, error, self))


def serve(limits: Values, out: BinaryIO, function: Function) -> None:
    """Answer requests until the end of input, then end the process."""
    requests: SimpleQueue[Message] = SimpleQueue()
    worker = Worker(out, limits["memory_mb"], function)
    threading.stack_size(_STACK_BYTES)
    threading.Thread(target=_answer_or_end, args=(worker, function, requests), daemon=True).start()
    threading.stack_size(0)
    while (request := read_message(sys.stdin.buffer)) is not None:
        requests.put(request)
    os._exit(0)


def _answer_or_end(worker: Worker, function: Function, requests: SimpleQueue[Message]) -> None:
    """End the process if requests can be answered no more, so that nobody waits for it until the time limit."""
    try:
        _answer_all(worker, function, requests)
    finally:
        os._exit(1)


def _answer_all(worker: Worker, function: Function, requests: SimpleQueue[Message]) -> None:
    threading.Thread(target=function.warm, daemon=True).start()
    worker.say("ready")
    gc.disable()  # records of a large document are millions of objects in no cycle
    for number in itertools.count(1):
        request = requests.get()
        worker.answer(request)
        if sum(map(len, request.blobs.values())) > _MEGABYTE or request.value["size"] > _MEGABYTE:
            del request
            gc.collect()
        elif number % _REQUESTS_BETWEEN_COLLECTIONS == 0:
            gc.collect()


if __name__ == "__main__":
    main()
    sys.exit()
