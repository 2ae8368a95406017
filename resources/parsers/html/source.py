"""What an HTML file is written in, its tree, and what it says of itself."""

from __future__ import annotations

import re
from typing import Any

from pipelines.errors import DocumentError
from resources.parsers.text.source_text import decode

_META_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset\s*+=\s*+["']?\s*+([\w-]{2,40})""", re.IGNORECASE)
_PROLOG = re.compile(r"\A\s*+<\?xml[^>]*+(?<=\?)>")
_DATE_NAMES = (
    "effective_date effective-date dcterms.issued dc.date dcterms.date date article:modified_time "
    "article:published_time dcterms.modified datepublished last-modified pubdate"
)
_DATES = tuple(_DATE_NAMES.split())
_FREE = {"author": "author", "dc.creator": "author", "description": "description", "keywords": "keywords"}


def source_of(data: bytes, name: str) -> tuple[str, tuple[str, ...]]:
    try:
        return data.decode("utf-8-sig"), ()
    except UnicodeDecodeError:
        pass
    declared = _META_CHARSET.search(data[:4096])
    if declared is not None and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return data.decode(declared[1].decode("ascii")), ()
        except (UnicodeDecodeError, LookupError):
            pass
    return decode(data, name)


def tree_of(source: str, name: str) -> Any:
    from lxml import etree

    text = _PROLOG.sub("", source, count=1).replace("\x00", "\ufffd")
    text = "".join(char for char in text if not 0xD800 <= ord(char) <= 0xDFFF) if not text.isascii() else text
    if not text.strip():
        return None
    data = text.encode("utf-8")
    for huge in (False, True):
        parser = etree.HTMLParser(
            encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True, recover=True, huge_tree=huge
        )
        root = etree.fromstring(data, parser)
        if not any("depth" in entry.message.lower() or "huge" in entry.message.lower() for entry in parser.error_log):
            return root
    raise DocumentError(f"{name}: elements are nested too deeply; simplify the page", "limit_exceeded")


def properties_of(root: Any) -> dict[str, str]:
    properties: dict[str, str] = {}
    title = root.find(".//title")
    if title is not None:
        properties["title"] = "".join(title.itertext())
    declared = root.get("lang") or root.get("xml:lang") or root.get("{http://www.w3.org/XML/1998/namespace}lang")
    named: dict[str, str] = {}
    for meta in root.iter("meta"):
        key = meta.get("name") or meta.get("property") or meta.get("itemprop") or meta.get("http-equiv") or ""
        named.setdefault(key.lower(), meta.get("content") or "")
    if declared or named.get("content-language", "").strip():
        properties["language"] = declared or named["content-language"]
    for key in _DATES:
        if named.get(key, "").strip():
            properties["effective_date"] = named[key]
            break
    if named.get("version", "").strip():
        properties["version"] = named["version"]
    for key, own in _FREE.items():
        if named.get(key, "").strip():
            properties.setdefault(own, named[key])
    return properties
