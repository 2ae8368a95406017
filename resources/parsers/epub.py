"""The reader of EPUB: the pages of a book in its reading order, each read as HTML.

Notes become footnotes below their page. Chapters without headings get their names from the table of contents. Guides to
the pronunciation of East Asian text are left out.
"""

from __future__ import annotations

import html.entities
import re
import zipfile
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote

from pipelines.errors import DocumentError
from pipelines.parsing.hidden import HiddenContent
from pipelines.parsing.raised import raise_text
from pipelines.plural import plural
from pipelines.records import Block, ParsedFile
from resources.parsers.epub_styles import PageStyles, Sheets, leave_out_hidden, mark_looks
from resources.parsers.html import source_of, tree_of
from resources.parsers.package import opened_package, require_open, xml_parser, xml_part
from resources.parsers.properties import properties_of
from resources.parsers.through_html import blocks_of_page, drop, name_headings, note_blocks
from resources.parsers.untrusted import list_names

ORIGIN = "epub"
_PAGES = frozenset(("application/xhtml+xml", "text/html", "application/x-dtbook+xml"))
_TYPE = "{http://www.idpf.org/2007/ops}type"

# ---------------------------------------------------------------- the book


@dataclass(frozen=True, slots=True)
class _Item:
    part: str
    media_type: str
    properties: frozenset[str]


class _Entry(NamedTuple):
    """An entry of the table of contents: the page, and the place in the page."""

    name: str
    part: str
    fragment: str
    depth: int


@dataclass
class _Book:
    """The description of a book: its pages by id, their order, and its table of contents."""

    items: dict[str, _Item] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    missing: int = 0
    contents: dict[str, list[_Entry]] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)


def parse(path: Path, hidden: bool = False) -> ParsedFile:
    """Read an EPUB; with `hidden`, include its hidden elements. Raise DocumentError: `corrupt`, `encrypted`,
    `limit_exceeded`."""
    content = HiddenContent(hidden)
    properties, told = properties_of(path)
    blocks: list[Block] = []
    warnings: dict[str, None] = dict.fromkeys(told)
    with opened_package(path) as package:
        require_open(package, path)
        book = _book(package, path)
        styles = PageStyles(package)
        for part in book.order:
            page = _page(package, part, path)
            if page is None:
                book.missing += 1
                continue
            sheets = styles.of_page(page, _sheets(page, part))
            # The rules of a page are followed here: the reader of HTML would hide again what is to be read.
            drop(list(page.iter("rt", "rp", "style")))
            notes = _take_notes(page)
            for shown in (page, *(note for _, note in notes)):
                leave_out_hidden(shown, sheets, content)
            found, said = _page_blocks(page, book.contents.get(part, []), sheets, part, path, content)
            found += note_blocks(notes, path.name, content, part)
            blocks += found
            warnings |= dict.fromkeys(said)
    if book.missing:
        missing = plural(book.missing, "page of the reading order is", "pages of the reading order are")
        warnings[f"{missing} missing in the file"] = None
    unread = [item.part for item in book.items.values() if item.media_type in _PAGES and item.part not in book.skipped]
    read = set(book.order)
    unread = [part for part in unread if part not in read]
    if unread:
        warnings[f"pages outside the reading order were not read: {list_names(unread)}"] = None
    return ParsedFile(tuple(blocks), properties, None, (*warnings, *content.warnings()), ORIGIN)


def _book(package: zipfile.ZipFile, path: Path) -> _Book:
    container = xml_part(package, "META-INF/container.xml", path)
    root = next(container.iter("{*}rootfile"), None) if container is not None else None
    name = unquote(root.get("full-path") or "") if root is not None else ""
    found = xml_part(package, name, path) if name else None
    if found is None:
        raise DocumentError(
            f"{path.name}: the file is not an EPUB: it has no package document; open it and save it again", "corrupt"
        )
    book = _Book()
    for item in found.iter("{*}item"):
        part = _target(name, item.get("href") or "")[0]
        kinds = frozenset((item.get("properties") or "").split())
        book.items[item.get("id") or ""] = _Item(part, (item.get("media-type") or "").lower(), kinds)
    last: list[str] = []
    for spine in found.iter("{*}spine"):
        for reference in spine.iter("{*}itemref"):
            item = book.items.get(reference.get("idref") or "")
            if item is None:
                book.missing += 1
            elif item.media_type in _PAGES and "nav" not in item.properties:
                (last if reference.get("linear") == "no" else book.order).append(item.part)
        _contents(package, book, book.items.get(spine.get("toc") or ""), path)
    book.order = list(dict.fromkeys([*book.order, *last]))
    return book


def _target(base: str, address: str) -> tuple[str, str]:
    """Return the part to which an address points, and the place in it."""
    place, _, fragment = address.partition("#")
    parts: list[str] = list(PurePosixPath(base).parent.parts) if place else list(PurePosixPath(base).parts)
    for part in PurePosixPath(unquote(place)).parts if place else ():
        parts = parts[:-1] if part == ".." else parts if part == "." else [*parts, part]
    return "/".join(parts), unquote(fragment)


def _contents(package: zipfile.ZipFile, book: _Book, ncx: _Item | None, path: Path) -> None:
    """Read the table of contents, in the newer form or else the older one."""
    for item in book.items.values():
        if "nav" in item.properties:
            book.skipped.add(item.part)
            page = _page(package, item.part, path)
            navs = page.iter("nav") if page is not None else ()
            for nav in navs:
                for entry in _list_entries(nav, item.part) if _is(nav, "toc") else ():
                    book.contents.setdefault(entry.part, []).append(entry)
    if ncx is None or book.contents:
        return
    root = xml_part(package, ncx.part, path)
    for point in root.iter("{*}navPoint") if root is not None else ():
        label, content = point.find("{*}navLabel"), point.find("{*}content")
        if label is not None and content is not None:
            depth = sum(1 for above in point.iterancestors() if above.tag == point.tag) + 1
            part, fragment = _target(ncx.part, content.get("src") or "")
            book.contents.setdefault(part, []).append(_Entry(_text(label), part, fragment, depth))


def _list_entries(nav: Any, base: str) -> Iterator[_Entry]:
    for link in nav.iter("a"):
        depth = sum(1 for above in link.iterancestors() if above.tag == "ol")
        part, fragment = _target(base, link.get("href") or "")
        if name := _text(link):
            yield _Entry(name, part, fragment, max(depth, 1))


def _is(element: Any, *kinds: str) -> bool:
    """Say whether an element is of a kind, by EPUB's own attribute or by its role."""
    said = (element.get(_TYPE) or element.get("epub:type") or "").split()
    return any(kind in said or element.get("role") == f"doc-{kind}" for kind in kinds)


def _text(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())


# ---------------------------------------------------------------- a page


_PROLOG = re.compile(r"\A\s*+(?:<\?xml[^>]*+>\s*+)?(?:<!DOCTYPE[^>\[]*+(?:\[[^\]]*+\][^>]*+)?>)?", re.IGNORECASE)
_ENTITY = re.compile(r"&([A-Za-z][A-Za-z0-9]{1,30});")
_OF_XML = frozenset(("amp", "lt", "gt", "quot", "apos"))


def _page(package: zipfile.ZipFile, part: str, path: Path) -> Any:
    """Return the root of a page, with HTML names of elements, or None if the file lacks the page.

    A page that is not valid XML is read as HTML. XML is tried first, since HTML would not close an empty `<title/>`.
    """
    from lxml import etree

    try:
        data = package.read(part)
    except KeyError:
        return None
    source, _ = source_of(data, path.name)
    plain = _ENTITY.sub(_character, _PROLOG.sub("", source, count=1))
    try:
        root = etree.fromstring(plain.encode("utf-8", "replace"), xml_parser())
    except etree.XMLSyntaxError:
        return tree_of(source, path.name)
    for element in root.iter():
        if isinstance(element.tag, str):
            element.tag = element.tag.rpartition("}")[2].lower()
    return root


def _sheets(page: Any, part: str) -> Iterator[str]:
    """Yield the parts with the style sheets that a page links."""
    for link in page.iter("link"):
        if "stylesheet" in (link.get("rel") or "").lower():
            yield _target(part, link.get("href") or "")[0]


def _character(entity: re.Match[str]) -> str:
    name = entity[1]
    return entity[0] if name in _OF_XML else html.entities.html5.get(f"{name};", entity[0])


# ---------------------------------------------------------------- notes and chapters


_NOTES = ("footnote", "endnote", "rearnote", "note")
_LISTS_OF_NOTES = ("footnotes", "endnotes", "rearnotes")
_HEADINGS = frozenset(f"h{level}" for level in range(1, 7))
_LINES = frozenset(("p", "div", "h1", "h2", "h3", "h4", "h5", "h6", "li", "td", "blockquote"))
_LOOKED_AT = 6
"""Number of lines at the beginning of a chapter that are searched for its name."""
_LONGEST_REFERENCE = 4
_LONGEST_NAME = 300
"""Most characters of a line that may be the name of a chapter."""
_INNER = frozenset(("p", "span", "a", "b", "i", "em", "strong", "sup", "sub", "small"))


def _page_blocks(
    page: Any, entries: list[_Entry], sheets: Sheets, part: str, path: Path, content: HiddenContent
) -> tuple[list[Block], tuple[str, ...]]:
    """Return the blocks of a page, and warnings."""
    for reference in page.iter("a"):
        _raise(reference)
    _name_chapters(page, entries)
    mark_looks(page, sheets)
    name_headings(page)
    return blocks_of_page(page, path.name, content, part)


def _raise(link: Any) -> None:
    """Raise the number of a note's reference, unless it is already marked in another way."""
    number = _text(link)
    apart = any(element.tag == "sup" for element in (*link.iter("sup"), *link.iterancestors("sup")))
    if _is(link, "noteref") and number.isdigit() and len(number) <= _LONGEST_REFERENCE and not apart and not len(link):
        link.text = raise_text(number)


def _take_notes(page: Any) -> list[tuple[str | None, Any]]:
    """Remove the notes of a page. Return each with its number, if any."""
    found = [element for element in page.iter("*") if _is(element, *_NOTES)]
    lists = [element for element in page.iter("*") if _is(element, *_LISTS_OF_NOTES)]
    known, within = set(found), set()
    for notes in lists:
        inner = [] if notes in within else list(notes.iter("*"))
        within.update(inner)
        if known.isdisjoint(inner):
            found += [element for element in inner if element.tag == "li"]
    taken = set(found)
    kept: list[tuple[str | None, Any]] = []
    for element in found:
        if not any(above in taken for above in element.iterancestors()) and element.getparent() is not None:
            element.tag = "div"
            for name in ("hidden", "style", "class"):  # a note that its page hides is shown where it is referred to
                element.attrib.pop(name, None)
            kept.append((None, element))
    apart = {element for _, element in kept}
    drop([element for element in page.iter("*") if element in apart])
    return kept


def _name_chapters(page: Any, entries: list[_Entry]) -> None:
    """Make headings from the names of chapters: from a line that has the name, or before a chapter without a
    heading."""
    if not entries:
        return
    named = {element.get("id"): element for element in page.iter("*") if element.get("id")}
    lines = [
        element
        for element in page.iter(*_LINES)
        if not any(inner.tag in _LINES for inner in element.iter() if inner is not element)
    ]
    order = {element: at for at, element in enumerate(page.iter("*"))}
    places = [order[element] for element in lines]
    body = next(page.iter("body"), page)
    known: dict[Any, str] = {}
    named_at: set[Any] = set()
    for entry in entries:
        target = named.get(entry.fragment) if entry.fragment else body
        if target is None:
            continue
        first = bisect_left(places, order[target])
        begin = lines[first : first + _LOOKED_AT]
        name = _letters(entry.name)
        same = next((element for element in begin if _letters_of(element, known) == name), None)
        level = min(entry.depth, 6)
        if same is not None:
            if same.tag not in _HEADINGS and same.tag not in ("li", "td"):
                same.tag = f"h{level}"
        elif not any(element.tag in _HEADINGS for element in begin) and target not in named_at:
            named_at.add(target)
            _insert(target, f"h{level}", entry.name, body)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def _letters_of(line: Any, known: dict[Any, str]) -> str:
    if line not in known:
        text = _text(line)
        known[line] = _letters(text) if len(text) <= _LONGEST_NAME else ""
    return known[line]


def _insert(target: Any, tag: str, text: str, body: Any) -> None:
    """Insert a heading before an element, at block level, or at the start of the page if the element is the body."""
    heading = body.makeelement(tag)
    heading.text = text
    while target is not body and target.getparent() is not None and target.getparent().tag in _INNER:
        target = target.getparent()
    if target is body or target.getparent() is None:
        heading.tail, body.text = body.text, None
        body.insert(0, heading)
    else:
        target.addprevious(heading)
