"""The outline of a PDF matched with the blocks it leads to."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipelines.indexing.pdf_paragraphs import Draft

LEAST_LETTERS = 3
_SOLID = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Bookmark:
    """An entry of the outline; `level` and `page` are 1-based."""

    title: str
    level: int
    page: int


def _plain(text: str) -> str:
    return _SOLID.sub("", text.casefold())


def mark_bookmarked(drafts: list[Draft], bookmarks: Sequence[Bookmark]) -> dict[int, int]:
    """Position in `drafts` -> level in the outline, of the blocks that are the headings of entries.

    A block that begins with its heading as whole lines is parted after them, in place."""
    wanted: dict[int, list[Bookmark]] = defaultdict(list)
    for mark in bookmarks:
        if sum(map(str.isalnum, mark.title)) >= LEAST_LETTERS:
            wanted[mark.page].append(mark)
    levels: dict[int, int] = {}
    at = 0
    while wanted and at < len(drafts):
        draft = drafts[at]
        if draft.lines and draft.kind in ("paragraph", "list_item") and draft.confidence == 1:
            for mark in wanted.get(draft.lines[0].page, ()):
                count = _heading_lines(draft, mark)
                if count:
                    if count < len(draft.lines):
                        drafts.insert(at + 1, replace(draft, kind="paragraph", lines=draft.lines[count:], gap=1.0))
                        draft.lines = draft.lines[:count]
                    levels[at] = mark.level
                    wanted[mark.page].remove(mark)
                    break
        at += 1
    return levels


def _heading_lines(draft: Draft, mark: Bookmark) -> int:
    """How many of the block's first lines are the entry's title, with or without its number."""
    title = _plain(mark.title)
    text = ""
    for count, line in enumerate(draft.lines[:4], 1):
        text += _plain(line.text)
        if text == title or (len(title) > 5 and text.endswith(title) and text[: -len(title)].isdigit()):
            return count
        if len(text) > len(title) + 6:
            break
    return 0
