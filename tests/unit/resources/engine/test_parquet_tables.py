"""Files of tables that are not the ones that were written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipelines.errors import DamagedFile, IndexStateError
from pipelines.increments import DocumentState
from pipelines.ranges import ALL_IDS, Range, bucket_range
from pipelines.records import DocumentSummary
from pipelines.schemas import from_table, to_table
from resources.engine.tables import ParquetTables

ROWS = [DocumentSummary(f"doc {number}", f"Summary of {number}.", "off") for number in range(3)]
STATES = {row.doc_id: DocumentState("from", "made") for row in ROWS}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "parquet"


def write(root: Path, rows: list[DocumentSummary] = ROWS, ends: Range = ALL_IDS) -> str:
    return ParquetTables(str(root)).write("summaries", "key", ends, to_table(DocumentSummary, rows), STATES, "note")


def test_written_rows_are_read_back(root: Path) -> None:
    name, tables = write(root), ParquetTables(str(root))
    assert from_table(DocumentSummary, tables.read(name)) == ROWS
    assert tables.documents(name) == STATES
    assert (tables.note(name), tables.rows(name)) == ("note", 3)
    assert (tables.exists(name), tables.damaged) == (True, {})


def test_a_range_without_documents_has_a_name_and_no_file(root: Path) -> None:
    tables = ParquetTables(str(root))
    name = tables.write("document_summaries", "key", bucket_range(3, 16), to_table(DocumentSummary, ()), {})
    assert not root.exists() and tables.files() == [] and tables.sizes() == {}
    assert tables.exists(name) and tables.intact(name) and tables.rows(name) == 0 and tables.note(name) == ""
    assert tables.documents(name) == {} and from_table(DocumentSummary, tables.read(name)) == []
    assert tables.read(name, ["doc_id"]).column_names == ["doc_id"]
    assert [piece.num_rows for piece in tables.pieces(name, ["text"])] == [0]
    tables.require_intact(name)


def test_a_range_whose_documents_have_no_rows_has_a_file(root: Path) -> None:
    tables = ParquetTables(str(root))
    name = tables.write("document_summaries", "key", bucket_range(3, 16), to_table(DocumentSummary, ()), STATES)
    assert tables.files() == [name] and tables.documents(name) == STATES and tables.read(name).num_rows == 0


@pytest.mark.defends("7a")
def test_a_bit_that_flips_anywhere_is_found_by_every_way_to_read(root: Path) -> None:
    name = write(root)
    file = root / name
    good = file.read_bytes()
    for place in range(len(good)):
        file.write_bytes(good[:place] + bytes([good[place] ^ 1 << place % 8]) + good[place + 1 :])
        tables = ParquetTables(str(root))
        read = (tables.read, lambda file, tables=tables: tables.read(file, ["doc_id"]), tables.documents, tables.note)
        with pytest.raises(DamagedFile, match=name):
            (*read, tables.rows, tables.require_intact)[place % 6](name)
        assert not tables.exists(name), "it counts as gone from then on"
        assert not tables.intact(name)


@pytest.mark.parametrize("length", [0, 3, 4, 8, -1, -8])
def test_a_file_that_was_cut_is_found(root: Path, length: int) -> None:
    name = write(root)
    os.truncate(root / name, length % (root / name).stat().st_size)
    with pytest.raises(DamagedFile):
        ParquetTables(str(root)).documents(name)


def test_a_whole_file_in_the_place_of_another_is_found(root: Path) -> None:
    """Of another bucket, or as it was before."""
    name = write(root)
    for other in (write(root, ROWS, bucket_range(1, 2)), write(root, ROWS[:2])):
        (root / name).write_bytes((root / other).read_bytes())
        with pytest.raises(DamagedFile):
            ParquetTables(str(root)).read(name)


@pytest.mark.parametrize("first", ["rows", "require_intact"])
@pytest.mark.parametrize("second", ["read", "require_intact"])
def test_a_file_that_changes_between_two_reads_of_a_process_is_found(root: Path, first: str, second: str) -> None:
    name, tables = write(root), ParquetTables(str(root))
    getattr(tables, first)(name)
    good = (root / name).read_bytes()
    (root / name).write_bytes(good[:40] + b"?" + good[41:])
    with pytest.raises(DamagedFile):
        getattr(tables, second)(name)


def test_a_damaged_file_is_replaced_by_the_same_made_again(root: Path) -> None:
    name, tables = write(root), ParquetTables(str(root))
    (root / name).write_bytes(b"PAR1")
    with pytest.raises(DamagedFile):
        tables.read(name)
    again = tables.write("summaries", "key", ALL_IDS, to_table(DocumentSummary, ROWS), STATES, "note")
    assert again == name
    assert from_table(DocumentSummary, tables.read(name)) == ROWS


def test_a_glance_at_a_damaged_file_tells_nothing_or_what_reading_takes_back(root: Path) -> None:
    name = write(root)
    assert ParquetTables(str(root)).peek(name, ["text"]) is not None
    (root / name).write_bytes(b"PAR1 torn PAR1")
    assert ParquetTables(str(root)).peek(name, ["text"]) is None


@pytest.mark.parametrize("way", ["read", "require_intact"])
def test_a_file_that_is_gone_is_told_from_a_damaged_one(root: Path, way: str) -> None:
    name = write(root)
    (root / name).unlink()
    with pytest.raises(IndexStateError) as told:
        getattr(ParquetTables(str(root)), way)(name)
    assert told.value.code == "missing_file"
