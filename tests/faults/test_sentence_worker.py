from __future__ import annotations

import os
import signal

import pytest

from pipelines.errors import ModelError
from resources.sentence_splitter import SpacySplitter

TEXT = "Records go to P.O. Box 12. They are kept for seven years. Acme Inc. destroys them."


@pytest.mark.slow
def test_a_killed_sentence_worker_is_one_clear_error_and_the_next_run_works() -> None:
    splitter = SpacySplitter()
    try:
        (spans,) = splitter([TEXT], "en")
        assert len(spans) >= 3
        assert splitter._pool is not None
        (worker,) = splitter._pool._processes.values()
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
        with pytest.raises(ModelError, match="process that divides text into sentences died"):
            splitter([TEXT], "en")
        assert splitter([TEXT], "en") == [spans]
    finally:
        splitter.close()


def test_a_language_without_a_model_is_divided_by_rule_without_a_worker() -> None:
    splitter = SpacySplitter()
    assert splitter(["Строк зберігання — 5 років. Див. ст. 12 Порядку."], "uk") == [[(0, 27), (28, 48)]]
    assert splitter._pool is None
