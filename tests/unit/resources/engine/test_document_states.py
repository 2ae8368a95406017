"""What a file's footer says of its documents, as it is written now and as it was by older versions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.errors import DamagedFile
from pipelines.increments import DocumentState
from pipelines.ranges import ALL_IDS
from pipelines.records import DocumentSummary
from pipelines.schemas import to_table
from resources.engine import tables as module
from resources.engine.tables import ParquetTables, as_states, pack_states, states_table, unpack_states
from tests.support.older_files import written_before

STATES = {
    "b": DocumentState("from", "made", None, "run", "2026-11-25T01:00:00+00:00", "changed: the file"),
    "a": DocumentState("", "", "failed", "", "", "нова", "limits"),
}
ROWS = to_table(DocumentSummary, [DocumentSummary(name, f"Of {name}.", "off") for name in ("a", "b")])


def test_states_come_back_in_order_of_their_ids() -> None:
    read = as_states(unpack_states(pack_states(states_table(STATES))))
    assert read == STATES and list(read) == ["a", "b"]
    assert as_states(unpack_states(pack_states(states_table({})))) == {}


def test_a_footer_is_text() -> None:
    """Readers of Parquet take metadata for UTF-8."""
    assert pack_states(states_table(STATES)).isascii()


def test_a_file_of_an_older_version_says_the_same(tmp_path: Path) -> None:
    tables = ParquetTables(str(tmp_path))
    new = tables.write("t", "k", ALL_IDS, ROWS, STATES, "n")
    old = written_before(tmp_path, new, ROWS, STATES, "n")
    assert old != new
    assert tables.documents(old) == tables.documents(new) == STATES
    assert tables.note(old) == tables.note(new) == "n"
    assert tables.states(old).equals(tables.states(new))
    glances = [tables.peek(name, ["doc_id"]) for name in (old, new)]
    assert all(glance is not None and glance[0] == "n" for glance in glances)
    assert tables.read(old).replace_schema_metadata(None).equals(tables.read(new).replace_schema_metadata(None))


def test_states_in_columns_are_written_as_those_in_records(tmp_path: Path) -> None:
    tables = ParquetTables(str(tmp_path))
    assert tables.write("t", "k", ALL_IDS, ROWS, states_table(STATES)) == tables.write("t", "k", ALL_IDS, ROWS, STATES)


# ---------------------------------------------------------------- pieces


def test_the_pieces_of_a_file_are_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROW_GROUP", 3)
    tables, rows = ParquetTables(str(tmp_path)), pa.concat_tables([ROWS] * 4)
    name = tables.write("t", "k", ALL_IDS, rows, STATES)
    pieces = list(tables.pieces(name, ["text"]))
    assert [piece.num_rows for piece in pieces] == [3, 3, 2]
    assert pa.concat_tables(pieces).equals(tables.read(name, ["text"]))


@pytest.mark.defends("7a")
def test_a_bit_that_flips_in_a_large_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is hashed piece by piece, and then read from where it lies."""
    monkeypatch.setattr("resources.engine.files.LARGE", 0)
    name = ParquetTables(str(tmp_path)).write("t", "k", ALL_IDS, ROWS, STATES)
    assert ParquetTables(str(tmp_path)).documents(name) == STATES
    good = (tmp_path / name).read_bytes()
    for place in range(0, len(good), 7):
        (tmp_path / name).write_bytes(good[:place] + bytes([good[place] ^ 1 << place % 8]) + good[place + 1 :])
        tables = ParquetTables(str(tmp_path))
        with pytest.raises(DamagedFile, match=name):
            next(tables.pieces(name))
        assert not tables.exists(name)
