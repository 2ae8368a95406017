"""Headings of a DOCX that has none by style: short lines that stand out by size, weight or capitals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipelines.records import Block
from resources.parsers.office.docx_numbering import W, is_on
from resources.parsers.office.docx_styles import Style, points

LONGEST_HEADING = 100
MOST_WORDS = 14
LARGER = 1.15
"""Times the size of the body's letters."""


@dataclass(frozen=True, slots=True)
class Look:
    """Size in points of most letters of a paragraph, None where nothing says it; whether all are bold."""

    size: float | None
    bold: bool


def look_of(paragraph: Any, style: Style) -> Look:
    sizes: Counter[float | None] = Counter()
    bold = True
    for run in paragraph.iter(f"{W}r"):
        letters = sum(len((text.text or "").strip()) for text in run.findall(f"{W}t"))
        if letters:
            properties = run.find(f"{W}rPr")
            weight = properties.find(f"{W}b") if properties is not None else None
            sizes[points(properties) or style.size] += letters
            bold = bold and (is_on(weight) if weight is not None else style.bold)
    return Look(sizes.most_common(1)[0][0], bold) if sizes else Look(style.size, False)


def headings_by_look(blocks: Sequence[Block], looks: dict[int, Look]) -> list[Block]:
    """The blocks, those paragraphs headings that look like it; the larger their letters the higher. Where most
    of the text is bold or in capitals, these say nothing."""
    letters: Counter[Look] = Counter()
    capitals: Counter[bool] = Counter()
    for block in blocks:
        if (look := looks.get(id(block))) is not None:
            text = _text(block)
            letters[look] += len(text)
            capitals[text.isupper()] += len(text)
    if not letters:
        return list(blocks)
    body = letters.most_common(1)[0][0]

    def rank(block: Block) -> tuple[float, bool] | None:
        look = looks.get(id(block))
        if look is None or block.kind != "paragraph" or not _could_be(_text(block)):
            return None
        larger = bool(look.size and body.size and look.size >= LARGER * body.size)
        stands_out = (
            larger or (look.bold and not body.bold) or (_text(block).isupper() and not capitals[True] > capitals[False])
        )
        return (look.size or body.size or 0.0, look.bold) if stands_out else None

    ranks = [rank(block) for block in blocks]
    order = sorted({found for found in ranks if found is not None}, reverse=True)
    return [
        block if found is None else replace(block, kind="heading", level=min(order.index(found) + 1, 6))
        for block, found in zip(blocks, ranks, strict=True)
    ]


def _text(block: Block) -> str:
    return "".join(run.text for run in block.runs).strip()


def _could_be(text: str) -> bool:
    short = len(text) <= LONGEST_HEADING and len(text.split()) <= MOST_WORDS
    return short and text[-1:] not in ".,;:!" and sum(map(str.isalpha, text)) > 2
