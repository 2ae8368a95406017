from __future__ import annotations

import os
import signal

import pytest

from pipelines.errors import ModelError
from resources.text_worker import TextWorker

TEXT = "Records go to P.O. Box 12. They are kept for seven years. Acme Inc. destroys them."


@pytest.mark.slow
def test_a_killed_sentence_worker_is_one_clear_error_and_the_next_run_works() -> None:
    worker = TextWorker()
    try:
        (spans,) = worker.split([TEXT], "en")
        assert len(spans) >= 3
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
