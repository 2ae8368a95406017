"""Models that could run code, in an index that is served by a good one: reliability.md 29."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.faults.running import Clean, Reader, asked, assert_verified, changed, contents, unchanged
from tests.support.embedding_server import EmbeddingServer
from tests.support.hostile_models import HOSTILE, ran
from tests.support.projects import Project
from tests.support.tiny_model import make_model

pytestmark = pytest.mark.integration


@pytest.mark.case(29, served=True)
@pytest.mark.parametrize("made", HOSTILE)
def test_a_swap_to_a_model_that_could_run_code_changes_nothing_that_is_served(
    full: tuple[Project, Clean], server_url: str, endpoint: EmbeddingServer, tmp_path: Path, made: str
) -> None:
    change, said = HOSTILE[made]
    model = make_model(tmp_path / "hostile")
    change(model)
    with changed(full[0], server_url, tmp_path / "project", unchanged) as project:
        good = project.settings["embedder"]
        with Reader(project) as reader:
            project.configure(embedder={"model": str(model)})
            refused = project.run("index")
            assert refused.code == 1 and re.search(said, refused.json["error"]["message"]), refused.out
            assert str(model) in refused.json["error"]["message"]
            reader.ask()
        reader.assert_saw_only(reader.first)
        assert not ran(model)
        project.configure(embedder=good)
        endpoint.forget()
        assert project.index()["published"] is True
        assert not asked(endpoint)
        assert contents(project) == full[1].contents
        assert_verified(project)
