"""The start of the programs that read documents for parsers: Tesseract, RapidOCR, pandoc and LibreOffice.

A worker, which reads documents, cannot start a process. It requests a program with a few values here, and the process
from which workers are forked starts the program, confined like the worker (resources/workers/helpers.py). Elsewhere it
is started directly.
"""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import re
import select
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from resources.child_process import program_environment, script_command, site_command

CONVERT = "resources.parsers.libreoffice.convert"
READ_PICTURE = "resources.parsers.packaged_ocr"
OUTPUT, ERRORS = "output", "errors"
"""Files in a program's folder for its standard output and its errors."""
MOST_REQUEST = 32 << 10
"""Most bytes of a worker's request, which holds only a few paths."""
_MOST_OUTPUT = 512 << 20
_MOST_ERRORS = 4000
_MOST_SECONDS = 600.0
_LANGUAGES = re.compile(r"\w[\w/]*(\+\w[\w/]*)*", re.ASCII)
_FORMAT = re.compile(r"[a-z_]{1,20}")

Values = Mapping[str, Any]


def packaged_ocr() -> bool:
    """Say whether RapidOCR and the runtime of its models are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("rapidocr", "onnxruntime"))


class Ended(NamedTuple):
    """The result of a program: its exit status, negative if a signal ended it; its output; its last errors."""

    status: int
    output: bytes
    errors: str


def run(name: str, program: str, values: Values, seconds: float | None = None) -> Ended:
    """Run a program of COMMANDS, whose path is `program`, and wait for its end.

    Raises subprocess.TimeoutExpired after `seconds`, FileNotFoundError if the program is not installed, OSError.
    """
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as place:
        folder = Path(place)
        if _starter is not None:
            status = _starter.run(name, values, folder, seconds)
        else:
            status = _run_here(name, program, values, folder, seconds)
        with open(folder / OUTPUT, "rb") as output, open(folder / ERRORS, "rb") as errors:
            written = output.read(_MOST_OUTPUT + 1)
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - _MOST_ERRORS))
            said = errors.read().decode("utf-8", "replace")
    if len(written) > _MOST_OUTPUT:
        raise OSError(errno.EFBIG, f"{name} writes more than {_MOST_OUTPUT >> 20} MB")
    return Ended(status, written, said)


def _run_here(name: str, program: str, values: Values, folder: Path, seconds: float | None) -> int:
    with open(folder / OUTPUT, "wb") as output, open(folder / ERRORS, "wb") as errors:
        return subprocess.run(
            COMMANDS[name](program, values),
            env=environment(name, folder),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            timeout=seconds or _MOST_SECONDS,
        ).returncode


# ---------------------------------------------------------------- commands


def environment(name: str, folder: Path) -> dict[str, str]:
    """Return the variables of a program: a home and temporary files in its own folder, and one thread."""
    own = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(folder))
    more = {"LANG": "C.UTF-8", "SAL_USE_VCLPLUGIN": "svp"} if name == "libreoffice" else {}
    return program_environment(**own, **more, OMP_THREAD_LIMIT="1")  # Tesseract's threads slow it down


def _path(values: Values, name: str) -> str:
    """Return an absolute path, which no program mistakes for an option, address or keyword."""
    path = values[name]
    if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
        raise ValueError(f"{name} is not an absolute path")
    return path


def _matching(values: Values, name: str, form: re.Pattern[str]) -> str:
    value = values[name]
    if not isinstance(value, str) or not form.fullmatch(value):
        raise ValueError(f"{name} is not of its form")
    return value


def _number(values: Values, name: str) -> str:
    value = values[name]
    if type(value) is not int or not 0 <= value < 10_000:
        raise ValueError(f"{name} is not a number")
    return str(value)


def _tesseract(program: str, values: Values) -> list[str]:
    """Return the command that reads the page of a picture as hOCR; without values, the one that lists the languages."""
    if not values:
        return [program, "--list-langs"]
    languages = _matching(values, "languages", _LANGUAGES)
    options = ["-l", languages, "--dpi", _number(values, "dpi"), "--psm", _number(values, "psm")]
    return [program, _path(values, "picture"), "stdout", *options, "hocr"]


def _pandoc(program: str, values: Values) -> list[str]:
    """Return the command that converts a document to another format. With `--sandbox`, which versions before 2.15 do
    not know, pandoc opens no other file."""
    sandbox = ["--sandbox"] if values.get("sandbox") is not False else []
    formats = [f"--from={_matching(values, 'format', _FORMAT)}", f"--to={_matching(values, 'to', _FORMAT)}"]
    return [program, *formats, *sandbox, "--output=-", _path(values, "source")]


def _rapidocr(python: str, values: Values) -> list[str]:
    """Return the command that reads the page of a picture as hOCR, in a Python program that has the installed
    packages."""
    return site_command(READ_PICTURE, _path(values, "picture"), python=python)


def _libreoffice(library: str, values: Values) -> list[str]:
    """Return the command that converts a document to another format, in a Python program that loads LibreOffice's
    library."""
    return script_command(CONVERT, library, *(_path(values, name) for name in ("profile", "source", "target")))


COMMANDS: Mapping[str, Callable[[str, Values], list[str]]] = {
    "tesseract": _tesseract,
    "rapidocr": _rapidocr,
    "pandoc": _pandoc,
    "libreoffice": _libreoffice,
}
"""Commands by program, made from its path and the values of a request. Each raises ValueError or KeyError for invalid
values, since a worker that a hostile document controls may send any values."""


# ---------------------------------------------------------------- within a worker


class _Starter:
    """The process that starts programs for this one, at the other end of a socket."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._alone = descriptor, threading.Lock()

    def run(self, name: str, values: Values, folder: Path, seconds: float | None) -> int:
        request = {"program": name, "values": dict(values), "folder": str(folder)}
        with self._alone:
            self._send(request)
            answer = self._answer(seconds)
            if answer is None:
                self._send({"stop": True})
                self._answer(None)
                raise subprocess.TimeoutExpired(name, seconds or 0.0)
        if "status" not in answer:
            raise FileNotFoundError(errno.ENOENT, answer.get("reason", "it cannot be started"), name)
        return int(answer["status"])

    def _send(self, value: Mapping[str, Any]) -> None:
        data = json.dumps(value).encode() + b"\n"
        if len(data) > MOST_REQUEST:
            raise OSError(errno.ENAMETOOLONG, "the name of a file is too long")
        while data:
            data = data[os.write(self._descriptor, data) :]

    def _answer(self, seconds: float | None) -> dict[str, Any] | None:
        waiting = select.poll()
        waiting.register(self._descriptor, select.POLLIN)
        if not waiting.poll(None if seconds is None else seconds * 1000):
            return None
        line = b""
        while not line.endswith(b"\n"):
            data = os.read(self._descriptor, MOST_REQUEST)
            if not data:
                raise OSError(errno.EPIPE, "the process that starts programs is gone")
            line += data
        answer: dict[str, Any] = json.loads(line)
        return answer


_starter: _Starter | None = None


def start_by(descriptor: int) -> None:
    """Have programs started by the process at the other end of a socket from now on."""
    global _starter
    _starter = _Starter(descriptor)
