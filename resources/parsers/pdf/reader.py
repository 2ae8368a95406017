"""PDF files: the blocks of their pages or of their XFA form, with outline, properties and warnings.

liteparse gives lines with boxes and fonts, PDFium the complete raw text; both contain a copy of PDFium, and are used
one after the other. An XFA template is a tree of subforms with drawn text and fields; its data are a tree of the same
names, and values without a field are kept under their own names. Nothing is run or fetched: scripts, which could hide
and show parts, are ignored.
"""

from __future__ import annotations

import ctypes
import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.dates import iso_date
from pipelines.errors import DocumentError
from pipelines.parsing.hidden import METADATA as HIDDEN
from pipelines.parsing.hidden import HiddenContent
from pipelines.parsing.pdf.headings import Bookmark
from pipelines.parsing.pdf.layout import blocks_of
from pipelines.parsing.pdf.page import LEAST_COVERAGE, PdfItem, PdfPage
from pipelines.records import Block, Box, ParsedFile, TextRun
from resources.parsers import ocr as scans
from resources.parsers.labels import key_value
from resources.parsers.package import xml_parser
from resources.parsers.pdf.annotations import COMMENT, attachments
from resources.parsers.pdf.pages import MOST_UNREADABLE, Read, pages_of
from resources.parsers.pdf.unseen import OUTSIDE
from resources.parsers.registry import PageGuard
from resources.parsers.untrusted import list_names

# ---------------------------------------------------------------- XFA forms


MOST_BYTES = 16 << 20
MOST_STEPS, CHARACTERS_A_STEP = 200_000, 100
"""Most parts of a template that are read, and the number of characters that counts as another part. A repeated part
counts each time, so a small file cannot expand into a huge document."""
_HIDDEN = ("hidden", "invisible", "inactive")
_GROUPS = frozenset(("subform", "subformSet", "area", "pageSet", "pageArea"))
_UNFILLED = frozenset(("button", "passwordEdit", "imageEdit", "signature", "barcode"))
_REFERENCE = re.compile(r"(?:\$record|\$data|\$)?\.?((?:[\w-]+(?:\[[*\d]+\])?\.?)++)")
_MEASURE = re.compile(r"(-?[\d.]{1,12})(in|mm|cm|pt)?")
_POINTS = {"in": 72.0, "mm": 72 / 25.4, "cm": 72 / 2.54, "pt": 1.0, "": 72.0}
_SAME_ROW = 4.0
"""Largest distance, in points, between the tops of parts that are read as one row, from left to right."""


def xfa_source(document: Any, name: str) -> bytes:
    """Return the whole XFA of a pypdfium2 document, its packets one after the other; empty if it has no XFA.

    Raises DocumentError `limit_exceeded`."""
    import pypdfium2.raw as pdfium

    pieces: list[bytes] = []
    size = 0
    for index in range(max(0, pdfium.FPDF_GetXFAPacketCount(document))):
        length = ctypes.c_ulong()
        pdfium.FPDF_GetXFAPacketContent(document, index, None, 0, length)
        size += length.value
        if size > MOST_BYTES:
            raise DocumentError(f"{name}: its XFA form is over {MOST_BYTES >> 20} MB", "limit_exceeded")
        buffer = ctypes.create_string_buffer(length.value)
        if length.value and pdfium.FPDF_GetXFAPacketContent(document, index, buffer, length.value, length):
            pieces.append(buffer.raw)
    return b"".join(pieces)


def form_blocks(source: bytes, name: str) -> tuple[list[Block], tuple[str, ...]]:
    """Return the form's text and values in the order of its template, each with its path in it (`form1.Address.City`),
    and warnings.

    Raises DocumentError: `corrupt`, `limit_exceeded` (entities)."""
    from lxml import etree

    if b"<!DOCTYPE" in source or b"<!ENTITY" in source:
        raise DocumentError(f"{name}: its XFA form declares entities", "limit_exceeded")
    try:
        root = etree.fromstring(source, xml_parser())
    except etree.XMLSyntaxError as error:
        raise DocumentError(f"{name}: its XFA form cannot be read ({error})", "corrupt") from None
    template = next(root.iter("{*}template"), None)
    data = next((found for sets in root.iter("{*}datasets") for found in sets.iterchildren("{*}data")), None)
    form = _XfaForm(_Data())
    for part in template if template is not None else ():
        form.read(part, data, "")
    told = f"of the XFA form only the first {MOST_STEPS:,} parts were read"
    rest = list(form.data.unused_values(data)) if data is not None else []
    return [*form.blocks, *rest], (told,) * (form.steps > MOST_STEPS)


def _local(element: Any) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


@dataclass(slots=True)
class _Data:
    """The data of a form. Each value of a name is used once, in order; `taken` has the nodes of used values."""

    children: dict[Any, dict[str, deque[Any]]] = field(default_factory=dict)
    taken: set[Any] = field(default_factory=set)

    def _nodes_named(self, node: Any, name: str) -> deque[Any]:
        if node not in self.children:
            by_name = self.children[node] = defaultdict(deque)
            for child in node:
                by_name[_local(child)].append(child)
        return self.children[node].get(name) or deque()

    def groups(self, node: Any, name: str) -> list[Any]:
        """Return all nodes of a name; the part of the template is repeated for each."""
        named = self._nodes_named(node, name)
        found = list(named)
        named.clear()
        return found

    def group(self, node: Any, names: Sequence[str]) -> Any:
        """Return the node at a path, or None if it is missing."""
        for name in names:
            node = next(iter(self._nodes_named(node, name)), None) if node is not None else None
        return node

    def value(self, node: Any, name: str) -> str | None:
        """Return the next value of a name in the node, or else in the nearest node around it."""
        while node is not None:
            if waiting := self._nodes_named(node, name):
                found = waiting.popleft()
                self.taken.add(found)
                return _value(found)
            node = node.getparent()
        return None

    def unused_values(self, root: Any) -> Iterator[Block]:
        """Yield the values that no field took."""
        stack = [root]
        while stack:
            node = stack.pop()
            if node not in self.taken and _local(node):
                if not len(node) and (value := _value(node)):
                    yield _pair(_local(node), value, _local(node))
                stack += reversed(node)


class _XfaForm:
    def __init__(self, data: _Data) -> None:
        self.data = data
        self.blocks: list[Block] = []
        self.steps = 0
        self.choices: dict[Any, dict[str, str]] = {}

    def read(self, part: Any, data: Any, path: str) -> None:
        """Read a part of the template with the node of the data that it is bound to."""
        self.steps += 1
        kind = _local(part)
        if self.steps > MOST_STEPS or part.get("presence") in _HIDDEN:
            return
        name = part.get("name") or ""
        path = f"{path}.{name}".lstrip(".") if name else path
        if kind in _GROUPS:
            inner = _in_order(part)
            for node in self._nodes(part, data, name):
                for child in inner if self.steps <= MOST_STEPS else ():
                    self.read(child, node, path)
        elif kind == "draw":
            for line in _lines(part.find("{*}value")):
                self._add(Block("paragraph", (TextRun(line, locator=path),)))
        elif kind == "exclGroup":
            self._choice(part, data, name, path)
        elif kind == "field":
            self._field(part, data, name, path)

    def _nodes(self, part: Any, data: Any, name: str) -> list[Any]:
        """Return the data nodes for which a group is repeated, or only the current one if it is not bound to data."""
        bound = part.find("{*}bind")
        reference = _reference(bound)
        if data is None or (bound is not None and bound.get("match") == "none") or not (reference or name):
            return [data]
        holder = self.data.group(data, reference[:-1])
        found = self.data.groups(holder, reference[-1] if reference else name) if holder is not None else []
        return found or [data]

    def _bound_value(self, part: Any, data: Any, name: str) -> str | None:
        """Return the value of a field in the data, or None if it has no value."""
        bound = part.find("{*}bind")
        reference = _reference(bound) or [name]
        if data is None or not reference[-1] or (bound is not None and bound.get("match") == "none"):
            return None
        holder = self.data.group(data, reference[:-1])
        return None if holder is None else self.data.value(holder, reference[-1])

    def _field(self, part: Any, data: Any, name: str, path: str) -> None:
        value = self._bound_value(part, data, name)
        widget = next(map(_local, part.iterfind("{*}ui/*")), "")
        if widget in _UNFILLED:
            return
        value = " ".join(_lines(part.find("{*}value"))) if value is None else value
        caption = " ".join(_lines(part.find("{*}caption/{*}value")))
        label = caption or _text(part.find("{*}assist/{*}toolTip")) or name
        if widget == "checkButton":
            on = next(iter(self._choices(part)), "1")
            state = "yes" if value == on else "no"
            text = f"{'☑' if value == on else '☐'} {label}"
            self._add(Block("key_value", (TextRun(text, locator=path),), metadata=key_value(label, state)))
        elif value.strip():
            self._add(_pair(label, self._choices(part).get(value, value), path))
        elif caption:
            self._add(Block("paragraph", (TextRun(caption, locator=path),)))

    def _choice(self, part: Any, data: Any, name: str, path: str) -> None:
        """Read a group of radio buttons as one block that shows every option and marks the chosen one."""
        chosen = self._bound_value(part, data, name)
        label = " ".join(_lines(part.find("{*}caption/{*}value"))) or name
        options = []
        for button in part.iterchildren("{*}field"):
            self.steps += 1
            caption = " ".join(_lines(button.find("{*}caption/{*}value"))) or button.get("name") or ""
            own = next(iter(self._choices(button)), "")
            held = chosen if chosen is not None else " ".join(_lines(button.find("{*}value")))
            options.append((caption, bool(own) and held == own))
        marked = " ".join(f"{'☑' if is_on else '☐'} {caption}" for caption, is_on in options)
        value = ", ".join(caption for caption, is_on in options if is_on)
        text = f"{label}: {marked}" if label else marked
        if marked:
            self._add(Block("key_value", (TextRun(text, locator=path),), metadata=key_value(label, value)))
        for child in _in_order(part):
            if _local(child) != "field":
                self.read(child, data, path)

    def _choices(self, part: Any) -> dict[str, str]:
        """Return, for each choice of a field, its stored value -> its shown text."""
        if part not in self.choices:
            lists = part.findall("{*}items")
            saved = next((each for each in lists if each.get("save") == "1"), lists[0] if lists else ())
            shown = next((each for each in lists if each.get("save") != "1"), saved)
            self.choices[part] = dict(zip(map(_text, saved), map(_text, shown), strict=False))
        return self.choices[part]

    def _add(self, block: Block) -> None:
        """Add a block, and count long text as further steps, since it may be repeated."""
        self.blocks.append(block)
        self.steps += len(block.runs[0].text) // CHARACTERS_A_STEP


def _pair(label: str, value: str, path: str) -> Block:
    label = " ".join(label.split()).rstrip(" :")
    return Block("key_value", (TextRun(f"{label}: {value}", locator=path),), metadata=key_value(label, value))


def _reference(bound: Any) -> list[str]:
    """Return the names in a binding such as `$.Address.City[*]`; empty if it is not a plain path."""
    found = _REFERENCE.fullmatch(bound.get("ref") or "") if bound is not None else None
    return [step.partition("[")[0] for step in found[1].split(".") if step] if found else []


def _in_order(part: Any) -> list[Any]:
    """Return the inner parts: positioned parts from top to bottom, all others in the order of the file."""
    parts = [child for child in part if _local(child) in (*_GROUPS, "draw", "field", "exclGroup")]
    if (part.get("layout") or "position") != "position":
        return parts
    return sorted(parts, key=lambda child: (_points(child.get("y")) // _SAME_ROW, _points(child.get("x"))))


def _points(measure: str | None) -> float:
    found = _MEASURE.fullmatch((measure or "").strip())
    try:
        return float(found[1]) * _POINTS[found[2] or ""] if found else 0.0
    except ValueError:
        return 0.0


def _lines(value: Any) -> list[str]:
    """Return the text of a `value`, with one line for each paragraph of formatted text; pictures have no text."""
    if value is None:
        return []
    pieces = list(value.iter("{http://www.w3.org/1999/xhtml}p"))
    pieces = pieces or [child for child in value if _local(child) not in ("image", "")]
    return [line for line in (" ".join("".join(piece.itertext()).split()) for piece in pieces) if line]


def _text(element: Any) -> str:
    return "" if element is None else " ".join("".join(element.itertext()).split())


def _value(node: Any) -> str:
    kind = next((value for key, value in node.attrib.items() if key.endswith("contentType")), "")
    return "" if kind.startswith("image/") else _text(node)


# ---------------------------------------------------------------- reader
#
# liteparse and PDFium are used one after the other, since each brings its own PDFium. A page that cannot be read is
# lost with a warning that names it; the document is kept.


ORIGIN = "liteparse"
LEAST_UNREADABLE = 3
MOST_NAMED = 6
MOST_BOOKMARKS = 10_000
SHOWN = 0.5
"""Smallest share of an XFA form's words that must be on its pages for the pages to count as the whole form."""
LONGEST_WAIT = 400
_PLEASE_WAIT = "please wait"
_WORD = re.compile(r"\w+")
_PASSWORD = 4
_PLAIN = PageGuard()
_NO_OCR = scans.OcrSettings(mode="off")
_PROPERTIES = {"Author": "author", "Subject": "subject", "Keywords": "keywords"}


def parse(
    path: Path,
    guard: PageGuard = _PLAIN,
    ocr: scans.OcrSettings = _NO_OCR,
    barcodes: bool = False,
    hidden: bool = False,
) -> ParsedFile:
    """Return the blocks of every page, with the document's information entries; with `barcodes`, codes in pictures are
    read too; with `hidden`, invisible text is read too.

    Raises DocumentError: `encrypted`, `corrupt`, `no_text` (nothing but pictures), `unmapped_fonts` (most of the text
    is in fonts without a map from glyphs to letters).
    """
    document = _open_document(path)
    try:
        found = list(pages_of(document, path, guard, ocr, barcodes))
        information = document.get_metadata_dict()
        bookmarks = _bookmarks(document)
        form = _form(document, path, found)
        attached = [*attachments(document), *(name for read in found for name in read.attached)]
    finally:
        document.close()
    unseen = HiddenContent(hidden)
    if not form.instead:
        found = [_with_unseen(read, unseen) if read.unseen else read for read in found]
        _refuse_unreadable(path, found, ocr, guard, unseen)
    blocks, lost = blocks_of([read.page for read in found], bookmarks) if not form.instead else ((), [])
    warnings = [*_warnings(found), *form.warnings, *unseen.warnings()]
    warnings += [f"page {number}: {share:.1%} of its text was lost in layout" for number, share in lost]
    warnings += [f"attachments were not read: {list_names(list(dict.fromkeys(attached)))}"] if attached else []
    origin = f"{ORIGIN}, {scans.reader_of(ocr)}" if any(read.recognised for read in found) else ORIGIN
    return ParsedFile((*blocks, *form.blocks), _properties(information), len(found), tuple(warnings), origin)


def _open_document(path: Path) -> Any:
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
    """The blocks and warnings that an XFA form adds to its pages; `instead` says that they replace the text of the
    pages."""

    blocks: tuple[Block, ...] = ()
    warnings: tuple[str, ...] = ()
    instead: bool = False


def _form(document: Any, path: Path, pages: Sequence[Read]) -> _Form:
    """Return the text that an XFA form adds to its pages. If the pages show the whole form, it adds nothing. If Adobe's
    programs lay out the form, its pages only say so, and the form's text replaces theirs.

    Raises DocumentError if a form of the second kind has no text or cannot be read."""
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
    yield from read.texts
    yield from (run.text for block in read.page.blocks for run in block.runs)


def _bookmarks(document: Any) -> list[Bookmark]:
    """Return the entries of the outline that lead to pages; a broken outline gives the entries read before the
    fault."""
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


def _with_unseen(read: Read, content: HiddenContent) -> Read:
    """Return a page; if hidden text is read, add its invisible text as paragraphs. Text outside the page has no box
    there."""
    page = read.page
    blocks: list[Block] = []
    for reason, pieces in read.unseen.items():
        if content.take(reason, len(pieces)):
            runs = tuple(_run(piece, page, reason) for piece in pieces)
            blocks.append(Block("paragraph", runs, metadata=HIDDEN))
    return replace(read, page=replace(page, blocks=(*page.blocks, *blocks)))


def _run(piece: PdfItem, page: PdfPage, reason: str) -> TextRun:
    box = Box(page.number, *(round(side, 2) for side in (piece.x0, piece.y0, piece.x1, piece.y1)))
    on_page = reason != OUTSIDE
    return TextRun(piece.text, box if on_page else None, locator=None if on_page else f"page {page.number}")


def _refuse_unreadable(
    path: Path, pages: Sequence[Read], ocr: scans.OcrSettings, guard: PageGuard, unseen: HiddenContent
) -> None:
    unreadable = sum(read.unreadable for read in pages)
    readable = sum(len(text) for read in pages for text in read.texts)
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
    if guard.without:
        raise DocumentError(f"{message} ({reasons})", "limit_exceeded")
    if reasons:
        message += f" ({reasons})" + (": then run `pincite index --retry-failed`" if scans.remedy(ocr) else "")
    raise DocumentError("; ".join((message, *unseen.warnings())), "no_text")


def _warnings(pages: Sequence[Read]) -> list[str]:
    """Return the warnings: those of single pages, and one line for each fault of several pages."""
    warnings = [warning for read in pages for warning in read.warnings]
    unreadable = [read for read in pages if read.unreadable >= LEAST_UNREADABLE]
    if unreadable:
        count = sum(read.unreadable for read in unreadable)
        warnings.append(
            f"{_pages_text(unreadable)}: unmapped_fonts: {count} characters in fonts without a Unicode map are left out"
        )
    patched = [read for read in pages if read.put_back > 1 - LEAST_COVERAGE]
    if patched:
        most = max(read.put_back for read in patched)
        warnings.append(
            f"{_pages_text(patched)}: up to {most:.1%} of a page's text was missing in its layout and was put back "
            "from the raw text"
        )
    return warnings


def _pages_text(pages: Sequence[Read]) -> str:
    numbers = [str(read.page.number) for read in pages]
    if len(numbers) == 1:
        return f"page {numbers[0]}"
    more = f" and {len(numbers) - MOST_NAMED} more" if len(numbers) > MOST_NAMED else ""
    return f"pages {', '.join(numbers[:MOST_NAMED])}{more}"
