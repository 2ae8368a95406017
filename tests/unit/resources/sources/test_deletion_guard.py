"""When a listing may be that of a folder that is not mounted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pipelines.errors import SourceError
from pipelines.fingerprint import document_id
from pipelines.ranges import bucket_range
from pipelines.records import Failure, RawDocument
from resources.sources.listed_documents import AllListed, ListedDocuments
from resources.sources.registry import Listed, guard

RANGES = [bucket_range(at, 4) for at in range(4)]
NOTES = [f"notes/{number}.txt" for number in range(40)]


def document(uri: str, content: str = "", source: str = "docs") -> RawDocument:
    values: dict[str, Any] = dict.fromkeys(RawDocument.__dataclass_fields__)
    values.update(doc_id=document_id(source, uri), source=source, uri=uri, content_hash=content or uri)
    values.update(source_groups=(), metadata={})
    return RawDocument(**values)


def documents(uris: Sequence[str], to: str = "", source: str = "docs") -> list[RawDocument]:
    """Each with its content, at its place or under another folder."""
    return [document(f"{to}{uri}", uri, source) for uri in uris]


def refused(
    before: Sequence[RawDocument],
    now: Sequence[RawDocument],
    sources: tuple[str, ...] = ("docs",),
    failures: Sequence[Failure] = (),
) -> bool:
    known, listed = ListedDocuments(before), Listed(sources, AllListed([ListedDocuments(now)]), [], list(failures))
    try:
        guard(listed, lambda ends: known.names(*ends), RANGES, said=str)
    except SourceError as error:
        assert error.code == "deletion_guard"
        return True
    return False


@pytest.mark.defends("7d")
@pytest.mark.parametrize(
    ("before", "now", "stops"),
    [
        (documents(NOTES[:1]), documents(NOTES[:1], "new/"), False),
        (documents(NOTES), documents(NOTES, "new/"), False),
        (documents(NOTES), [], True),
        (documents(NOTES[:1]), [], True),
        (documents(NOTES[:1]), [document("other.txt")], False),
        (documents(NOTES), [document(f"other/{number}.txt") for number in range(40)], True),
        (documents(NOTES), documents(NOTES[:30]), False),
        (documents(NOTES), documents(NOTES[:29]), True),
        (documents(NOTES), [*documents(NOTES[:29]), *documents(NOTES[29:30], "new/")], False),
    ],
    ids=["only-one-renamed", "folder-renamed", "emptied", "only-one-gone", "only-one-replaced", "all-replaced",
         "ten-gone", "eleven-gone", "eleven-gone-one-of-them-moved"],
)  # fmt: skip
def test_deleted_documents_are_distinguished_from_moved_ones(
    before: list[RawDocument], now: list[RawDocument], stops: bool
) -> None:
    assert refused(before, now) is stops


def test_copies_stand_for_one_document_each() -> None:
    before = [document(uri, "the same") for uri in NOTES[:20]]
    assert refused(before, [*before[:8], document("new.txt", "the same")]), "eleven are gone"
    assert not refused(before, [*before[:8], document("new.txt", "the same"), document("newer.txt", "the same")])


def test_a_file_that_was_there_already_stands_for_none_that_is_gone() -> None:
    before = [document(uri, "the same") for uri in NOTES[:20]]
    assert refused(before, before[:4])


def test_a_document_may_move_to_another_source_that_is_listed_too() -> None:
    before, there = documents(NOTES), documents(NOTES, source="other")
    assert not refused(before, there, ("docs", "other"))
    assert refused(before, [], ("docs",)), "the other source was not looked at"


@pytest.mark.defends("7d")
def test_a_source_of_which_nothing_can_be_read_is_not_empty() -> None:
    unread = [Failure(document_id("docs", uri), "docs", uri, "raw_documents", "unreadable", "") for uri in NOTES]
    assert not refused(documents(NOTES), [], failures=unread)
