"""Where pincite is installed is found in one place."""

from __future__ import annotations

from pathlib import Path

import pytest

from resources.child_process import ROOT, shipped_folder
from tests.support import places

LAYERS = ("pincite", "assets", "resources", "pipelines")


def test_one_module_alone_finds_the_root() -> None:
    assert Path(ROOT).samefile(places.ROOT)
    files = [file for layer in LAYERS for file in Path(ROOT, layer).rglob("*.py")]
    found = [file for file in files if "__file__" in file.read_text(encoding="utf-8")]
    assert found == [Path(ROOT, "resources/child_process.py")]


@pytest.mark.parametrize(
    ("name", "file"), [("sql", "catalog.sql"), ("prompts", "answer.en.md"), ("example", "library/notes/suppliers.csv")]
)
def test_folders_that_come_with_pincite_are_where_they_are_edited(name: str, file: str) -> None:
    assert Path(shipped_folder(name), file).is_file()
