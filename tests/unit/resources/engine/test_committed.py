"""resources/engine/committed.py: commits are found by the ids that they cover, and their rows read by document, also
where a file holds others too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from pipelines.fingerprint import document_id
from pipelines.increments import DocumentState
from pipelines.ranges import ALL_IDS, Range, bucket_range
from pipelines.records import DocumentSummary, Embedding
from pipelines.schemas import from_table, to_table
from resources.engine.committed import Commits, StoredRows, Table
from resources.engine.memory import MemoryFiles
from resources.engine.tables import ROW_GROUP, ParquetTables
from resources.postgres.catalog import UNCOUNTED, ManifestRow, rest

NAME = "document_summaries"
DOCUMENTS = sorted(document_id("docs", f"{number}.txt") for number in range(60))
WITHOUT_ROWS = frozenset(DOCUMENTS[::7])
"""Documents that have a state and no rows."""


def row(first: str, after: str, file: str = "") -> ManifestRow:
    name = file or f"{first}-{after}"
    return ManifestRow("chunks", "key", first, after, name, True, f"from {name}", f"output of {name}", 3, 2)


def ends_of(rows: Sequence[ManifestRow]) -> list[Range]:
    return [row.range for row in rows]


# ---------------------------------------------------------------- commits by range


TOUCHING = Commits([row("0", "3"), row("3", "6"), row("6", "g")])
GAPS = Commits([row("1", "3"), row("5", "7"), row("7", "8")])
NONE = Commits()


@pytest.mark.parametrize(
    ("commits", "ends", "over", "of", "covered"),
    [
        (TOUCHING, ("0", "g"), "036", [("0", "3"), ("3", "6"), ("6", "g")], True),
        (TOUCHING, ("3", "6"), "3", [("3", "6")], True),
        (TOUCHING, ("2", "3"), "0", [("2", "3")], True),
        (TOUCHING, ("2", "4"), "03", [("2", "3"), ("3", "4")], True),
        (TOUCHING, ("4", "5"), "3", [("4", "5")], True),
        (TOUCHING, ("1", "7"), "036", [("1", "3"), ("3", "6"), ("6", "7")], True),
        (TOUCHING, ("f", "g"), "6", [("f", "g")], True),
        (TOUCHING, ("", "g"), "036", [("0", "3"), ("3", "6"), ("6", "g")], False),
        (GAPS, ("1", "3"), "1", [("1", "3")], True),
        (GAPS, ("3", "5"), "", [], False),
        (GAPS, ("0", "1"), "", [], False),
        (GAPS, ("8", "g"), "", [], False),
        (GAPS, ("2", "5"), "1", [("2", "3")], False),
        (GAPS, ("4", "6"), "5", [("5", "6")], False),
        (GAPS, ("2", "6"), "15", [("2", "3"), ("5", "6")], False),
        (GAPS, ("5", "8"), "57", [("5", "7"), ("7", "8")], True),
        (GAPS, ("6", "9"), "57", [("6", "7"), ("7", "8")], False),
        (GAPS, ("0", "g"), "157", [("1", "3"), ("5", "7"), ("7", "8")], False),
        (NONE, ("0", "g"), "", [], False),
    ],
)
def test_commits_of_a_range_are_found_and_cut_at_its_bounds(
    commits: Commits, ends: Range, over: str, of: list[Range], covered: bool
) -> None:
    assert [row.first for row in commits.commits_over(ends)] == list(over)
    assert all(row in commits.rows for row in commits.commits_over(ends)), "they are whole"
    assert ends_of(commits.cut_to(ends)) == of
    assert commits.cover(ends) is covered


@pytest.mark.parametrize("seed", range(20))
def test_commits_found_equal_those_of_a_full_scan(seed: int) -> None:
    chance = Random(seed)
    bounds = sorted(chance.sample(range(16), 8))
    every = [row(f"{one:x}", f"{two:x}") for one, two in pairwise(bounds) if chance.random() < 0.7]
    commits = Commits(every)
    assert bool(commits) is bool(every)
    for one in range(16):
        for two in range(one + 1, 16):
            ends = f"{one:x}", f"{two:x}"
            assert commits.commits_over(ends) == [row for row in every if row.first < ends[1] and ends[0] < row.after]
            lies = all(any(row.first <= f"{at:x}" < row.after for row in every) for at in range(one, two))
            assert commits.cover(ends) is lies


def test_a_part_of_a_row_says_of_what_it_is_and_that_nobody_counted_it() -> None:
    whole = row("2", "8", "file")
    assert whole.part(("1", "9")) is whole and whole.part(("2", "8")) is whole
    part = whole.part(("0", "5"))
    assert (part.range, part.file, part.whole) == (("2", "5"), "file", False)
    assert (part.input, part.rows, part.documents) == ("", UNCOUNTED, UNCOUNTED)
    assert len({whole.output, part.output, whole.part(("5", "9")).output}) == 3, "each has other rows"
    assert part == whole.part(("2", "5")), "it is the same whoever cuts it"
    with pytest.raises(AssertionError, match="no document of file is from 8 to before 9"):
        whole.part(("8", "9"))


@pytest.mark.parametrize(
    ("over", "left"),
    [
        (("2", "8"), []),
        (("0", "g"), []),
        (("0", "3"), [("3", "8")]),
        (("5", "g"), [("2", "5")]),
        (("4", "6"), [("2", "4"), ("6", "8")]),
        (("0", "2"), [("2", "8")]),
        (("8", "g"), [("2", "8")]),
    ],
)
def test_the_rest_of_a_row_is_what_is_outside(over: Range, left: list[Range]) -> None:
    whole = row("2", "8", "file")
    found = rest([whole], over)
    assert ends_of(found) == left
    assert all((other is whole) is (other.range == ("2", "8")) for other in found)


# ---------------------------------------------------------------- stored rows


def stored(files: ParquetTables, ends: Range, each: int = 1) -> ManifestRow:
    """A whole commit of a range, in which each document has so many rows, and some have none."""
    own = [doc_id for doc_id in DOCUMENTS if ends[0] <= doc_id < ends[1]]
    rows = [DocumentSummary(doc_id, f"{at}", "off")
            for doc_id in own if doc_id not in WITHOUT_ROWS for at in range(each)]  # fmt: skip
    states = {doc_id: DocumentState("from", f"made {doc_id}") for doc_id in own}
    file = files.write(NAME, "key", ends, to_table(DocumentSummary, rows), states, "a note")
    return ManifestRow(NAME, "key", *ends, file, True, "input", str(ends), len(rows), len(own))


def cuts(seed: int) -> list[Range]:
    """Ranges without overlaps, some of them with a gap between."""
    chance = Random(seed)
    bounds = ["", *sorted(chance.sample(DOCUMENTS, 5)), *sorted(f"{chance.randrange(1 << 32):08x}" for _ in range(3))]
    bounds = [*sorted(bounds), "g"]
    return [(one, two) for one, two in pairwise(bounds) if chance.random() < 0.8]


@pytest.mark.parametrize("seed", range(12))
def test_rows_of_cut_commits_are_those_of_their_documents_in_every_way_to_read(seed: int) -> None:
    files = ParquetTables(MemoryFiles())
    wide = [stored(files, bucket_range(at, 3), each=2) for at in range(3)]
    own = [row.part(ends) for ends in cuts(seed) for row in Commits(wide).commits_over(ends)]
    found = StoredRows(files, NAME, own)
    there = [doc_id for doc_id in DOCUMENTS if any(row.first <= doc_id < row.after for row in own)]
    rows = [(doc_id, text) for doc_id in there if doc_id not in WITHOUT_ROWS for text in "01"]
    assert [(row.doc_id, row.text) for row in from_table(DocumentSummary, found.read())] == rows
    for columns in (["text"], ["text", "doc_id"], ["doc_id"], ["method", "text"]):
        for read in (found.read(columns), *found.reads(columns), *found.pieces(columns)):
            assert read.column_names == columns
    assert found.read(["text"])["text"].to_pylist() == [text for _, text in rows]
    assert [text for read in found.reads(["text"]) for text in read["text"].to_pylist()] == [text for _, text in rows]
    assert [text for read in found.pieces(["text"]) for text in read["text"].to_pylist()] == [text for _, text in rows]
    assert [each for piece in found.pieces() for each in piece["doc_id"].to_pylist()] == [doc_id for doc_id, _ in rows]
    assert found.states() == {doc_id: DocumentState("from", f"made {doc_id}") for doc_id in there}
    assert list(found.states()) == there
    assert (found.rows, found.stored_count, found.documents) == (len(rows), len(rows), len(there))


def test_a_large_file_is_read_by_pieces_and_each_is_cut() -> None:
    files, ends = ParquetTables(MemoryFiles()), (DOCUMENTS[9], DOCUMENTS[51])
    whole = stored(files, bucket_range(0, 1), each=ROW_GROUP // 20)
    part = StoredRows(files, NAME, [whole.part(ends)])
    pieces = [piece["doc_id"].to_pylist() for piece in part.pieces()]
    assert len(pieces) > 1 and [each for piece in pieces for each in piece] == part.read()["doc_id"].to_pylist()
    assert {each for piece in pieces for each in piece} == {*DOCUMENTS[9:51]} - WITHOUT_ROWS


def test_nothing_committed_has_columns_and_no_rows() -> None:
    found = StoredRows(ParquetTables(MemoryFiles()), NAME, [])
    assert (found.read().num_rows, found.read(["text"]).column_names) == (0, ["text"])
    assert (found.states(), found.rows, found.documents, found.stored_count, found.note) == ({}, 0, 0, 0, "")


def test_a_part_without_documents_is_cut_from_its_name_alone() -> None:
    files = ParquetTables(MemoryFiles())
    empty = files.write(NAME, "key", bucket_range(0, 2), to_table(DocumentSummary, ()), {})
    whole = ManifestRow(NAME, "key", *bucket_range(0, 2), empty, True, "", "none", 0, 0)
    part = whole.part(bucket_range(0, 4))
    found = StoredRows(files, NAME, [part])
    assert files.files() == [] and not part.whole
    assert (found.read().num_rows, found.states(), found.rows, found.documents) == (0, {}, 0, 0)
    assert found.read(["text"]).column_names == ["text"]
    noted = stored(files, bucket_range(1, 2))
    assert StoredRows(files, NAME, [part, noted]).note == "a note", "no documents have no note"
    assert [*Table(NAME, files, [part, noted]).unsound("a note")] == []


def test_the_rows_of_several_files_are_one_table() -> None:
    files = ParquetTables(MemoryFiles())
    one, two = (stored(files, bucket_range(at, 2)) for at in range(2))
    found = StoredRows(files, NAME, [one, two]).read()
    assert found.schema.equals(to_table(DocumentSummary, ()).schema, check_metadata=True), "no footer of a file is left"
    assert found["doc_id"].to_pylist() == [doc_id for doc_id in DOCUMENTS if doc_id not in WITHOUT_ROWS]


# ---------------------------------------------------------------- checks of committed files


def test_a_cut_row_is_sound_and_a_miscounted_whole_one_is_told() -> None:
    files = ParquetTables(MemoryFiles())
    first, second = (stored(files, bucket_range(at, 2)) for at in range(2))
    cut = first.part(("", DOCUMENTS[5]))
    assert [*Table(NAME, files, [cut, second]).unsound("a note")] == []
    assert [code for code, _ in Table(NAME, files, [cut, replace(second, rows=1)]).unsound()] == ["miscounted_file"]
    assert [code for code, _ in Table(NAME, files, [cut, second]).unsound("other")] == ["embedder", "embedder"]
    files.delete([first.file])
    table = Table(NAME, files, [cut, second])
    assert [*table.unsound()] == [("missing_file", first.file)]
    assert table.lost == (first.file,)
    assert [table.is_lost(doc_id) for doc_id in DOCUMENTS] == [at < 5 for at in range(len(DOCUMENTS))]
    assert table.lost_buckets(16) == {int(doc_id[0], 16) for doc_id in DOCUMENTS[:5]} | {0}


def test_vectors_are_read_from_a_cut_row_without_their_documents() -> None:
    """The ids of documents decide what is read, and are not handed out unless they are asked for."""
    files = ParquetTables(MemoryFiles())
    rows = [Embedding(doc_id, 0, f"item {at}", "0" * 32, (float(at), 1.0)) for at, doc_id in enumerate(DOCUMENTS)]
    states = {doc_id: DocumentState("from", "made") for doc_id in DOCUMENTS}
    file = files.write("chunk_vectors", "key", ALL_IDS, to_table(Embedding, rows), states, "mine")
    whole = ManifestRow("chunk_vectors", "key", *ALL_IDS, file, True, "", "", len(rows), len(rows))
    part = StoredRows(files, "chunk_vectors", [whole.part((DOCUMENTS[3], DOCUMENTS[5]))])
    read = part.read(["vector", "item_id"])
    assert read.column_names == ["vector", "item_id"]
    assert read.to_pylist() == [
        {"vector": [3.0, 1.0], "item_id": "item 3"},
        {"vector": [4.0, 1.0], "item_id": "item 4"},
    ]
    assert part.note == "mine"
