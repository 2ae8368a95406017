"""Headings of PDFs with known answers: stated by hand for two files, read from the tags of others.

A heading is right when its text stands on its page; levels are compared after the one shift that suits the
whole document, as everywhere in parsing_scores.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.parsing_peers import Reading
from benchmarks.support.parsing_scores import Outline, Scores, expected, scores

Headings = list[tuple[int, int, str]]
"""Page, level, text."""

STATED: dict[str, Headings] = {
    # Seen on the pages. Levels: title, then what the table of contents has at its margin, then by number.
    "redp5110_sampled.pdf": [
        (1, 1, "Row and Column Access Control Support in IBM DB2 for i"),
        (2, 2, "Contents"),
        (3, 2, "DB2 for i Center of Excellence"),
        (3, 3, "Highlights"),
        (3, 3, "We build confident, satisfied clients"),
        (3, 3, "Who we are, some of what we do"),
        (4, 2, "Preface"),
        (4, 3, "Authors"),
        (5, 2, "Securing and protecting IBM DB2 data"),
        (6, 3, "1.1 Security fundamentals"),
        (6, 3, "1.2 Current state of IBM i security"),
        (7, 4, "1.3.1 Existing row and column control"),
        (8, 4, "2.1.6 Change Function Usage CL command"),
        (8, 4, "2.1.7 Verifying function usage IDs for RCAC with the FUNCTION_USAGE view"),
        (8, 3, "2.2 Separation of duties"),
        (10, 5, "Column mask"),  # in 3.1.1, whose heading is on a page that was left out
        (11, 4, "3.2.2 Built-in global variables"),
        (12, 3, "3.3 VERIFY_GROUP_FOR_USER function"),
        (14, 4, "3.6.6 Activating RCAC"),
        (18, 1, "Row and Column Access Control Support in IBM DB2 for i"),
        (18, 2, "BUILDING TECHNICAL INFORMATION BASED ON PRACTICAL EXPERIENCE"),
    ],
    # The title is in bold at the size of the text, under the size of the sections: a title all the same.
    "multi_page.pdf": [
        (1, 1, "The Evolution of the Word Processor"),
        (1, 2, "Pre-Digital Era (19th - Early 20th Century)"),
        (1, 2, "The Birth of Word Processing (1960s - 1970s)"),
        (1, 2, "The Rise of Personal Computers (1980s)"),
        (2, 2, "The Modern Era (1990s - Present)"),
        (2, 2, "Future of Word Processing"),
        (3, 2, "Specialized Word Processing Tools"),
        (3, 2, "Key Features That Changed Word Processing"),
        (3, 2, "The Cultural Impact of Word Processors"),
        (4, 2, "Word Processors in a Post-Digital Era"),
        (4, 2, "A Glimpse Into the Future"),
    ],
}
EITHER_WAY: dict[str, dict[str, str]] = {
    "redp5110_sampled.pdf": {
        "Expert help to achieve your business requirements": "the subtitle of a leaflet",
        "INTERNATIONAL TECHNICAL SUPPORT ORGANIZATION": "a name, set as the heading below it is",
    },
}
"""Neither missed nor wrong: a careful reader may call it a heading or not."""
RENDERING_ERRORS: dict[str, dict[str, str]] = {
    "redp5110_sampled.pdf": {"1": "the number of the chapter, drawn beside its heading"},
}
"""What docling's rendering has as a heading and the pages have not."""
_CHAPTER = re.compile(r"chapter \d+\.?\s*", re.IGNORECASE)
_TAG = re.compile(r"H([1-6])")


def on_pages(headings: Iterable[tuple[int | None, int | None, str]]) -> Outline:
    """For `scores`: a heading counts on its own page only."""
    outline = Outline()
    for page, level, text in headings:
        outline.heading(level, f"{page}: {text}")
    return outline


def stated_scores(file: str, reading: Reading) -> Scores:
    """Against what is stated by hand; `Chapter 1.` before a heading may be there or not."""
    either = EITHER_WAY.get(file, {})
    own = [(page, level, _CHAPTER.sub("", text, count=1)) for page, level, text in reading.headings]
    return scores(on_pages(heading for heading in own if heading[2] not in either), on_pages(STATED[file]))


def rendering_scores(path: Path, reading: Reading) -> Scores:
    """Against another parser's rendering as it stands, wherever the heading is."""
    outline = Outline()
    for _, level, text in reading.headings:
        outline.heading(level, text)
    wanted = expected(path.with_name(f"{path.name}.expected.md").read_text())
    return scores(outline, Outline(wanted.headings))


def tagged_scores(path: Path, reading: Reading) -> Scores:
    """Against the tags of a file, on the pages that were read; `path` has its tags."""
    wanted = [heading for heading in tagged_headings(path) if heading[0] <= reading.pages]
    return scores(on_pages(h for h in reading.headings if (h[0] or 0) <= reading.pages), on_pages(wanted))


# ---------------------------------------------------------------- tagged files


def tagged_headings(path: Path) -> Headings:
    """H1 to H6 of the structure tree, with the text of their marked content: by PDFium alone."""
    import pypdfium2
    from pypdfium2 import raw

    found: Headings = []
    document = pypdfium2.PdfDocument(path)
    for index in range(len(document)):
        page = document[index]
        tree = raw.FPDF_StructTree_GetForPage(page.raw)
        texts: dict[int, str] | None = None
        for level, marks in _headings_in(tree):
            texts = _marked_texts(page) if texts is None else texts
            text = "".join(texts.get(mark, "") for mark in marks)
            if text.strip():
                found.append((index + 1, level, " ".join(text.split())))
        raw.FPDF_StructTree_Close(tree)
        page.close()
    document.close()
    return found


def _headings_in(tree: Any) -> Iterable[tuple[int, list[int]]]:
    from pypdfium2 import raw

    waiting = [raw.FPDF_StructTree_GetChildAtIndex(tree, k) for k in range(raw.FPDF_StructTree_CountChildren(tree))]
    while waiting:
        element = waiting.pop(0)
        if not element:
            continue
        tag = _TAG.fullmatch(_type_of(element))
        if tag:
            yield int(tag[1]), _marks(element)
        else:
            waiting[:0] = _children(element)


def _children(element: Any) -> list[Any]:
    from pypdfium2 import raw

    count = raw.FPDF_StructElement_CountChildren(element)
    return [raw.FPDF_StructElement_GetChildAtIndex(element, k) for k in range(count)]


def _marks(element: Any) -> list[int]:
    """Ids of the marked content of an element and all under it."""
    from pypdfium2 import raw

    count = raw.FPDF_StructElement_GetMarkedContentIdCount(element)
    own = [raw.FPDF_StructElement_GetMarkedContentIdAtIndex(element, k) for k in range(max(count, 0))]
    return own + [mark for child in _children(element) if child for mark in _marks(child)]


def _type_of(element: Any) -> str:
    from pypdfium2 import raw

    size = raw.FPDF_StructElement_GetType(element, None, 0)
    buffer = ctypes.create_string_buffer(size)
    raw.FPDF_StructElement_GetType(element, buffer, size)
    return buffer.raw.decode("utf-16-le").rstrip("\0")


def _marked_texts(page: Any) -> dict[int, str]:
    from pypdfium2 import raw

    texts: dict[int, str] = {}
    textpage = page.get_textpage()
    for item in page.get_objects(filter=[raw.FPDF_PAGEOBJ_TEXT]):
        mark = raw.FPDFPageObj_GetMarkedContentID(item.raw)
        size = raw.FPDFTextObj_GetText(item.raw, textpage.raw, None, 0)
        buffer = ctypes.create_string_buffer(size)
        raw.FPDFTextObj_GetText(item.raw, textpage.raw, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), size)
        texts[mark] = texts.get(mark, "") + buffer.raw.decode("utf-16-le", "ignore").rstrip("\0")
    textpage.close()
    return texts


def hide_tags(path: Path, folder: Path) -> Path:
    """A copy that no longer says it has a structure tree; the same in all else, to the byte."""
    copy = folder / path.name
    copy.write_bytes(path.read_bytes().replace(b"/StructTreeRoot", b"/StructTreeGone"))
    if tagged_headings(copy):
        raise ValueError(f"{path.name}: its tags could not be hidden: the catalogue is compressed")
    return copy
