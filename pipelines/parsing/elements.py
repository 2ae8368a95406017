"""Parsed blocks to elements: the body, and a map from every part of it to the source.

The body is the texts of the elements in reading order, two newlines apart (one between list
items that follow each other). Runs are cleaned one by one and then joined, so a place of the
body is exact whatever cleaning removed. Running headers and footers are elements outside the
body; a figure is an empty place in it, unless its extractor gave it a text. An ordered list marker
is part of the text, since people cite it; a bullet is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from pipelines.errors import DocumentError
from pipelines.parsing.body_text import lay, lay_table, pieces_of
from pipelines.parsing.cleaning import clean_metadata, clean_text
from pipelines.parsing.dates import iso_date
from pipelines.parsing.languages import declared_language
from pipelines.parsing.titles import choose_title
from pipelines.records import Block, Cell, Element, ParsedDocument, ParsedFile, Place, RawDocument

STAGE_VERSION = 9
KINDS = frozenset(
    (
        "heading",
        "paragraph",
        "list_item",
        "table",
        "caption",
        "formula",
        "code",
        "key_value",
        "footnote",
        "quote",
        "figure",
        "page_header",
        "page_footer",
        "break",
    )
)
OUTSIDE_BODY = frozenset(("page_header", "page_footer"))
LANGUAGE_SAMPLE = 6000
LETTERS_TO_DETECT = 40
MOST_PAGES = 10_000_000
"""A larger number in a locator is that of no page."""
_NUMBERED_PLACE = re.compile(r"(?:page|slide) (\d+)")

Detect = Callable[[str], str]
"""Language of a text as an ISO 639-1 code; empty where it is not asked."""


def page_of(place: Place) -> int | None:
    """Page of a place: of its box, or of a locator such as `page 3` or `slide 3`."""
    if place.box is not None:
        return place.box.page
    match = _NUMBERED_PLACE.match(place.locator or "")
    return int(match[1]) if match and int(match[1]) <= MOST_PAGES else None


class _Body:
    """The growing body and its elements."""

    def __init__(self, doc_id: str, origin: str) -> None:
        self.doc_id, self.origin = doc_id, origin
        self.parts: list[str] = []
        self.length = 0
        self.elements: list[Element] = []
        self.last_kind: str | None = None

    def _separator(self, kind: str) -> str:
        if not self.length:
            return ""
        return "\n" if kind == self.last_kind == "list_item" else "\n\n"

    def add(self, block: Block) -> None:
        outside = block.kind in OUTSIDE_BODY
        separator = "" if outside else self._separator(block.kind)
        start = self.length + len(separator)
        cells: list[Cell] = []
        if block.kind == "table":
            text, places, cells = lay_table(block, start)
        else:
            text, places = lay(pieces_of(block.runs, block.kind == "code"), start)
        if block.kind == "break":
            text, places = "", []
        elif block.kind == "figure" and not text.strip():
            text, places = "", [Place(start, start, r.box, r.source_start, r.source_end, r.locator) for r in block.runs]
        elif not text.strip():
            return
        if outside or not text:
            start = self.length
            places = [Place(start, start, p.box, p.source_start, p.source_end, p.locator) for p in places]
        else:
            self.parts += (separator, text)
            self.last_kind = block.kind
        self._append(block, text, start, start if outside else start + len(text), places, cells)

    def _append(
        self, block: Block, text: str, start: int, end: int, places: Sequence[Place], cells: Sequence[Cell]
    ) -> None:
        pages = [page for page in map(page_of, places) if page is not None]
        self.length = max(self.length, end)
        self.elements.append(
            Element(
                doc_id=self.doc_id,
                index=len(self.elements),
                kind=block.kind,
                level=block.level,
                marker=clean_text(block.marker) or None if block.marker else None,
                text=text,
                start=start,
                end=end,
                page_start=min(pages, default=None),
                page_end=max(pages, default=None),
                places=tuple(places),
                cells=tuple(cells),
                confidence=block.confidence,
                origin=self.origin,
                metadata=clean_metadata(block.metadata),
            )
        )


def _refuse_empty(doc: RawDocument, parsed: ParsedFile, elements: Sequence[Element]) -> None:
    if doc.size == 0:
        raise DocumentError(f"{doc.uri}: the file is empty (0 bytes)", "empty")
    if doc.media_type == "application/pdf" and all(element.kind == "figure" for element in elements):
        pages = f"none of its {parsed.pages} pages" if parsed.pages else "no page"
        raise DocumentError(
            f"{doc.uri}: {pages} has a text layer; it looks scanned: make it searchable with OCR, then index again",
            "no_text",
        )
    raise DocumentError(f"{doc.uri}: no text was found in the file", "empty_parse")


def _language(body: str, declared: str, detect: Detect) -> tuple[str, tuple[str, ...]]:
    """As the file declares it, with a warning where the text looks like another; else as the text looks."""
    code = declared_language(declared)
    if code and sum(map(str.isalpha, body[:LANGUAGE_SAMPLE])) < LETTERS_TO_DETECT:
        return code, ()
    middle = max(0, (len(body) - LANGUAGE_SAMPLE) // 2)
    found = detect(body[:LANGUAGE_SAMPLE] + "\n" + body[max(middle, LANGUAGE_SAMPLE) :][:LANGUAGE_SAMPLE])
    if not code:
        return found, (
            f"declared language {declared!r} was not understood; {found!r} was detected",
        ) if declared else ()
    told = f"the file declares its language as {declared!r}, which is taken, but its text looks like {found!r}"
    return code, (told,) if found not in ("", code) else ()


def _effective_date(declared: str) -> tuple[str | None, tuple[str, ...]]:
    """ISO date of the file, else None; with a warning where it is no date."""
    if not declared:
        return None, ()
    found = iso_date(declared)
    return found, () if found else (f"effective date {declared!r} was not understood; write it as YYYY-MM-DD",)


def _groups(declared: str) -> tuple[str, ...] | None:
    found = tuple(group.strip() for group in declared.split(",") if group.strip())
    return found or None


def build_elements(doc: RawDocument, parsed: ParsedFile, detect: Detect) -> tuple[ParsedDocument, list[Element]]:
    """The document and its elements in reading order.

    But for the title, which heads the header chain, nothing of the side-car enters here: editing it
    must not parse the file again (pipelines/indexing/indexed_documents.py lays it over).
    Raises DocumentError: `empty` (no bytes), `no_text` (a PDF without a text layer), `empty_parse`
    (no text outside running headers and footers)."""
    body = _Body(doc.doc_id, parsed.origin)
    for block in parsed.blocks:
        if block.kind not in KINDS:
            raise ValueError(f"unknown kind of block: {block.kind!r}")
        body.add(block)
    text = "".join(body.parts)
    if not text.strip():
        _refuse_empty(doc, parsed, body.elements)
    own = clean_metadata(parsed.properties)
    properties = {key: own.pop(key, "") for key in ("title", "effective_date", "version", "groups", "language")}
    title, is_file_name = choose_title(doc, properties["title"], body.elements)
    effective_date, warnings = _effective_date(properties["effective_date"])
    language, doubts = _language(text, properties["language"], detect)
    document = ParsedDocument(
        doc_id=doc.doc_id,
        title=title,
        title_is_file_name=is_file_name,
        language=language,
        body=text,
        pages=parsed.pages,
        effective_date=effective_date,
        version=properties["version"] or None,
        groups=_groups(properties["groups"]),
        metadata=own,
        warnings=tuple(clean_text(warning) for warning in (*parsed.warnings, *warnings, *doubts)),
    )
    return document, body.elements
