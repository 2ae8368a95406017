"""The text of one line and the positions of its characters: reading order, and where a sentence may end.

Files store right-to-left lines in the order of reading, of drawing, or word by word in either order; the boxes show
which. `Placed` characters are put into reading order by the inverse of rule L2 of the Unicode bidirectional algorithm
(UAX 9, section 3.4): letters from the right, with runs of left-to-right words reversed.

For every place where a sentence may end, a parser reads the edges of the characters around it (the gaps of a page). The
cleaned text of a line has the same places in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from unicodedata import bidirectional, combining

from pipelines.records import Box, Stop

# ---------------------------------------------------------------- reading order


RIGHT = frozenset(("R", "AL"))
LEAST_SHARE = 0.3
_FROM_RIGHT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")


@dataclass(frozen=True, slots=True)
class Placed:
    """A character, and the left and right end of its box on the line in points."""

    text: str
    x0: float
    x1: float


def is_right_to_left(text: str) -> bool:
    """Say whether enough of the letters belong to right-to-left scripts."""
    if _FROM_RIGHT.search(text) is None:
        return False
    letters = [char for char in text if char.isalpha()]
    return sum(bidirectional(char) in RIGHT for char in letters) > LEAST_SHARE * len(letters)


def _in_clusters(line: Sequence[Placed]) -> list[list[Placed]]:
    """Group each character with its combining marks."""
    clusters: list[list[Placed]] = []
    for char in line:
        if clusters and combining(char.text[0]):
            clusters[-1].append(char)
        else:
            clusters.append([char])
    return clusters


def _turns_back(cluster: Sequence[Placed]) -> bool:
    """Say whether a cluster belongs to a left-to-right run: Latin letters, digits."""
    return bidirectional(cluster[0].text[0]) in ("L", "EN", "AN")


def _joins(char: str) -> bool:
    """Say whether a mark joins the two digits or Latin letters around it: `1,981`, `3.2`, `a-b`."""
    return bidirectional(char) in ("CS", "ES", "ET", "ON")


def _word(word: Sequence[Placed]) -> tuple[str, bool]:
    """Return a word in reading order, and whether all of it runs from left to right."""
    ordered = sorted(_in_clusters(_undo_reversal(word)), key=lambda cluster: -(cluster[0].x0 + cluster[0].x1))
    back = [_turns_back(cluster) for cluster in ordered]
    for at in range(1, len(ordered) - 1):
        if not back[at] and back[at - 1] and back[at + 1] and _joins(ordered[at][0].text[0]):
            back[at] = True
    parts: list[list[Placed]] = []
    for left, group in groupby(zip(back, ordered, strict=True), key=lambda pair: pair[0]):
        clusters = [cluster for _, cluster in group]
        parts += reversed(clusters) if left else clusters
    return "".join(char.text for cluster in parts for char in cluster), all(back)


def _undo_reversal(word: Sequence[Placed]) -> Sequence[Placed]:
    """Reverse a word that is stored in drawing order; letters of one box (ligatures) and combining marks keep their
    order."""
    from_right = [c for c in word if bidirectional(c.text[0]) in RIGHT]
    drawn = len(from_right) > 1 and from_right[0].x0 < from_right[-1].x0
    return word[::-1] if drawn else word


def logical(line: Sequence[Placed]) -> str:
    """Return the text of a right-to-left line in reading order.

    `line` holds the characters of one line, with words in any order; spaces separate words.
    """
    words: list[list[Placed]] = [[]]
    for char in line:
        if char.text.isspace():
            words.append([])
        else:
            words[-1].append(char)
    placed = sorted(filter(None, words), key=lambda word: -(min(c.x0 for c in word) + max(c.x1 for c in word)))
    found = [_word(word) for word in placed]
    parts: list[str] = []
    for left, group in groupby(found, key=lambda word: word[1]):
        texts = [text for text, _ in group]
        parts += reversed(texts) if left else texts
    return " ".join(parts)


# ---------------------------------------------------------------- stops


_MARKS = ".!?…।॥؟۔։።。！？｡"
_END = re.compile(
    # End marks, closing quotes and brackets, references to notes. Only some marks and quotes need no space after them.
    rf"[{_MARKS}](?<![{_MARKS}]{{2}})[{_MARKS}]*+[^\w\s\[]{{0,4}}+(?:\[[\w ,–-]{{1,24}}\])*+[²³¹⁰⁴-⁹]*+(?: »)?"
    r"(?:[^\S\r\n]++|(?<=[。！？｡\"'”’)\]」』）】]))(?=\S)"
)
FITS = 0.06
"""Share of the line's characters. A gap farther than this from its expected position belongs elsewhere."""


def ends_in(text: str) -> Iterator[tuple[int, int]]:
    """Yield, for every place in a line where a sentence may end, the offsets of the last character before it and the
    first one after it."""
    for found in _END.finditer(text):
        yield found.start() + len(found.group().rstrip()) - 1, found.end()


def stops_of(text: str, box: Box, gaps: Sequence[tuple[float, float]]) -> tuple[Stop, ...]:
    """Return the stops of a line with this cleaned text. An ambiguous gap is left out.

    A line set from right to left begins at its right edge; a stop at 0 marks it.
    """
    if is_right_to_left(text):
        return (Stop(0, box.x1, box.x1),)
    places = [after for _, after in ends_in(text)] if gaps else []
    if len(places) == len(gaps):
        return tuple(Stop(at, *gap) for at, gap in zip(places, gaps, strict=True))
    width = max(box.x1 - box.x0, 1.0)
    found: list[Stop] = []
    for gap in gaps:
        wanted = (sum(gap) / 2 - box.x0) / width * len(text)
        nearest = min(places, key=lambda at: abs(at - wanted), default=0)
        if (found[-1].at if found else 0) < nearest and abs(nearest - wanted) <= FITS * len(text):
            found.append(Stop(nearest, *gap))
    return tuple(found)
