"""Folders that others made, and those that texts are written to."""

from __future__ import annotations

import os
import stat
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.errors import IndexStateError, VectorFileError
from resources.exchange import locations
from resources.exchange.locations import FoundFile, TextFolder, vector_files

TEXTS = pa.table({"key": ["0" * 32], "text": ["for few"]})


def test_links_and_what_is_no_plain_file_are_refused_by_name(tmp_path: Path) -> None:
    """Links that lead in circles would be followed without end: two of them on two to the fortieth ways."""
    folder = tmp_path / "vectors"
    (folder / "part=1").mkdir(parents=True)
    (folder / "part=1" / "good.parquet").write_bytes(b"PAR1")
    (folder / "one").symlink_to(".")
    (folder / "two").symlink_to("..")
    (folder / "file.parquet").symlink_to(tmp_path / "elsewhere.parquet")
    os.mkfifo(folder / "pipe.parquet")
    (folder / "_temporary").symlink_to(".")
    (tmp_path / "elsewhere.parquet").write_bytes(b"PAR1")
    found = vector_files([str(folder), str(tmp_path / "elsewhere.parquet")])
    good = [each.name for each in found if isinstance(each, FoundFile)]
    assert good == [str(folder / "part=1" / "good.parquet"), str(tmp_path / "elsewhere.parquet")]
    refused = {str(each).partition(": ")[0]: each for each in found if isinstance(each, VectorFileError)}
    assert sorted(refused) == sorted(str(folder / name) for name in ("file.parquet", "one", "pipe.parquet", "two"))
    assert {each.code for each in refused.values()} == {"vectors_absent"}


def test_a_place_has_a_bound_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locations, "MOST_FILES", 2)
    for number in range(3):
        (tmp_path / f"{number}.parquet").touch()
    (refused,) = vector_files([str(tmp_path)])
    assert isinstance(refused, VectorFileError) and refused.code == "vectors_limit"


@pytest.mark.parametrize("other", ["pipe", "link"])
def test_a_replacement_of_a_file_is_not_waited_for_or_followed(other: str, tmp_path: Path) -> None:
    place = tmp_path / "vectors.parquet"
    place.write_bytes(b"")
    (found,) = vector_files([str(place)])
    assert isinstance(found, FoundFile)
    place.unlink()
    if other == "pipe":
        os.mkfifo(place)
        os.utime(place, ns=(found.seen[1], found.seen[1]))
    else:
        (tmp_path / "other").write_bytes(b"")
        os.utime(tmp_path / "other", ns=(found.seen[1], found.seen[1]))
        place.symlink_to(tmp_path / "other")
    with pytest.raises(VectorFileError), found.open_stream(tmp_path):
        pass


class Talkative:
    """A file system whose server says that a file has ten bytes, and sends 64 MB."""

    sent = 0

    def open_input_stream(self, path: str) -> Any:
        return nullcontext(self)

    def read(self, size: int) -> bytes:
        self.sent += size
        return b"0" * size if self.sent <= 64 << 20 else b""


def test_no_more_is_brought_here_than_was_said(tmp_path: Path) -> None:
    """A server that goes on sending fills no disk."""
    files = Talkative()
    with pytest.raises(VectorFileError) as raised, FoundFile("said", "long", files, (10, 0)).open_stream(tmp_path):
        pass
    assert raised.value.code == "vectors_unreadable" and files.sent <= 1 << 20


def test_texts_are_their_users_alone(tmp_path: Path) -> None:
    """Those of restricted documents are among them, whatever the umask and wherever the folder is."""
    before = os.umask(0)
    try:
        folder = TextFolder(str(tmp_path / "texts"))
        folder.begin()
        folder.write("texts-00-00000.parquet", TEXTS)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {"texts": 0o700, "texts-00-00000.parquet": 0o600}


def test_a_link_is_not_written_through_and_nothing_half_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = TextFolder(str(tmp_path / "texts"))
    folder.begin()
    (tmp_path / "own").write_text("own")
    link = tmp_path / "texts" / "texts-00-00000.parquet.partial"
    link.symlink_to(tmp_path / "own")
    with pytest.raises(IndexStateError):
        folder.write("texts-00-00000.parquet", TEXTS)
    assert (tmp_path / "own").read_text() == "own"
    link.unlink()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(IndexStateError):
        folder.write("texts-00-00000.parquet", TEXTS)
    assert list((tmp_path / "texts").iterdir()) == []
