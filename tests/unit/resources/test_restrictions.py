"""A restriction that cannot be read never makes a document public."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import DocumentError, SourceError
from pipelines.settings import SourceSettings
from resources.listing import SourceBook
from resources.parsers.front_matter import front_matter
from resources.sources import list_source


def listed(root: Path) -> dict[str, object]:
    listing = list_source(SourceSettings(name="s", path=str(root)), root)
    found: dict[str, object] = {document.uri: document.groups for document in listing.documents}
    return {**found, **{failure.uri: failure.code for failure in listing.failures}}


def test_front_matter_that_is_not_yaml_fails_its_document() -> None:
    with pytest.raises(DocumentError, match="not valid YAML") as caught:
        front_matter("---\ntitle: Pay: 2026 bands\ngroups: [hr]\n---\nText.")
    assert caught.value.code == "front_matter"


def test_own_keys_of_front_matter_have_no_case() -> None:
    assert front_matter("---\nGroups: [hr, pay]\nTitle: Pay\n---\nText.")[0] == {"groups": "hr, pay", "title": "Pay"}


def test_a_side_car_that_is_no_plain_file_of_the_source_fails_its_document(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside.yaml").write_text("title: Outside")
    for name, target in (("dangling", "nowhere"), ("escaping", "../outside.yaml")):
        (root / f"{name}.txt").write_text("text")
        (root / f"{name}.txt.meta.yaml").symlink_to(target)
    (root / "large.txt").write_text("text")
    (root / "large.txt.meta.yaml").write_text("title: " + "x" * 70_000)
    (root / "spaced.txt").write_text("text")
    (root / "spaced.txt.meta.yaml").write_text("groups: hr , pay")
    assert listed(root) == {
        "dangling.txt": "side_car",
        "escaping.txt": "side_car",
        "large.txt": "side_car",
        "spaced.txt": ("hr", "pay"),
    }


def test_two_folders_of_one_name_are_refused() -> None:
    book = SourceBook(None, None)  # type: ignore[arg-type]
    book.select(SourceSettings(name="docs", path="/a/docs"))
    book.select(SourceSettings(name="docs", path="/a/docs"))
    with pytest.raises(SourceError, match="NAME=PATH"):
        book.select(SourceSettings(name="docs", path="/b/docs"))
