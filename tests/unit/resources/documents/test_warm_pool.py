"""The early start of the workers of documents: what they load before they take any."""

from __future__ import annotations

import signal
from unittest import mock

import pytest

from pipelines.errors import DocumentError
from pipelines.settings.base import ParsingSettings
from resources.documents.pool import FEW_DOCUMENTS, DocumentPool
from resources.documents.tasks import DocumentTasks
from resources.models.text_models import TextModels
from resources.workers.pool import WorkerPool


@pytest.mark.parametrize(("documents", "loads"), [(1, False), (FEW_DOCUMENTS, False), (FEW_DOCUMENTS + 1, True)])
def test_workers_of_few_documents_load_a_model_when_one_needs_it(documents: int, loads: bool) -> None:
    with mock.patch.object(WorkerPool, "keep"), DocumentPool(ParsingSettings()) as pool:
        pool.warm(documents)
        assert pool._workers.load is loads


def test_a_pool_that_is_closed_while_its_template_loads_ends_it() -> None:
    pool = DocumentPool(ParsingSettings())
    pool.begin([])
    template = pool._workers._template
    assert template is not None and template.alive
    pool.close()
    assert template.process.returncode == -signal.SIGKILL


def test_readers_are_loaded_with_the_models_but_for_those_that_are_not_installed() -> None:
    asked = list[str]()

    def parser_of(kind: str) -> None:
        asked.append(kind)
        raise DocumentError(f"no parser reads {kind}", "unsupported")

    with mock.patch("resources.parsers.registry.parser_of", parser_of):
        DocumentTasks(mock.create_autospec(TextModels, instance=True)).load(["text/markdown", "application/pdf"])
    assert asked == ["text/markdown", "application/pdf"]
