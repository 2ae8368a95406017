"""`pincite index` killed while it buys summaries and contexts: no reply that was paid for is bought again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.held_run import held_run
from tests.faults.running import assert_verified, changed, unchanged
from tests.support.llm_server import LlmServer, llm_server
from tests.support.projects import Project

pytestmark = pytest.mark.integration

CONCURRENCY = 3


@pytest.fixture
def model() -> Iterator[LlmServer]:
    with llm_server() as server:
        yield server


@pytest.mark.case(1)
@pytest.mark.parametrize(
    ("point", "number"),
    [("reply kept", 9), ("summaries written", 1), ("contexts before a commit", 2)],
)
def test_replies_outlive_the_run_that_bought_them(
    point: str, number: int, empty: Project, model: LlmServer, server_url: str, tmp_path: Path
) -> None:
    with changed(empty, server_url, tmp_path / "project", unchanged) as project:
        project.configure(
            enrichment={"summary": "llm", "context": "llm"},
            llm={"base_url": model.url, "model": "writer", "concurrency": CONCURRENCY},
        )
        with held_run(tmp_path / "run", "index", "--config", project.config, point=point, number=number) as run:
            run.kill()
        sent = Counter(model.completed)
        ((kept,),) = project.rows("SELECT count(*) FROM pincite.llm_replies WHERE text IS NOT NULL")
        assert sent.total() - CONCURRENCY <= kept <= sent.total()
        assert kept > 0
        model.forget()
        result = project.index()
        again = Counter(model.completed)
        assert sum((sent & again).values()) <= sent.total() - kept
        assert (sent | again).total() == result["chunks"]["total"] + result["documents"]["listed"]
        assert_verified(project)
        model.forget()
        assert project.index()["llm"]["calls"] == 0
        assert not model.calls
