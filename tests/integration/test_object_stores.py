"""Every kind of object store keeps one contract, on a real server of its kind or an emulator."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from pipelines.errors import IndexStateError, SettingsError
from resources.object_store import open_store
from resources.object_store.objects import ObjectStore
from tests.support.lying_server import answer, lying_server
from tests.support.object_stores import S3Store, s3_store
from tests.support.s3_server import BUCKET, ENVIRONMENT, error_body
from tests.support.stores import ACCOUNT, KEY, azure_container, google_bucket

pytestmark = pytest.mark.integration


@contextmanager
def amazon(patch: pytest.MonkeyPatch, folder: Path) -> Iterator[ObjectStore]:
    with s3_store(patch) as served:
        yield open_store(served.address)


@contextmanager
def google(patch: pytest.MonkeyPatch, folder: Path) -> Iterator[ObjectStore]:
    with google_bucket() as bucket:
        patch.setenv("STORAGE_EMULATOR_HOST", bucket.url)
        yield open_store("gs://papers/team/handbook")


@contextmanager
def azure(patch: pytest.MonkeyPatch, folder: Path) -> Iterator[ObjectStore]:
    with azure_container(folder) as container:
        patch.setenv("AZURE_STORAGE_ACCOUNT", ACCOUNT)
        patch.setenv("AZURE_STORAGE_KEY", KEY)
        patch.setenv("AZURE_STORAGE_ENDPOINT", container.url.removesuffix(f"/{ACCOUNT}"))
        yield open_store("az://papers/team/handbook")


@contextmanager
def shared_folder(patch: pytest.MonkeyPatch, folder: Path) -> Iterator[ObjectStore]:
    folder.mkdir()
    yield open_store(f"file://{folder}")


Opens = Callable[[pytest.MonkeyPatch, Path], AbstractContextManager[ObjectStore]]


@pytest.mark.parametrize("opened", [amazon, google, azure, shared_folder])
def test_a_store_keeps_the_contract(opened: Opens, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with opened(monkeypatch, tmp_path / "store") as store:
        (tmp_path / "file").write_bytes(bytes(range(256)) * 8192)
        store.put("raw/ab", tmp_path / "file")
        store.put("raw/cd", b"first")
        store.put("raw/cd", b"second")
        store.put("rawer", b"")
        store.fetch("raw/ab", tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == (tmp_path / "file").read_bytes()
        assert store.read("raw/cd", 1, 4) == b"eco"
        assert {found.key: found.size for found in store.list_objects("raw/")} == {"raw/ab": 2 << 20, "raw/cd": 6}
        assert all(found.changed > 1.7e9 for found in store.list_objects("raw/"))
        assert [store.size(key) for key in ("raw/cd", "rawer", "raw", "raw/c", "other/x")] == [6, 0, None, None, None]
        assert store.list_objects("other/") == []
        with pytest.raises(FileNotFoundError):
            store.fetch("raw/zz", tmp_path / "none")
        with pytest.raises(OverflowError):
            store.fetch("raw/cd", tmp_path / "none", 5)
        store.delete(["raw/ab", "raw/zz"])
        store.delete([])
        assert {found.key for found in store.list_objects("")} == {"raw/cd", "rawer"}
        store.delete(["raw/cd"])
        assert {found.key for found in store.list_objects("")} == {"rawer"}
        store.close()


def test_an_account_of_azure_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT", raising=False)
    with pytest.raises(SettingsError, match="set AZURE_STORAGE_ACCOUNT"):
        open_store("az://papers/x")


@pytest.mark.parametrize(("scheme", "library"), [("gs", "google.cloud.storage"), ("az", "azure.storage.blob")])
def test_a_library_that_is_missing_is_named(scheme: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "some")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(IndexStateError, match=rf"pip install 'pincite\[{scheme}\]'") as caught:
        open_store(f"{scheme}://papers/x")
    assert caught.value.code == "store"


def test_parts_of_an_upload_go_to_no_other_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(9 << 20))
    with lying_server() as other, lying_server() as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        server.says = {"": answer(b"", f"Location: {other.url}/upload")}
        store = open_store("gs://papers/team", patience=0.0)
        with pytest.raises(IndexStateError, match="leads to another server"):
            store.put("a", tmp_path / "large")
        assert [line for line, _ in server.asked if "uploadType=resumable" in line] and other.asked == []
        store.close()


# ---------------------------------------------------------------- Amazon's


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Store]:
    monkeypatch.setattr("resources.clouds.bucket.FIRST_PAUSE", 0.001)
    with s3_store(monkeypatch) as made:
        yield made


def test_more_than_a_page_is_listed_and_deleted(served: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "10")
    keys = [f"raw/{number:04d}" for number in range(12)]
    for key in keys:
        served.server.put(f"team/handbook/{key}", "x")
    store = open_store(served.address)
    assert [found.key for found in store.list_objects("raw/")] == keys
    assert [each.split()[0] for each in served.taken()] == ["GET", "GET"]
    absent = [f"raw/{number:04d}" for number in range(12, 1010)]
    store.delete([*keys, *absent])
    assert store.list_objects("raw/") == [] and [each.split()[0] for each in served.taken()].count("POST") == 2


def test_a_large_object_is_sent_in_parts_and_is_there_with_the_last(
    served: S3Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("resources.clouds.s3.IN_PARTS", 1 << 20)
    monkeypatch.setattr("resources.clouds.bucket.LONGEST_PAUSE", 0.001)
    (tmp_path / "large").write_bytes(bytes(range(256)) * (9 << 12))
    store = open_store(served.address, 0.01)
    served.front.faults["partNumber=2"] = (500, error_body("InternalError"))
    with pytest.raises(IndexStateError, match="InternalError"):
        store.put("raw/ab", tmp_path / "large")
    assert store.size("raw/ab") is None
    served.front.faults.clear()
    store.put("raw/ab", tmp_path / "large")
    store.fetch("raw/ab", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "large").read_bytes()


def test_a_denied_listing_is_distinguished_from_a_denied_read(served: S3Store, tmp_path: Path) -> None:
    """Of what is not there a store says "forbidden" to whoever may list no more than a prefix."""
    store = open_store(served.address)
    store.put("raw/ab", b"there")
    served.front.faults[f"GET /{BUCKET}/team"] = (403, error_body("AccessDenied"))
    with pytest.raises(FileNotFoundError):
        store.fetch("raw/zz", tmp_path / "none")
    with pytest.raises(IndexStateError, match="AccessDenied; give credentials") as caught:
        store.fetch("raw/ab", tmp_path / "none")
    assert caught.value.code == "credentials"


def test_a_server_that_lies_ends_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer of other bytes than were asked for is none, and a listing that breaks off is not taken for whole."""
    item = "<Contents><Key>{}</Key><Size>{}</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>"
    listed = f"<ListBucketResult>{{}}{item}</ListBucketResult>"
    whole = "<IsTruncated>false</IsTruncated>"
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with lying_server() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        store = open_store(f"s3://{BUCKET}/team", patience=0.0)
        for body in (b"x" * 9, b"x" * 11, b""):
            server.says = {"": answer(body)}
            with pytest.raises(IndexStateError, match="than was asked for"):
                store.read("a", 5, 15)
        for page in (
            "<html/>",
            listed.format("", "team/a", 1),
            listed.format(whole, "other/a", 1),
            listed.format(whole, "team/a", -1),
            "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>team/a</Key></Contents></ListBucketResult>",
        ):
            server.says = {"": answer(page.encode())}
            for ask in (store.list_objects, store.size):
                with pytest.raises(IndexStateError, match="no page of a listing"):
                    ask("a")
        server.says = {"": answer(listed.format("<IsTruncated>true</IsTruncated>", "team/a", 1).encode())}
        with pytest.raises(IndexStateError, match="no page of a listing"):
            store.list_objects("a")
        server.says = {"": answer(b"\x1f\x8b", "Content-Encoding: gzip, gzip")}
        with pytest.raises(IndexStateError, match="packed"):
            store.list_objects("a")
        server.says = {"": answer(listed.format(whole, "team/a", 7).encode())}
        assert store.size("a") == 7
        store.close()
