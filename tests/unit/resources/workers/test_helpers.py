"""Workers that a document has taken over, and the programs that are started for them: what either can still do, and
that nothing of them is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from resources.child_process import child_environment
from resources.documents.pool import FUNCTION
from resources.processes import is_gone
from resources.workers import template as templates
from resources.workers.sandbox import LAYERS, holds
from resources.workers.template import Forked, Template
from tests.support.waiting import ends
from tests.unit.resources.workers.test_sandbox import ALLOWED, REMAINS, THINGS, surrounded

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the layers are Linux's")

TAKEN_OVER = """
from resources.workers import template

def serve(limits, out, function):
    exec(limits["does"], {"limits": limits, "out": out})

template.serve = serve
template.main()
"""
RUNS = """
import os, sys
from resources import programs

values = {"picture": os.path.join(limits["folder"], "program.py"), "languages": "eng", "dpi": 300, "psm": 1}
def run(seconds=None):
    return programs.run("tesseract", "", values, seconds)
"""
"""What a worker does to run the file `program.py` of its folder in Tesseract's place."""


@pytest.fixture(autouse=True, scope="module")
def all_layers() -> None:
    for layer, there in holds().items():
        if not there:
            pytest.skip(f"this kernel does not ensure: {LAYERS[layer]}")


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Template]:
    (tmp_path / "taken_over.py").write_text(TAKEN_OVER)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(templates, "MODULE", "taken_over")
    made = Template(FUNCTION, tmp_path)
    yield made
    made.close()


def limits(folder: Path, does: str, program: str = "") -> dict[str, Any]:
    """Of a worker that does this. Python stands in for Tesseract, as if a picture had taken that over."""
    folder.mkdir(exist_ok=True)
    (folder / "program.py").write_text(program)
    reads = [sys.prefix, sys.base_prefix]
    programs = {"tesseract": {"path": os.path.realpath(sys.executable), "reads": reads}}
    return {"memory_mb": 2048, "load": False, "folder": str(folder), "programs": programs, "does": does}


@contextmanager
def worker(template: Template, told: dict[str, Any]) -> Iterator[Forked]:
    forked = template.fork(told)
    yield forked
    forked.kill()
    forked.close()
    forked.wait()


def said(forked: Forked) -> str:
    """A line of what a worker says, or what it has said at its end."""
    line = b""
    while not line.endswith(b"\n") and (data := os.read(forked.output, 1 << 16)):
        line += data
    return line.decode()


def test_a_program_can_do_what_a_worker_can_and_starts_no_other(template: Template, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with surrounded(place) as given:
        told = f"import json, os\ngiven = {{**json.loads({json.dumps(json.dumps(given))}), 'victim': os.getppid()}}\n"
        program = told + THINGS + "print(json.dumps(said))\n"
        does = RUNS + "out.write(repr(tuple(run())).encode() + b'\\n'); out.flush()"
        with worker(template, limits(place / "writes", does, program)) as forked:
            status, output, errors = eval(said(forked))
    assert status == 0, errors
    found = json.loads(output)
    done = {name for name, error in found.items() if not error}
    # Neither the code nor the files that its worker was given are a program's.
    expected = (ALLOWED | REMAINS) - {"read the given file", "read the code"}
    assert done == expected, {name: found[name] for name in done ^ expected}


HOLDS_ON = """
import ctypes, os, signal

def hold_on():
    for number in {*signal.valid_signals()} - {signal.SIGKILL, signal.SIGSTOP}:
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
    for start in (os.fork, lambda: os.posix_spawn("/bin/sleep", ["sleep", "600"], {}), os.setsid):
        try:
            start()
        except OSError:
            pass
"""
"""What a process does that wants to be there when its starter is gone."""
PROGRAM = HOLDS_ON + "hold_on()\nprint(os.getpid(), flush=True)\nwhile True:\n    signal.pause()\n"
WORKER = (
    HOLDS_ON
    + RUNS
    + """
import glob, threading

threading.Thread(target=run).start()
pid = ""
while not pid.endswith("\\n"):
    pid = "".join(open(name).read() for name in glob.glob(limits["folder"] + "/tesseract-*/output"))
hold_on()
out.write(pid.encode())
out.flush()
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)  # its first thread ends, the other does not
"""
)


def test_nothing_is_left_of_a_worker_that_is_killed(template: Template, tmp_path: Path) -> None:
    with worker(template, limits(tmp_path / "1", WORKER, PROGRAM)) as forked:
        program = int(said(forked))
        assert not is_gone(program)
        forked.kill()
        assert forked.wait() == -signal.SIGKILL
        assert is_gone(program) and is_gone(forked.pid)


def test_nothing_is_left_when_the_process_is_killed_that_workers_are_forked_from(
    template: Template, tmp_path: Path
) -> None:
    with worker(template, limits(tmp_path / "1", WORKER, PROGRAM)) as forked:
        program = int(said(forked))
        template.process.kill()
        assert ends(forked.pid, program)


STARTER = """
import json, sys
from pathlib import Path
from resources.workers import template as templates

templates.MODULE = "taken_over"
forked = templates.Template(*templates.FUNCTIONS, Path(sys.argv[1])).fork(json.loads(sys.argv[2]))
import os
print(forked.pid, os.read(forked.output, 100).decode().strip(), flush=True)
input()
"""


def test_nothing_is_left_when_pincite_is_killed(tmp_path: Path) -> None:
    (tmp_path / "taken_over.py").write_text(TAKEN_OVER)
    told = json.dumps(limits(tmp_path / "1", WORKER, PROGRAM))
    environment = child_environment()
    environment["PYTHONPATH"] += f":{tmp_path}"
    with subprocess.Popen(
        [sys.executable, "-P", "-c", STARTER, str(tmp_path), told],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as starter:  # fmt: skip
        assert starter.stdout is not None
        pids = [int(word) for word in starter.stdout.readline().split()]
        starter.kill()
    assert len(pids) == 2 and ends(*pids)


def test_a_program_that_seems_to_have_ended_is_ended(template: Template, tmp_path: Path) -> None:
    """It closes the pipe whose end tells of its own; whoever waited for it then would wait for ever."""
    program = "import os, signal\nprint(os.getpid(), flush=True)\nos.closerange(0, 100)\nsignal.pause()\n"
    does = RUNS + "out.write(repr(tuple(run())).encode() + b'\\n'); out.flush()"
    with worker(template, limits(tmp_path / "1", does, program)) as forked:
        status, output, _ = eval(said(forked))
        assert status == -signal.SIGKILL and is_gone(int(output))


ASKED = {
    "no JSON": b"x\n",
    "deep": b"[" * 20_000 + b"\n",
    "no mapping": b"[1]\n",
    "nothing": b"{}\n",
    "too long": b"x" * 100_000,
    "another's folder": b'{"program": "tesseract", "values": {}, "folder": "/tmp"}\n',
    "no such values": b'{"program": "tesseract", "values": {"picture": "x"}, "folder": "FOLDER/x"}\n',
    "an option for a path": b'{"program": "tesseract", "values": {"picture": "--help", "languages": "eng", "dpi": 1, '
    b'"psm": 1}, "folder": "FOLDER/x"}\n',
    "an option for a language": b'{"program": "tesseract", "values": {"picture": "/x", "languages": "-c", "dpi": 1, '
    b'"psm": 1}, "folder": "FOLDER/x"}\n',
    "values that are no mapping": b'{"program": "tesseract", "values": 5, "folder": "FOLDER/x"}\n',
    "a folder that is no text": b'{"program": "tesseract", "values": {}, "folder": 5}\n',
    "a second program": b'{"program": "tesseract", "values": {}, "folder": "FOLDER/x"}\n' * 2,
}


def test_a_worker_that_asks_for_what_no_worker_does_is_not_served(template: Template, tmp_path: Path) -> None:
    """Its end of the socket is closed, and the others are served as before."""
    for at, request in enumerate(ASKED.values()):
        does = RUNS + (
            "import resource\n"
            f"request = {request!r}.replace(b'FOLDER', limits['folder'].encode())\n"
            "socket = programs._starter._descriptor\n"
            "try:\n    os.write(socket, request)\n    said = os.read(socket, 100)\n"
            "except OSError:\n    said = b''\n"
            "out.write(repr(said).encode() + b'\\n'); out.flush()\n"
        )
        with worker(template, limits(tmp_path / str(at), does)) as forked:
            assert eval(said(forked)) == b"", [*ASKED][at]
    does = RUNS + "out.write(repr(tuple(run())).encode() + b'\\n'); out.flush()"
    with worker(template, limits(tmp_path / "served", does, "print('done')")) as forked:
        assert eval(said(forked)) == (0, b"done\n", "")


def test_a_program_is_stopped_that_is_asked_for_and_given_up_at_once(template: Template, tmp_path: Path) -> None:
    """Both messages come together."""
    does = RUNS + (
        "import json, tempfile\n"
        "folder = tempfile.mkdtemp()\n"
        "request = json.dumps({'program': 'tesseract', 'values': values, 'folder': folder})\n"
        "socket = programs._starter._descriptor\n"
        "os.write(socket, request.encode() + b'\\n' + b'{\"stop\": true}\\n')\n"
        "out.write(os.read(socket, 100)); out.flush()\n"
    )
    with worker(template, limits(tmp_path / "1", does, "import signal\nsignal.pause()\n")) as forked:
        assert json.loads(said(forked)) == {"status": -signal.SIGKILL}


def test_a_program_that_is_not_allowed_is_not_started(template: Template, tmp_path: Path) -> None:
    does = (
        "from resources import programs\n"
        "try:\n    programs.run('pandoc', '', {'format': 'rst', 'source': '/x'})\n"
        "except FileNotFoundError as error:\n    out.write(repr(str(error)).encode() + b'\\n'); out.flush()\n"
    )
    with worker(template, limits(tmp_path / "1", does)) as forked:
        assert "pandoc is not installed" in said(forked)
