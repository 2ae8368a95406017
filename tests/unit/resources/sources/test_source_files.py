"""Files of a source are opened so that what is swapped meanwhile leads nowhere."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import DocumentError
from pipelines.records import RawDocument
from pipelines.settings.sources import SourceSettings
from resources.hashes import content_hash
from resources.parsers.registry import ELEMENTS
from resources.sources import folder as sources
from resources.sources.files import SourceFolder, private_copy, walk

SECRET = "text of a file outside"


def raw(uri: str, content: str = "", media_type: str = "text/plain") -> RawDocument:
    return RawDocument(uri, "s", uri, content, 0, media_type, None, None, None, None, (), {})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.txt").write_text(SECRET)
    (tmp_path / "outside" / "a.txt.meta.yaml").write_text(f"title: {SECRET}")
    (tmp_path / "root" / "sub").mkdir(parents=True)
    (tmp_path / "root" / "sub" / "a.txt").write_text("text of its own")
    return tmp_path / "root"


def replaced(path: Path, target: Path) -> None:
    """Puts a link in the place of what stands there, at once."""
    path.with_name(".link").symlink_to(target)
    if path.is_dir() and not path.is_symlink():
        path.rename(path.with_name(".moved"))
    path.with_name(".link").replace(path)


def piped(path: Path) -> None:
    os.mkfifo(path.with_name(".pipe"))
    path.with_name(".pipe").replace(path)


SWAPS: dict[str, Callable[[Path], object]] = {
    "file": lambda root: replaced(root / "sub" / "a.txt", root.parent / "outside" / "a.txt"),
    "folder": lambda root: replaced(root / "sub", root.parent / "outside"),
    "pipe": lambda root: piped(root / "sub" / "a.txt"),
    "other": lambda root: (root / "sub" / "a.txt").write_text("other text"),
}


@pytest.mark.defends("3a")
def test_a_copy_is_private_and_what_was_listed(root: Path, tmp_path: Path) -> None:
    file = root / "sub" / "a.txt"
    copy = private_copy(root, raw("sub/a.txt", content_hash(file)), tmp_path / "copies")
    assert copy == tmp_path / "copies" / "a.txt"
    assert copy.read_text() == "text of its own"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (copy.parent, copy)] == [0o700, 0o600]


def test_a_map_is_copied_with_its_file(root: Path, tmp_path: Path) -> None:
    (root / "sub" / "a.txt.elements.json").write_text("{}")
    both = content_hash(root / "sub" / "a.txt.elements.json", root / "sub" / "a.txt")
    copy = private_copy(root, raw("sub/a.txt", both, ELEMENTS), tmp_path / "copies")
    assert sorted(path.name for path in copy.parent.iterdir()) == ["a.txt", "a.txt.elements.json"]


@pytest.mark.defends("3a")
@pytest.mark.parametrize("swap", SWAPS)
def test_a_file_swapped_after_the_listing_is_not_copied(root: Path, tmp_path: Path, swap: str) -> None:
    listed = raw("sub/a.txt", content_hash(root / "sub" / "a.txt"))
    SWAPS[swap](root)
    with pytest.raises(DocumentError, match=r"sub/a\.txt: the file changed") as caught:
        private_copy(root, listed, tmp_path / "copies")
    assert caught.value.code == "changed"


def test_a_file_that_grows_while_it_is_read_is_cut_off_at_the_limit(root: Path, tmp_path: Path) -> None:
    (root / "large.txt").write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(DocumentError, match="max_megabytes") as caught:
        private_copy(root, raw("large.txt"), tmp_path / "copies", 1)
    assert caught.value.code == "limit_exceeded"


@pytest.mark.parametrize("name", ["gone.txt", "../outside/a.txt", "sub"])
def test_a_path_that_is_no_file_of_the_source_is_not_copied(root: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(DocumentError):
        private_copy(root, raw(name), tmp_path / "copies")


def test_a_link_within_the_source_is_read(root: Path, tmp_path: Path) -> None:
    (root / "near.txt").symlink_to(root / "sub" / "a.txt")
    assert private_copy(root, raw("near.txt"), tmp_path / "copies").read_text() == "text of its own"


@pytest.mark.defends("3a")
def test_a_link_that_leads_elsewhere_once_it_was_resolved_is_not_read(root: Path) -> None:
    (root / "near.txt").symlink_to("sub/a.txt")
    with SourceFolder(root) as folder:
        named = folder.resolve("near.txt")
        replaced(root / "sub", root.parent / "outside")
        with pytest.raises(DocumentError, match="changed"), folder.open_file(named):
            pass


@pytest.mark.parametrize("swap", ["file", "folder", "pipe"])
def test_a_file_swapped_between_the_walk_and_opening_is_not_listed(
    root: Path, monkeypatch: pytest.MonkeyPatch, swap: str
) -> None:

    def swapped(*arguments: Any) -> list[Any]:
        found = list(walk(*arguments))
        SWAPS[swap](root)
        return found

    monkeypatch.setattr(sources, "walk", swapped)
    listing = sources.list_source(SourceSettings(name="s", path=str(root)), root)
    assert list(listing.documents) == []
    (failure,) = listing.failures
    assert failure.uri == "sub/a.txt" and failure.code in ("changed", "side_car")


def test_whatever_is_swapped_at_whatever_moment_nothing_outside_is_listed_or_copied(root: Path, tmp_path: Path) -> None:
    own, secret = content_hash(root / "sub" / "a.txt"), content_hash(tmp_path / "outside" / "a.txt")
    ended, file, folder = threading.Event(), root / "sub" / "a.txt", root / "sub"

    def swap() -> None:
        while not ended.is_set():
            (root / ".link").symlink_to(tmp_path / "outside" / "a.txt")
            (root / ".link").replace(file)
            (root / ".file").write_text("text of its own")
            (root / ".file").replace(file)
            folder.rename(root / ".sub")
            folder.symlink_to(tmp_path / "outside")
            folder.unlink()
            (root / ".sub").rename(folder)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for number in range(150):
            listing = sources.list_source(SourceSettings(name="s", path=str(root)), root)
            assert {document.content_hash for document in listing.documents} <= {own}
            assert all(document.title is None for document in listing.documents)
            with suppress(DocumentError):
                private_copy(root, raw("sub/a.txt", secret), tmp_path / f"copy-{number}")
                pytest.fail("a file outside was copied")
    finally:
        ended.set()
        thread.join()
