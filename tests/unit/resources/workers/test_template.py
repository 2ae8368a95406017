"""Which functions a worker runs, and how its function's results and errors become replies."""

from __future__ import annotations

import importlib
import io
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from resources.child_process import child_command, child_environment
from resources.documents.pool import FUNCTION
from resources.workers.frames import Message, Received
from resources.workers.template import FUNCTIONS, MODULE, Worker


@pytest.mark.parametrize("name", ["theirs:run", "resources.documents.tasks:detect_language", ""])
def test_no_function_is_imported_that_is_not_in_the_table(name: str, tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text("import sys\nprint('imported')\nrun = sys.exit\n")
    environment = child_environment()
    environment["PYTHONPATH"] += f":{tmp_path}"
    ended = subprocess.run(
        child_command(MODULE, name), env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "is no function that workers run" in ended.stderr


def test_every_function_of_the_table_is_there() -> None:
    assert FUNCTION in FUNCTIONS
    for name in FUNCTIONS:
        module, _, attribute = name.partition(":")
        made = getattr(importlib.import_module(module), attribute)()
        assert all(callable(getattr(made, method)) for method in ("__call__", "load", "warm", "failure"))


class Shouting:
    """A function that knows no documents."""

    def load(self, kinds: Sequence[str] = ()) -> None: ...

    def warm(self) -> None: ...

    def __call__(self, request: Message, worker: Worker) -> tuple[dict[str, Any], dict[str, Any]]:
        worker.say("begun", size=len(request.blobs["text"]))
        return {"said": request.value["say"].upper()}, {"text": bytes(request.blobs["text"]).upper()}

    def failure(self, request: Message, error: Exception, worker: Worker) -> dict[str, Any]:
        return {"message": f"{type(error).__name__} of {request.value}"}


def replies(value: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, bytes]]]:
    out = io.BytesIO()
    Worker(out, 0, Shouting()).answer(Message(value, {"text": memoryview(b"moss")}))
    messages = Received(1 << 20).add(out.getvalue())
    return [(message.value, {name: bytes(blob) for name, blob in message.blobs.items()}) for message in messages]


def test_a_result_is_sent_after_all_that_was_said_before() -> None:
    begun, done = replies({"say": "hush"})
    assert begun == ({"kind": "begun", "size": 4}, {})
    assert done == ({"kind": "done", "said": "HUSH"}, {"text": b"MOSS"})


def test_an_error_fails_its_request_only() -> None:
    _, failed = replies({"say": None})
    assert failed == ({"kind": "failed", "message": "AttributeError of {'say': None}"}, {})
