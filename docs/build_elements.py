"""Writes docs/elements.md and docs/elements.schema.json from the models: `python docs/build_elements.py`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, get_args, get_origin

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pydantic import BaseModel  # noqa: E402

from pipelines.indexing.elements import KINDS  # noqa: E402
from resources.parsers import element_schema as schema  # noqa: E402

EXAMPLE: dict[str, Any] = {
    "version": 1,
    "origin": "my-parser 2.1",
    "document": {"title": "Lease of flat 12", "language": "en", "metadata": {"branch": "Lviv"}},
    "pages": [{"width": 595, "height": 842}, {"width": 595, "height": 842}],
    "elements": [
        {
            "kind": "heading",
            "level": 1,
            "text": "Lease of flat 12",
            "boxes": [{"page": 1, "x0": 72, "y0": 60, "x1": 300, "y1": 82}],
        },
        {
            "kind": "paragraph",
            "runs": [
                {"text": "Rent is paid by bank trans", "box": {"page": 1, "x0": 72, "y0": 770, "x1": 523, "y1": 784}},
                {"text": "fer.", "box": {"page": 2, "x0": 72, "y0": 72, "x1": 110, "y1": 86}, "joined": True},
            ],
        },
        {
            "kind": "key_value",
            "text": "Tenant: Anna Kovalenko",
            "boxes": [{"page": 2, "x0": 72, "y0": 100, "x1": 260, "y1": 114}],
            "metadata": {"kv.Tenant": "Anna Kovalenko"},
        },
        {
            "kind": "table",
            "boxes": [{"page": 2, "x0": 72, "y0": 130, "x1": 300, "y1": 172}],
            "cells": [
                {"row": 0, "column": 0, "text": "Charge", "header": True},
                {"row": 0, "column": 1, "text": "A month", "header": True},
                {"row": 1, "column": 0, "text": "Rent"},
                {"row": 1, "column": 1, "text": "900"},
            ],
        },
        {"kind": "page_footer", "text": "Page 2", "boxes": [{"page": 2, "x0": 280, "y0": 800, "x1": 315, "y1": 812}]},
    ],
}  # fmt: skip

KIND_MEANINGS = {
    "heading": "A title or heading; `level` counts from 1. It opens a section.",
    "paragraph": "Running text.",
    "list_item": "An item; `level` is its nesting, `marker` what stands before it.",
    "table": "`cells`, and no text of its own.",
    "caption": "Of the table or figure that it stands before or after.",
    "formula": "A displayed formula, as LaTeX or text.",
    "code": "Lines and indentation are kept.",
    "key_value": "A label and its value; the value also goes into `metadata` as `kv.LABEL`.",
    "footnote": "A note at the foot of its page.",
    "quote": "A quotation set apart.",
    "figure": "A picture. With a `text`, that is its description, and is found; without, it only has its place.",
    "page_header": "A running header: kept, but no part of the text.",
    "page_footer": "A running footer or page number: kept, but no part of the text.",
    "break": "A break between sections, without text.",
}

INTRODUCTION = """\
# Structural maps: `NAME.elements.json`

What another extractor, such as a cloud or vision-model parser, found in a document is taken as it is when it is
written as a structural map: its blocks in reading order, with their places. This page is generated from the models
(`python docs/build_elements.py`), and so is the JSON Schema, [elements.schema.json](elements.schema.json).

**Where it stands.** `report.pdf.elements.json` beside `report.pdf` is the structure of `report.pdf`: the map is
read in place of the file, which stays one document under its own name; a change of either is seen. The name is the
whole name of the file with `.elements.json` after it, so that it also gives a text to files that pincite cannot
read (`scan.tiff.elements.json`). Patterns of the source (`include`, `exclude`) speak of the file. A map without its
file is a document by itself. `report.pdf.meta.yaml` says what is known of the document either way.

**Writing a converter.** `kind` and `text`, with `boxes` where pages are known, are enough. Give `runs` in place of
`text` where each line or page has its own place. [docling_to_elements.py](../examples/docling_to_elements.py) does it
for docling's JSON. `pincite parse FILE --json` writes the map of any file that pincite reads itself.

**Places.** Boxes are in PDF points (1/72 inch) from the *top left* of the page; pages count from 1. Formats without
pages give a `locator` (`Sheet1!A2:C2`, `slide 3`, `page 3`), or the offsets of the decoded source text.

**Checks.** Unknown keys and kinds, numbers that are none, boxes outside their page or of negative size, cells that
overlap: each is named by its path, as in `elements[12].boxes[0].page: must be 1 or more`. The first five are shown
with the count of the others, and the document fails with code `corrupt`; its last good version stays served.
"""

PARTS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("The file", schema.ElementMap),
    ("`document`", schema.MapDocument),
    ("`pages[]`", schema.MapPage),
    ("`elements[]`", schema.MapElement),
    ("`cells[]`", schema.MapCell),
    ("`runs[]`", schema.MapRun),
    ("`boxes[]`, `box`", schema.MapBox),
)
_NAMES = {str: "text", int: "whole number", float: "number", bool: "true or false", dict: "object"}


def kind_of(annotation: Any) -> str:
    """A type as a person would say it."""
    if annotation in _NAMES:
        return _NAMES[annotation]
    origin, arguments = get_origin(annotation), [item for item in get_args(annotation) if item is not type(None)]
    if origin is dict:
        return "object of texts"
    if origin is list:
        return f"list of {kind_of(arguments[0]).removeprefix('a ')}".replace("box", "boxes").replace("text", "texts")
    if hasattr(annotation, "__metadata__"):
        return kind_of(arguments[0])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {"MapBox": "a box", "MapDocument": "object"}.get(
            annotation.__name__, annotation.__name__.removeprefix("Map").lower() + "s"
        )
    if arguments and all(isinstance(item, int) for item in arguments):
        return f"`{arguments[0]}`"
    return " or ".join(kind_of(item) for item in arguments)


def default_of(field: Any) -> str:
    if field.is_required():
        return "required"
    empty = field.default in (None, "", [], {}) or isinstance(field.default, BaseModel)
    return "–" if empty else f"`{json.dumps(field.default)}`"


def table(model: type[BaseModel]) -> str:
    lines = ["| key | default | kind | meaning |", "|---|---|---|---|"]
    for name, field in sorted(model.model_fields.items(), key=lambda item: not item[1].is_required()):
        lines.append(f"| `{name}` | {default_of(field)} | {kind_of(field.annotation)} | {field.description or ''} |")
    return "\n".join(lines)


def page() -> str:
    assert KIND_MEANINGS.keys() == KINDS, KIND_MEANINGS.keys() ^ KINDS
    parts = [INTRODUCTION, "## An example\n", "```json", json.dumps(EXAMPLE, indent=2), "```", "", "## Kinds\n"]
    parts += ["| kind | meaning |", "|---|---|", *(f"| `{kind}` | {said} |" for kind, said in KIND_MEANINGS.items())]
    for name, model in PARTS:
        parts += ["", f"## {name}\n", table(model)]
    return "\n".join(parts) + "\n"


def json_schema() -> str:
    values = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema.ElementMap.model_json_schema()}
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "elements.md").write_text(page(), encoding="utf-8")
    (ROOT / "docs" / "elements.schema.json").write_text(json_schema(), encoding="utf-8")
