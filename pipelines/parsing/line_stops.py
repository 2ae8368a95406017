"""Where within a line a sentence may end, and where that stands on the page.

A parser reads the edges of the characters around every such place (the gaps of a page); a line's text,
cleaned since, has the same places in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pipelines.parsing.pdf.bidi import is_right_to_left
from pipelines.records import Box, Stop

_MARKS = ".!?…।॥؟۔։።。！？｡"
_END = re.compile(
    # Marks, closing quotes and the like, references to notes; only some marks and quotes need no space after them.
    rf"[{_MARKS}](?<![{_MARKS}]{{2}})[{_MARKS}]*+[^\w\s\[]{{0,4}}+(?:\[[\w ,–-]{{1,24}}\])*+[²³¹⁰⁴-⁹]*+(?: »)?"
    r"(?:[^\S\r\n]++|(?<=[。！？｡\"'”’)\]」』）】]))(?=\S)"
)
FITS = 0.06
"""A gap farther than this share of the line from where its place in the text should be is another's."""


def ends_in(text: str) -> Iterator[tuple[int, int]]:
    """For every place in the text's lines where a sentence may end and another begin: the offsets of the
    last character before it and of the first one after."""
    for found in _END.finditer(text):
        yield found.start() + len(found.group().rstrip()) - 1, found.end()


def stops_of(text: str, box: Box, gaps: Sequence[tuple[float, float]]) -> tuple[Stop, ...]:
    """The stops of a line with this cleaned text. A gap that may belong to another place is left out.

    A line set from right to left begins at its right edge, and says so by a stop at 0."""
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
