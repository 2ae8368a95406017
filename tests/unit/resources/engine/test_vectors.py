"""Vectors known by what they are made of, over real files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipelines.ranges import ALL_IDS, bucket_range
from pipelines.records import Embedding
from pipelines.schemas import to_table
from resources.engine import Part
from resources.engine.committed import StoredRows
from resources.engine.tables import ParquetTables
from resources.engine.vectors import KnownVectors, id_hashes, imported_for, kept_files, keys_from, vectors_of
from resources.postgres.catalog import ManifestRow

VECTORS = np.arange(24, dtype=np.float32).reshape(6, 4)


def key(number: int) -> str:
    """Ends and begins with bytes of zero, which keys may."""
    return f"{number:04x}{number:026x}00"


@pytest.fixture
def tables(tmp_path: Path) -> ParquetTables:
    """Three files of a table: two of the model `mine`, of other stage keys, and one of another model."""
    made = ParquetTables(str(tmp_path))
    for stage, note, numbers in (("one", "mine", [0, 1, 2]), ("two", "mine", [3, 4]), ("three", "other", [5])):
        rows = [Embedding(f"doc {stage}", at, f"item {at}", key(at), VECTORS[at]) for at in numbers]
        made.write("vectors", stage, ALL_IDS, to_table(Embedding, rows), {}, note)
    (tmp_path / "vectors" / "one" / "00-torn.parquet").write_bytes(b"PAR1 torn")
    return made


def keys(*numbers: int) -> list[str]:
    return [key(number) for number in numbers]


def expected(known: KnownVectors, wanted: Sequence[str]) -> set[str]:
    """As `seek`, of all that a stage will ask for."""
    ascending = sorted(wanted)
    there = known.expect(keys_from(ascending))
    return {key for key, found in zip(ascending, there.tolist(), strict=True) if not found}


Sought = Callable[[KnownVectors, Sequence[str]], set[str]]
BOTH = pytest.mark.parametrize("sought", [KnownVectors.seek, expected])


@BOTH
def test_vectors_of_one_model_are_found_in_any_file(tables: ParquetTables, sought: Sought) -> None:
    known = KnownVectors(tables, "vectors", "mine")
    assert sought(known, keys(4, 1, 5, 9)) == set(keys(5, 9))
    assert known.missing(keys(4, 1, 5)) == set(keys(5))
    known.add(keys(5), -VECTORS[5:6])
    assert known.missing(keys(4, 1, 5)) == set()
    assert np.array_equal(known.rows(keys(5, 1, 4, 1)), [-VECTORS[5], VECTORS[1], VECTORS[4], VECTORS[1]])


@BOTH
def test_a_vector_that_is_let_go_is_read_again(tables: ParquetTables, sought: Sought) -> None:
    known = KnownVectors(tables, "vectors", "mine")
    sought(known, keys(0, 3))
    known.missing(keys(0, 3))
    known.forget(keys(0, 8))
    with pytest.raises(KeyError):
        known.rows(keys(0))
    assert known.missing(keys(0)) == set()
    assert np.array_equal(known.rows(keys(0, 3)), VECTORS[[0, 3]])


def test_a_vector_that_stays_does_not_hold_those_made_with_it(tables: ParquetTables) -> None:
    known = KnownVectors(tables, "vectors", "mine")
    made = VECTORS[:2].copy()
    known.add(keys(7, 8), made)
    made[:] = 0
    assert np.array_equal(known.rows(keys(7, 8)), VECTORS[:2])


def test_vectors_of_some_documents_by_item(tables: ParquetTables) -> None:
    (file,) = [name for name in tables.files("vectors") if "two" in name]
    row = ManifestRow("vectors", "two", *ALL_IDS, file, True, "", "", 2, 1)
    part = Part(0, *ALL_IDS, {"vectors": StoredRows(tables, "vectors", [row])})
    found = vectors_of(part, "vectors", ["doc two", "doc nine"])
    assert found.keys() == {"doc two", "doc nine"}
    assert found["doc nine"] == {}
    assert found["doc two"].keys() == {"item 3", "item 4"}
    assert np.array_equal(found["doc two"]["item 4"], VECTORS[4])


@BOTH
def test_a_vector_of_a_damaged_file_is_taken_from_another_or_made_anew(
    tables: ParquetTables, tmp_path: Path, sought: Sought
) -> None:
    rows = [Embedding("doc four", at, f"item {at}", key(at), VECTORS[at]) for at in (1, 2)]
    spare = tables.write("vectors", "four", ALL_IDS, to_table(Embedding, rows), {}, "mine")
    (torn,) = [name for name in tables.files("vectors") if "/one/" in name and "torn" not in name]
    os.utime(tmp_path / spare, ns=(0, 0))  # the oldest, so that the other is found first
    known = KnownVectors(tables, "vectors", "mine")
    assert sought(known, keys(0, 1, 3)) == set()
    content = (tmp_path / torn).read_bytes()
    (tmp_path / torn).write_bytes(content[:20] + bytes([content[20] ^ 1]) + content[21:])
    assert known.missing(keys(0, 1, 3)) == set(keys(0))
    assert np.array_equal(known.rows(keys(1, 3)), VECTORS[[1, 3]])
    assert list(tables.damaged) == [torn]


@BOTH
@pytest.mark.parametrize("digits", [None, b"\xff\xfe", b"no key", key(0)[:-1].encode()])
def test_a_file_whose_keys_are_none_is_passed_over(
    tables: ParquetTables, tmp_path: Path, sought: Sought, digits: bytes | None
) -> None:
    rows = to_table(Embedding, [Embedding("doc", at, f"item {at}", key(at), VECTORS[at]) for at in (0, 5)])
    hashes = pa.array([digits, key(5).encode()], pa.binary())
    bad = pa.StringArray.from_buffers(2, *hashes.buffers()[1:], hashes.buffers()[0])
    named = rows.schema.get_field_index("text_hash")
    file = tables.write("vectors", "bad", ALL_IDS, rows.set_column(named, "text_hash", bad), {}, "mine")
    os.utime(tmp_path / file, (2**31, 2**31))  # the newest, so that it is looked at first
    known = KnownVectors(tables, "vectors", "mine")
    assert sought(known, keys(0, 5)) == set(keys(5))
    assert known.missing(keys(0)) == set()


@pytest.mark.parametrize(
    ("buckets", "count", "left"),
    [
        ([0, 1, 2, 3], 4, []),
        ([1], 4, [0, 2, 3]),
        ([0, 1], 2, []),
        ([0], 2, [2, 3]),
        ([0], 8, [0, 1, 2, 3]),
        ([0, 1], 8, [1, 2, 3]),
        ([0, 1], 3, [2, 3]),
        ([1], 3, [0, 1, 2, 3]),
        ([], 4, [0, 1, 2, 3]),
    ],
)
@pytest.mark.parametrize("place", ["unfinished", imported_for("key")])
def test_kept_vectors_go_once_all_buckets_of_their_documents_are_committed(
    tmp_path: Path, buckets: list[int], count: int, left: list[int], place: str
) -> None:
    """Each file has the vectors of a quarter of all documents. What has no range is of no bucket."""
    tables = ParquetTables(str(tmp_path))
    known = KnownVectors(tables, "vectors", "mine")
    rows = [to_table(Embedding, [Embedding("doc", at, "item", key(at), VECTORS[at])]) for at in range(5)]
    if place == "unfinished":
        known.keep(rows[4])
        for at in range(4):
            known.keep(rows[at], bucket_range(at, 4))
    else:
        for at, ends in enumerate([*(bucket_range(at, 4) for at in range(4)), ALL_IDS]):
            tables.write("vectors", place, ends, rows[at], {}, "mine")
    other = tables.write("vectors", imported_for("other"), bucket_range(1, 4), rows[0], {}, "mine")
    known.unkeep("key", buckets, count)
    found = kept_files(tables, "vectors", place)
    assert sorted(ends for ends in found.values() if ends) == [bucket_range(at, 4) for at in left]
    assert None in found.values() and tables.exists(other)


def test_ids_have_the_same_hash_in_every_column_and_another_under_another_seed() -> None:
    ids = ["a", "b", "abcdefgh", "abcdefgh2", "2abcdefgh", "x" * 32, "x" * 31 + "y", "Лідія"]
    hashes = [int(value) for value in id_hashes(pa.chunked_array([ids]), 7)]
    assert len({*hashes, 0}) == len(ids) + 1
    assert [int(id_hashes(pa.chunked_array([[each]]), 7)[0]) for each in ids] == hashes
    assert not {*hashes} & {int(value) for value in id_hashes(pa.chunked_array([ids]), 8)}
    assert id_hashes(pa.chunked_array([["", None, "a"]]), 7).tolist() == [0, 0, hashes[0]]
    assert id_hashes(pa.chunked_array([[]], pa.string()), 7).tolist() == []
