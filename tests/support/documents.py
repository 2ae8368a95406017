"""Small helpers: a listed document for a file, its elements, a DOCX of raw XML."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

from pipelines.parsing.elements import build_elements
from pipelines.records import Element, ParsedDocument, ParsedFile, RawDocument
from resources.documents.tasks import parsed_file
from resources.hashes import content_hash
from resources.models.text_models import detect_language
from resources.parsers.registry import media_type_of, parse_file
from tests.support.builders import raw


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


def parse_document(raw: RawDocument, path: Path) -> tuple[ParsedDocument, list[Element]]:
    """A file, or its map in its place, as a worker of an index run reads it."""
    return build_elements(raw, parsed_file(raw, path), detect_language)


def outline(elements: list[Element]) -> list[tuple[str, int | None, str]]:
    return [(element.kind, element.level, element.text) for element in elements]


def pdf_of(path: Path, pages: Sequence[Sequence[tuple[float, float, str]]], **options: object) -> Path:
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(path), pagesize=(595, 842), **options)
    for texts in pages:
        for x, y, text in texts:
            canvas.drawString(x, y, text)
        canvas.showPage()
    canvas.save()
    return path


_OFFICE = "http://schemas.openxmlformats.org"
W = (
    f'xmlns:w="{_OFFICE}/wordprocessingml/2006/main" xmlns:m="{_OFFICE}/officeDocument/2006/math" '
    f'xmlns:r="{_OFFICE}/officeDocument/2006/relationships" xmlns:a="{_OFFICE}/drawingml/2006/main" '
    f'xmlns:c="{_OFFICE}/drawingml/2006/chart" xmlns:dgm="{_OFFICE}/drawingml/2006/diagram" '
    'xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml"'
)


def docx_of(folder: Path, body: str, **parts: str) -> Path:
    """`parts` are in the folder word, XML where the name has no ending."""
    path = folder / "made.docx"
    with zipfile.ZipFile(path, "w") as package:
        package.writestr("word/document.xml", f"<w:document {W}><w:body>{body}</w:body></w:document>")
        for name, content in parts.items():
            package.writestr(f"word/{name}" + ("" if "." in name else ".xml"), content)
    return path


def related(*targets: str) -> str:
    """Relations `r1`, `r2` ... to parts, by the type that is their folder's name without the s."""
    links = "".join(
        f'<Relationship Id="r{at}" Type="{_OFFICE}/x/{target.split("/")[0].rstrip("s")}" Target="{target}"/>'
        for at, target in enumerate(targets, start=1)
    )
    return f'<Relationships xmlns="{_OFFICE}/package/2006/relationships">{links}</Relationships>'


def run(text: str) -> str:
    return f"<w:r><w:t xml:space='preserve'>{text}</w:t></w:r>"
