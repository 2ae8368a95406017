"""Turns docling's JSON (a DoclingDocument) into a structural map, `NAME.elements.json`.

    docling report.pdf --to json --output out
    python examples/docling_to_elements.py out/report.json report.pdf.elements.json

The map beside `report.pdf` is read in its place: docling's structure, indexed under the file's own
name. Nothing but the standard library is used, so that this is also the example of a converter for
another extractor; docs/reference/elements.md describes what it writes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KINDS = {
    "title": "heading",
    "section_header": "heading",
    "field_heading": "heading",
    "list_item": "list_item",
    "caption": "caption",
    "footnote": "footnote",
    "formula": "formula",
    "code": "code",
    "page_header": "page_header",
    "page_footer": "page_footer",
}
PARAGRAPHS = {
    *("text", "paragraph", "reference", "handwritten_text", "empty_value", "grading_scale", "marker"),
    *("field_key", "field_value", "field_hint", "form_header", "form_item", "form_text"),
}
CHECKED = {"checkbox_selected": ("☑", "yes"), "checkbox_unselected": ("☐", "no")}
OUTSIDE = frozenset(("furniture", "background", "invisible"))
"""Layers that are kept out of the text; `notes` are in it."""

COLLECTIONS = ("texts", "tables", "pictures", "key_value_items", "form_items", "field_items")

Item = dict[str, Any]


class Converter:
    """Walks the tree of a DoclingDocument in reading order; every item is taken once."""

    def __init__(self, document: Item) -> None:
        self.document = document
        self.elements: list[Item] = []
        self.warnings: list[str] = []
        self.taken: set[str] = set()
        self.sheet: str | None = None
        mimetype = (document.get("origin") or {}).get("mimetype", "")
        # Only pages of PDFs and pictures are measured in points; a sheet's page is measured in cells.
        self.measured = not mimetype or mimetype == "application/pdf" or mimetype.startswith("image/")
        self.slides = "presentation" in mimetype
        self.sizes = {int(number): page["size"] for number, page in (document.get("pages") or {}).items()}
        self.has_title = any(item["label"] == "title" for item in document.get("texts", []))
        self.facts = self._facts()

    def convert(self) -> Item:
        for root in ("body", "furniture"):
            self._children(self.document.get(root) or {}, depth=0)
        self._left_over()
        numbers = sorted(self.sizes)
        whole = self.measured and numbers == list(range(1, len(numbers) + 1))
        pages = [{"width": s["width"], "height": s["height"]} for _, s in sorted(self.sizes.items())]
        values = {
            "version": 1,
            "origin": "docling",
            "pages": pages
            if whole and all(size["width"] and size["height"] for size in pages)
            else max(numbers, default=0),
            "warnings": self.warnings,
            "elements": self.elements,
        }
        return {key: value for key, value in values.items() if value not in ([], 0)}

    # ------------------------------------------------------------ the tree

    def _resolve(self, reference: Item) -> Item | None:
        """The item that `{"$ref": "#/texts/3"}` means, the first time it is asked for."""
        path = reference.get("$ref") or reference.get("cref") or ""
        if path in self.taken:
            return None
        self.taken.add(path)
        _, _, rest = path.partition("#/")
        collection, _, index = rest.partition("/")
        try:
            return self.document[collection][int(index)] if index else self.document[collection]
        except (KeyError, IndexError, ValueError):
            self.warnings.append(f"{path}: no such item")
            return None

    def _left_over(self) -> None:
        """Items that nothing leads to come last, rather than not at all."""
        for name in COLLECTIONS:
            for item in self.document.get(name) or []:
                if item["self_ref"] not in self.taken:
                    self.warnings.append(f"{item['self_ref']}: stands in no tree; it comes last")
                    self._item(item, depth=0)

    def _refs(self, item: Item, *names: str) -> Iterator[Item]:
        for name in names or ("children",):
            for reference in item.get(name) or []:
                found = self._resolve(reference)
                if found is not None:
                    yield found

    def _children(self, item: Item, depth: int) -> None:
        for child in self._refs(item):
            self._item(child, depth)

    def _item(self, item: Item, depth: int) -> None:
        label = item.get("label", "")
        self.taken.add(item.get("self_ref", ""))
        if label == "inline":
            self._inline(item)
        elif label in ("list", "ordered_list"):
            self._children(item, depth + 1)
        elif label == "sheet":
            self.sheet = item.get("name", "").removeprefix("sheet: ")
            self._children(item, depth)
        elif "graph" in item:
            self._captions(item, depth)
            self._graph(item)
        elif label == "field_item":
            self._field(item, depth)
        elif "data" in item:
            self._captions(item, depth)
            self._table(item)
            self._after(item, depth)
        elif "captions" in item and "text" not in item:
            self._captions(item, depth)
            self._description(item)
            self._after(item, depth)
        elif "text" in item:
            self._text(item, depth)
            self._after(item, depth)
        else:
            self._children(item, depth)

    def _captions(self, item: Item, depth: int) -> None:
        for caption in self._refs(item, "captions"):
            self._item(caption, depth)

    def _after(self, item: Item, depth: int) -> None:
        for name in ("footnotes", "children"):
            for child in self._refs(item, name):
                self._item(child, depth)

    # ------------------------------------------------------------ places

    def _box(self, prov: Item, box: Item | None = None) -> Item | None:
        """A box of docling in points from the top left, within its page."""
        box = box or prov.get("bbox")
        size = self.sizes.get(prov.get("page_no", 0))
        bottom_left = bool(box) and box.get("coord_origin", "TOPLEFT") == "BOTTOMLEFT"
        if not self.measured or not box or (bottom_left and size is None):
            return None
        top, bottom = (size["height"] - box[side] if bottom_left else box[side] for side in ("t", "b"))
        width, height = (size["width"], size["height"]) if size else (float("inf"), float("inf"))
        x0, x1 = sorted(min(max(value, 0.0), width) for value in (box["l"], box["r"]))
        y0, y1 = sorted(min(max(value, 0.0), height) for value in (top, bottom))
        return {"page": prov["page_no"], "x0": round(x0, 2), "y0": round(y0, 2), "x1": round(x1, 2), "y1": round(y1, 2)}

    def _place(self, prov: Item, box: Item | None = None) -> Item:
        """The place of a run: a box, else a locator."""
        found = self._box(prov, box)
        if found is not None:
            return {"box": found}
        if self.sheet:
            return {"locator": self.sheet}
        page = prov.get("page_no")
        return {"locator": f"{'slide' if self.slides else 'page'} {page}"} if page else {}

    def _runs(self, item: Item, text: str | None = None) -> list[Item]:
        """The text of an item, cut where docling says that the next page or column begins."""
        text = item.get("text") or item.get("orig") or "" if text is None else text
        provs = item.get("prov") or [{}]
        starts = [(prov.get("charspan") or [0])[0] for prov in provs]
        if starts[0] != 0 or starts != sorted(set(starts)) or starts[-1] >= max(len(text), 1):
            provs, starts = provs[:1], [0]
        runs = []
        for prov, start, end in zip(provs, starts, [*starts[1:], len(text)], strict=True):
            joined = {"joined": True} if start and not text[start - 1].isspace() and not text[start].isspace() else {}
            runs.append({"text": text[start:end], **self._place(prov), **joined})
        return runs

    # ------------------------------------------------------------ items

    def _add(self, item: Item, kind: str, runs: list[Item], **more: Any) -> None:
        if any(run["text"].strip() for run in runs):
            outside = item.get("content_layer") in OUTSIDE and kind not in ("page_header", "page_footer")
            metadata = {**more.pop("metadata", {}), **self.facts.get(item.get("self_ref", ""), {})}
            known = {key: value for key, value in {**more, "metadata": metadata}.items() if value}
            self.elements.append({"kind": "page_header" if outside else kind, "runs": runs, **known})

    def _text(self, item: Item, depth: int) -> None:
        label = item["label"]
        if label in CHECKED:
            sign, state = CHECKED[label]
            text = item.get("text") or ""
            metadata = {f"kv.{text}": state} if text else {}
            self._add(item, "key_value", self._runs(item, f"{sign} {text}"), metadata=metadata)
            return
        if label not in KINDS and label not in PARAGRAPHS:
            self.warnings.append(f"{item.get('self_ref')}: a {label} was taken as a paragraph")
        kind = KINDS.get(label, "paragraph")
        runs = self._runs(item)
        if not runs[0]["text"].strip():  # formatted in parts, which follow in a group
            runs = [run for group in self._inline_groups(item) for run in self._inline_runs(group)]
        more: Item = {}
        if kind == "heading":
            more["level"] = 1 if label == "title" else item.get("level", 1) + self.has_title
        elif kind == "list_item":
            more = {"level": max(depth, 1), "marker": item.get("marker")}
        self._add(item, kind, runs, **more)

    def _inline_groups(self, item: Item) -> Iterator[Item]:
        groups = self.document.get("groups") or []
        for reference in item.get("children") or []:
            collection, _, index = reference.get("$ref", "").removeprefix("#/").partition("/")
            if collection == "groups" and groups[int(index)].get("label") == "inline":
                yield from self._refs({"children": [reference]})

    def _inline_runs(self, group: Item) -> list[Item]:
        return [run for child in self._refs(group) for run in self._runs(child)]

    def _inline(self, group: Item) -> None:
        self._add(group, "paragraph", self._inline_runs(group))

    def _description(self, picture: Item) -> None:
        """What a model said of a picture, as a paragraph that says so."""
        meta = (picture.get("meta") or {}).get("description")
        found = [meta] if meta else [a for a in picture.get("annotations") or [] if a.get("kind") == "description"]
        for description in found[:1]:
            place = self._place((picture.get("prov") or [{}])[0])
            run = {"text": description.get("text") or "", **place}
            self._add(picture, "paragraph", [run], metadata={"figure": "description"})

    def _table(self, table: Item) -> None:
        prov = (table.get("prov") or [{}])[0]
        filled: dict[tuple[int, int], Item] = {}
        cells = []
        for source in table["data"].get("table_cells") or []:
            row, column = source["start_row_offset_idx"], source["start_col_offset_idx"]
            rows, columns = (max(source.get(name) or 1, 1) for name in ("row_span", "col_span"))
            run = {"text": self._cell_text(source), **self._place(prov, source.get("bbox"))}
            if (row, column) in filled:  # two cells in one place: their words are kept together
                filled[row, column]["runs"].append(run)
                continue
            squares = [(r, c) for r in range(row, row + rows) for c in range(column, column + columns)]
            if any(square in filled for square in squares):
                rows, columns, squares = 1, 1, [(row, column)]
            cell = {"row": row, "column": column, "runs": [run]}
            cell |= {key: span for key, span in (("row_span", rows), ("column_span", columns)) if span > 1}
            cell |= {"header": True} if source.get("column_header") else {}
            filled |= dict.fromkeys(squares, cell)
            cells.append(cell)
        if cells:
            outside = table.get("content_layer") in OUTSIDE
            if outside:
                self._add(table, "page_header", [run for cell in cells for run in cell["runs"]])
            else:
                self.elements.append({"kind": "table", "cells": cells})

    def _cell_text(self, cell: Item) -> str:
        """A rich cell says its text and points to the items it is made of, which are not said again."""
        reference = cell.get("ref")
        parts = list(self._texts_of(reference)) if reference else []
        return cell.get("text") or " ".join(parts)

    def _texts_of(self, reference: Item) -> Iterator[str]:
        item = self._resolve(reference)
        if item is not None:
            yield item.get("text") or ""
            for child in item.get("children") or []:
                yield from self._texts_of(child)

    # ------------------------------------------------------------ keys and values

    def _field(self, field: Item, depth: int) -> None:
        """A field of a form: its key, its values, and what else stands with them."""
        parts = list(self._refs(field))
        keys = [part for part in parts if part.get("label") == "field_key"]
        values = [part for part in parts if part.get("label") == "field_value"]
        key, value = (" ".join(part.get("text") or "" for part in side).strip() for side in (keys, values))
        marker = next((part.get("text") for part in parts if part.get("label") == "marker"), None)
        runs = [run for part in (*keys, *values) for run in self._runs(part)]
        if key and value:
            runs[len([run for part in keys for run in self._runs(part)]) - 1]["text"] += ":"
        metadata = {f"kv.{key}": value} if key and value else {}
        self._add(field, "key_value", runs, metadata=metadata, marker=marker)
        for part in parts:
            if part not in keys and part not in values and part.get("label") != "marker":
                self._item(part, depth)

    def _facts(self) -> dict[str, dict[str, str]]:
        """Values that point to an item of the text, by that item: they are not said twice."""
        facts: dict[str, dict[str, str]] = {}
        for name in ("key_value_items", "form_items"):
            for item in self.document.get(name) or []:
                for key, value in pairs(item["graph"]):
                    reference = (value.get("item_ref") or {}).get("$ref")
                    if reference:
                        facts.setdefault(reference, {})[f"kv.{key['text'].rstrip(' :')}"] = value["text"]
        return facts

    def _graph(self, item: Item) -> None:
        said = []
        for key, value in pairs(item["graph"]):
            said += [key["cell_id"], value["cell_id"]]
            if not value.get("item_ref"):
                label = key["text"].rstrip(" :")
                runs = [{"text": f"{label}:", **self._place(key.get("prov") or {})}]
                runs.append({"text": value["text"], **self._place(value.get("prov") or {})})
                self._add(item, "key_value", runs, metadata={f"kv.{label}": value["text"]})
        for cell in item["graph"].get("cells") or []:
            if cell["cell_id"] not in said and not cell.get("item_ref"):
                self._add(item, "key_value", [{"text": cell["text"], **self._place(cell.get("prov") or {})}])


def pairs(graph: Item) -> Iterator[tuple[Item, Item]]:
    """Keys with their values, from the links of a graph in either direction, each once."""
    cells = {cell["cell_id"]: cell for cell in graph.get("cells") or []}
    seen = set()
    for link in graph.get("links") or []:
        ends = link["source_cell_id"], link["target_cell_id"]
        key, value = ends if link["label"] == "to_value" else ends[::-1]
        if link["label"] in ("to_value", "to_key") and (key, value) not in seen:
            seen.add((key, value))
            yield cells[key], cells[value]


def convert(document: Item) -> Item:
    """The structural map of a DoclingDocument, both as plain values."""
    if document.get("schema_name") != "DoclingDocument":
        raise ValueError("this is no JSON of docling: its schema_name is not DoclingDocument")
    return Converter(document).convert()


def main(arguments: list[str]) -> None:
    if not 1 <= len(arguments) <= 2:
        sys.exit(f"usage: {Path(sys.argv[0]).name} DOCLING.json [NAME.elements.json]")
    source = Path(arguments[0])
    document = json.loads(source.read_text(encoding="utf-8"))
    name = (document.get("origin") or {}).get("filename") or source.stem
    target = Path(arguments[1]) if len(arguments) == 2 else source.with_name(f"{Path(name).name}.elements.json")
    target.write_text(json.dumps(convert(document), ensure_ascii=False, indent=1), encoding="utf-8")
    print(target)


if __name__ == "__main__":
    main(sys.argv[1:])
