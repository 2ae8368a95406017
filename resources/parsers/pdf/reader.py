"""PDF files: lines with boxes and fonts from liteparse, the complete raw text from PDFium.

Both libraries bring a PDFium of their own; they are used one after the other. A page that cannot be
read is lost by name, not the document; nothing is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.errors import DocumentError
from pipelines.parsing.dates import iso_date
from pipelines.parsing.pdf.headings import Bookmark
from pipelines.parsing.pdf.layout import blocks_of
from pipelines.parsing.pdf.page import LEAST_COVERAGE
from pipelines.records import Block, ParsedFile
from resources.parsers import ocr as scans
from resources.parsers.pdf.notes import COMMENT, attachments
from resources.parsers.pdf.pages import MOST_UNREADABLE, Read, pages_of
from resources.parsers.pdf.xfa import form_blocks, xfa_source
from resources.parsers.registry import Care
from resources.parsers.untrusted import listed

ORIGIN = "liteparse"
LEAST_UNREADABLE = 3
MOST_NAMED = 6
MOST_BOOKMARKS = 10_000
SHOWN = 0.5
"""Of the words of an XFA form, how many stand on the pages of one that shows all of itself on them."""
LONGEST_WAIT = 400
_PLEASE_WAIT = "please wait"
_WORD = re.compile(r"\w+")
_PASSWORD = 4
_PLAIN = Care()
_NO_OCR = scans.OcrSettings(mode="off")
_PROPERTIES = {"Author": "author", "Subject": "subject", "Keywords": "keywords"}


def parse(path: Path, care: Care = _PLAIN, ocr: scans.OcrSettings = _NO_OCR) -> ParsedFile:
    """Blocks of every page, with the document's information entries.

    Raises DocumentError: `encrypted`, `corrupt`, `no_text` (nothing but pictures), `unmapped_fonts`
    (most of the text is in fonts that do not say which letters they draw)."""
    document = _opened(path)
    try:
        found = list(pages_of(document, path, care, ocr))
        information = document.get_metadata_dict()
        bookmarks = _bookmarks(document)
        form = _form(document, path, found)
        attached = [*attachments(document), *(name for read in found for name in read.attached)]
    finally:
        document.close()
    if not form.instead:
        _refuse_unreadable(path, found, ocr, care)
    blocks, lost = blocks_of([read.page for read in found], bookmarks) if not form.instead else ((), [])
    warnings = [*_warnings(found), *form.warnings]
    warnings += [f"page {number}: {share:.1%} of its text was lost in layout" for number, share in lost]
    warnings += [f"attachments were not read: {listed(list(dict.fromkeys(attached)))}"] if attached else []
    origin = f"{ORIGIN}, {scans.ORIGIN}" if any(read.recognised for read in found) else ORIGIN
    return ParsedFile((*blocks, *form.blocks), _properties(information), len(found), tuple(warnings), origin)


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


class _Form(NamedTuple):
    """What an XFA form adds to the text of its pages; `instead` says that its pages are not its text."""

    blocks: tuple[Block, ...] = ()
    warnings: tuple[str, ...] = ()
    instead: bool = False


def _form(document: Any, path: Path, pages: Sequence[Read]) -> _Form:
    """A form whose pages are all that it shows has its text on them; one that is laid out by Adobe's programs has
    pages that only say so.

    Raises DocumentError of a form of the second kind that has no text, or none that can be read."""
    import pypdfium2.raw as pdfium

    kind = document.get_formtype()
    if kind not in (pdfium.FORMTYPE_XFA_FULL, pdfium.FORMTYPE_XFA_FOREGROUND):
        return _Form()
    written = " ".join(text for read in pages for text in _texts(read)).casefold()
    waits = kind == pdfium.FORMTYPE_XFA_FULL or _PLEASE_WAIT in written[:LONGEST_WAIT]
    try:
        blocks, warnings = form_blocks(xfa_source(document, path.name), path.name)
    except DocumentError as error:
        if waits:
            raise
        return _Form(warnings=(f"{str(error).removeprefix(f'{path.name}: ')}; its text is that of its pages",))
    words = [word for block in blocks for word in _WORD.findall(block.runs[0].text.casefold())]
    if not words and waits:
        message = f"{path.name}: an XFA form without text: open it in Adobe's Acrobat and print it to PDF"
        raise DocumentError(message, "no_text")
    on_pages = frozenset(_WORD.findall(written))
    if sum(word in on_pages for word in words) >= SHOWN * len(words):
        return _Form()
    told = (
        "its pages only ask for Adobe's Acrobat; its text and values are those of its XFA form, without places on pages"
    )
    return _Form(tuple(blocks), (*((told,) if waits else ()), *warnings), waits)


def _texts(read: Read) -> Iterator[str]:
    yield from (item.text for item in read.page.items)
    yield from (run.text for block in read.page.blocks for run in block.runs)


def _bookmarks(document: Any) -> list[Bookmark]:
    """The outline, as far as its entries lead to pages; a broken one is none."""
    import pypdfium2

    found: list[Bookmark] = []
    try:
        for entry in document.get_toc():
            destination = entry.get_dest()
            page = destination.get_index() if destination is not None else None
            title = entry.get_title()
            if page is not None and title.strip():
                found.append(Bookmark(title, entry.level + 1, page + 1))
            if len(found) >= MOST_BOOKMARKS:
                break
    except (pypdfium2.PdfiumError, ValueError):
        pass
    return found


def _refuse_unreadable(path: Path, pages: Sequence[Read], ocr: scans.OcrSettings, care: Care) -> None:
    unreadable = sum(read.unreadable for read in pages)
    readable = sum(len(item.text) for read in pages for item in read.page.items)
    if unreadable and unreadable >= MOST_UNREADABLE * (readable + unreadable):
        message = (
            f"{path.name}: {unreadable} of its {readable + unreadable} characters are in fonts without a Unicode map, "
            "which can be seen but not read: export it again with fonts embedded fully"
        )
        hint = scans.remedy(ocr)
        message += f", or have it read by OCR ({hint})" if hint else "; OCR found nothing on it either"
        raise DocumentError(message, "unmapped_fonts")
    if readable or any(block.metadata != COMMENT for read in pages for block in read.page.blocks):
        return
    reasons = "; ".join(dict.fromkeys(warning.split(": ", 1)[1] for read in pages for warning in read.warnings))
    message = f"{path.name}: no text on {'its page' if len(pages) == 1 else f'any of its {len(pages)} pages'}"
    if care.without:
        raise DocumentError(f"{message} ({reasons})", "limit_exceeded")
    if reasons:
        message += f" ({reasons})" + (": then run `pincite index --retry-failed`" if scans.remedy(ocr) else "")
    raise DocumentError(message, "no_text")


def _warnings(pages: Sequence[Read]) -> list[str]:
    """What was not as it should be: page by page, and what is common in one line."""
    warnings = [warning for read in pages for warning in read.warnings]
    unreadable = [read for read in pages if read.unreadable >= LEAST_UNREADABLE]
    if unreadable:
        count = sum(read.unreadable for read in unreadable)
        warnings.append(
            f"{_named(unreadable)}: unmapped_fonts: {count} characters in fonts without a Unicode map are left out"
        )
    patched = [read for read in pages if read.put_back > 1 - LEAST_COVERAGE]
    if patched:
        most = max(read.put_back for read in patched)
        warnings.append(
            f"{_named(patched)}: up to {most:.1%} of a page's text was missing in its layout and was put back from "
            "the raw text"
        )
    return warnings


def _named(pages: Sequence[Read]) -> str:
    numbers = [str(read.page.number) for read in pages]
    if len(numbers) == 1:
        return f"page {numbers[0]}"
    more = f" and {len(numbers) - MOST_NAMED} more" if len(numbers) > MOST_NAMED else ""
    return f"pages {', '.join(numbers[:MOST_NAMED])}{more}"
