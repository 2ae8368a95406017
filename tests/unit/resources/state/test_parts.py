from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from pipelines.parsing.formats import MARKDOWN, PDF
from pipelines.settings.base import Settings
from resources.documents.pool import DocumentPool
from resources.settings_file import Project
from resources.state.parts import Parts, Warmup


class Closable:
    closed = 0

    def close(self) -> None:
        self.closed += 1


def project(tmp_path: Path) -> Project:
    return Project(Settings(), None, tmp_path, tmp_path)


def test_a_given_part_is_used_and_is_closed_by_its_giver(tmp_path: Path) -> None:
    pool: Any = Closable()
    parts = Parts(project(tmp_path), pool=pool, replies=None)
    assert parts.pool is pool
    assert parts.replies is None
    parts.release("pool")
    parts.close()
    assert pool.closed == 0
    assert parts.pool is pool


def test_a_part_is_opened_once_and_anew_after_it_was_released(tmp_path: Path) -> None:
    parts = Parts(project(tmp_path))
    first = parts.pool
    assert parts.pool is first
    parts.release("pool")
    assert parts.pool is not first
    parts.close()


def test_parts_under_other_settings_share_what_is_lent(tmp_path: Path) -> None:
    parts = Parts(project(tmp_path))
    settings = Settings(buckets=8)
    other = parts.with_settings(settings, "tables", "embedders")
    assert (other.tables, other.embedders) == (parts.tables, parts.embedders)
    assert other.database is not parts.database
    assert other.project.settings is settings
    parts.close()
    other.close()


class _Pool:
    def __init__(self) -> None:
        self.begun = list[list[str]]()

    def begin(self, kinds: list[str]) -> None:
        self.begun.append(kinds)


@pytest.mark.parametrize(
    ("names", "begun"), [(["a.md", "b.pdf"], []), (["a.md", "b.pdf", "c.md", "d.bin"], [[PDF, MARKDOWN]])]
)
def test_a_folder_of_more_than_a_few_documents_begins_the_loading_of_their_readers(
    tmp_path: Path, names: list[str], begun: list[list[str]]
) -> None:
    (tmp_path / "within").mkdir()
    for name in names:
        (tmp_path / "within" / name).touch()
    pool: Any = _Pool()
    Warmup(Parts(project(tmp_path), pool=pool)).begin([tmp_path, tmp_path / "missing"])
    assert pool.begun == begun


NAMED: dict[str, Any] = {"model": "models/own", "revision": "1"}


@pytest.mark.parametrize(
    ("embedder", "imports"),
    [({}, False), ({"preset": "english-small"}, False), (NAMED, True), ({**NAMED, "endpoint": "http://e/v1"}, False)],
)
def test_torch_is_imported_early_for_a_named_model_alone(
    tmp_path: Path, embedder: dict[str, str], imports: bool
) -> None:
    settings = Settings.model_validate({"embedder": embedder})
    pool = mock.create_autospec(DocumentPool, instance=True)
    warmup = Warmup(Parts(Project(settings, None, tmp_path, tmp_path), pool=pool))
    with mock.patch("resources.state.parts._import_models") as imported:
        warmup.start(1, 1_000_000)
        warmup.import_models()
        warmup.join()
    assert imported.called is imports
