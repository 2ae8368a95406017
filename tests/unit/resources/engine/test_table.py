"""Rows are read by document, whatever files hold them; parts that were never made are named, with the remedy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import IndexStateError
from pipelines.fingerprint import bucket_of, document_id, first_id
from pipelines.increments import DocumentState
from pipelines.records import DocumentSummary
from pipelines.schemas import from_table, to_table
from pipelines.settings.base import settings_from
from pipelines.stages import STAGE_OF_TABLE, UNPARTITIONED, Frozen
from resources.engine import Engine, Table
from resources.engine.committed import committed
from resources.engine.memory import MemoryFiles, MemoryManifest
from resources.engine.tables import ParquetTables
from resources.postgres.catalog import ManifestRow
from resources.state.run import Run

NAME = "document_summaries"
DOCUMENTS = sorted(document_id("docs", f"{number}.txt") for number in range(40))
ENDS = st.sampled_from(["", *(first_id(shard, count) for count in (1, 3, 4, 8) for shard in range(count + 1))])


@pytest.mark.parametrize(
    ("table", "shard", "told"),
    [
        ("parsed_documents", 3, "shard 03 of parsed_documents has not been made .* materialise parsed_elements first"),
        ("sentence_links", UNPARTITIONED, "^sentence_links has not been made .* materialise sentence_links first"),
    ],
)
def test_an_input_that_was_never_made_is_named_with_the_remedy(table: str, shard: int, told: str) -> None:
    with pytest.raises(IndexStateError, match=told) as caught:
        committed(table, shard, {})
    assert caught.value.code == "missing_input"


def rows_of_shards(files: ParquetTables, count: int, lacking: int) -> dict[int, ManifestRow]:
    """Every document has one row, those of the shard `lacking` were never committed."""
    found = {}
    for shard in range(count):
        own = [doc_id for doc_id in DOCUMENTS if bucket_of(doc_id, count) == shard]
        rows = to_table(DocumentSummary, [DocumentSummary(doc_id, "Summary.", "off") for doc_id in own])
        file = files.write(NAME, "key", shard, rows, {doc_id: DocumentState("from", "made") for doc_id in own})
        found[shard] = ManifestRow(NAME, "key", shard, file, "", str(shard), len(own), len(own))
    found.pop(lacking, None)
    return found


@given(st.sampled_from([1, 3, 4]), st.integers(-1, 4), ENDS, ENDS)
def test_the_rows_between_two_ids_are_those_of_the_documents_there(
    count: int, lacking: int, first: str, after: str
) -> None:
    files = ParquetTables(MemoryFiles())
    table = Table(NAME, files, rows_of_shards(files, count, lacking), count)
    made = [doc_id for doc_id in DOCUMENTS if bucket_of(doc_id, count) != lacking]
    wanted = [doc_id for doc_id in made if first <= doc_id < after]
    assert [row.doc_id for row in from_table(DocumentSummary, table.between(first, after))] == wanted
    assert table.between(first, after, ["doc_id"])["doc_id"].to_pylist() == wanted
    missing = [doc_id for doc_id in DOCUMENTS if bucket_of(doc_id, count) == lacking and first <= doc_id < after]
    assert not (missing and table.holds(first, after))
    assert (table.rows, table.column("doc_id")) == (len(made), made)


def test_parts_are_those_of_the_buckets_and_documents_that_are_asked_for() -> None:
    settings = settings_from({"buckets": 4, "shards": 2})
    files, manifest = ParquetTables(MemoryFiles()), MemoryManifest()
    engine = Engine(settings, files, manifest, Run(), Frozen(), {})
    key = engine.key(STAGE_OF_TABLE[NAME].name)
    for shard, row in rows_of_shards(files, 8, 5).items():
        manifest.commit([ManifestRow(NAME, key, shard, row.file, "", "", row.rows, row.documents)], "", key, shard)
    assert [part.number for part in engine.parts([NAME])] == [0, 1, 2, 3, 4, 6, 7]
    assert [part.number for part in engine.parts([NAME], buckets=[2, 0])] == [0, 1, 4]
    assert [part.number for part in engine.parts([NAME], partial=True)] == list(range(8))
    assert [(part.bucket, part.has(NAME)) for part in engine.parts([NAME], [2], partial=True)] == [
        (2, True),
        (2, False),
    ]
    own = engine.parts([NAME], doc_ids=DOCUMENTS[:1])
    assert (
        [part.number for part in own] == [bucket_of(DOCUMENTS[0], 8)] == [engine.part_of(DOCUMENTS[0], [NAME]).number]
    )
    assert DOCUMENTS[0] in own[0].read(NAME)["doc_id"].to_pylist() and DOCUMENTS[0] in own[0].states(NAME)
    assert own[0].first <= DOCUMENTS[0] < own[0].after
    assert engine.unmade(NAME) == ["shard 05"]
    with pytest.raises(IndexStateError, match="shard 05 of document_summaries has not been made"):
        engine.parts([NAME], [2], require=True)
    assert not engine.parts(["chunks", NAME]) and not engine.parts([NAME, "chunks"], having="chunks", require=True)
