"""The reading order of vertical text, which runs from top to bottom in columns from right to left, for example in
Japanese and Chinese.

A page may have several tiers, one below the other; each is read from its right edge. A paragraph begins at a column
that begins lower than both its neighbours, and after a column that ends a sentence before the foot of the tier.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.parsing.pdf.page import PdfItem

INDENT = 0.7
SHORT = 2.0
"""Least distance, in character sizes, by which a column begins lower or ends higher than the others of its tier."""
_ENDS = ("。", "．", ".", "」", "』", "）", "！", "？")


def paragraphs_of(items: Sequence[PdfItem]) -> list[list[PdfItem]]:
    """Return the columns of vertical text in reading order, grouped into paragraphs."""
    found: list[list[PdfItem]] = []
    for tier in _tiers(items):
        foot = max(item.y1 for item in tier)
        columns = sorted(tier, key=lambda item: (-item.x1, item.y0))
        ended = True
        for at, item in enumerate(columns):
            if ended or _is_indented(item, columns[at - 1 : at + 2]):
                found.append([])
            found[-1].append(item)
            ended = item.text.rstrip().endswith(_ENDS) and foot - item.y1 > SHORT * item.size
    return found


def _is_indented(item: PdfItem, around: Sequence[PdfItem]) -> bool:
    """Say whether a column begins lower than the ones before and after it."""
    return all(other is item or item.y0 - other.y0 > INDENT * item.size for other in around)


def _tiers(items: Sequence[PdfItem]) -> list[list[PdfItem]]:
    """Return the items in groups (tiers) that blank space across the page separates, from the top."""
    tiers: list[list[PdfItem]] = []
    foot = 0.0
    for item in sorted(items, key=lambda item: item.y0):
        if not tiers or item.y0 >= foot:
            tiers.append([])
        tiers[-1].append(item)
        foot = max(foot, item.y1)
    return tiers
