from __future__ import annotations

import pytest

from pipelines.records import Box, Cell, Element, Embedding, Place, RawDocument
from pipelines.schemas import from_table, schema_of, to_table
from pipelines.stages import STAGES
from tests.builders import raw


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
