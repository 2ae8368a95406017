"""The choice of a parser for a file: the media type by its name, checked against the file's first bytes.

Parsers are imported on first use. The error for a missing library says how to install it.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pipelines.errors import DocumentError
from pipelines.parsing.formats import (
    AUTO,
    DOC,
    DOCX,
    EML,
    EPUB,
    HTML,
    MARKDOWN,
    ODT,
    OF_ENDING,
    OF_TYPE,
    OLE,
    ORG,
    PDF,
    PICTURES,
    PLAIN,
    PPT,
    PPTX,
    RST,
    RTF,
    RTF_TEXT,
    UNSTRUCTURED,
    XLS,
    XLSX,
    ZIP,
    read_by,
    type_and_reader,
)
from pipelines.records import ParsedFile
from resources.parsers.package import parts_of

Parse = Callable[..., ParsedFile]
"""The function `parse(path)` of a parser, with further options named by its parameters."""

ELEMENTS = "application/vnd.pincite.elements+json"
ELEMENTS_SUFFIX = ".elements.json"
MEDIA_TYPES = {**{ending: found.media_type for ending, found in OF_ENDING.items()}, ELEMENTS_SUFFIX: ELEMENTS}
OF_TEXT = frozenset({HTML, MARKDOWN, PLAIN, "text/csv", "text/tab-separated-values"})
"""Media types that are read entirely in Python, in time proportional to their length."""
_OWN = {
    PDF: "pdf.reader",
    DOCX: "office.docx",
    XLSX: "office.spreadsheet",
    PPTX: "office.presentation",
    XLS: "office.old_spreadsheet",
    DOC: "libreoffice.reader",
    PPT: "libreoffice.reader",
    HTML: "html",
    MARKDOWN: "text.markdown",
    PLAIN: "text.plain",
    "text/csv": "text.delimited",
    "text/tab-separated-values": "text.delimited",
    EML: "text.email",
    EPUB: "epub",
    ODT: "odt",
    RTF_TEXT: "pandoc",
    RST: "pandoc",
    ORG: "pandoc",
    ELEMENTS: "elements_map",
    **dict.fromkeys(PICTURES, "picture"),
}
_OTHERS_READER = "unstructured"
_ZIPPED = (DOCX, XLSX, PPTX)
_OLD = {"Workbook", "Book", "WordDocument", "PowerPoint Document"}
_PDF = b"%PDF-"
_OTHERS = {
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"\x1f\x8b": "a gzip archive",
    b"7z\xbc\xaf": "a 7-Zip archive",
    b"Rar!": "a RAR archive",
    b"\x7fELF": "a program",
    b"MZ\x90\x00": "a program",
    b"SQLite format 3": "a database",
    RTF: "an RTF document",
}
PDF_HEADER_WITHIN = 1024


@dataclass(frozen=True, slots=True)
class PageGuard:
    """The protection from pages that may kill or hang their parser.

    `report` is called with a page's number before that page is read if it may take long: a scan, or any page if
    `without` is given. `without` is given for a file whose parser died or hung: the file is read page by page without
    the pages that caused it, and 0 is reported when all pages are read.
    """

    report: Callable[[int], None] = lambda number: None
    without: Collection[int] | None = None


def media_type_of(path: Path, readers: Mapping[str, str] | None = None) -> str | None:
    """Return the media type by the file's name, without opening the file, or None if no parser reads it. `readers` are
    the readers that the settings choose for file endings."""
    name = path.name.lower()
    if name.endswith(ELEMENTS_SUFFIX):
        return ELEMENTS
    ending = path.suffix.lower()
    found = MEDIA_TYPES.get(ending)
    return found and read_by(found, (readers or {}).get(ending, AUTO))


def map_beside(path: Path) -> Path:
    """Return the path of a file's structural map: `report.pdf.elements.json` beside `report.pdf`."""
    return path.with_name(path.name + ELEMENTS_SUFFIX)


def files_of(path: Path, media_type: str) -> tuple[Path, ...]:
    """Return the files of a document; the first one is parsed: a map, then the file that it describes."""
    mapped = media_type == ELEMENTS and media_type_of(path) != ELEMENTS
    return (map_beside(path), path) if mapped else (path,)


def require_size(uri: str, size: int, max_megabytes: int | None) -> None:
    """Raise DocumentError `limit_exceeded` if a file is larger than `max_megabytes` MiB."""
    if max_megabytes is not None and size > max_megabytes << 20:
        told = f"{uri}: {size >> 20:,} MB is over the limit; raise parsing.max_megabytes ({max_megabytes})"
        raise DocumentError(told, "limit_exceeded")


def _module(name: str) -> ModuleType:
    """Import a parser module by its name, so that only the parsers that a file needs are loaded."""
    return importlib.import_module(f"resources.parsers.{name}")


def parser_of(media_type: str) -> Parse:
    """Return the `parse(path)` of a media type.

    Raises DocumentError `unsupported`, also if the parser's library is not installed."""
    plain, reader = type_and_reader(media_type)
    name = _OTHERS_READER if reader == UNSTRUCTURED or plain not in _OWN else _OWN[plain]
    if plain not in OF_TYPE and plain not in _OWN:
        raise DocumentError(f"no parser reads {media_type}; convert it to PDF, DOCX, HTML or text", "unsupported")
    try:
        module = _module(name)
    except ModuleNotFoundError as error:
        message = f"reading {media_type} needs the library {error.name!r}: pip install 'pincite' again, with all parts"
        raise DocumentError(message, "unsupported") from None
    parse: Parse = module.parse
    return parse


def _found_type(head: bytes) -> str | None:
    if _PDF in head:
        return "a PDF"
    if head.startswith(ZIP):
        return "a ZIP archive"
    if head.startswith(OLE):
        return "an old Office file"
    return next((name for magic, name in _OTHERS.items() if head.startswith(magic)), None)


def check_content(path: Path, media_type: str) -> None:
    """Compare the first bytes with the type of the file's name.

    Raises DocumentError: `empty`, `encrypted` (an Office file with a password), `corrupt` (another kind of file),
    `unreadable`.
    """
    with open(path, "rb") as stream:
        head = stream.read(PDF_HEADER_WITHIN)
    if not head:
        raise DocumentError(f"{path.name}: the file is empty (0 bytes)", "empty")
    plain, _ = type_and_reader(media_type)
    begins = OF_TYPE[plain].begins if plain in OF_TYPE else b""
    if plain in _ZIPPED and head.startswith(OLE):
        raise _not_zipped(path)
    right = _PDF in head if plain == PDF else head.startswith(begins)
    other = not begins and plain != PDF and _found_type(head[:16]) is not None
    if other or not right:
        raise DocumentError(_not_what_it_says(path, head), "corrupt")


def _not_zipped(path: Path) -> DocumentError:
    """Return the error for an Office file in the container format from before 2007, which is also used for files with a
    password."""
    names = parts_of(path).keys()
    if {"EncryptionInfo", "EncryptedPackage"} & names:
        return DocumentError(f"{path.name}: the Office file has a password: save a copy without one", "encrypted")
    told = "an Office file in the format before 2007" if _OLD & names else "an old Office file, and damaged"
    return DocumentError(f"{path.name}: the content is {told}: save it anew, as {path.suffix}", "corrupt")


def _not_what_it_says(path: Path, head: bytes) -> str:
    found = _found_type(head)
    what = f"the content is {found}" if found else f"the content is not what {path.suffix} files begin with"
    return f"{path.name}: {what}: rename it to what it is, or save it again"


def parse_file(path: Path, media_type: str, **options: Any) -> ParsedFile:
    """Check and parse one file. A parser gets the options that are among its parameters, such as `ocr` (an
    OcrSettings). With `barcodes`, codes in pictures are read too. Raises DocumentError."""
    parse = parser_of(media_type)
    check_content(path, media_type)
    wanted = inspect.signature(parse).parameters
    parsed = parse(path, **{name: value for name, value in options.items() if name in wanted})
    if not options.get("barcodes") or media_type not in _ZIPPED:
        return parsed
    with_codes: Callable[[Path, ParsedFile], ParsedFile] = _module("barcodes").with_codes
    return with_codes(path, parsed)


def pages_of_picture(path: Path) -> bytes | None:
    """Return a picture file as a PDF, to draw its pages, or None for other files. Raise DocumentError."""
    if media_type_of(path) not in PICTURES:
        return None
    made: bytes = _module("picture").as_pdf(path)
    return made
