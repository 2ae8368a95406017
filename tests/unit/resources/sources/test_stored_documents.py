"""Files of documents copied to an object store, and read from it where their source cannot be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.errors import DocumentError, IndexStateError
from pipelines.records import RawDocument
from pipelines.settings.sources import SourceSettings
from resources.clouds.bucket import ObjectInfo
from resources.parsers.registry import ELEMENTS
from resources.sources.files import private_copy
from resources.sources.folder import list_source
from resources.sources.stored_documents import StoredDocuments, wanted_names
from tests.support.object_stores import Machine, machine

LIMIT = 10


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_text("The ferry crosses.")
    (root / "sub" / "same.txt").write_text("The ferry crosses.")
    (root / "b.md").write_text("# The choir\n")
    (root / "c.pdf").write_bytes(b"%PDF-1.7 not read here")
    (root / "c.pdf.elements.json").write_text(json.dumps({"elements": []}))
    return root


@pytest.fixture
def here(tmp_path: Path) -> Machine:
    return machine(tmp_path / "store", tmp_path / "here")


@pytest.fixture
def there(here: Machine, tmp_path: Path) -> Machine:
    return machine(tmp_path / "store", tmp_path / "there")


def listed(docs: Path) -> dict[str, RawDocument]:
    return {raw.uri: raw for raw in list_source(SourceSettings(name="docs", path=str(docs)), docs).documents}


def keep(one: Machine, docs: Path, known: set[str] | None = None) -> list[tuple[str, str]]:
    stored = StoredDocuments(one.store, one.cache)
    failures = stored.keep(list(listed(docs).values()), lambda name: docs, LIMIT, known or set())
    return [(failure.uri, failure.code) for failure in failures]


def test_each_content_is_copied_once_and_read_where_there_is_no_source(
    docs: Path, here: Machine, there: Machine, tmp_path: Path
) -> None:
    assert keep(here, docs) == []
    put = [each for each in here.objects.taken() if each.startswith("PUT")]
    assert len(put) == 4, "two documents have one content, and one has a map"
    raws = listed(docs)
    (docs / "a.txt").write_text("It sank.")
    stored = StoredDocuments(there.store, there.cache)
    for number, raw in enumerate(raws.values()):
        copy = private_copy(stored, raw, tmp_path / str(number), LIMIT)
        assert copy.name == raw.uri.rpartition("/")[2]
    assert (tmp_path / "0" / "a.txt").read_text() == "The ferry crosses."
    mapped = next(number for number, raw in enumerate(raws.values()) if raw.media_type == ELEMENTS)
    assert (tmp_path / str(mapped) / "c.pdf.elements.json").exists()
    there.objects.taken()
    private_copy(stored, raws["b.md"], tmp_path / "again", LIMIT)
    assert there.objects.taken() == [], "a copy stays here"


def test_a_document_known_or_found_in_the_store_is_not_copied_again(docs: Path, here: Machine, there: Machine) -> None:
    keep(here, docs)
    here.objects.taken()
    assert keep(here, docs, {raw.content_hash for raw in listed(docs).values()}) == []
    assert here.objects.taken() == []
    assert keep(there, docs) == []
    assert {each.split()[0] for each in there.objects.taken()} <= {"LIST", "SIZE"}
    (docs / "b.md").write_text("# The key\n")
    keep(there, docs, {raw.content_hash for raw in listed(docs).values() if raw.uri != "b.md"})
    assert [each.split()[0] for each in there.objects.taken()] == ["SIZE", "PUT"]


def test_many_new_contents_are_looked_for_by_one_listing(tmp_path: Path, here: Machine) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number}.txt").write_text(f"Note {number}.")
    keep(here, folder)
    assert [each for each in here.objects.taken() if not each.startswith("PUT")] == ["LIST raw/"]


def test_a_document_changed_after_the_listing_fails_and_is_not_in_the_store(docs: Path, here: Machine) -> None:
    stored, raws = StoredDocuments(here.store, here.cache), listed(docs)
    (docs / "b.md").write_text("# The key\n")
    (docs / "sub" / "same.txt").unlink()
    failures = stored.keep(list(raws.values()), lambda name: docs, LIMIT, set())
    assert [(each.uri, each.code) for each in failures] == [("b.md", "changed")], (
        "another has the bytes of what is gone"
    )
    assert failures[0].stage == "raw_documents"
    assert (
        raws["a.txt"].content_hash in stored.stored_sizes() and raws["b.md"].content_hash not in stored.stored_sizes()
    )


def test_other_bytes_under_a_name_are_not_taken_for_the_document(
    docs: Path, here: Machine, there: Machine, tmp_path: Path
) -> None:
    keep(here, docs)
    raw, stored = listed(docs)["a.txt"], StoredDocuments(there.store, there.cache)
    stored.copy(raw, tmp_path / "first")
    there.cache.path(raw.content_hash).write_bytes(b"damaged here......")
    assert stored.copy(raw, tmp_path / "second").read_text() == "The ferry crosses.", "the copy here is fetched again"
    there.store.put(f"raw/{raw.content_hash}", b"damaged there.....")
    there.cache.drop(raw.content_hash)
    with pytest.raises(DocumentError, match="has other bytes than were listed") as caught:
        stored.copy(raw, tmp_path / "third")
    assert caught.value.code == "unreadable" and "--retry-failed" in str(caught.value)
    there.store.put(f"raw/{raw.content_hash}", bytes(100))
    there.cache.drop(raw.content_hash)
    with pytest.raises(DocumentError, match="longer than was listed"):
        stored.copy(raw, tmp_path / "fourth")
    there.store.delete([f"raw/{raw.content_hash}"])
    with pytest.raises(DocumentError, match="is not there") as caught:
        stored.copy(raw, tmp_path / "fifth")
    assert caught.value.code == "unreadable"


def test_a_limit_that_was_lowered_holds_in_the_store_too(docs: Path, here: Machine, tmp_path: Path) -> None:
    (docs / "large.txt").write_bytes(b"x" * (2 << 20))
    keep(here, docs)
    with pytest.raises(DocumentError) as caught:
        StoredDocuments(here.store, here.cache).copy(listed(docs)["large.txt"], tmp_path / "copy", 1)
    assert caught.value.code == "limit_exceeded"


def test_documents_to_be_read_next_are_fetched_together(
    docs: Path, here: Machine, there: Machine, tmp_path: Path
) -> None:
    keep(here, docs)
    stored, raws = StoredDocuments(there.store, there.cache), list(listed(docs).values())
    there.store.delete([f"raw/{raws[0].content_hash}"])
    there.objects.taken()
    stored.prepare(raws)
    fetched = there.objects.taken()
    assert len(fetched) == 4, "and what cannot be is told by the copy"
    stored.copy(raws[1], tmp_path / "copy")
    assert there.objects.taken() == []


def test_a_store_that_does_not_answer_ends_the_listing(docs: Path, here: Machine) -> None:
    here.objects.busy = 100_000
    with pytest.raises(IndexStateError) as caught:
        keep(here, docs)
    assert caught.value.code == "store"


def test_the_names_of_documents_are_those_of_all_their_files(docs: Path, here: Machine) -> None:
    keep(here, docs)
    stored = StoredDocuments(here.store, here.cache)
    assert wanted_names(listed(docs).values()) == stored.stored_sizes().keys()
    mapped = listed(docs)["c.pdf"]
    assert stored.is_mapped(mapped.content_hash) and not stored.is_mapped(listed(docs)["b.md"].content_hash)
    stored.delete(sorted(stored.stored_sizes()))
    assert stored.stored_sizes() == {} and not stored.holds(mapped.content_hash)


def test_a_listing_that_was_killed_while_it_copied_goes_on_where_it_was(
    docs: Path, here: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, left = here.objects.put, [2]

    def ends(key: str, body: bytes | Path) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        put(key, body)

    with monkeypatch.context() as patch:
        patch.setattr(here.objects, "put", ends)
        with pytest.raises(KeyboardInterrupt):
            keep(here, docs)
    kept = set(StoredDocuments(here.store, here.cache).stored_sizes())
    assert len(kept) == 2
    here.objects.taken()
    assert keep(here, docs) == []
    again = {each.partition("raw/")[2] for each in here.objects.taken() if each.startswith("PUT")}
    assert again | kept == StoredDocuments(here.store, here.cache).stored_sizes().keys()
    assert len(again & kept) <= 1, "a map goes with its file"


@pytest.mark.parametrize(("times", "kept"), [(3, True), (1000, False)])
def test_a_copy_that_another_process_makes_room_of_is_fetched_again(
    docs: Path, here: Machine, there: Machine, tmp_path: Path, times: int, kept: bool
) -> None:
    keep(here, docs)
    put, left = there.cache.put, [times]

    def gone(name: str, made: Path) -> Path:
        path = put(name, made)
        left[0] -= 1
        if left[0] >= 0:
            path.unlink()
        return path

    there.cache.put = gone  # type: ignore[method-assign]
    stored = StoredDocuments(there.store, there.cache)
    if kept:
        assert stored.copy(listed(docs)["a.txt"], tmp_path / "copy").read_text() == "The ferry crosses."
    else:
        with pytest.raises(DocumentError, match="raise tables_cache_mb"):
            stored.copy(listed(docs)["a.txt"], tmp_path / "copy")


def test_foreign_objects_beside_raw_files_are_not_pruned_and_lead_nowhere(docs: Path, here: Machine) -> None:
    keep(here, docs)
    stored = StoredDocuments(here.store, here.cache)
    own = stored.stored_sizes()
    for name in ("notes.txt", "ab/../../../victim", "/etc/victim", "0" * 31, f"{'0' * 32}.elements.json.bak"):
        here.store.list_objects = lambda below, key=f"raw/{name}": [ObjectInfo(key, 1, 0.0)]  # type: ignore[method-assign,misc]
        assert stored.stored_sizes() == {}, name
    assert len(own) == 4


@pytest.mark.parametrize("size", [0, 18])
def test_an_object_that_grew_is_not_fetched_whole(docs: Path, here: Machine, there: Machine, size: int) -> None:
    keep(here, docs)
    raw = replace(listed(docs)["a.txt"], size=size)  # 0 where a reader asks, who knows no size
    with open(Path(here.objects.address.removeprefix("file://")) / "raw" / raw.content_hash, "wb") as grown:
        grown.truncate(1 << 34)
    with pytest.raises(DocumentError) as caught:
        StoredDocuments(there.store, there.cache).copy(raw, docs.parent / "copy", LIMIT)
    assert caught.value.code == "unreadable" and "delete it there" in str(caught.value)
