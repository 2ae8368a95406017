"""unstructured, strategy "fast", offline: what benchmarks/parsing.py compares with, by the product's own reader and its
mapping of elements.

Its PDF part, which the product does not use, imports the model package `unstructured_inference` (which brings
gigabytes of CUDA), OpenCV, pdf2image and HEIF pictures whatever the strategy; "fast" calls none of them, so that empty
stand-ins do.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from benchmarks.support.parsing_scores import found
from pipelines.errors import DocumentError
from pipelines.records import ParsedFile
from resources.parsers.unstructured import blocks_of, give_model, parse

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


def partition(path: Path) -> ParsedFile:
    """As the product's reader has it; a PDF, which that one leaves to our own, from its elements by the same mapping.

    Raises ModuleNotFoundError naming a part that is not installed."""
    if path.suffix.lower() != ".pdf":
        try:
            return parse(path)
        except DocumentError as error:
            if error.code == "unsupported":
                raise ModuleNotFoundError(str(error), name="unstructured") from None
            raise
    for needed in ("pdfminer", "pikepdf", "pypdf"):
        importlib.import_module(needed)
    _stand_in()
    give_model()
    module = importlib.import_module("unstructured.partition.pdf")
    return ParsedFile(tuple(blocks_of(module.partition_pdf(str(path), languages=["eng"], strategy="fast"))))


def read(parsed: ParsedFile, count: int) -> dict[str, Any]:
    """Fields of a Reading; `count` is the number of pages, 0 where the format has none."""
    pages: dict[int, list[str]] = {}
    headings: list[tuple[int | None, int | None, str]] = []
    lines: list[str] = []
    for block in parsed.blocks:
        runs = [*block.runs, *(run for cell in block.cells for run in cell.runs)]
        text = " ".join(run.text for run in runs)
        page = int((runs[0].locator or "page 1").removeprefix("page ")) if runs and count else None
        pages.setdefault(page or 1, []).append(text)
        lines.append(text)
        if block.kind == "heading":
            headings.append((page, block.level, text))
    texts = ["\n".join(pages.get(page, [])) for page in range(1, count + 1)]
    return {"pages": count, "texts": texts, "headings": headings, "outline": found(parsed), "lines": lines}
