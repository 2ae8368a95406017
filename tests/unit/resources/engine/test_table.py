"""Rows are read by document, whatever files hold them; parts that were never made are named, with the remedy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import IndexStateError
from pipelines.fingerprint import document_id
from pipelines.increments import DocumentState
from pipelines.ranges import ALL_IDS, Range, bucket_of, bucket_range
from pipelines.records import DocumentSummary, RawDocument
from pipelines.schemas import from_table, to_table
from pipelines.settings.base import settings_from
from pipelines.stages import STAGE_OF_TABLE, Frozen
from resources.engine import Engine, Part, Table
from resources.engine.committed import Commits, require_commits
from resources.engine.memory import MemoryFiles, MemoryManifest
from resources.engine.tables import ParquetTables
from resources.postgres.catalog import ManifestRow
from resources.state.run import Run

NAME = "document_summaries"
DOCUMENTS = sorted(document_id("docs", f"{number}.txt") for number in range(40))
ENDS = st.sampled_from(["", *(end for count in (1, 3, 4, 8) for at in range(count) for end in bucket_range(at, count))])


@pytest.mark.parametrize(
    ("table", "ends", "where", "told"),
    [
        ("parsed_documents", bucket_range(3, 4), " for bucket 03",
         "^parsed_documents has not been made .* for bucket 03; materialise parsed_elements first"),
        ("sentence_links", ALL_IDS, "", "^sentence_links has not been made .* settings; materialise sentence_links"),
    ],
)  # fmt: skip
def test_an_input_that_was_never_made_is_named_with_the_remedy(table: str, ends: Range, where: str, told: str) -> None:
    with pytest.raises(IndexStateError, match=told) as caught:
        require_commits({table: Commits()}, ends, where)
    assert caught.value.code == "missing_input"


def rows_of_buckets(files: ParquetTables, count: int, lacking: int) -> list[ManifestRow]:
    """Every document has one row, those of the bucket `lacking` were never committed."""
    found = []
    for bucket in set(range(count)) - {lacking}:
        ends = bucket_range(bucket, count)
        own = [doc_id for doc_id in DOCUMENTS if bucket_of(doc_id, count) == bucket]
        rows = to_table(DocumentSummary, [DocumentSummary(doc_id, "Summary.", "off") for doc_id in own])
        file = files.write(NAME, "key", ends, rows, {doc_id: DocumentState("from", "made") for doc_id in own})
        found.append(ManifestRow(NAME, "key", *ends, file, True, "", str(bucket), len(own), len(own)))
    return found


@given(st.sampled_from([1, 3, 4]), st.integers(-1, 4), ENDS, ENDS)
def test_the_rows_between_two_ids_are_those_of_the_documents_there(
    count: int, lacking: int, first: str, after: str
) -> None:
    files = ParquetTables(MemoryFiles())
    table = Table(NAME, files, rows_of_buckets(files, count, lacking))
    made = [doc_id for doc_id in DOCUMENTS if bucket_of(doc_id, count) != lacking]
    wanted = [doc_id for doc_id in made if first <= doc_id < after]
    if first < after:
        assert [row.doc_id for row in from_table(DocumentSummary, table.rows_between(first, after))] == wanted
        assert table.rows_between(first, after, ["doc_id"])["doc_id"].to_pylist() == wanted
    missing = [doc_id for doc_id in DOCUMENTS if bucket_of(doc_id, count) == lacking and first <= doc_id < after]
    assert not (missing and table.holds(first, after))
    assert (table.rows, table.documents, table.column("doc_id")) == (len(made), len(made), made)
    assert [doc_id for doc_id, _ in table.states()] == made


def engine_of(buckets: int, files: ParquetTables, manifest: MemoryManifest) -> Engine:
    return Engine(settings_from({"buckets": buckets}), files, manifest, Run(), Frozen(), {})


def commit_listing(engine: Engine, ranges: list[Range]) -> None:
    """A listing in files of these ranges, whose rows nobody reads."""
    key, rows = engine.key("raw_documents"), []
    for ends in ranges:
        file = engine.tables.write("raw_documents", key, ends, to_table(RawDocument, ()), {})
        rows.append(ManifestRow("raw_documents", key, *ends, file, True, "", "", 0, 0))
    engine.catalog.commit(rows, "raw_documents", key, ranges)


def commit_made(engine: Engine, rows: list[ManifestRow]) -> None:
    key = engine.key(STAGE_OF_TABLE[NAME].name)
    for row in rows:
        engine.catalog.commit([replace(row, key=key)], "", key, [row.range])


EIGHTHS = [bucket_range(at, 8) for at in range(8)]


def test_parts_are_those_of_the_buckets_and_documents_that_are_asked_for() -> None:
    files, manifest = ParquetTables(MemoryFiles()), MemoryManifest()
    engine = engine_of(4, files, manifest)
    commit_listing(engine, EIGHTHS)
    commit_made(engine, rows_of_buckets(files, 8, 5))

    def eighths(parts: list[Part]) -> list[int]:
        return [EIGHTHS.index(part.range) for part in parts]

    assert eighths(engine.parts([NAME])) == [0, 1, 2, 3, 4, 6, 7]
    assert eighths(engine.parts([NAME], buckets=[2, 0])) == [0, 1, 4]
    assert eighths(engine.parts([NAME], partial=True)) == list(range(8))
    assert [(part.bucket, part.has(NAME)) for part in engine.parts([NAME], [2], partial=True)] == [
        (2, True),
        (2, False),
    ]
    own = engine.parts([NAME], doc_ids=DOCUMENTS[:1])
    assert eighths(own) == [bucket_of(DOCUMENTS[0], 8)] == eighths([engine.part_of(DOCUMENTS[0], [NAME])])
    assert DOCUMENTS[0] in own[0].read(NAME)["doc_id"].to_pylist() and DOCUMENTS[0] in own[0].states(NAME)
    assert own[0].first <= DOCUMENTS[0] < own[0].after and own[0].bucket == bucket_of(DOCUMENTS[0], 4)
    assert engine.unmade(NAME) == [2]
    with pytest.raises(IndexStateError, match=r"document_summaries has not been made .* for bucket 02"):
        engine.parts([NAME], [2], require=True)
    assert not engine.parts(["chunks", NAME]) and not engine.parts([NAME, "chunks"], having="chunks", require=True)


@pytest.mark.parametrize(
    ("buckets", "listed", "cut_at"),
    [
        (2, [], [(0, 0, 4), (1, 4, 8)]),
        (2, [(0, 8)], [(0, 0, 4), (1, 4, 8)]),
        (2, [(0, 2), (2, 8)], [(0, 0, 2), (0, 2, 4), (1, 4, 8)]),
        (4, [(0, 1), (1, 5), (5, 8)], [(0, 0, 1), (0, 1, 2), (1, 2, 4), (2, 4, 5), (2, 5, 6), (3, 6, 8)]),
        (1, [(0, 1), (6, 7)], [(0, 0, 1), (0, 1, 6), (0, 6, 7), (0, 7, 8)]),
    ],
)
def test_parts_are_the_files_of_the_listing_cut_at_the_bounds_of_buckets(
    buckets: int, listed: list[tuple[int, int]], cut_at: list[tuple[int, int, int]]
) -> None:
    """In eighths of all ids. Lost files of the listing are parts like others."""
    files = ParquetTables(MemoryFiles())
    engine = engine_of(buckets, files, MemoryManifest())
    commit_listing(engine, [(EIGHTHS[one][0], EIGHTHS[two - 1][1]) for one, two in listed])
    wanted = [(bucket, EIGHTHS[one][0], EIGHTHS[two - 1][1]) for bucket, one, two in cut_at]
    assert [(part.bucket, *part.range) for part in engine.parts(())] == wanted
    for bucket in range(buckets):
        own = [(part.bucket, *part.range) for part in engine.parts((), [bucket])]
        assert own == [each for each in wanted if each[0] == bucket]


@pytest.mark.parametrize("count", [1, 3, 16])
def test_a_part_reads_its_documents_from_whatever_files_have_them(count: int) -> None:
    """The files of a table are of other ranges than the parts: wider, narrower or neither."""
    files, manifest = ParquetTables(MemoryFiles()), MemoryManifest()
    engine = engine_of(4, files, manifest)
    commit_listing(engine, EIGHTHS)
    commit_made(engine, rows_of_buckets(files, count, -1))
    assert engine.unmade(NAME) == []
    parts = engine.parts([NAME], require=True)
    assert [part.range for part in parts] == EIGHTHS
    for part in parts:
        own = [doc_id for doc_id in DOCUMENTS if part.first <= doc_id < part.after]
        assert part.read(NAME)["doc_id"].to_pylist() == [*part.states(NAME)] == own
        assert (part.rows(NAME), part.documents(NAME), part.stored_rows(NAME)) == (len(own),) * 3
        assert [each for piece in part.pieces(NAME, ["doc_id"]) for each in piece["doc_id"].to_pylist()] == own
        assert list(part.records(NAME, own[:2])) == own[:2]
        for doc_id in own:
            file, _ = part.origin(NAME, doc_id)
            assert doc_id in files.documents(file)
    whole, again = engine.table(NAME), engine.table(NAME, buckets=[1, 2])
    assert whole.column("doc_id") == DOCUMENTS
    assert again.column("doc_id") == [doc_id for doc_id in DOCUMENTS if bucket_of(doc_id, 4) in (1, 2)]
    assert again.rows == again.documents == len(again.column("doc_id"))
    assert len({part.output(NAME) for part in parts}) == 8, "parts of one file have different outputs"
