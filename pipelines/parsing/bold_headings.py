"""Headings in web pages and Markdown that are recognised by style: short paragraphs that are entirely bold, underlined
or larger.

Their level is one below the deepest marked heading whose section contains such a paragraph, so that the same style has
the same level everywhere in a document.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from pipelines.records import Block

LONGEST_HEADING, MOST_WORDS = 100, 14
"""Most characters and words of a line that may be a heading."""
MOST_LEVELS = 6
FEWEST = 2
"""Fewest bold lines that count as headings of a document. A single one may be a remark, unless it opens the
document."""
MOST_IN_A_ROW = 2
_BODY = frozenset(("paragraph", "list_item", "table", "quote", "code", "formula", "key_value"))
_NUMBERED = re.compile(r"(?:§\s?+)?(\d{1,3}+(?:\.\d{1,3}+)*+)[.)]?+\s")
_LABELLED = re.compile(r"\D{1,60}?[:：]\s*\S")


def with_bold_headings(blocks: Sequence[Block], bold: Mapping[int, float]) -> list[Block]:
    """Return the blocks, with paragraphs of `bold` turned into headings if text follows them. `bold` maps indexes of
    paragraphs to letter sizes; larger letters make a higher heading. If most of the text is in this style, there are no
    such headings."""
    found = _heading_something(blocks, [at for at in sorted(bold) if _could_be(blocks[at])])
    others = set(range(len(blocks))).difference(found)
    letters = {at: _length(blocks[at]) for at in others if blocks[at].kind in _BODY}
    if 2 * sum(letters.get(at, 0) for at in bold) > sum(letters.values()):
        return list(blocks)
    marked = [at for at, block in enumerate(blocks) if block.kind == "heading"]
    opens = found[:1] == [0] and not marked
    if len(found) < FEWEST and not opens:
        return list(blocks)
    base = _deepest(blocks, found)
    depths = {at: number[1].count(".") for at in found if (number := _NUMBERED.match(_text(blocks[at])))}
    least = min(depths.values(), default=0)
    made = list(blocks)
    sizes = sorted({round(bold[at]) for at in found}, reverse=True)
    for at in found:
        level = base + 1 + max(sizes.index(round(bold[at])), depths.get(at, least) - least)
        made[at] = replace(blocks[at], kind="heading", level=min(level, MOST_LEVELS))
    return made


def _heading_something(blocks: Sequence[Block], found: Sequence[int]) -> list[int]:
    """Return the lines that are followed by text, or by one more such line and then text. Three in a row are not
    headings."""
    wanted, heads, row = set(found), list[int](), list[int]()
    for at, block in enumerate(blocks):
        if at in wanted:
            row.append(at)
        elif block.kind in _BODY or block.kind == "heading":
            if block.kind in _BODY and len(row) <= MOST_IN_A_ROW:
                heads += row
            row = []
    return heads


def _deepest(blocks: Sequence[Block], found: Collection[int]) -> int:
    """Return the deepest level of the marked headings whose own section contains one of the lines."""
    deepest = level = 0
    wanted = set(found)
    for at, block in enumerate(blocks):
        if block.kind == "heading":
            level = block.level or 1
        elif at in wanted:
            deepest = max(deepest, level)
    return deepest


def _text(block: Block) -> str:
    return "".join(run.text for run in block.runs).strip()


def _length(block: Block) -> int:
    runs = (*block.runs, *(run for cell in block.cells for run in cell.runs))
    return sum(len(run.text) for run in runs)


def _could_be(block: Block) -> bool:
    text = _text(block) if block.kind == "paragraph" and _length(block) <= 2 * LONGEST_HEADING else ""
    short = len(text) <= LONGEST_HEADING and len(text.split()) <= MOST_WORDS
    return short and text[-1:] not in ".,;!" and sum(map(str.isalpha, text)) > 1 and not _LABELLED.match(text)
