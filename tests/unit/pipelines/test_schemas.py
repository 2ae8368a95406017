from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from pipelines.errors import IndexStateError
from pipelines.records import Box, Cell, DocumentSummary, Element, Embedding, Place, RawDocument, Stop
from pipelines.schemas import from_table, schema_of, to_table
from pipelines.stages import STAGES
from tests.support.builders import raw


def test_records_survive_the_way_to_arrow_and_back() -> None:
    place = Place(0, 4, Box(1, 1.0, 2.0, 3.0, 4.0), None, None, "Sheet1!A1")
    cell = Cell(0, 0, 1, 2, True, 0, 4, "text")
    element = Element("d", 0, "table", None, None, "text", 0, 4, 1, 1, (place,), (cell,), 1.0, "pdf", {"k": "v"})
    assert from_table(Element, to_table(Element, [element, element])) == [element, element]


def test_null_groups_and_no_groups_are_told_apart() -> None:
    documents = [raw(groups=None), raw(groups=()), raw(groups=("hr",))]
    assert [item.groups for item in from_table(RawDocument, to_table(RawDocument, documents))] == [None, (), ("hr",)]


def test_vectors_are_single_precision() -> None:
    assert str(schema_of(Embedding).field("vector").type.value_type) == "float"


def test_a_wrong_type_is_refused_on_write() -> None:
    with pytest.raises(Exception, match=r"int|convert"):
        to_table(RawDocument, [raw(size="many")])


def test_every_table_of_every_stage_has_a_schema() -> None:
    for stage in STAGES.values():
        for record in stage.tables.values():
            assert schema_of(record).names


def older(record: type, rows: list[Any], *lacking: str) -> pa.Table:
    """A table as a version wrote it that did not know some fields, of the record or of what is in it."""

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: without(part) for name, part in value.items() if name not in lacking}
        return [without(part) for part in value] if isinstance(value, list) else value

    return pa.Table.from_pylist([without(row) for row in to_table(record, rows).to_pylist()])


def test_fields_missing_in_older_files_take_their_default() -> None:
    place = Place(0, 4, Box(1, 1.0, 2.0, 3.0, 4.0), stops=(Stop(2, 3.0, 4.0),))
    element = Element("d", 0, "table", None, None, "text", 0, 4, 1, 1, (place,), (), 1.0, "pdf", {})
    (found,) = from_table(Element, older(Element, [element], "stops"))
    assert found.places == (replace(place, stops=()),)
    summary = DocumentSummary("d", "text", "extractive", "model", "reply", "note")
    assert from_table(DocumentSummary, older(DocumentSummary, [summary], "note")) == [replace(summary, note="")]
    with pytest.raises(IndexStateError, match=r"older version, without text; run `pincite index`") as raised:
        from_table(DocumentSummary, older(DocumentSummary, [summary], "text"))
    assert raised.value.code == "older_file"
