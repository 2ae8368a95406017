"""The last step for documents that are converted to HTML: headings by style, notes, and blocks.

The converter appends a mark of the style to each paragraph, and puts a mark before each hidden passage. The marks
consist of noncharacters, which do not occur in text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pipelines.parsing.hidden import METADATA, HiddenContent
from pipelines.records import Block, TextRun
from resources.parsers.html import parse_shown
from resources.parsers.source_text import without_offsets

HIDDEN_MARK = "\ufdd0"
"""Mark before a hidden passage that is read."""
_MARK = re.compile("\ufdd1([0-9]{1,4}),([01]),([^\ufdd1]{0,20})\ufdd1")


class Look(NamedTuple):
    """The style of a paragraph: the least size of its letters in points, whether all are bold or underlined, and the
    list number or bullet before it."""

    size: float
    strong: bool
    label: str = ""


def look_mark(look: Look) -> str:
    return f"\ufdd1{min(round(10 * look.size), 9999)},{int(look.strong)},{look.label[:20]}\ufdd1"


class HeadingCandidate(NamedTuple):
    """A paragraph that may be a heading; `level` is set if its style is a heading style."""

    text: str
    look: Look | None = None
    level: int | None = None
    is_apart: bool = True


LONGEST = 120
"""Most characters of a heading that is recognised by style."""
_LARGER = 1.15
"""Ratio of a heading's letters to those of the text."""
_MOST_LETTERS = 0.6
"""Share of a document's letters above which prominent lines are ordinary text."""
_DEEPEST = 6
_PLAIN_NUMBER = re.compile(r"([0-9]{1,6})[.)]?")
_NUMBER = re.compile(r"(?:[0-9]{1,3}\.){0,5}[0-9]{1,3}(?=[.)\s])")


def heading_levels(lines: Sequence[HeadingCandidate]) -> list[int | None]:
    """Return the level of each line that is a heading, by its named style or its format, or None.

    A heading by format is short, bold or larger than the text, not a sentence, and has text below it. Larger ones are
    above smaller ones, `1.` is above `1.1`, and all are below the last heading by named style.
    """
    sizes: Counter[float] = Counter()
    for line in lines:
        if line.look and line.level is None:
            sizes[line.look.size] += len(line.text)
    usual = sizes.most_common(1)[0][0] if sizes else 0.0
    found = [line.level is None and _stands_out(line, usual) for line in lines]
    at = len(lines) - 1
    while at >= 0 and found[at]:  # nothing stands below these
        found[at] = False
        at -= 1
    letters = sum(len(line.text) for line, is_found in zip(lines, found, strict=True) if is_found)
    if letters > _MOST_LETTERS * sum(len(line.text) for line in lines):
        found = [False] * len(lines)
    kept = sorted({line.look.size for line, is_found in zip(lines, found, strict=True) if is_found and line.look})
    ranks = {size: at for at, size in enumerate(reversed(kept), start=1)}
    levels: list[int | None] = []
    above = 0
    for line, is_found in zip(lines, found, strict=True):
        above = line.level or above
        number = _NUMBER.match(line.text) if is_found else None
        depth = number[0].count(".") if number else 0
        by_look = ranks[line.look.size] if is_found and line.look else 0
        levels.append(line.level or (min(above + by_look + depth, _DEEPEST) if by_look else None))
    return levels


def _stands_out(line: HeadingCandidate, usual: float) -> bool:
    text = line.text
    if line.look is None or not line.is_apart or not 0 < len(text) <= LONGEST or not any(map(str.isalpha, text)):
        return False
    if text.endswith((".", ";", ",", "…")) and not _NUMBER.match(text):
        return False
    return (line.look.strong and line.look.size >= usual) or line.look.size >= _LARGER * usual


# ---------------------------------------------------------------- in HTML


_HEADINGS = {f"h{level}": level for level in range(1, _DEEPEST + 1)}
_INSIDE = frozenset(("li", "td", "th", "dd", "dt", "blockquote", "caption", "figcaption", "aside"))


def name_headings(root: Any) -> None:
    """Turn the paragraphs of a page that look like headings into headings, and remove the style marks.

    The first line of a list item may also become a heading, with its number. Other items get their displayed numbers.
    """
    elements = list(root.iter("p", *_HEADINGS))
    lines = []
    left: dict[Any, None] = {}
    for element in elements:
        look = _take_marks(element)
        text = " ".join("".join(element.itertext()).split())
        label = look.label if look and _begins_item(element) else ""
        inside = _INSIDE - {"li"} if label else _INSIDE
        is_apart = not any(parent.tag in inside for parent in element.iterancestors())
        lines.append(HeadingCandidate(f"{label} {text}" if label else text, look, _HEADINGS.get(element.tag), is_apart))
        if number := _PLAIN_NUMBER.fullmatch(label):
            element.getparent().set("value", number[1])
    for element, line, level in zip(elements, lines, heading_levels(lines), strict=True):
        if level is not None:
            if line.look and line.look.label and line.level is None and _begins_item(element):
                left[_leave_list(element, line.look.label)] = None
            element.tag = f"h{level}"
    for above in left:
        if above is not None and above.tag in ("ol", "ul") and all(child.tag != "li" for child in above):
            above.tag = "div"


def _begins_item(element: Any) -> bool:
    parent = element.getparent()
    return parent is not None and parent.tag == "li" and parent[0] is element and not (parent.text or "").strip()


def _leave_list(element: Any, label: str) -> Any:
    """Move a heading out of its list, and write its number if it has one. Return the former parent."""
    if any(map(str.isalnum, label)):
        element.text = f"{label} {element.text or ''}"
    item = element.getparent()
    item.tag = "div"
    return item.getparent()


def _take_marks(element: Any) -> Look | None:
    """Remove the marks inside an element. Return the last style."""
    found = None
    for inner in element.iter():
        for name in ("text", "tail") if inner is not element else ("text",):
            text = getattr(inner, name) or ""
            for mark in _MARK.finditer(text):
                found = Look(int(mark[1]) / 10, mark[2] == "1", mark[3].strip())
            if "\ufdd1" in text:
                setattr(inner, name, _MARK.sub("", text))
    return found


# ---------------------------------------------------------------- blocks


_NOTES = "//section[contains(concat(' ', @class, ' '), ' footnotes ')]"


def blocks_of_page(
    root: Any, name: str, content: HiddenContent, locator: str | None = None
) -> tuple[list[Block], tuple[str, ...]]:
    """Return the blocks of a page converted from another format, and warnings. Hidden parts are added to `content`."""
    from lxml import etree

    parsed = parse_shown(etree.tostring(root, method="html", encoding="unicode"), name, content)
    return [_finish(without_offsets(block, locator)) for block in parsed.blocks], parsed.warnings


def note_blocks(
    notes: Iterable[tuple[str | None, Any]], name: str, content: HiddenContent, locator: str | None = None
) -> Iterator[Block]:
    """Yield notes, given as number and element, as footnotes."""
    for marker, element in notes:
        for block in blocks_of_page(element, name, content, locator)[0]:
            is_text = block.kind in ("paragraph", "list_item", "heading")
            yield replace(block, kind="footnote", level=None, marker=marker) if is_text else block


def take_notes(root: Any) -> list[tuple[str | None, Any]]:
    """Remove the notes that pandoc puts at the end of a page. Return each with its number."""
    found: list[tuple[str | None, Any]] = []
    sections = root.xpath(_NOTES)
    for section in sections:
        drop(section.xpath(".//a[contains(@class, 'footnote-back')]"))
        for item in section.xpath("./ol/li"):
            item.tag = "div"
            found.append((str(len(found) + 1), item))
    drop(sections)
    return found


class EndTexts:
    """Texts to write at the ends of elements. The texts of one position are joined once, since appending each would
    take quadratic time."""

    def __init__(self) -> None:
        self.pieces: dict[tuple[Any, str], list[str]] = {}

    def add(self, element: Any, text: str) -> None:
        """Add a text at the end of an element."""
        last = next(element.iterchildren(reversed=True), None)
        self.put(*((element, "text") if last is None else (last, "tail")), text)

    def put(self, element: Any, name: str, text: str) -> None:
        """Add to the text in an element or, with the name `tail`, after it."""
        self.pieces.setdefault((element, name), []).append(text)

    def write(self) -> None:
        for (element, name), pieces in self.pieces.items():
            setattr(element, name, "".join([getattr(element, name) or "", *pieces]))
        self.pieces.clear()


def drop(elements: Iterable[Any]) -> None:
    """Remove elements, given in document order, but keep the texts after them."""
    texts = EndTexts()
    for element in elements:
        parent, before, tail = element.getparent(), element.getprevious(), element.tail
        if parent is None:
            continue
        if tail:
            texts.put(*((parent, "text") if before is None else (before, "tail")), tail)
            element.tail = None
        parent.remove(element)
    texts.write()


def _finish(block: Block) -> Block:
    """Return a block without marks of hidden passages; they go to its metadata."""
    if not any(HIDDEN_MARK in run.text for run in _runs(block)):
        return block
    cells = tuple(replace(cell, runs=tuple(map(_unmark, cell.runs))) for cell in block.cells)
    return replace(block, runs=tuple(map(_unmark, block.runs)), cells=cells, metadata={**block.metadata, **METADATA})


def _runs(block: Block) -> Iterator[TextRun]:
    yield from block.runs
    for cell in block.cells:
        yield from cell.runs


def _unmark(run: TextRun) -> TextRun:
    return replace(run, text=run.text.replace(HIDDEN_MARK, ""))
