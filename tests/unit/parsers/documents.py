"""Small helpers: a listed document for a file, and its elements."""

from __future__ import annotations

from pathlib import Path

from pipelines.indexing.elements import build_elements
from pipelines.records import Element, ParsedDocument, ParsedFile, RawDocument
from resources.parser_worker import content_hash
from resources.parsers.registry import media_type_of, parse_file
from tests.builders import raw


def raw_of(path: Path) -> RawDocument:
    return raw(
        path.name,
        media_type=media_type_of(path) or "application/octet-stream",
        content_hash=content_hash(path),
        size=path.stat().st_size,
    )


def elements_of(path: Path) -> tuple[ParsedDocument, list[Element], ParsedFile]:
    listed = raw_of(path)
    parsed = parse_file(path, listed.media_type)
    document, elements = build_elements(listed, parsed, lambda text: "en")
    return document, elements, parsed


def outline(elements: list[Element]) -> list[tuple[str, int | None, str]]:
    return [(element.kind, element.level, element.text) for element in elements]


def pdf_of(path: Path, pages: list[list[tuple[float, float, str]]], **options: object) -> Path:
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(path), pagesize=(595, 842), **options)
    for texts in pages:
        for x, y, text in texts:
            canvas.drawString(x, y, text)
        canvas.showPage()
    canvas.save()
    return path
