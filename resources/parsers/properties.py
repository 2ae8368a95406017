"""The properties that a file states of itself: title, author, dates, language.

Readers that convert a file to another format lose these, so they are read here, with the limits for packages of Office
files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from pipelines.dates import iso_date
from pipelines.errors import DocumentError
from resources.parsers.html import properties_of as page_properties
from resources.parsers.html import source_of, tree_of
from resources.parsers.package import core_properties, opened_package, xml_part
from resources.parsers.rtf import info_of
from resources.parsers.source_text import decode
from resources.parsers.text.email import said_of

Properties = dict[str, str]

_HEAD = 1 << 16
"""Bytes from the start of a text that are searched for its keywords."""
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
_MANY = frozenset({"author", "keywords"})
"""Properties that may occur several times; they are joined by commas."""


def properties_of(path: Path) -> tuple[Properties, tuple[str, ...]]:
    """Return properties with the keys of ParsedFile.properties, and a warning if they cannot be read."""
    read = _READERS.get(path.suffix.lower())
    if read is None:
        return {}, ()
    try:
        return _settle(read(path)), ()
    except DocumentError as error:
        return {}, (f"what the file says of itself (title, dates) cannot be read: {error}",)


def _settle(found: Iterator[tuple[str, str]]) -> Properties:
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
    """Yield the keywords of an Org file. A title on several lines is one title."""
    titles = []
    for found in map(_ORG.fullmatch, _lines(path)):
        name = _ORG_NAMES.get(found[1].lower()) if found else None
        if found and name == "title":
            titles.append(found[2].strip())
        elif found and name:
            yield name, found[2].strip().strip("<>[]") if name == "date" else found[2]
    yield "title", " ".join(titles)


def _rst(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the fields with a known name at the start of an RST file."""
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
