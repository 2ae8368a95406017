"""Faults that are known before a first run begins: nothing is made, not even the state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pincite.run import update_index
from pipelines.errors import PinciteError
from tests.support.projects import make_project

ENDPOINT = {"endpoint": "http://127.0.0.1:1/v1", "model": "m", "api_key_env": "NO_SUCH_KEY"}
LLM = {"base_url": "http://127.0.0.1:1/v1", "model": "m", "api_key_env": "NO_SUCH_KEY"}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"embedder": {"model": "none/such"}}, "embedder.model 'none/such' is not a folder beside the settings file"),
        ({"embedder": ENDPOINT}, "embedder: the environment variable NO_SUCH_KEY for .* is not set"),
        ({"llm": LLM, "enrichment": {"summary": "llm"}}, "llm, role 'summary': the environment variable NO_SUCH_KEY"),
        ({"query": {"synonyms": "none.txt"}}, "query.synonyms: .*none.txt is not a file"),
        ({"sources": [{"name": "a", "path": "docs"}, {"name": "b", "path": "docs/"}]}, "have the same root: keep one"),
    ],
)
def test_a_run_that_cannot_end_well_does_not_begin(tmp_path: Path, settings: dict[str, Any], told: str) -> None:
    project = make_project(tmp_path / "project", **settings)
    with pytest.raises(PinciteError, match=told):
        update_index((), project.config)
    assert not project.state.exists()


def test_one_folder_under_two_names_in_a_command_is_refused(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", {}, sources=[])
    project.docs.mkdir(exist_ok=True)
    with pytest.raises(PinciteError, match="have the same root"):
        update_index((str(project.docs), f"again={project.docs}"), project.config)
