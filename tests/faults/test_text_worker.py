from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.errors import ModelError
from resources.text_worker import TextWorker

TEXT = "Records go to P.O. Box 12. They are kept in the U.S. Treasury. She has hepatitis B. Medicare pays for that."


@pytest.mark.slow
def test_a_killed_sentence_worker_is_one_clear_error_and_the_next_run_works() -> None:
    worker = TextWorker()
    try:
        (spans,) = worker.split([TEXT], "en")
        assert [TEXT[start:end] for start, end in spans][:2] == [
            "Records go to P.O. Box 12.",
            "They are kept in the U.S. Treasury.",
        ]
        assert worker._pool is not None
        (process,) = worker._pool._processes.values()
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        with pytest.raises(ModelError, match="process that divides and compares text died"):
            worker.split([TEXT], "en")
        assert worker.split([TEXT], "en") == [spans]
    finally:
        worker.close()


def test_a_language_without_a_model_is_divided_by_rule_without_a_worker() -> None:
    worker = TextWorker()
    assert worker.split(["Строк зберігання — 5 років. Див. ст. 12 Порядку."], "uk") == [[(0, 27), (28, 48)]]
    assert worker._pool is None


def test_no_worker_is_asked_where_the_rules_can_tell_or_the_text_is_in_another_script() -> None:
    worker = TextWorker()
    assert worker.split(["It is kept by Acme Inc. Leeds. It is old."], "en") == [[(0, 30), (31, 41)]]
    text = "Пацієнти з вірусом гепатиту С. Загострення можливі."
    assert worker.split([text], "en") == [[(0, len(text))]]
    assert worker._pool is None


@pytest.mark.slow
def test_the_worker_ends_with_a_parent_that_is_killed() -> None:
    """The worker holds the parent's standard output: it is at its end when both are gone."""
    script = (
        "from resources.text_worker import TextWorker\n"
        "worker = TextWorker(); worker.passages(['text'])\n"
        "print('ready', flush=True); input()\n"
    )
    root = Path(__file__).parents[2]
    parent = subprocess.Popen(
        [sys.executable, "-c", script], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": "."},
    )  # fmt: skip
    assert parent.stdout
    assert parent.stdout.readline() == b"ready\n"
    parent.kill()
    parent.wait()
    closed = select.poll()
    closed.register(parent.stdout.fileno(), select.POLLIN)
    assert closed.poll(20_000), "the worker outlived its parent"
    assert parent.stdout.read() == b""
