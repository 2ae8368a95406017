"""The example converter: docling's JSON becomes a map that reads back with everything in its place.

The document is written by hand in the form that docling-core 2 writes (schema 1.10)."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.records import Block, BlockCell, Box, ParsedFile, TextRun
from resources.parsers.elements_map import parse, parse_map
from tests.support.places import ROOT

Item = dict[str, Any]


def _example() -> Any:
    spec = importlib.util.spec_from_file_location("docling_to_elements", ROOT / "examples" / "docling_to_elements.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


example = _example()


class Written:
    """A DoclingDocument in the making: items by collection, with their references."""

    def __init__(self, mimetype: str = "application/pdf", pages: int = 2) -> None:
        self.values: Item = {
            "schema_name": "DoclingDocument", "version": "1.10.0", "name": "report",
            "origin": {"mimetype": mimetype, "binary_hash": 1, "filename": "report.pdf"},
            "furniture": self._root("#/furniture", "furniture"), "body": self._root("#/body", "body"),
            **{name: [] for name in ("groups", "texts", "pictures", "tables", "key_value_items", "form_items",
                                     "field_regions", "field_items")},
            "pages": {str(n): {"size": {"width": 600.0, "height": 800.0}, "page_no": n} for n in range(1, pages + 1)},
        }  # fmt: skip

    @staticmethod
    def _root(reference: str, layer: str) -> Item:
        return {"self_ref": reference, "children": [], "content_layer": layer, "name": "_root_", "label": "unspecified"}

    def add(self, collection: str, label: str, parent: Item | None = None, **values: Any) -> Item:
        """An item, last among its parent's children (the body's, unless another is given)."""
        holder = parent or self.values["body"]
        reference = f"#/{collection}/{len(self.values[collection])}"
        item = {"self_ref": reference, "parent": {"$ref": holder["self_ref"]}, "children": [],
                "content_layer": "body", "label": label, **values}  # fmt: skip
        self.values[collection].append(item)
        holder["children"].append({"$ref": reference})
        return item

    def text(self, label: str, text: str, parent: Item | None = None, page: int = 1, **values: Any) -> Item:
        values = {"prov": [prov(page, text=text)], "orig": text, "text": text, **values}
        return self.add("texts", label, parent, **values)

    def parsed(self) -> ParsedFile:
        return parse_map(json.loads(json.dumps(example.convert(self.values))), "report.pdf.elements.json")

    def said(self) -> list[tuple[str, int | None, str]]:
        return [(block.kind, block.level, " ".join(run.text for run in block.runs)) for block in self.parsed().blocks]


def prov(page: int = 1, l: float = 60, t: float = 740, r: float = 540, b: float = 700, text: str = "") -> Item:  # noqa: E741
    box = {"l": l, "t": t, "r": r, "b": b, "coord_origin": "BOTTOMLEFT"}
    return {"page_no": page, "bbox": box, "charspan": [0, len(text)]}


def cell(row: int, column: int, text: str, **values: Any) -> Item:
    rows, columns = values.pop("row_span", 1), values.pop("col_span", 1)
    return {"row_span": rows, "col_span": columns, "start_row_offset_idx": row, "end_row_offset_idx": row + rows,
            "start_col_offset_idx": column, "end_col_offset_idx": column + columns, "text": text,
            "column_header": False, "row_header": False, "row_section": False, "fillable": False, **values}  # fmt: skip


def floating(page: int = 1) -> Item:
    return {"prov": [prov(page)], "captions": [], "references": [], "footnotes": []}


def captioned(document: Written, item: Item, text: str) -> None:
    caption = document.text("caption", text, item)
    item["captions"].append({"$ref": caption["self_ref"]})


def test_boxes_are_turned_to_the_top_left_and_kept_within_the_page() -> None:
    document = Written()
    document.text("text", "Words.", prov=[prov(2, l=-5, t=803.333, r=540, b=700, text="Words.")])
    assert document.parsed().blocks == (Block("paragraph", (TextRun("Words.", Box(2, 0, 0, 540, 100)),)),)
    assert document.parsed().pages == 2


def test_headings_are_below_a_title() -> None:
    document = Written()
    document.text("section_header", "One", level=1)
    assert document.said() == [("heading", 1, "One")]
    document.text("title", "Report")
    document.text("section_header", "Two", level=2)
    assert document.said() == [("heading", 2, "One"), ("heading", 1, "Report"), ("heading", 3, "Two")]


def test_every_label_has_its_kind() -> None:
    document = Written()
    for label in ("text", "footnote", "formula", "code", "page_header", "page_footer", "reference"):
        document.text(label, label)
    document.text("text", "menu", content_layer="furniture")
    document.text("brand_new", "unheard of")
    parsed = document.parsed()
    assert [block.kind for block in parsed.blocks] == [
        "paragraph", "footnote", "formula", "code", "page_header", "page_footer", "paragraph", "page_header",
        "paragraph",
    ]  # fmt: skip
    assert parsed.warnings == ("#/texts/8: a brand_new was taken as a paragraph",)


def test_a_paragraph_over_two_pages_is_cut_where_docling_says() -> None:
    document = Written()
    text = "begins here and ends there"
    second = {**prov(2), "charspan": [16, 26]}
    document.text("text", text, prov=[{**prov(1), "charspan": [0, 15]}, second])
    assert [(run.text.strip(), run.box.page, run.joined) for run in document.parsed().blocks[0].runs if run.box] == [
        ("begins here and", 1, False), ("ends there", 2, False),
    ]  # fmt: skip
    document = Written()
    document.text("text", "interest", prov=[prov(1), {**prov(2), "charspan": [5, 8]}])
    assert [(run.text, run.joined) for run in document.parsed().blocks[0].runs] == [("inter", False), ("est", True)]


def test_lists_are_nested_and_keep_their_markers() -> None:
    document = Written()
    outer = document.add("groups", "list", name="list")
    first = document.text("list_item", "first", outer, enumerated=True, marker="1.")
    inner = document.add("groups", "list", first, name="list")
    document.text("list_item", "deeper", inner, enumerated=False, marker="-")
    document.text("list_item", "second", outer, enumerated=True, marker="2.")
    assert [(b.level, b.marker, b.runs[0].text) for b in document.parsed().blocks] == [
        (1, "1.", "first"), (2, "-", "deeper"), (1, "2.", "second"),
    ]  # fmt: skip


def test_text_formatted_in_parts_is_one_block() -> None:
    document = Written()
    outer = document.add("groups", "list", name="list")
    item = document.text("list_item", "", outer, enumerated=False, marker="", prov=[])
    for holder in (item, None):
        group = document.add("groups", "inline", holder, name="group")
        document.text("text", "Term", group)
        document.text("text", ": definition", group)
    assert document.said() == [("list_item", 1, "Term : definition"), ("paragraph", None, "Term : definition")]


def test_a_table_has_its_caption_before_it_and_its_cells_in_their_boxes() -> None:
    document = Written()
    own = {"l": 60, "t": 70, "r": 100, "b": 80, "coord_origin": "TOPLEFT"}
    cells = [
        cell(0, 0, "Kind", column_header=True, row_span=2, bbox=own),
        cell(0, 1, "Years", column_header=True, col_span=2),
        cell(1, 1, "least", column_header=True), cell(1, 2, "most", column_header=True),
        cell(2, 0, "Invoices", row_header=True), cell(2, 1, "7"), cell(2, 2, "10"),
    ]  # fmt: skip
    table = document.add("tables", "table", **floating(2), data={"table_cells": cells, "num_rows": 3, "num_cols": 3})
    captioned(document, table, "Table 1")
    caption, block = document.parsed().blocks
    assert (caption.kind, caption.runs[0].text) == ("caption", "Table 1")
    whole = Box(2, 60, 60, 540, 100)
    assert block.cells[:3] == (
        BlockCell(0, 0, (TextRun("Kind", Box(2, 60, 70, 100, 80)),), row_span=2, header=True),
        BlockCell(0, 1, (TextRun("Years", whole),), column_span=2, header=True),
        BlockCell(1, 1, (TextRun("least", whole),), header=True),
    )
    assert [cell.header for cell in block.cells] == [True] * 4 + [False] * 3


def test_cells_that_overlap_lose_no_word() -> None:
    document = Written()
    cells = [
        cell(0, 0, "a", col_span=2),
        cell(0, 1, "b"),
        cell(1, 0, "c"),
        cell(0, 2, "d", row_span=2),
        cell(1, 1, "e", col_span=2),
    ]
    document.add("tables", "table", **floating(), data={"table_cells": cells, "num_rows": 2, "num_cols": 3})
    (block,) = document.parsed().blocks
    assert [" ".join(run.text for run in cell.runs) for cell in block.cells] == ["a b", "c", "d", "e"]


def test_the_parts_of_a_rich_cell_are_not_said_again() -> None:
    document = Written()
    table = document.add("tables", "table", **floating(), data={"table_cells": [], "num_rows": 1, "num_cols": 1})
    group = document.add("groups", "unspecified", table, name="rich_cell_group_1_0_0")
    document.text("text", "See", group)
    document.text("text", "page A", group)
    table["data"]["table_cells"] = [cell(0, 0, "See page A", ref={"$ref": group["self_ref"]})]
    (block,) = document.parsed().blocks
    assert block.cells[0].runs[0].text == "See page A"


def test_a_picture_gives_its_caption_its_description_and_its_words() -> None:
    document = Written()
    picture = document.add("pictures", "picture", **floating(), annotations=[])
    captioned(document, picture, "Figure 1: a duck")
    document.text("text", "QUACK", picture)
    picture["meta"] = {"description": {"text": "A duck on a pond.", "created_by": "model"}}
    assert document.said() == [
        ("caption", None, "Figure 1: a duck"), ("paragraph", None, "A duck on a pond."), ("paragraph", None, "QUACK"),
    ]  # fmt: skip
    assert document.parsed().blocks[1].metadata == {"figure": "description"}


def test_keys_and_values_become_metadata() -> None:
    document = Written()
    value = document.text("text", "Anna")
    cells = [
        {"label": "key", "cell_id": 0, "text": "Tenant:", "orig": "Tenant:", "prov": prov()},
        {"label": "value", "cell_id": 1, "text": "Anna", "orig": "Anna", "item_ref": {"$ref": value["self_ref"]}},
        {"label": "key", "cell_id": 2, "text": "Rent", "orig": "Rent", "prov": prov()},
        {"label": "value", "cell_id": 3, "text": "900", "orig": "900", "prov": prov(2)},
        {"label": "unspecified", "cell_id": 4, "text": "signed", "orig": "signed"},
    ]
    links = [{"label": "to_value", "source_cell_id": 0, "target_cell_id": 1},
             {"label": "to_key", "source_cell_id": 1, "target_cell_id": 0},
             {"label": "to_key", "source_cell_id": 3, "target_cell_id": 2}]  # fmt: skip
    document.add("key_value_items", "key_value_region", **floating(), graph={"cells": cells, "links": links})
    found = document.parsed().blocks
    assert [(b.kind, " ".join(run.text for run in b.runs), b.metadata) for b in found] == [
        ("paragraph", "Anna", {"kv.Tenant": "Anna"}),
        ("key_value", "Rent: 900", {"kv.Rent": "900"}),
        ("key_value", "signed", {}),
    ]
    assert [run.box and run.box.page for run in found[1].runs] == [1, 2]


def test_fields_and_check_marks_become_metadata() -> None:
    document = Written()
    region = document.add("field_regions", "field_region", prov=[])
    field = document.add("field_items", "field_item", region, prov=[])
    document.text("marker", "1", field)
    document.text("field_key", "Restaurant", field)
    document.text("field_value", "Docling", field, kind="read_only")
    document.text("checkbox_selected", "Vegetarian")
    found = document.parsed().blocks
    assert [(b.marker, " ".join(run.text for run in b.runs), b.metadata) for b in found] == [
        ("1", "Restaurant: Docling", {"kv.Restaurant": "Docling"}), (None, "☑ Vegetarian", {"kv.Vegetarian": "yes"}),
    ]  # fmt: skip


def test_slides_and_sheets_have_locators_in_place_of_boxes() -> None:
    slides = Written("application/vnd.openxmlformats-officedocument.presentationml.presentation")
    slides.text("text", "Words.", page=2)
    assert slides.parsed().blocks[0].runs == (TextRun("Words.", locator="slide 2"),)
    sheets = Written("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", pages=1)
    sheet = sheets.add("groups", "sheet", name="sheet: Costs")
    sheets.text("text", "Words.", sheet)
    assert sheets.parsed().blocks[0].runs == (TextRun("Words.", locator="Costs"),)


def test_an_item_that_is_missing_is_named_and_a_cycle_ends() -> None:
    document = Written()
    group = document.add("groups", "section", name="loop")
    group["children"] += [{"$ref": "#/groups/0"}, {"$ref": "#/texts/9"}]
    document.text("text", "Words.")
    assert document.said() == [("paragraph", None, "Words.")]
    assert document.parsed().warnings == ("#/texts/9: no such item",)


def test_an_item_outside_the_tree_comes_last() -> None:
    document = Written()
    document.text("text", "lost")
    document.text("text", "found")
    document.values["body"]["children"].pop(0)
    assert [text for _, _, text in document.said()] == ["found", "lost"]
    assert document.parsed().warnings == ("#/texts/0: stands in no tree; it comes last",)


def test_the_command_writes_the_map_beside_its_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = Written()
    document.text("title", "Report")
    (tmp_path / "out.json").write_text(json.dumps(document.values), encoding="utf-8")
    example.main([str(tmp_path / "out.json")])
    assert capsys.readouterr().out.strip() == str(tmp_path / "report.pdf.elements.json")
    assert parse(tmp_path / "report.pdf.elements.json").blocks[0].runs[0].text == "Report"
    with pytest.raises(ValueError, match="schema_name"):
        example.convert({"texts": []})
