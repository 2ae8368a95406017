"""The supported file formats: endings, media types, the reader of each, and what it keeps and needs."""

from __future__ import annotations

from dataclasses import dataclass

_OFFICE = "application/vnd.openxmlformats-officedocument"
PDF = "application/pdf"
DOCX = f"{_OFFICE}.wordprocessingml.document"
XLSX = f"{_OFFICE}.spreadsheetml.sheet"
PPTX = f"{_OFFICE}.presentationml.presentation"
XLS, DOC, PPT = "application/vnd.ms-excel", "application/msword", "application/vnd.ms-powerpoint"
HTML, MARKDOWN, PLAIN = "text/html", "text/markdown", "text/plain"
EML = "message/rfc822"
PNG, JPEG, TIFF = "image/png", "image/jpeg", "image/tiff"
PICTURES = frozenset({PNG, JPEG, TIFF})
PAGED = frozenset({PDF, *PICTURES})
"""Media types of files whose pages can be drawn as pictures."""
EPUB, ODT = "application/epub+zip", "application/vnd.oasis.opendocument.text"
RTF_TEXT, RST, ORG = "application/rtf", "text/x-rst", "text/x-org"
XML = "application/xml"
WITH_HEADS = frozenset({MARKDOWN, PLAIN, HTML, XML, "text/csv", "text/tab-separated-values", RST, ORG})
"""Media types whose heads are searched for groups: text that people edit. Messages have their own headers, and RTF is
not edited by hand."""
AUTO, OWN, UNSTRUCTURED = "auto", "own", "unstructured"
_NAMED = "; reader="


@dataclass(frozen=True, slots=True)
class Format:
    """One file format. An `own` format has one of pincite's readers; the library unstructured reads the others, and can
    also read files with the endings `either`. `begins` has the first bytes of the file if they are always the same."""

    endings: tuple[str, ...]
    media_type: str
    keeps: str
    needs: str = ""
    own: bool = True
    either: tuple[str, ...] = ()
    begins: bytes = b""


ZIP, OLE, RTF = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"{\\rtf"
_PANDOC = "pandoc: `pincite[formats]`, or a `pandoc` on the PATH"
_OFFICE_97 = "LibreOffice, its `soffice` on the PATH"
_TEXTUAL = "headings with levels, lists, tables"
_TITLED = f"title, author, dates; {_TEXTUAL}"
_MAIL = "subject, sender, date, text; attachments as documents of their own"
_SCANNED, _OCR = f"one page: {_TEXTUAL}, boxes", "tesseract, or `pincite[ocr]`"
_PAGES, _TEXTS = (".html", ".htm", ".xhtml"), (".txt", ".text", ".log")

FORMATS = (
    Format(
        (".pdf",),
        PDF,
        f"{_TEXTUAL}, pages, boxes, figures, running heads, form fields (also of XFA), notes and typed text",
        "for scans tesseract, or `pincite[ocr]`",
    ),
    Format(
        (".docx", ".docm", ".dotx", ".dotm"),
        DOCX,
        f"{_TEXTUAL}, running heads, notes, comments, charts, diagrams, figures, documents taken in (altChunk)",
        either=(".docx",),
        begins=ZIP,
    ),
    Format(
        (".xlsx", ".xlsm", ".xltx", ".xltm"),
        XLSX,
        "sheets, tables, comments, charts, diagrams, figures, printed headers",
        begins=ZIP,
    ),
    Format(
        (".pptx", ".pptm", ".potx", ".potm", ".ppsx", ".ppsm"),
        PPTX,
        f"slides, {_TEXTUAL}, notes, comments, charts, diagrams, figures, text of layouts",
        either=(".pptx", ".pptm"),
        begins=ZIP,
    ),
    Format(_PAGES, HTML, f"{_TEXTUAL}, code, figures, offsets", either=_PAGES),
    Format((".md", ".markdown"), MARKDOWN, f"{_TEXTUAL}, code, front matter, offsets"),
    Format(_TEXTS, PLAIN, "headings, lists, offsets", either=_TEXTS),
    Format((".csv",), "text/csv", "the table, offsets"),
    Format((".tsv",), "text/tab-separated-values", "the table, offsets"),
    Format((".eml",), EML, _MAIL, either=(".eml",)),
    Format((".epub",), EPUB, f"{_TITLED}, notes", begins=ZIP),
    Format((".odt",), ODT, f"{_TITLED}, notes, comments", begins=ZIP),
    Format((".rtf",), RTF_TEXT, f"{_TITLED}, notes, comments", _PANDOC, begins=RTF),
    Format((".rst",), RST, _TITLED, _PANDOC),
    Format((".org",), ORG, _TITLED, _PANDOC),
    Format((".xls",), XLS, "sheets, tables, comments", begins=OLE),
    Format((".msg",), "application/vnd.ms-outlook", _MAIL, own=False, begins=OLE),
    Format((".xml",), XML, "text of its elements", own=False),
    Format((".png",), PNG, _SCANNED, _OCR, begins=b"\x89PNG"),
    Format((".jpg", ".jpeg"), JPEG, _SCANNED, _OCR, begins=b"\xff\xd8\xff"),
    Format((".tif", ".tiff"), TIFF, _SCANNED, _OCR),
    Format((".doc", ".dot"), DOC, f"{_TEXTUAL}, notes, figures", _OFFICE_97, begins=OLE),
    Format((".ppt", ".pps", ".pot"), PPT, f"slides, {_TEXTUAL}, notes, figures", _OFFICE_97, begins=OLE),
)
OF_ENDING = {ending: found for found in FORMATS for ending in found.endings}
OF_TYPE = {found.media_type: found for found in FORMATS}

KINDS: dict[str, tuple[str, ...]] = {
    "pdf": (PDF,),
    "text": (DOCX, ODT, RTF_TEXT, DOC),
    "sheet": (XLSX, XLS, "text/csv", "text/tab-separated-values"),
    "slides": (PPTX, PPT),
    "web": (HTML,),
    "plain": (MARKDOWN, PLAIN, RST, ORG),
    "mail": (EML, "application/vnd.ms-outlook"),
    "book": (EPUB,),
    "picture": (PNG, JPEG, TIFF),
}
"""Kinds of documents in everyday words, each with its media types. All other documents are of the kind `other`."""
KIND_OF_ENDING = {
    ending: kind for kind, types in KINDS.items() for media_type in types for ending in OF_TYPE[media_type].endings
}


def read_by(media_type: str, reader: str) -> str:
    """Return the media type of a document, with the reader's name added if it is not the format's own reader. The
    changed media type makes every later stage process the document again."""
    return f"{media_type}{_NAMED}{reader}" if reader == UNSTRUCTURED and OF_TYPE[media_type].own else media_type


def type_and_reader(media_type: str) -> tuple[str, str]:
    """Split a media type from `read_by` into the plain media type and its reader."""
    plain, _, reader = media_type.partition(_NAMED)
    return plain, reader or AUTO


TRIED_AGAIN = frozenset({"corrupt", "empty_parse"})
"""Error codes of pincite's readers after which another reader may succeed. Codes of a limit or a password must not be
here."""


def second_reading(media_type: str, ending: str, code: str) -> str | None:
    """Return the media type for a second attempt after pincite's reader failed with this code, or None if there is no
    second attempt."""
    found = OF_TYPE.get(media_type)
    if found is None or ending not in found.either or code not in TRIED_AGAIN:
        return None
    return read_by(media_type, UNSTRUCTURED)
