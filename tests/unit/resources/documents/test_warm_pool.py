"""The early start of the workers of documents: what they load before they take any."""

from __future__ import annotations

from unittest import mock

import pytest

from pipelines.settings.base import ParsingSettings
from resources.documents.pool import FEW_DOCUMENTS, DocumentPool
from resources.workers.pool import WorkerPool


@pytest.mark.parametrize(("documents", "loads"), [(1, False), (FEW_DOCUMENTS, False), (FEW_DOCUMENTS + 1, True)])
def test_workers_of_few_documents_load_a_model_when_one_needs_it(documents: int, loads: bool) -> None:
    with mock.patch.object(WorkerPool, "keep"), DocumentPool(ParsingSettings()) as pool:
        pool.warm(documents)
        assert pool._workers.load is loads
