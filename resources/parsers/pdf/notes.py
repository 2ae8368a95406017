"""What people wrote on the pages of a PDF, and the names of the files that are attached to it.

Text typed onto a page is text of the page. What is written beside or about its text is a note, as comments in DOCX are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pipelines.errors import DocumentError
from pipelines.parsing.pdf.page import squeezed
from pipelines.records import Block, Run
from resources.parsers.html import tree_of
from resources.parsers.pdf.annotations import Texts, annotations_of, box_of, is_shown

COMMENT = {"part": "comment"}
MOST_ATTACHED = 1_000


class Notes(NamedTuple):
    """Blocks in the order of the page's annotations: paragraphs that were typed onto it, and notes, which are
    footnotes with the metadata `COMMENT`; and the names of files attached to the page."""

    blocks: list[Block]
    attached: list[str]


def notes(page: Any, number: int, texts: Texts, page_text: Callable[[], str]) -> Notes:
    """`page_text` gives the page's own text: what a mark repeats of it is no note."""
    import pypdfium2.raw as pdfium

    marks = (
        pdfium.FPDF_ANNOT_HIGHLIGHT, pdfium.FPDF_ANNOT_UNDERLINE, pdfium.FPDF_ANNOT_SQUIGGLY,
        pdfium.FPDF_ANNOT_STRIKEOUT,
    )  # fmt: skip
    silent = (pdfium.FPDF_ANNOT_WIDGET, pdfium.FPDF_ANNOT_POPUP, pdfium.FPDF_ANNOT_LINK)
    blocks: dict[tuple[str, str], Block] = {}
    attached: list[str] = []
    own: str | None = None
    for annotation in annotations_of(page, texts):
        kind = pdfium.FPDFAnnot_GetSubtype(annotation)
        if kind in silent or not is_shown(annotation):
            continue
        if kind == pdfium.FPDF_ANNOT_FILEATTACHMENT:
            attached += _name(pdfium.FPDFAnnot_GetFileAttachment(annotation), texts)
        said = _said(annotation, texts)
        if not said or pdfium.FPDFAnnot_HasKey(annotation, b"StateModel"):
            continue
        if kind in marks:
            own = squeezed(page_text()) if own is None else own
            if squeezed(said) in own:
                continue
        box = box_of(annotation, number, page)
        run = Run(said, box, locator=None if box else f"page {number}")
        typed = kind == pdfium.FPDF_ANNOT_FREETEXT
        block = Block("paragraph", (run,)) if typed else Block("footnote", (run,), metadata=COMMENT)
        blocks.setdefault((said, str(box)), block)
    return Notes(list(blocks.values()), attached)


def attachments(document: Any) -> list[str]:
    """The names of the files attached to a document as a whole, or that make a portfolio."""
    import pypdfium2.raw as pdfium

    count, texts = pdfium.FPDFDoc_GetAttachmentCount(document), Texts()
    found = (pdfium.FPDFDoc_GetAttachment(document, at) for at in range(min(count, MOST_ATTACHED)))
    return [name for attachment in found for name in _name(attachment, texts)]


def _name(attachment: Any, texts: Texts) -> list[str]:
    import pypdfium2.raw as pdfium

    return [(texts.read(pdfium.FPDFAttachment_GetName, attachment) or "").strip() or "unnamed"] if attachment else []


def _said(annotation: Any, texts: Texts) -> str:
    """Its contents; where it has only formatted ones (`RC`), their text."""
    import pypdfium2.raw as pdfium

    plain = texts.read(pdfium.FPDFAnnot_GetStringValue, annotation, b"Contents")
    if plain is None or plain.strip():
        return (plain or "").replace("\r\n", "\n").replace("\r", "\n").strip()
    formatted = (texts.read(pdfium.FPDFAnnot_GetStringValue, annotation, b"RC") or "").strip()
    try:
        root = tree_of(formatted, "a note") if formatted else None
    except DocumentError:  # nested too deeply
        texts.left_out += 1
        return ""
    return " ".join("".join(root.itertext()).split()) if root is not None else ""
