"""Tests of the comparison of a part's listing with the committed one, which reads no table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from pipelines.errors import DamagedFile
from pipelines.fingerprint import document_id
from pipelines.records import RawDocument
from pipelines.settings.base import Settings
from pipelines.stages import Frozen
from resources.engine import Engine, MemoryManifest
from resources.engine.memory import MemoryFiles
from resources.engine.tables import ParquetTables
from resources.sources.listed_documents import AllListed, ListedDocuments
from resources.sources.registry import Listed
from resources.state.listing import SourceListing, commit_listing
from resources.state.run import Run


def document(name: str, source: str = "docs") -> RawDocument:
    metadata = {"owner": "Лідія", "area": "1"}
    return RawDocument(
        document_id(source, name), source, name, f"hash of {name}", 3, "text/plain", None, None, None, ("b", "a"),
        ("all",), metadata,
    )  # fmt: skip


DOCUMENTS = [document(f"{number}.txt") for number in range(40)]
FIRST = DOCUMENTS[0]


class Corpus:
    """A committed listing of DOCUMENTS."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.engine = Engine(Settings(), ParquetTables(self.files), MemoryManifest(), Run("run"), Frozen(), {})
        commit_listing(self.engine, AllListed([ListedDocuments(DOCUMENTS)]), ["docs"])

    def listing(self, *documents: Iterable[RawDocument]) -> SourceListing:
        """Return the listing of a later run, which found these documents in its sources."""
        listed = Listed(("docs",), AllListed([ListedDocuments(each) for each in documents]), [], [])
        parts: Any = None
        return SourceListing(parts, self.engine, listed)

    def unchanged(self, *documents: Iterable[RawDocument]) -> tuple[list[RawDocument], set[int]]:
        """Return the documents of the parts that are unchanged, and the buckets of the others."""
        listing, same, others = self.listing(*documents), list[RawDocument](), set[int]()
        for part in self.engine.parts(["raw_documents"], partial=True):
            rows = listing.unchanged_rows(part)
            if rows is None:
                others.add(part.bucket)
            else:
                same += rows
        return same, others


@pytest.fixture
def corpus() -> Corpus:
    return Corpus()


def test_a_listing_of_the_same_documents_is_unchanged_without_a_look_at_its_table(corpus: Corpus) -> None:
    with mock.patch.object(ParquetTables, "read", side_effect=AssertionError("read")):
        same, others = corpus.unchanged(DOCUMENTS[::-1])
    assert others == set()
    assert same == sorted(DOCUMENTS, key=lambda raw: raw.doc_id)


def test_documents_of_several_sources_are_taken_in_order_of_ids() -> None:
    both, corpus = [*DOCUMENTS, *(document(f"{number}.txt", "more") for number in range(40))], Corpus()
    commit_listing(corpus.engine, AllListed([ListedDocuments(both)]), ["docs", "more"])
    same, others = corpus.unchanged(both[:40], both[40:])
    assert others == set()
    assert same == sorted(both, key=lambda raw: raw.doc_id)
    assert corpus.unchanged(both[:40])[1], "those of the other source are not listed now"


@pytest.mark.parametrize(
    "change",
    [
        {"content_hash": "another"}, {"size": 4}, {"media_type": "text/html"}, {"title": "Pay"},
        {"effective_date": "2026-01-01"}, {"version": "2"}, {"groups": None}, {"groups": ("a", "b")},
        {"groups": ()}, {"source_groups": ()}, {"metadata": {}}, {"metadata": {"owner": "Лідія", "area": "2"}},
    ],
)  # fmt: skip
def test_any_other_value_of_a_document_changes_its_part_alone(corpus: Corpus, change: dict[str, Any]) -> None:
    same, others = corpus.unchanged([replace(FIRST, **change), *DOCUMENTS[1:]])
    assert others == {corpus.engine.bucket_of(FIRST.doc_id)}
    assert FIRST not in same


def test_a_document_more_or_less_changes_its_part(corpus: Corpus) -> None:
    fresh = document("fresh.txt")
    assert corpus.unchanged([*DOCUMENTS, fresh])[1] == {corpus.engine.bucket_of(fresh.doc_id)}
    assert corpus.unchanged(DOCUMENTS[1:])[1] == {corpus.engine.bucket_of(FIRST.doc_id)}


def test_damage_to_the_committed_file_is_found_although_nothing_changed(corpus: Corpus) -> None:
    (name,) = {part.origin("raw_documents", FIRST.doc_id)[0] for part in corpus.engine.parts(["raw_documents"])
               if part.first <= FIRST.doc_id < part.after}  # fmt: skip
    corpus.files.put(name, b"PAR1 torn PAR1")
    with pytest.raises(DamagedFile, match=name):
        corpus.unchanged(DOCUMENTS)


def test_contents_are_the_committed_ones_whatever_is_listed_now(corpus: Corpus) -> None:
    committed = {raw.doc_id: raw.content_hash for raw in DOCUMENTS}
    listings = (corpus.listing(DOCUMENTS), corpus.listing([replace(FIRST, content_hash="x")]), corpus.listing())
    for listing in listings:
        assert {doc_id: content for _, own in listing.contents() for doc_id, content in own.items()} == committed
