"""Which blocks are headings, and their levels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from pipelines.indexing.pdf_paragraphs import Draft, Style, is_bullet

LONGEST = 200
DEEPEST = 6
NUMBERED = re.compile(r"((?:\d{1,2}\.)+\d{0,2}\.?|\d{1,2})\s+(?=[^\W\d_])")
KEYWORD = re.compile(
    r"(article|section|chapter|part|annex|appendix|schedule|exhibit|"
    r"розділ|стаття|глава|частина|додаток|раздел|приложение)\s+(\d+|[ivxlc]+|[a-zа-я])\b[.:]?",
    re.IGNORECASE,
)
_BARE_NUMBER = re.compile(r"(chapter|part|розділ|глава)?\s*\d{1,2}\.?", re.IGNORECASE)
_TAGGED = re.compile(r"H([1-6])$")
_NO_HEADING_END = (",", ";", "-", "–", "—")


def _letters(text: str) -> int:
    return sum(map(str.isalpha, text))


def _is_title_like(text: str) -> bool:
    """Short, begins as a title does, does not end as a sentence does."""
    if not _letters(text) >= 2 or len(text) > LONGEST or text.rstrip().endswith(_NO_HEADING_END):
        return False
    first = next(char for char in text if char.isalpha())
    return not first.islower() or bool(NUMBERED.match(text))


def _depth(text: str) -> int | None:
    """Depth of the number a heading begins with: 1 for `3`, 2 for `3.1`."""
    match = NUMBERED.match(text)
    return len(re.findall(r"\d+", match.group(1))) if match else None


def _is_sentence(text: str) -> bool:
    return text.rstrip().endswith((".", "!", "…")) and len(text.split()) > 3


def _by_style(draft: Draft, style: Style) -> bool:
    """Larger than the running text, or bold among plain text and standing apart."""
    text, lines = draft.text, draft.lines
    if len(lines) > 4 or not _is_title_like(text):
        return False
    if draft.size >= 1.08 * style.size + 0.3:
        return not (_is_sentence(text) and len(text) > 100)
    bold = all(line.bold for line in lines) and not style.bold
    return bold and draft.size >= 0.95 * style.size and len(lines) <= 2 and len(text) <= 120 and not _is_sentence(text)


def _by_number(draft: Draft, following: Draft | None) -> bool:
    """A number of two parts and a short title on a line of its own, or a word as `Article 5`."""
    text = draft.text
    if len(draft.lines) > 2 or len(text) > 100 or not _is_title_like(text) or text.rstrip().endswith((".", ":", "?")):
        return False
    if KEYWORD.match(text):
        return draft.gap > 1.2 and len(text.split()) <= 14
    depth = _depth(text)
    if depth is None or depth < 2 or draft.gap <= 1.2 or following is None:
        return False
    return len(text.split()) <= 10 and following.kind in ("paragraph", "list_item", "table")


def _by_space(draft: Draft, following: Draft | None, usual_gap: float) -> bool:
    """A few words on a line alone, with clearly more space above than paragraphs have."""
    text = draft.text.rstrip()
    if len(draft.lines) != 1 or len(text) > 60 or len(text.split()) > 7 or not _is_title_like(text):
        return False
    if following is None or following.kind not in ("paragraph", "list_item", "table") or following.gap == float("inf"):
        return False
    if re.search(r"[.!?]\s|\d\D+\d", text) or text.count("(") != text.count(")"):
        return False
    apart = 1.35 * usual_gap < draft.gap < float("inf") and following.gap <= 1.1 * usual_gap
    return apart and not re.search(r"\d{3}|@|https?:", text) and draft.lines[0].x1 < 0.7 * draft.lines[0].right


def _by_shape(draft: Draft, following: Draft | None) -> bool:
    """A few words in title case, without an end mark, a paragraph of their own before a long one."""
    text = draft.text.strip()
    words = text.split()
    if len(draft.lines) != 1 or len(text) > 70 or not 1 <= len(words) <= 9 or not _is_title_like(text):
        return False
    if draft.gap < 1.2 or following is None or following.kind != "paragraph" or len(following.text) < 100:
        return False
    if text[-1] in ".!:)" or re.search(r"\d|[@/]", text) or following.gap == float("inf"):
        return False
    long = [word for word in words if len(word) > 3 and word[0].isalpha()]
    return bool(long) and sum(word[0].isupper() for word in long) >= 0.8 * len(long) and words[0][0].isupper()


def _usual_gap(drafts: Sequence[Draft]) -> float:
    gaps = sorted(d.gap for d in drafts if d.kind in ("paragraph", "list_item") and d.gap < 8)
    return max(gaps[len(gaps) // 2], 1.3) if gaps else 1.5


def mark_headings(drafts: Sequence[Draft], style: Style) -> None:
    """Turn drafts into headings in place, then give them levels."""
    usual = _usual_gap(drafts)
    tagged = any(_TAGGED.match(draft.lines[0].tag or "") for draft in drafts if draft.lines)
    for draft, following in zip(drafts, [*drafts[1:], None], strict=False):
        if draft.kind not in ("paragraph", "list_item") or not draft.lines or draft.confidence < 1:
            continue
        if draft.marker and is_bullet(draft.marker):
            continue
        tag = _TAGGED.match(draft.lines[0].tag or "")
        if tag and _letters(draft.text) and len(draft.text) <= 2 * LONGEST:
            draft.kind, draft.level = "heading", int(tag[1])
        elif (
            _by_style(draft, style)
            or _by_number(draft, following)
            or (not draft.marker and _by_shape(draft, following))
            or (not draft.marker and not tagged and _by_space(draft, following, usual))
        ):
            draft.kind = "heading"
    _join_parts(drafts)
    _give_levels([draft for draft in drafts if draft.kind == "heading"])


def _join_parts(drafts: Sequence[Draft]) -> None:
    """A bare number set apart from its title is one heading with it; marked by emptying it."""
    for first, second in pairwise(drafts):
        if not first.lines or second.kind != "heading" or second.lines[0].page != first.lines[0].page:
            continue
        bare = _BARE_NUMBER.fullmatch(first.text.strip())
        if bare and first.size >= second.size - 0.1 and second.gap < 3:
            second.lines[:0] = first.lines
            first.lines.clear()


Rank = tuple[float, int, int]
"""Sorts as headings stand above each other: larger, then bold, then by shorter numbers."""


def _rank(draft: Draft) -> Rank:
    bold = all(line.bold for line in draft.lines)
    return -round(draft.size * 2) / 2, -int(bold), _depth(draft.text) or 0


def _give_levels(headings: Sequence[Draft]) -> None:
    """Tagged levels as they are. Others stand under the nearest heading before them that outranks
    them, one level deeper; a style that has a tagged level elsewhere takes it."""
    tagged = {_rank(draft)[:2]: draft.level for draft in headings if draft.level is not None}
    above: list[Rank] = []
    last_tagged: tuple[Rank, int] | None = None
    for draft in headings:
        rank = _rank(draft)
        while above and above[-1] >= rank:
            above.pop()
        above.append(rank)
        if draft.level is not None:
            last_tagged = (rank, draft.level)
        elif last_tagged is not None and last_tagged[0] < rank:
            draft.level = tagged.get(rank[:2]) or min(DEEPEST, last_tagged[1] + 1)
        else:
            draft.level = tagged.get(rank[:2]) or min(DEEPEST, len(above))
