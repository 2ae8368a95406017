"""A page's text against its raw text layer: words in order, and letters that are there at all. Pure.

The raw text is PDFium's. A word is what is between spaces and punctuation, with the hyphen inside it taken
out and the two parts at a line's end put together, in both texts alike: one parser joins `infor-mation`,
another does not.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.support.parsing_scores import Count, in_order

_HYPHEN = re.compile("(?<=\\w)[-\x02\xad\ufffe‐‑]\\s*(?=\\w)")
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class PageScore:
    """`order`: raw words found in the raw order (longest common subsequence), of all raw words.
    `neighbours`: pairs of raw words that follow each other in the page's text too, of all pairs: a column,
    cell or footer that is read at another time costs little, words of two cells mixed up much.
    `held`: letters and digits of the raw text that are in the page's text, of all. `added` are letters
    and digits that the raw text does not have."""

    file: str
    page: int
    order: Count
    neighbours: Count
    held: Count
    added: int


def words(text: str) -> list[str]:
    return _WORD.findall(_HYPHEN.sub("", unicodedata.normalize("NFKC", text)).casefold())


def page_score(file: str, page: int, raw: str, found: str) -> PageScore:
    wanted, own = words(raw), words(found)
    letters, held = Counter("".join(wanted)), Counter("".join(own))
    common = (letters & held).total()
    order = Count(in_order(own, wanted), len(wanted))
    pairs = Counter(pairwise(wanted))
    neighbours = Count((pairs & Counter(pairwise(own))).total(), pairs.total())
    return PageScore(file, page, order, neighbours, Count(common, letters.total()), held.total() - common)


@dataclass(frozen=True, slots=True)
class WordScore:
    """Of many pages with text: share of words in order and of pairs kept, letters held (all; the worst
    page's), pages that do not hold every letter and that hold under 99 %, letters added."""

    pages: int
    order: float
    neighbours: float
    held: float
    worst: float
    under_all: int
    under_99: int
    added: int


def word_score(scores: Iterable[PageScore]) -> WordScore | None:
    """None where no page has text."""
    pages = [score for score in scores if score.held.total]
    if not pages:
        return None
    names = ("order", "neighbours", "held")
    order, neighbours, held = (sum((getattr(page, name) for page in pages), Count()) for name in names)
    shares = [page.held.hits / page.held.total for page in pages]
    return WordScore(
        len(pages),
        order.hits / max(order.total, 1),
        neighbours.hits / max(neighbours.total, 1),
        held.hits / held.total,
        min(shares),
        sum(share < 1 for share in shares),
        sum(share < 0.99 for share in shares),
        sum(page.added for page in pages),
    )
