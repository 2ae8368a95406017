"""What a parser found of each page, beside the page's raw text."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.parsing_peers import Measured
from benchmarks.support.parsing_words import WordScore, page_score, word_score


def by_page(own: Measured, raw: Measured) -> Iterator[tuple[str, int, str, str]]:
    """File, page, raw text, found text; of the pages that the parser was given."""
    for reading, other in zip(own.readings, raw.readings, strict=True):
        for page, (found, text) in enumerate(zip(reading.texts, other.texts, strict=False), start=1):
            yield reading.file, page, text, found


def words_kept(own: Measured, raw: Measured) -> WordScore | None:
    return word_score(page_score(file, page, text, found) for file, page, text, found in by_page(own, raw))


def page_details(own: Measured, raw: Measured) -> Iterator[str]:
    for file, page, text, found in by_page(own, raw):
        score = page_score(file, page, text, found)
        if score.held.hits < score.held.total or score.order.hits < 0.98 * score.order.total or score.added:
            kept = (score.order, score.neighbours, score.held)
            of = ", ".join(f"{count.hits} of {count.total}" for count in kept)
            yield f"- {file} {page}: in order, pairs, letters {of}; {score.added} added"
