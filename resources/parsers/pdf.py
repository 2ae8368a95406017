"""PDF files: lines with boxes and fonts from liteparse, the complete raw text from PDFium.

Both libraries bring a PDFium of their own; they are used one after the other on each file. No OCR
here, and nothing is fetched.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pipelines.errors import DocumentError
from pipelines.indexing.cleaning import expand_ligatures
from pipelines.indexing.dates import iso_date
from pipelines.indexing.pdf_layout import blocks_of
from pipelines.indexing.pdf_page import LEAST_COVERAGE, PdfItem, PdfPage, PdfRule, restored, squeezed
from pipelines.records import ParsedFile

ORIGIN = "liteparse"
_BOLD = re.compile(r"bold|black|heavy|demi|[-_,]bd\b|medi\b", re.IGNORECASE)
_ITALIC = re.compile(r"ital|obliq|slanted", re.IGNORECASE)
_MONO = re.compile(r"courier|mono|consol|menlo|typewriter|cmtt|lucidasanstype|inconsolata|sourcecode", re.IGNORECASE)
_TAG_NAMES = "P H H1 H2 H3 H4 H5 H6 Title LI LBody Lbl TD TH Caption Note FENote Formula BlockQuote Code TOCI"
_BLOCK_TAGS = frozenset(_TAG_NAMES.split())
MOST_PAGES = 1_000_000
USABLE_COVERAGE = 0.75
_SYMBOLS = re.compile(r"symbol|wingding|dingbat|webding", re.IGNORECASE)
_PASSWORD = 4
_PROPERTIES = {"Author": "author", "Subject": "subject", "Keywords": "keywords"}


def parse(path: Path) -> ParsedFile:
    """Blocks of every page, with the document's information entries.

    Raises DocumentError: `encrypted`, `corrupt`."""
    document = _opened(path)
    try:
        information = document.get_metadata_dict()
        layouts = _layouts(path)
        pages, warnings = [], []
        for number in range(1, len(document) + 1):
            page, warning = _page(document, number, layouts.pop(number, None))
            pages.append(page)
            warnings += warning
    finally:
        document.close()
    blocks, lost = blocks_of(pages)
    warnings += [f"page {number}: {share:.1%} of its text was lost in layout" for number, share in lost]
    return ParsedFile(blocks, _properties(information), len(pages), tuple(warnings), ORIGIN)


def _opened(path: Path) -> Any:
    import pypdfium2

    try:
        return pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD:
            message = f"{path.name}: the PDF needs a password: save a copy without one, then index again"
            raise DocumentError(message, "encrypted") from None
        message = f"{path.name}: not a readable PDF ({error}): open it in a viewer, or export it again"
        raise DocumentError(message, "corrupt") from None


def _properties(information: dict[str, str]) -> dict[str, str]:
    properties = {"title": information.get("Title", "")}
    properties |= {own: information.get(name, "") for name, own in _PROPERTIES.items()}
    for name, own in (("CreationDate", "created"), ("ModDate", "modified")):
        properties[own] = iso_date(information.get(name, "")) or ""
    return {key: value for key, value in properties.items() if value.strip()}


# ---------------------------------------------------------------- liteparse


def _layouts(path: Path) -> dict[int, Any]:
    """Native pages by number; pages liteparse cannot read are absent."""
    from liteparse._liteparse import LiteParse

    parser = LiteParse(
        ocr_enabled=False,
        quiet=True,
        max_pages=MOST_PAGES,
        continue_on_page_error=True,
        extract_text_metadata=True,
        extract_structure_tree=True,
        extract_vector_graphics=True,
    )
    try:
        result = parser.parse(str(path.absolute()))
    except Exception:  # PDFium opened it, so its raw text stands in page by page
        return {}
    return {page.page_num: page for page in result.pages}


def _tags(native: Any) -> dict[int, tuple[str, int]]:
    """Marked content id -> (block-level tag, number of the element) of a tagged page."""
    tags: dict[int, tuple[str, int]] = {}
    tree = native.structure_tree
    stack = [(element, None) for element in reversed(tree.roots)] if tree is not None else []
    count = 0
    while stack:
        element, inherited = stack.pop()
        own = inherited
        if element.element_type in _BLOCK_TAGS:
            count += 1
            own = (element.element_type, count)
        if own is not None:
            tags.update(dict.fromkeys(element.marked_content_ids, own))
        stack += [(child, own) for child in reversed(element.children)]
    return tags


def _item(native: Any, tags: dict[int, tuple[str, int]]) -> PdfItem:
    font = native.font_name or ""
    tag, group = tags.get(native.mcid, (None, None)) if native.mcid is not None else (None, None)
    return PdfItem(
        text=native.text,
        x0=native.x,
        y0=native.y,
        x1=native.x + native.width,
        y1=native.y + native.height,
        size=round(native.font_height or native.height or 1.0, 1),
        bold=(native.font_weight or 0) >= 600 or bool(_BOLD.search(font)),
        italic=bool(_ITALIC.search(font)),
        mono=bool(_MONO.search(font)),
        rotated=abs(native.rotation or 0.0) > 2,
        symbol=bool(_SYMBOLS.search(font)) or (native.text.strip() == "o" and "courier" in font.lower()),
        tag=tag,
        group=group,
    )


# ---------------------------------------------------------------- one page


def _page(document: Any, number: int, native: Any) -> tuple[PdfPage, list[str]]:
    """The page in the characters of its raw text. Words liteparse lost are taken from PDFium, with a
    warning where they are more than one in a hundred; where it lost many, the whole page is, as
    plain lines."""
    page = document[number - 1]
    textpage = page.get_textpage()
    try:
        raw = textpage.get_text_range()
        width, height = page.get_size()
        if native is None:
            items = _plain_lines(page, textpage)
            warnings = [f"page {number}: layout could not be read; taken as plain lines"] if items else []
            return PdfPage(number, width, height, items, (), raw), warnings
        tags = _tags(native)
        found = restored([_item(item, tags) for item in native.text_items], raw)
        graphics = native.vector_graphics
        rules = tuple(PdfRule(*_ordered(r)) for r in graphics.lines) if graphics is not None else ()
        if found.coverage < USABLE_COVERAGE:
            items = _plain_lines(page, textpage)
            warning = f"page {number}: layout held {found.coverage:.1%} of its text; taken as plain lines"
            return PdfPage(number, native.width, native.height, items, (), raw), [warning]
        items, warnings = found.items, []
        if found.coverage < LEAST_COVERAGE:
            warnings = [f"page {number}: layout held {found.coverage:.1%} of its text; the rest is from the raw text"]
        if found.missing or found.unmatched:
            patches = _patches(page, textpage, found.missing)
            items += patches + tuple(item for item in found.unmatched if not _covered(item, patches))
        return PdfPage(number, native.width, native.height, items, rules, raw), warnings
    finally:
        textpage.close()
        page.close()


def _ordered(line: Any) -> tuple[float, float, float, float]:
    return min(line.x1, line.x2), min(line.y1, line.y2), max(line.x1, line.x2), max(line.y1, line.y2)


def _covered(item: PdfItem, patches: tuple[PdfItem, ...]) -> bool:
    """Whether raw text stands where a piece does that the raw text does not have as it is."""
    return any(min(p.x1, item.x1) > max(p.x0, item.x0) and min(p.y1, item.y1) > max(p.y0, item.y0) for p in patches)


_Character = tuple[str, float, float, float, float]


def _characters(page: Any, textpage: Any) -> list[_Character]:
    """Every character with its box from the top left, in PDFium's order."""
    import ctypes

    import pypdfium2.raw as pdfium

    width, height = page.get_size()
    scale = 100
    across, down = ctypes.c_int(), ctypes.c_int()
    box = [ctypes.c_double() for _ in range(4)]

    def placed(x: float, y: float) -> tuple[float, float]:
        size = (int(width * scale), int(height * scale))
        pdfium.FPDF_PageToDevice(page, 0, 0, *size, 0, x, y, across, down)
        return across.value / scale, down.value / scale

    characters: list[_Character] = []
    for index in range(textpage.count_chars()):
        char = chr(pdfium.FPDFText_GetUnicode(textpage, index))
        pdfium.FPDFText_GetCharBox(textpage, index, *box)
        left, right, bottom, top = (value.value for value in box)
        (ax, ay), (bx, by) = placed(left, top), placed(right, bottom)
        characters.append((char, min(ax, bx), min(ay, by), max(ax, bx), max(ay, by)))
    return characters


def _piece(characters: list[_Character]) -> PdfItem | None:
    solid = [c for c in characters if not c[0].isspace()]
    if not solid:
        return None
    top, bottom = min(c[2] for c in solid), max(c[4] for c in solid)
    text = "".join("-" if c[0] in "\x02\ufffe" else c[0] for c in characters).strip()
    size = round(max(bottom - top, 1.0), 1)
    return PdfItem(text, min(c[1] for c in solid), top, max(c[3] for c in solid), bottom, size)


def _plain_lines(page: Any, textpage: Any) -> tuple[PdfItem, ...]:
    lines: list[list[_Character]] = [[]]
    for character in _characters(page, textpage):
        if character[0] in "\r\n":
            lines.append([])
        else:
            lines[-1].append(character)
    return tuple(piece for piece in map(_piece, lines) if piece is not None)


def _patches(page: Any, textpage: Any, missing: tuple[tuple[int, str], ...]) -> tuple[PdfItem, ...]:
    """The stretches of raw text that no piece holds, as pieces with boxes, one a line."""
    if not missing:
        return ()
    characters = _characters(page, textpage)
    solid = [index for index, c in enumerate(characters) if c[0].strip()]
    solid = [index for index in solid for _ in expand_ligatures(characters[index][0])]
    whole = expand_ligatures("".join(c[0] for c in characters if c[0].strip()))
    pieces = []
    near = 0
    for at, text in missing:
        start = at if whole.startswith(text, at) else max(whole.find(text, near), whole.find(text))
        if start < 0 or not squeezed(text):
            continue
        near = start + len(text)
        line: list[_Character] = []
        for character in characters[solid[start] : solid[near - 1] + 1]:
            if character[0] in "\r\n":
                pieces.append(_piece(line))
                line = []
            else:
                line.append(character)
        pieces.append(_piece(line))
    return tuple(piece for piece in pieces if piece is not None)
