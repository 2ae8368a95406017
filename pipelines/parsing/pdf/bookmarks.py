"""The outline of a PDF matched with the blocks it leads to."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pipelines.parsing.pdf.paragraphs import Draft

LEAST_LETTERS = 3
LONGEST = 400
MOST_LINES = 4
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
    wanted: dict[tuple[int, str], list[int]] = defaultdict(list)
    for mark in bookmarks:
        if sum(map(str.isalnum, mark.title)) >= LEAST_LETTERS:
            wanted[mark.page, _plain(mark.title)].append(mark.level)
    levels: dict[int, int] = {}
    at = 0
    while wanted and at < len(drafts):
        draft = drafts[at]
        if draft.lines and draft.kind in ("paragraph", "list_item") and draft.confidence == 1:
            for count, title in _beginnings(draft):
                found = wanted.get((draft.lines[0].page, title))
                if not found:
                    continue
                levels[at] = found.pop(0)
                if count < len(draft.lines):
                    drafts.insert(at + 1, replace(draft, kind="paragraph", lines=draft.lines[count:], gap=1.0))
                    draft.lines = draft.lines[:count]
                break
        at += 1
    return levels


def _beginnings(draft: Draft) -> Iterator[tuple[int, str]]:
    """The block's first lines as a title may be written: one to four of them, with or without the
    number they begin with."""
    text = ""
    for count, line in enumerate(draft.lines[:MOST_LINES], 1):
        text += _plain(line.text)
        if len(text) > LONGEST:
            return
        yield count, text
        bare = text.lstrip("0123456789")
        if bare != text:
            yield count, bare
