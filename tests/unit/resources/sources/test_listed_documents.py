"""Documents of a listing, handed out by range."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.fingerprint import document_id
from pipelines.ranges import ALL_IDS, bucket_of, bucket_range
from pipelines.records import RawDocument
from pipelines.schemas import from_table, to_table
from resources.sources.listed_documents import NAMED, AllListed, ListedDocuments, OfRanges
from resources.sources.siblings import KnownContents

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
GROUPS = st.lists(TEXTS, max_size=2).map(tuple)


@st.composite
def raws(draw: Any, source: str = "s") -> RawDocument:
    uri = draw(TEXTS)
    return RawDocument(
        document_id(source, uri), source, uri, draw(TEXTS), draw(st.integers(0, 2**62)), draw(TEXTS),
        draw(st.none() | TEXTS), draw(st.none() | TEXTS), draw(st.none() | TEXTS), draw(st.none() | GROUPS),
        draw(GROUPS), draw(st.dictionaries(TEXTS, TEXTS, max_size=2)),
    )  # fmt: skip


LISTS = st.lists(raws(), max_size=12, unique_by=lambda raw: raw.doc_id)
OTHERS = st.lists(raws("other"), max_size=4, unique_by=lambda raw: raw.doc_id)


@settings(max_examples=30)
@given(LISTS, OTHERS, st.integers(1, 5))
def test_all_is_given_back_as_it_was_listed(own: list[RawDocument], others: list[RawDocument], buckets: int) -> None:
    both = AllListed([ListedDocuments(own), ListedDocuments(others)])
    assert sorted(both, key=lambda raw: raw.doc_id) == sorted([*own, *others], key=lambda raw: raw.doc_id)
    assert len(both) == len(own) + len(others)
    assert both.sources() == {raw.source for raw in [*own, *others]}
    for bucket in range(buckets):
        wanted = sorted(
            (raw for raw in [*own, *others] if bucket_of(raw.doc_id, buckets) == bucket), key=lambda raw: raw.doc_id
        )
        ends = bucket_range(bucket, buckets)
        read = both.documents_between(*ends)
        assert read.equals(to_table(RawDocument, wanted)), "as it is committed"
        assert both.names(*ends).to_pylist() == read.select(list(NAMED)).to_pylist()
        part = OfRanges(both, [ends])
        assert (list(part), len(part)) == (wanted, len(wanted))


@settings(max_examples=20)
@given(LISTS)
def test_they_are_gone_through_by_place(own: list[RawDocument]) -> None:
    assert [raw.uri for raw in ListedDocuments(own)] == sorted(raw.uri for raw in own)


def test_dropped_and_unreadable_documents_keep_who_may_find_them() -> None:
    one = RawDocument("00" * 16, "s", "a", "x", 1, "text/plain", None, None, None, ("hr",), (), {})
    two = replace(one, doc_id="11" * 16, uri="b", groups=None)
    listed = ListedDocuments([one, two])
    both = AllListed([ListedDocuments(), listed])
    listed.restrict("22" * 16, ("law",))
    listed.restrict("33" * 16, None)
    listed.restrict(two.doc_id, ("late",))
    both.drop([one.doc_id])
    assert [raw.uri for raw in both] == ["b"] and len(both) == 1
    assert both.get(one.doc_id) == ("hr",) and both.get("22" * 16) == ("law",)
    assert both.get("33" * 16) is None and both.get("44" * 16) is None
    assert from_table(RawDocument, both.documents_between(*ALL_IDS)) == [two], (
        "what is listed says itself who may find it"
    )


def test_contents_of_before_are_read_when_somebody_asks_for_one() -> None:
    asked = []

    def read() -> list[pa.Table]:
        asked.append(1)
        raw = RawDocument(document_id("s", "a"), "s", "a", "x", 1, "", None, None, None, ("hr",), (), {})
        other = replace(raw, doc_id=document_id("s", "b"), uri="b", groups=None, content_hash="y")
        return [to_table(RawDocument, [raw]), to_table(RawDocument, [other])]

    known = KnownContents(read)
    contents = known.contents_of("s", {"lost": "z", "a": "older"})
    assert asked == []
    assert [contents.get(uri) for uri in ("a", "b", "lost", "new")] == ["x", "y", "z", None]
    assert [uri in contents.restricted_files for uri in ("a", "b", "lost", "new")] == [True, False, False, False]
    assert known.contents_of("t", {}).get("a") is None
    assert asked == [1], "once"


def test_memory_held_for_listed_documents_does_not_grow() -> None:
    def held(count: int) -> int:
        tracemalloc.start()
        listed = ListedDocuments(
            RawDocument(f"{at:032x}", "s", f"{at}.txt", f"{at:032x}", 1, "", None, None, None, (f"g{at}",), (), {})
            for at in range(count)
        )
        most = max(
            listed.documents_between(*bucket_range(at, count // 500)).num_rows for at in range(4) if at < count // 500
        )
        found = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert len(listed) == count and most <= count
        return found

    held(1000)
    few, many = held(2000), held(8000)
    assert many < few + 500_000, "of 6,000 documents that are held there are over 4 MB"
