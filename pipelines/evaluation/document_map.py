"""The map between a document's body and its source: pages of spans, and places of quotes or of ranges of the source.

The map is built from the parse alone (ParsedDocument.body and the places of the elements), so gold and hits are judged
by the same map, however the document is chunked.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from pipelines.records import Element, ParsedDocument, Place, Span

_DASHES = frozenset("-\u00ad\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d")
_QUOTES = {**dict.fromkeys("’‘‚‛ʼ`´′", "'"), **dict.fromkeys("“”„‟«»″", '"')}
_LEAST_LETTERS = 12
"""Fewest letters and digits of a quote, or of each half of it, for a search that ignores punctuation."""
_PARTED_LETTERS = 2_000
"""Most letters and digits between the two halves of a quote, for example the footnotes of a page or the words of a
figure."""
Occurrence = tuple[tuple[int, int], ...]
"""One place of a quote: one span of the body, or two if other text interrupts it."""
_NUMBER_BEFORE, _NUMBER_AFTER = re.compile(r"\d[.,]?\d\Z"), re.compile(r"\A\d[.,]?\d")
_NUMBERED_PLACE = re.compile(r"(?:page|slide) (\d+)")


def page_of(place: Place) -> int | None:
    """Return the page of a place: of its box, or of a locator such as `slide 3`."""
    if place.box is not None:
        return place.box.page
    numbered = _NUMBERED_PLACE.match(place.locator or "")
    return int(numbered[1]) if numbered else None


def _squeeze(text: str, letters_only: bool = False) -> tuple[str, list[int]]:
    """Return the text without spaces and hyphens and with punctuation in one form, and the offset of every
    character."""
    characters: list[str] = []
    offsets: list[int] = []
    for offset, raw in enumerate(text):
        if raw.isspace() or raw in _DASHES or (letters_only and not raw.isalnum()):
            continue
        plain = _QUOTES.get(raw, raw)
        for character in plain if plain.isascii() else unicodedata.normalize("NFKC", plain):
            if not character.isspace():
                characters.append(character)
                offsets.append(offset)
    return "".join(characters), offsets


def _in_two(wanted: str, text: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return places of a quote in two parts: as much of the start of `wanted` as possible, and the rest of it further
    on."""
    found = []
    for match in re.finditer(re.escape(wanted[:_LEAST_LETTERS]), text):
        start, length = match.start(), _LEAST_LETTERS
        while wanted.startswith(text[start : start + length + 1]) and start + length < len(text):
            length += 1
        length = min(length, len(wanted) - _LEAST_LETTERS)
        rest = wanted[length:]
        at = text.find(rest, start + length, start + length + _PARTED_LETTERS + len(rest))
        if length >= _LEAST_LETTERS and at >= 0:
            found.append(((start, start + length), (at, at + len(rest))))
    return found


def merge_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return sorted disjoint spans that cover the same characters, without empty ones."""
    result: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


class DocumentMap:
    """A document as evaluation uses it: its body, the places of its elements, and its pages."""

    def __init__(
        self,
        doc_id: str,
        source: str,
        uri: str,
        body: str,
        pages: int | None,
        places: Sequence[Place],
        tables: Iterable[tuple[int, int]] = (),
    ):
        self.doc_id = doc_id
        self.source = source
        self.uri = uri
        self.body = body
        # A structural map need not count the pages that its elements name.
        self.pages = max((page for place in places if (page := page_of(place))), default=0) or None
        if pages is not None:
            self.pages = max(pages, self.pages or 0)
        self._tables = merge_spans(tables)
        self._places = sorted(places, key=lambda place: (place.start, place.end))
        self._starts = [place.start for place in self._places]
        self._longest = max((place.end - place.start for place in self._places), default=0)

    @classmethod
    def from_elements(cls, source: str, uri: str, document: ParsedDocument, elements: Iterable[Element]) -> DocumentMap:
        filled = [element for element in elements if element.start < element.end]
        places = [place for element in filled for place in element.places]
        tables = [(element.start, element.end) for element in filled if element.kind == "table"]
        return cls(document.doc_id, source, uri, document.body, document.pages, places, tables)

    def _places_in(self, start: int, end: int) -> list[Place]:
        first = bisect_right(self._starts, start - self._longest - 1)
        last = bisect_right(self._starts, end - 1)
        return [place for place in self._places[first:last] if place.end > start]

    def characters_by_page(self, spans: Iterable[tuple[int, int]]) -> dict[int, int]:
        """Return {page: number of characters of the spans on it}; return an empty mapping if the format has no
        pages."""
        counts: dict[int, int] = {}
        for start, end in spans:
            for place in self._places_in(start, end):
                page = page_of(place)
                if page is not None:
                    shared = min(end, place.end) - max(start, place.start)
                    counts[page] = counts.get(page, 0) + shared
        return counts

    def page_spans(self) -> Iterator[tuple[int, int, int]]:
        """Yield start, end and page of the parts of the body that lie on a page."""
        for place in self._places:
            if (page := page_of(place)) is not None:
                yield place.start, place.end, page

    def characters_in_tables(self, spans: Iterable[tuple[int, int]]) -> int:
        return sum(
            max(0, min(end, right) - max(start, left))
            for start, end in merge_spans(spans)
            for left, right in self._tables
        )

    @cached_property
    def _plain(self) -> tuple[str, list[int]]:
        return _squeeze(self.body)

    @cached_property
    def _letters(self) -> tuple[str, list[int]]:
        return _squeeze(self.body, letters_only=True)

    def occurrences(self, quote: str) -> list[Occurrence]:
        """Return every place of the body that holds a verbatim quote, in order.

        Spaces and hyphens are ignored. Places that cut a number in two (`5 days` of `25 days`) are left out if there
        are others. If nothing is found and the quote is long enough, all punctuation is ignored too, since a quote may
        contain the source's markup. In that case other text, such as the footnotes of a page, may interrupt the quote.
        """
        for letters_only in (False, True):
            wanted, _ = _squeeze(quote, letters_only)
            if not wanted or (letters_only and len(wanted) < _LEAST_LETTERS):
                return []
            text, offsets = self._letters if letters_only else self._plain
            starts = (match.start() for match in re.finditer(re.escape(wanted), text))
            found = [(offsets[at], offsets[at + len(wanted) - 1] + 1) for at in starts]
            if found:
                whole = [span for span in found if not self._cuts_a_number(*span)]
                return [(span,) for span in whole or found]
        return [
            tuple((offsets[start], offsets[end - 1] + 1) for start, end in parts) for parts in _in_two(wanted, text)
        ]

    def _cuts_a_number(self, start: int, end: int) -> bool:
        return bool(_NUMBER_BEFORE.search(self.body[max(0, start - 2) : start + 1])) or bool(
            _NUMBER_AFTER.search(self.body[end - 1 : end + 2])
        )

    def source_spans(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the spans of the body for characters [start, end) of the decoded source.

        They are exact where source and body have the same length, and proportional where cleaning shortened the text.
        Spans separated only by space are joined.
        """
        found: list[tuple[int, int]] = []
        for place in self._places:
            if place.source_start is None or place.source_end is None:
                continue
            left, right = max(start, place.source_start), min(end, place.source_end)
            if left >= right:
                continue
            scale = (place.end - place.start) / (place.source_end - place.source_start)
            found.append(
                (
                    place.start + round((left - place.source_start) * scale),
                    place.start + round((right - place.source_start) * scale),
                )
            )
        joined: list[tuple[int, int]] = []
        for begin, finish in merge_spans(found):
            if joined and not self.body[joined[-1][1] : begin].strip():
                joined[-1] = (joined[-1][0], finish)
            else:
                joined.append((begin, finish))
        return joined


def as_pairs(spans: Iterable[Span]) -> list[tuple[int, int]]:
    return [(span.start, span.end) for span in spans]
