"""Where the processes that work on documents begin: a template, which reads none, and is forked for each of them.

It imports once what they all need, and loads the models where it is told to, so that a worker is there in
milliseconds and shares that memory with the others. It starts the programs that workers ask for, too. What confines a
worker holds for the calling thread and for those that it starts; a fork has one thread, whatever pyarrow has started in
the template.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from resources.child_process import end_with_parent
from resources.programs import start_by
from resources.workers.helpers import Helpers
from resources.workers.sandbox import confine

LENGTH = struct.Struct("!I")
_CONTROL = 0
"""Standard input is a socket; resources/workers/template.py is at its other end."""


def said(value: Any) -> bytes:
    """A message of either end: its length, and JSON. Descriptors go with the length."""
    data = json.dumps(value).encode()
    return LENGTH.pack(len(data)) + data


def main() -> None:
    gc.disable()  # imports make little that is garbage, which is looked for before a worker is forked
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    end_with_parent()
    from resources.models.text_models import TextModels
    from resources.workers.worker import load, serve

    try:
        control = socket.socket(fileno=os.dup(_CONTROL))
    except OSError:
        load(TextModels())
        sys.exit("nothing is wrong with what it imports and loads; pincite starts it with a socket")
    models, loaded, helpers = TextModels(), False, Helpers()
    while os.getppid() == parent:
        helpers.attend(control)
        head, descriptors, _, _ = socket.recv_fds(control, LENGTH.size, 2)
        if not head:
            return
        (length,) = LENGTH.unpack(head)
        request: dict[str, Any] = json.loads(control.recv(length, socket.MSG_WAITALL))
        if "pid" in request:
            answer = _status(request["pid"])
            if answer is not None:
                helpers.end(request["pid"])
        else:
            if request["load"] and not loaded:
                load(models)
                loaded = True
            gc.collect()
            gc.freeze()  # or counting what is garbage would copy every page
            asked, asking = socket.socketpair()
            own, answer = os.getpid(), os.fork()
            if answer == 0:
                control.close()
                asked.close()
                helpers.forget()
                start_by(asking.detach())
                _work(own, request, descriptors, lambda out, request=request: serve(request, out, models))
            asking.close()
            helpers.add(answer, asked, request)
        for descriptor in descriptors:
            os.close(descriptor)
        control.sendall(said([request["id"], answer]))


def _status(pid: int) -> int | None:
    """What a worker ended with, minus the signal where one killed it; None while it has not. Asked once that it has."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return -signal.SIGKILL
    return os.waitstatus_to_exitcode(status) if ended else None


def _work(template: int, limits: Mapping[str, Any], descriptors: Sequence[int], serve: Any) -> None:
    """A worker's whole life; never returns."""
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
        serve(out)
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
    sys.exit()
