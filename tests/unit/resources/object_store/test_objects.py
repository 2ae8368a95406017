"""Patience, and objects in a shared folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from pipelines.errors import IndexStateError, SettingsError
from resources.clouds.bucket import LONGEST_PAUSE, ObjectInfo, require_https
from resources.object_store.folder import FolderObjects, connect
from resources.object_store.objects import PATIENCE, ObjectStore
from tests.support.object_stores import machine


def test_a_busy_store_is_asked_again_after_pauses_that_grow(tmp_path: Path) -> None:
    one = machine(tmp_path / "store", tmp_path / "own")
    one.objects.busy = 6
    one.store.put("a/b", b"bytes")
    assert one.store.read("a/b", 1, 3) == b"yt"
    assert len(one.slept) == 6 and one.slept[0] <= 0.2 < one.slept[5], one.slept


def test_patience_has_an_end_which_names_the_store_and_what_is_kept(tmp_path: Path) -> None:
    one = machine(tmp_path / "store", tmp_path / "own")
    one.objects.busy = 1000
    with pytest.raises(IndexStateError, match="SlowDown, at each of") as caught:
        one.store.put("a/b", b"bytes")
    assert caught.value.code == "store" and "what is committed is kept" in str(caught.value)
    assert str(tmp_path / "store") in str(caught.value) and "setting tables" in str(caught.value)
    assert PATIENCE - LONGEST_PAUSE <= sum(one.slept) <= PATIENCE and max(one.slept) <= LONGEST_PAUSE


def test_a_missing_object_is_reported_at_once(tmp_path: Path) -> None:
    one = machine(tmp_path / "store", tmp_path / "own")
    with pytest.raises(FileNotFoundError):
        one.store.fetch("a/b", tmp_path / "into")
    assert one.store.size("a/b") is None and one.slept == []
    one.store.delete(["a/b"])


def test_no_more_is_fetched_than_there_should_be(tmp_path: Path) -> None:
    one = machine(tmp_path / "store", tmp_path / "own")
    one.store.put("a", bytes(100))
    with pytest.raises(OverflowError):
        one.store.fetch("a", tmp_path / "into", 99)
    one.store.fetch("a", tmp_path / "into", 100)
    assert (tmp_path / "into").stat().st_size == 100


def test_a_listing_is_of_a_beginning_of_names(tmp_path: Path) -> None:
    store = ObjectStore(FolderObjects("file:///x", tmp_path))
    for key in ("raw/ab", "raw/cd", "parquet/chunks/k/00-1", "parquet/chunks/k/01-2", "rawer"):
        store.put(key, key.encode())
    assert sorted(found.key for found in store.list_objects("raw/")) == ["raw/ab", "raw/cd"]
    assert [found.key for found in store.list_objects("parquet/chunks/k/01-")] == ["parquet/chunks/k/01-2"]
    assert store.list_objects("other/") == [] and len(store.list_objects("")) == 5
    store.delete(["parquet/chunks/k/00-1", "parquet/chunks/k/01-2"])
    assert not (tmp_path / "parquet").exists() and (tmp_path / "raw").exists()


def test_an_object_that_is_written_halfway_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ObjectStore(FolderObjects("file:///x", tmp_path))
    store.put("a", b"before")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(IndexStateError, match="No space left") as caught:
        store.put("a", b"after")
    assert caught.value.code == "store" and store.read("a", 0, 6) == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_folder_that_is_not_mounted_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(IndexStateError, match="mount the disk") as caught:
        connect(f"file://{tmp_path}/share")
    assert caught.value.code == "store" and not (tmp_path / "share").exists()


def test_plain_http_is_allowed_only_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://minio.example:9000")
    with pytest.raises(SettingsError, match="AWS_ENDPOINT_URL is plain HTTP"):
        require_https("AWS_ENDPOINT_URL", "tables")
    for fine in ("http://127.0.0.1:9000", "https://minio.example", ""):
        monkeypatch.setenv("AWS_ENDPOINT_URL", fine)
        assert require_https("AWS_ENDPOINT_URL", "tables") == fine


def test_a_page_that_names_itself_as_the_next_ends_a_listing(tmp_path: Path) -> None:
    class Endless(FolderObjects):
        asked = 0

        def page(self, below: str, token: str) -> tuple[Sequence[ObjectInfo], str]:
            self.asked += 1
            assert self.asked < 5, "the listing does not end"
            return [], "2"

    objects = Endless("file:///x", tmp_path)
    with pytest.raises(IndexStateError, match="no page of a listing") as caught:
        ObjectStore(objects).list_objects("")
    assert caught.value.code == "store" and objects.asked == 2


@pytest.fixture
def linked(tmp_path: Path) -> ObjectStore:
    """A shared folder in which somebody made `raw` a link to a folder elsewhere, and `a/pipe` a pipe."""
    elsewhere, root = tmp_path / "elsewhere", tmp_path / "store"
    (elsewhere / "sub").mkdir(parents=True)
    (elsewhere / "sub" / "mine").write_text("mine")
    (root / "a").mkdir(parents=True)
    (root / "raw").symlink_to(elsewhere)
    (root / "a" / "file").symlink_to(elsewhere / "sub" / "mine")
    os.mkfifo(root / "a" / "pipe")
    (tmp_path / "link").symlink_to(root)
    return ObjectStore(connect(f"file://{tmp_path}/link"))


def test_nothing_is_listed_deleted_or_written_through_a_link(linked: ObjectStore, tmp_path: Path) -> None:
    assert linked.list_objects("") == [] and linked.list_objects("raw/") == [] and linked.list_objects("a/") == []
    for key in ("raw/sub/mine", "a/file", "../elsewhere/sub/mine", "a/../raw/sub/mine"):
        assert linked.size(key) is None, key
    with pytest.raises(IndexStateError, match="raw") as caught:
        linked.delete(["raw/sub/mine"])
    assert caught.value.code == "store" and "link" in str(caught.value)
    for key in ("raw/new", "raw/sub/mine", "../elsewhere/new"):
        with pytest.raises(IndexStateError, match="remove it"):
            linked.put(key, b"theirs")
    assert [path.name for path in (tmp_path / "elsewhere").rglob("*")] == ["sub", "mine"]
    assert (tmp_path / "elsewhere" / "sub" / "mine").read_text() == "mine"


@pytest.mark.parametrize("key", ["a/pipe", "a/file", "raw/sub/mine", "../elsewhere/sub/mine", "a"])
def test_an_object_that_is_no_plain_file_below_the_folder_is_not_read(
    linked: ObjectStore, tmp_path: Path, key: str
) -> None:
    """A pipe would hold up its reader for as long as nobody writes."""
    with pytest.raises(IndexStateError, match="remove it") as caught:
        linked.fetch(key, tmp_path / "into")
    assert caught.value.code == "store"
