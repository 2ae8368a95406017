"""Maps of external extractors: what they say is taken as it is, what is wrong is named by its path."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import DocumentError
from pipelines.parsing.elements import KINDS
from pipelines.records import Block, BlockCell, Box, ParsedFile, RawDocument, TextRun
from pipelines.settings.sources import SourceSettings
from resources.parsers import elements_map as element_map
from resources.parsers import elements_map as element_schema
from resources.parsers.elements_map import parse_map, to_map
from resources.parsers.registry import media_type_of, parse_file
from resources.sources.files import private_copy
from resources.sources.folder import list_source
from tests.support.documents import elements_of, outline, parse_document
from tests.support.places import LIBRARY, ROOT


def mapped(*elements: Any, **head: Any) -> ParsedFile:
    return parse_map({"version": 1, "elements": list(elements), **head}, "a.elements.json")


def refusal(*elements: Any, **head: Any) -> str:
    with pytest.raises(DocumentError) as caught:
        mapped(*elements, **head)
    assert caught.value.code == "element_map"
    return str(caught.value)


def box(page: float = 1, x0: float = 10, y0: float = 20, x1: float = 30, y1: float = 40) -> dict[str, Any]:
    return {"page": page, "x0": x0, "y0": y0, "x1": x1, "y1": y1}


def paragraph(**changes: Any) -> dict[str, Any]:
    return {"kind": "paragraph", "text": "Words.", **changes}


def write(path: Path, *elements: Any, **head: Any) -> Path:
    path.write_text(json.dumps({"version": 1, "elements": list(elements), **head}), encoding="utf-8")
    return path


# ---------------------------------------------------------------- there and back

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.floats(-1e6, 1e6)
boxes = st.builds(
    lambda page, x, y, w, h: Box(page, x, y, x + w, y + h),
    st.integers(1, 9), numbers, numbers, st.floats(0, 999), st.floats(0, 999),
)  # fmt: skip
offsets = st.none() | st.tuples(st.integers(0, 99), st.integers(0, 99)).map(lambda pair: (min(pair), max(pair)))
gaps = st.lists(st.tuples(numbers, numbers), max_size=2).map(tuple)


@st.composite
def runs(draw: st.DrawFn) -> TextRun:
    start, end = draw(offsets) or (None, None)
    place = (draw(st.none() | boxes), start, end, draw(st.none() | texts))
    return TextRun(draw(texts), *place, draw(st.booleans()), draw(gaps))


run_lists = st.lists(runs(), max_size=3).map(tuple)
cells = st.lists(
    st.builds(BlockCell, st.integers(0, 9), st.integers(0, 9), run_lists, header=st.booleans()),
    max_size=4, unique_by=lambda cell: (cell.row, cell.column),
).map(tuple)  # fmt: skip
metadata = st.dictionaries(texts, texts, max_size=2)
shared = {"confidence": st.floats(0, 1), "metadata": metadata}
blocks = st.builds(
    Block, st.sampled_from(sorted(KINDS - {"table"})), run_lists,
    st.none() | st.integers(1, 9), st.none() | texts, **shared,
) | st.builds(Block, st.just("table"), cells=cells, **shared)  # fmt: skip
properties = st.dictionaries(texts | st.sampled_from(["title", "version", "language"]), texts, max_size=3)


parsed_files = st.builds(
    ParsedFile,
    st.lists(blocks, max_size=4).map(tuple),
    properties,
    st.none() | st.integers(9, 20),
    st.lists(texts, max_size=2).map(tuple),
    st.text("ab", min_size=1),
)


@given(parsed_files)
def test_a_written_map_reads_back_the_same(parsed: ParsedFile) -> None:
    assert parse_map(json.loads(json.dumps(to_map(parsed))), "a") == parsed


@pytest.mark.parametrize("path", sorted(p for p in LIBRARY.rglob("*") if media_type_of(p)), ids=lambda p: p.name)
def test_files_parsed_by_our_parsers_read_back_the_same(path: Path) -> None:
    parsed = parse_file(path, media_type_of(path) or "")
    again = parse_map(json.loads(json.dumps(to_map(parsed))), path.name)
    assert again == parsed


def test_groups_are_a_list_in_the_map() -> None:
    values = to_map(ParsedFile((), {"groups": "legal, board", "author": "A. N."}, origin="x"))
    assert values["document"] == {"groups": ["legal", "board"], "metadata": {"author": "A. N."}}
    assert parse_map(values, "a").properties == {"groups": "legal,board", "author": "A. N."}


def test_no_pages_are_not_an_unknown_number_of_pages() -> None:
    assert [parse_map(to_map(ParsedFile((), pages=count)), "a").pages for count in (0, None)] == [0, None]


def test_half_characters_do_not_stop_the_writing() -> None:
    values = to_map(ParsedFile((Block("paragraph", (TextRun("a\ud800b"),)),)))
    assert json.dumps(values, ensure_ascii=False).encode() and values["elements"][0]["text"] == "ab"


# ---------------------------------------------------------------- the easy form


def test_text_and_boxes_are_enough() -> None:
    found = mapped(paragraph(boxes=[box(2)]), pages=3, document={"title": "T", "metadata": {"a": "b"}})
    assert found.blocks == (Block("paragraph", (TextRun("Words.", Box(2, 10, 20, 30, 40)),)),)
    assert (found.pages, found.properties, found.origin) == (3, {"title": "T", "a": "b"}, "elements.json")


def test_text_over_several_boxes_is_divided_between_words_by_area() -> None:
    found = mapped(paragraph(text="one two three four five six", boxes=[box(1, 0, 0, 10, 10), box(2, 0, 0, 10, 20)]))
    assert [(run.text, run.box and run.box.page) for run in found.blocks[0].runs] == [
        ("one two", 1), ("three four five six", 2),
    ]  # fmt: skip
    halves = mapped(paragraph(text="aaaaaa bbb", boxes=[box(1), box(2)])).blocks[0].runs
    assert [run.text for run in halves] == ["aaaaaa", "bbb"]


@given(st.text("ab \n", max_size=40), st.lists(st.integers(0, 30), min_size=2, max_size=5), st.booleans())
def test_no_character_is_lost_between_boxes(text: str, heights: list[int], code: bool) -> None:
    stacked = [box(number, 0, 0, 10, height) for number, height in enumerate(heights, start=1)]
    found = mapped({"kind": "code" if code else "paragraph", "text": text, "boxes": stacked}).blocks[0]
    assert ("\n" if code else " ").join(run.text for run in found.runs) == text


def test_cells_stand_in_the_box_of_their_table_unless_they_have_their_own() -> None:
    found = mapped(
        {"kind": "table", "boxes": [box(1)], "cells": [
            {"row": 0, "column": 0, "text": "a", "header": True},
            {"row": 0, "column": 1, "text": "b", "boxes": [box(1, 1, 1, 2, 2)]},
        ]}
    ).blocks[0]  # fmt: skip
    assert found.cells == (
        BlockCell(0, 0, (TextRun("a", Box(1, 10, 20, 30, 40)),), header=True),
        BlockCell(0, 1, (TextRun("b", Box(1, 1, 1, 2, 2)),)),
    )


# ---------------------------------------------------------------- what is wrong, by path

CELLS = [{"row": 0, "column": 0, "row_span": 2, "text": "a"}, {"row": 1, "column": 0, "text": "b"}]


@pytest.mark.parametrize(
    ("element", "told"),
    [
        (paragraph(boxes=[box(0)]), "elements[1].boxes[0].page: must be 1 or more"),
        (paragraph(boxes=[box(3)]), "elements[1].boxes[0].page: must be 2 or less, the number of pages"),
        (paragraph(boxes=[box(1.5)]), "elements[1].boxes[0].page: must be a whole number"),
        (paragraph(boxes=[box(True)]), "elements[1].boxes[0].page: must be a whole number"),
        (paragraph(boxes=[box(x1=5)]), "elements[1].boxes[0].x1: must not be less than x0: the box has a negative"),
        (paragraph(boxes=[box(y1=float("nan"))]), "elements[1].boxes[0].y1: must be a finite number"),
        (paragraph(boxes=[box(x1=float("inf"))]), "elements[1].boxes[0].x1: must be a finite number"),
        (paragraph(boxes=[box(x1=101.5)]), "elements[1].boxes[0]: lies outside page 1, which is 100 by 200 points"),
        (paragraph(boxes=[box(2, y0=-2)]), "elements[1].boxes[0]: lies outside page 2"),
        (paragraph(boxes=[[1, 2, 3, 4]]), "elements[1].boxes[0]: must be an object"),
        ({"kind": "paragraf"}, "elements[1].kind: unknown kind 'paragraf'; did you mean 'paragraph'?"),
        ({"kind": "{x}"}, "elements[1].kind: unknown kind '{x}'"),
        ({"kind": "picture-of-a-duck"}, "valid: break, caption, code"),
        ({"text": "a"}, "elements[1].kind: is missing"),
        (paragraph(txt="a"), "elements[1].txt: unknown key; did you mean 'text'?"),
        (paragraph(boxes=[{**box(), "page_no": 1}]), "elements[1].boxes[0].page_no: unknown key; did you mean 'page'?"),
        (paragraph(text=5), "elements[1].text: must be text"),
        (paragraph(level=0), "elements[1].level: must be 1 or more"),
        (paragraph(confidence=1.2), "elements[1].confidence: must be 1 or less"),
        (paragraph(metadata={"a": 1}), "elements[1].metadata.a: must be text"),
        (paragraph(runs=[]), "elements[1]: give either runs, each with its place, or text"),
        ({"kind": "quote", "runs": [{"text": "a", "start": 3}]}, "elements[1].runs[0]: start and end go together"),
        ({"kind": "quote", "runs": [{"text": "a", "box": box(7)}]}, "elements[1].runs[0].box.page: must be 2 or less"),
        (paragraph(cells=CELLS), "elements[1]: only a table has cells, not a paragraph"),
        ({"kind": "table", "text": "a"}, "elements[1]: a table has cells, not a text of its own"),
        ({"kind": "table", "cells": CELLS}, "elements[1].cells[1]: overlaps cells[0] at row 1, column 0"),
        ({"kind": "table", "boxes": [box(), box(2)], "cells": CELLS[1:]}, "each of its cells needs its own"),
        ({"kind": "table", "cells": [{"row": 0, "column": 0, "text": "", "boxes": [box(), box(9)]}]},
         "elements[1].cells[0].boxes[1].page: must be 2 or less"),
        ({"kind": "table", "cells": [{"row": 0, "column": -1}]}, "elements[1].cells[0].column: must be 0 or more"),
        ({"kind": "table", "cells": [{"row": 0, "column": 0, "row_span": 0}]}, "cells[0].row_span: must be 1 or more"),
        ({"kind": "table", "cells": [{"row": 0, "column": 0, "row_span": 1 << 20, "column_span": 1 << 14}]},
         "elements[1].cells[0]: the cells cover more than 10,000,000 squares"),
        ("words", "elements[1]: must be an object"),
    ],
)  # fmt: skip
def test_a_wrong_element_is_named_by_its_path(element: Any, told: str) -> None:
    assert told in refusal(paragraph(), element, pages=[{"width": 100, "height": 200}] * 2)


@pytest.mark.parametrize(
    ("head", "told"),
    [
        ({"version": 2}, "version: must be 1"),
        ({"pages": -1}, "pages: must be 0 or more"),
        ({"pages": "3"}, "pages: must be a whole number"),
        ({"pages": [{"width": 0, "height": 10}]}, "pages[0].width: must be more than 0"),
        ({"pages": [{"width": 5}]}, "pages[0].height: is missing"),
        ({"titel": "x"}, "titel: unknown key; valid: version, origin"),
        ({"document": {"titel": "x"}}, "document.titel: unknown key; did you mean 'title'?"),
        ({"document": {"metadata": {"title": "x"}}}, "document.metadata: 'title' has a place of its own"),
        ({"document": {"metadata": {"Group": "x"}}}, "document.metadata: 'Group' may be meant as document.groups"),
        ({"document": {"groups": ["a,b"]}}, "document.groups: group 'a,b' has a comma"),
        ({"document": {"groups": []}}, "document.groups: groups is blank"),
        ({"document": {"groups": [" "]}}, "document.groups: groups has a blank name"),
        ({"elements": {}}, "elements: must be a list"),
    ],
)
def test_a_wrong_head_is_named_by_its_path(head: dict[str, Any], told: str) -> None:
    assert told in refusal(**head)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"version": 1,', "not valid JSON"),
        (b"[]", "the file: must be an object"),
        (b'{"version": 1, "version": 1}', "'version' is given twice"),
        (b"\xff{", "JSON"),
    ],
)
def test_an_invalid_map_is_named_and_withheld(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "a.elements.json"
    path.write_bytes(content)
    with pytest.raises(DocumentError, match=told) as caught:
        element_map.parse(path)
    assert caught.value.code == "element_map"


def test_five_of_many_problems_are_shown_and_the_rest_counted() -> None:
    message = refusal(*[paragraph(boxes=[box(0), box(9)])] * 40, {"kind": "x"}, pages=2)
    assert message.count("boxes[0].page: must be 1 or more") == 5
    assert "; and 36 more" in message and len(message) < 600


def test_the_shown_part_of_a_problem_is_bounded(tmp_path: Path) -> None:
    assert len(refusal({"kind": "x" * 9999}, {"y" * 9999: 1})) < 1500
    path = tmp_path / "a.elements.json"
    path.write_text('{"version":1,"elements":' + "[" * 100_000 + "]" * 100_000 + "}")
    with pytest.raises(DocumentError, match="nested too deeply"):
        element_map.parse(path)


scalars = (
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | st.sampled_from(["paragraph", "table", "x", ""])
)
keys = st.sampled_from(["kind", "text", "runs", "boxes", "cells", "row", "column", "page", "x0", "x1", "box", "z"])
anything = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4))


@given(anything, st.sampled_from(["elements", "pages", "document", "version", "warnings"]))
def test_whatever_stands_in_a_map_it_is_read_or_refused(value: Any, key: str) -> None:
    values = {"version": 1, "elements": [value if key != "elements" else paragraph()], key: value}
    try:
        assert isinstance(parse_map(values, "a"), ParsedFile)
    except DocumentError as error:
        assert error.code == "element_map"


def test_a_map_over_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(element_map, "MOST_BYTES", 10)
    with pytest.raises(DocumentError, match="divide it") as caught:
        element_map.parse(write(tmp_path / "a.elements.json"))
    assert caught.value.code == "element_map"


def test_every_part_of_the_schema_can_suggest_its_keys() -> None:
    parts = {model for model in vars(element_schema).values() if isinstance(model, type)
             and issubclass(model, element_schema._Part) and not model.__name__.startswith("_")}  # fmt: skip
    assert parts == {*element_schema._MODELS.values(), element_schema.ElementMap}


# ---------------------------------------------------------------- documented


def test_the_example_of_the_page_reads() -> None:
    page = (ROOT / "docs" / "reference" / "elements.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    found = parse_map(json.loads(example), "lease.pdf.elements.json")
    assert found.pages == 2 and [block.kind for block in found.blocks] == [
        "heading", "paragraph", "key_value", "table", "page_footer",
    ]  # fmt: skip


def test_the_schema_knows_every_kind_and_refuses_unknown_keys() -> None:
    values = json.loads((ROOT / "docs" / "reference" / "elements.schema.json").read_text(encoding="utf-8"))
    parts = {**values["$defs"], "file": values}
    assert all(part["additionalProperties"] is False for part in parts.values())
    assert set(values["$defs"]["MapElement"]["properties"]["kind"]["enum"]) == KINDS


# ---------------------------------------------------------------- in a source

STRUCTURE = (
    {"kind": "heading", "level": 1, "text": "Lease", "boxes": [box(1)]},
    {"kind": "key_value", "text": "Tenant: Anna", "boxes": [box(2)], "metadata": {"kv.Tenant": "Anna"}},
)


def listed(root: Path) -> list[RawDocument]:
    return list(list_source(SourceSettings(name="s", path=str(root)), root).documents)


def test_a_map_alone_is_a_document(tmp_path: Path) -> None:
    document, elements, _ = elements_of(write(tmp_path / "lease.elements.json", *STRUCTURE, pages=2))
    assert outline(elements) == [("heading", 1, "Lease"), ("key_value", None, "Tenant: Anna")]
    assert (elements[1].page_start, elements[1].metadata) == (2, {"kv.Tenant": "Anna"})
    assert (document.title, document.pages) == ("Lease", 2)
    assert [raw.uri for raw in listed(tmp_path)] == ["lease.elements.json"]


@pytest.mark.parametrize("name", ["lease.txt", "scan.png"])
def test_a_map_beside_its_file_is_the_structure_of_that_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"other words")
    write(tmp_path / f"{name}.elements.json", *STRUCTURE)
    (raw,) = listed(tmp_path)
    assert raw.uri == name
    document, elements = parse_document(raw, tmp_path / name)
    assert document.body == "Lease\n\nTenant: Anna"
    assert elements[0].origin == "elements.json"


def test_a_change_of_either_file_is_seen(tmp_path: Path) -> None:
    original, structure = tmp_path / "a.txt", tmp_path / "a.txt.elements.json"
    original.write_text("plain")
    (alone,) = listed(tmp_path)
    write(structure, paragraph())
    (paired,) = listed(tmp_path)
    original.write_text("other")
    (edited,) = listed(tmp_path)
    write(structure, paragraph(text="More."))
    (remapped,) = listed(tmp_path)
    hashes = {raw.content_hash for raw in (alone, paired, edited, remapped)}
    assert len(hashes) == 4 and len({raw.doc_id for raw in (alone, paired, edited, remapped)}) == 1
    original.write_text("again")
    with pytest.raises(DocumentError, match="changed while it was read"):
        private_copy(tmp_path, remapped, tmp_path / "copies")


def test_a_figure_is_named_by_the_pages_beside_its_map_and_its_place(tmp_path: Path) -> None:
    pages = tmp_path / "a.pdf"

    def names(path: Path, *places: dict[str, Any]) -> list[str | None]:
        given = [
            {"kind": "figure", "runs": [{"text": "", "box": place}], "metadata": {"kv.N": "1"}} for place in places
        ]
        blocks = element_map.parse(write(path, *given, paragraph())).blocks
        assert "image_hash" not in blocks[-1].metadata and all(block.metadata["kv.N"] == "1" for block in blocks[:-1])
        return [block.metadata.get("image_hash") for block in blocks[:-1]]

    pages.write_bytes(b"%PDF-1.7 one")
    beside, apart = tmp_path / "a.pdf.elements.json", tmp_path / "b.pdf.elements.json"
    first, second = names(beside, box(), box(y0=25))
    assert first and second and first != second
    assert names(beside, box()) == [first] and names(apart, box()) == [None]
    pages.write_bytes(b"%PDF-1.7 two")
    assert names(beside, box()) not in ([first], [second])


def test_patterns_speak_of_the_file_not_of_its_map(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("plain")
    write(tmp_path / "a.txt.elements.json", paragraph())
    taken = SourceSettings(name="s", path=str(tmp_path), include=("*.txt",))
    left_out = SourceSettings(name="s", path=str(tmp_path), exclude=("*.txt",))
    assert [raw.uri for raw in list_source(taken, tmp_path).documents] == ["a.txt"]
    assert not list(list_source(left_out, tmp_path).documents)
