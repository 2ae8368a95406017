"""The body of a document, built from parsed blocks, with a map from every part of it to the source.

The body consists of the texts of the elements in reading order, separated by two newlines, or by one between
consecutive list items. Runs are cleaned one by one and then joined, so places in the body stay exact although cleaning
removes characters. Running headers and footers are elements outside the body; a figure is an empty span of it, unless
its extractor gave it a text. An ordered list marker is part of the text, since people cite it; a bullet is not. The
language of the document is chosen here too; titles.py chooses its title.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from pipelines.dates import iso_date
from pipelines.errors import DocumentError
from pipelines.parsing.cleaning import (
    begins_with_space,
    clean_code,
    clean_metadata,
    clean_text,
    composes,
    ends_with_space,
)
from pipelines.parsing.formats import PAGED
from pipelines.parsing.joining import is_spaced
from pipelines.parsing.line_text import stops_of
from pipelines.parsing.titles import choose_title
from pipelines.records import (
    UNKNOWN_LANGUAGE,
    Block,
    BlockCell,
    Box,
    Cell,
    Element,
    ParsedDocument,
    ParsedFile,
    Place,
    RawDocument,
    TextRun,
)

# ---------------------------------------------------------------- language declared by the file


_CODES = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee "
    "el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is "
    "it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms "
    "mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si "
    "sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh "
    "yi yo za zh zu "
)
ISO_639_1 = frozenset(_CODES.split())
_FORMER = {"iw": "he", "in": "id", "ji": "yi", "jw": "jv", "mo": "ro"}


def declared_language(declared: str) -> str | None:
    """Return the ISO 639-1 code of a declared language without script, region and case. Return None if it is not such a
    code, or if several languages are declared."""
    tags = {tag.lower() for tag in re.split(r"[,;\s]+", declared) if tag}
    codes = {_FORMER.get(code, code) for code in (re.split("[-_]", tag, maxsplit=1)[0] for tag in tags)}
    return codes.pop() if len(codes) == 1 and codes <= ISO_639_1 else None


# ---------------------------------------------------------------- body text and its places


@dataclass(slots=True)
class CleanedRun:
    """A cleaned run, and the gap between it and the run before it."""

    text: str
    gap: str
    run: TextRun


def _merge_runs(first: TextRun, second: TextRun) -> TextRun:
    """Merge two runs that cannot be cleaned apart; the box covers both if they share a page."""
    box: Box | None = first.box or second.box
    if first.box and second.box and first.box.page == second.box.page:
        a, b = first.box, second.box
        box = Box(a.page, min(a.x0, b.x0), min(a.y0, b.y0), max(a.x1, b.x1), max(a.y1, b.y1))
    starts = [run.source_start for run in (first, second) if run.source_start is not None]
    ends = [run.source_end for run in (first, second) if run.source_end is not None]
    return TextRun(
        first.text + second.text,
        box,
        min(starts, default=None),
        max(ends, default=None),
        first.locator or second.locator,
        first.joined,
    )


def _inseparable(runs: Sequence[TextRun]) -> list[TextRun]:
    merged: list[TextRun] = []
    for run in runs:
        if merged and run.joined and composes(merged[-1].text, run.text):
            merged[-1] = _merge_runs(merged[-1], run)
        else:
            merged.append(run)
    return merged


def pieces_of(runs: Sequence[TextRun], code: bool) -> list[CleanedRun]:
    """Return the cleaned runs that hold text. Between joined runs there is a gap only if one of them has a space there.
    Other runs are lines, and have a space between them if their script uses spaces."""
    clean, between = (clean_code, "\n") if code else (clean_text, " ")
    pieces: list[CleanedRun] = []
    gap = ""
    for run in _inseparable(runs):
        if not run.joined:
            gap = between
        elif not gap and not code and begins_with_space(run.text):
            gap = " "
        text = clean(run.text)
        if not code and not text:
            gap = gap or (" " if run.text else "")
            continue
        if gap == " " and not run.joined and pieces and not is_spaced(pieces[-1].text, text):
            gap = ""
        pieces.append(CleanedRun(text, gap if pieces else "", run))
        gap = " " if not code and ends_with_space(run.text) else ""
    while code and pieces and not pieces[-1].text.strip():
        pieces.pop()
    blank = sum(1 for _ in takewhile(lambda piece: code and not piece.text.strip(), pieces))
    return pieces[blank:]


def lay(pieces: Sequence[CleanedRun], start: int) -> tuple[str, list[Place]]:
    """Return the text of the pieces, and their places in a body in which the text begins at `start`."""
    parts: list[str] = []
    places: list[Place] = []
    at = start
    for index, piece in enumerate(pieces):
        gap = piece.gap if index else ""
        begin = at + len(gap)
        at = begin + len(piece.text)
        parts += (gap, piece.text)
        run = piece.run
        if piece.text:
            stops = stops_of(piece.text, run.box, run.gaps) if run.box else ()
            places.append(Place(begin, at, run.box, run.source_start, run.source_end, run.locator, stops))
    return "".join(parts), places


def _rows(cells: Iterable[BlockCell]) -> list[list[BlockCell]]:
    rows: dict[int, list[BlockCell]] = {}
    for cell in sorted(cells, key=lambda cell: (cell.row, cell.column)):
        rows.setdefault(cell.row, []).append(cell)
    return list(rows.values())


def _add_places(places: list[Place], found: Sequence[Place]) -> None:
    """Add places. Cells of a row that have only the row's range as their place share one place, since spreadsheets have
    millions of cells."""
    for place in found:
        last = places[-1] if places else None
        if last is not None and place.locator and _only_located(last) and _only_located(place, last.locator):
            places[-1] = Place(last.start, place.end, locator=last.locator)
        else:
            places.append(place)


def _only_located(place: Place, locator: str | None = None) -> bool:
    same = locator is None or place.locator == locator
    return same and place.box is None and place.source_start is None


def lay_table(block: Block, start: int) -> tuple[str, list[Place], list[Cell]]:
    """Return a table's text, places and cells: cells are separated by tabs and rows by newlines. A merged cell is
    written once, in its first row and column. Rows without text are left out."""
    lines: list[str] = []
    places: list[Place] = []
    cells: list[Cell] = []
    at = start
    for row in _rows(block.cells):
        laid = [(cell, pieces_of(cell.runs, code=False)) for cell in row]
        if not any(pieces for _, pieces in laid):
            continue
        at += 1 if lines else 0
        texts: list[str] = []
        for cell, pieces in laid:
            at += 1 if texts else 0
            text, found = lay(pieces, at)
            span = (cell.row_span, cell.column_span)
            cells.append(Cell(cell.row, cell.column, *span, cell.header, at, at + len(text), text))
            _add_places(places, found)
            texts.append(text)
            at += len(text)
        lines.append("\t".join(texts))
    return "\n".join(lines), places, cells


# ---------------------------------------------------------------- elements of a document


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
"""Fewest letters of prose for detecting the language. An ideograph counts as SEVERAL letters."""
SEVERAL = 4
PROSE_WORDS, PROSE_IDEOGRAPHS = 8, 12
"""Fewest words, or ideographs, that make a cell or value prose. Names, codes and labels do not show the language."""
_PROSE = frozenset(("heading", "paragraph", "list_item", "quote", "caption", "footnote"))
_IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
MOST_PAGES = 10_000_000
"""Most pages of a document; a larger number in a locator is not a page number."""
_NUMBERED_PLACE = re.compile(r"(?:page|slide) (\d+)")

Detect = Callable[[str], str]
"""A function that returns the ISO 639-1 code of a text's language, or "" if in doubt."""


def page_of(place: Place) -> int | None:
    """Return the page of a place: the page of its box, or the number in a locator such as `page 3` or `slide 3`."""
    if place.box is not None:
        return place.box.page
    match = _NUMBERED_PLACE.match(place.locator or "")
    return int(match[1]) if match and int(match[1]) <= MOST_PAGES else None


class _Body:
    """The body and its elements while they are being built."""

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
    if doc.media_type in PAGED and all(element.kind == "figure" for element in elements):
        pages = f"none of its {parsed.pages} pages" if (parsed.pages or 0) > 1 else "no page"
        raise DocumentError(
            f"{doc.uri}: {pages} has a text layer; it looks scanned: make it searchable with OCR, then index again",
            "no_text",
        )
    raise DocumentError(f"{doc.uri}: no text was found in the file", "empty_parse")


def _is_prose(text: str) -> bool:
    return len(text.split()) >= PROSE_WORDS or len(_IDEOGRAPHS.findall(text)) >= PROSE_IDEOGRAPHS


def _prose(elements: Iterable[Element]) -> Iterator[str]:
    """Yield the texts that show the language: no code, and only the prose of tables and values."""
    for element in elements:
        if element.kind in _PROSE:
            yield element.text
        elif element.kind == "table":
            yield from (cell.text for cell in element.cells if _is_prose(cell.text))
        elif element.kind == "key_value" and _is_prose(element.text):
            yield element.text


def _language(elements: Iterable[Element], declared: str, detect: Detect) -> tuple[str, tuple[str, ...]]:
    """Return the declared language, with a warning if the text seems to be in another. If none is declared, return the
    detected one or UNKNOWN_LANGUAGE."""
    code = declared_language(declared)
    text = "\n".join(_prose(elements))
    middle = max(0, (len(text) - LANGUAGE_SAMPLE) // 2)
    sample = text[:LANGUAGE_SAMPLE] + "\n" + text[max(middle, LANGUAGE_SAMPLE) :][:LANGUAGE_SAMPLE]
    letters = sum(map(str.isalpha, sample)) + (SEVERAL - 1) * len(_IDEOGRAPHS.findall(sample))
    found = detect(sample) if letters >= LETTERS_TO_DETECT else ""
    if not code:
        seen = f"{found!r} was detected" if found else "its text is too short or mixed to detect one"
        doubt = f"declared language {declared!r} was not understood; {seen}"
        return found or UNKNOWN_LANGUAGE, (doubt,) if declared else ()
    told = f"the file declares its language as {declared!r}, which is taken, but its text looks like {found!r}"
    return code, (told,) if found not in ("", code) else ()


def _effective_date(declared: str) -> tuple[str | None, tuple[str, ...]]:
    """Return the file's date in ISO form, or None, and a warning if the date is invalid."""
    if not declared:
        return None, ()
    found = iso_date(declared)
    return found, () if found else (f"effective date {declared!r} was not understood; write it as YYYY-MM-DD",)


def _groups(declared: str) -> tuple[str, ...] | None:
    found = tuple(group.strip() for group in declared.split(",") if group.strip())
    return found or None


def build_elements(doc: RawDocument, parsed: ParsedFile, detect: Detect) -> tuple[ParsedDocument, list[Element]]:
    """Return the document and its elements in reading order.

    The only value from the side-car is the title, which begins the header chain. The rest is applied later in
    pipelines/indexing/indexed_documents.py, so that editing a side-car does not parse the file again. Raise
    DocumentError: `empty` (no bytes), `no_text` (a PDF without a text layer), `empty_parse` (no text outside running
    headers and footers).
    """
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
    language, doubts = _language(body.elements, properties["language"], detect)
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
