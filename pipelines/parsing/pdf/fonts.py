"""Fonts of a PDF: which are monospaced (names do not always say, widths do), and whether text in a
font without a Unicode map came out as text."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import quantiles
from unicodedata import category

from pipelines.parsing.pdf.page import PdfPage

LEAST_PIECES = 8
ENOUGH_PIECES = 300
LEAST_LETTERS = 4
MOST_SPREAD = 0.03
NARROW = frozenset("iljtfr.,:;'|!()[]I1")
"""Letters that any proportional font sets narrower than the rest."""


def _mixes(text: str) -> bool:
    """Whether a piece in a proportional font would be wider or narrower than others of its length."""
    narrow = sum(char in NARROW for char in text) / len(text)
    return narrow < 0.15 or narrow > 0.4


def monospaced_fonts(pages: Sequence[PdfPage]) -> frozenset[str]:
    """Names of the fonts whose pieces all have one width per character, relative to their size."""
    widths: dict[str, list[float]] = defaultdict(list)
    kinds: dict[str, set[bool]] = defaultdict(set)
    for page in pages:
        for item in page.items:
            text = item.text.strip()
            known = len(widths[item.font]) >= ENOUGH_PIECES or not item.font or item.rotated
            if not known and len(text) >= LEAST_LETTERS and item.size > 0:
                widths[item.font].append((item.x1 - item.x0) / (len(text) * item.size))
                if _mixes(text):
                    kinds[item.font].add(sum(char in NARROW for char in text) / len(text) > 0.4)
    return frozenset(font for font, found in widths.items() if len(kinds[font]) == 2 and _even(found))


def _even(widths: Sequence[float]) -> bool:
    if len(widths) < LEAST_PIECES:
        return False
    tenths = quantiles(widths, n=10)
    return tenths[-1] - tenths[0] <= MOST_SPREAD * tenths[4]


def with_monospace(pages: Sequence[PdfPage]) -> list[PdfPage]:
    """The pages, with the pieces in monospaced fonts marked as such."""
    fonts = monospaced_fonts(pages)
    if not fonts:
        return list(pages)
    return [
        replace(page, items=tuple(replace(i, mono=True) if i.font in fonts and not i.mono else i for i in page.items))
        for page in pages
    ]


_VOWELS = frozenset("aeiouyáéíóúàèìòùâêîôûäëïöüåæøœãõýаеиіоуяюєїёыэαεηιουωάέήίόύώ")
_WORD = re.compile(r"[^\W\d_]{3,}")
MOST_STRANGE = 0.1
LEAST_WORDS = 4
LEAST_VOWELLED = 0.6


def is_readable(text: str) -> bool:
    """Whether text in a font without a Unicode map came out as text: no control or private
    characters, and words with vowels in them, as in alphabets that write vowels."""
    solid = [char for char in text if not char.isspace()]
    strange = sum(category(char) in ("Cc", "Co", "Cn", "Cs") or char == "\ufffd" for char in solid)
    if strange > MOST_STRANGE * len(solid):
        return False
    words = [word for word in _WORD.findall(text.casefold()) if _writes_vowels(word)]
    vowelled = sum(any(char in _VOWELS for char in word) for word in words)
    return len(words) < LEAST_WORDS or vowelled >= LEAST_VOWELLED * len(words)


def _writes_vowels(word: str) -> bool:
    return all(char < "\u0530" for char in word)
