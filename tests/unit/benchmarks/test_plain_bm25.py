"""The baseline of the page of results: plain BM25 over units of the parsed text."""

from __future__ import annotations

import math

import pytest

from benchmarks.support.plain_bm25 import WINDOW, Bm25, pages_of, windows_of, words
from pipelines.evaluation.document_map import DocumentMap
from pipelines.records import Box, Place

BODY = "Pears grow. Apples rot.\nPears ripen late in the garden of the abbey."


def document(body: str = BODY, *pages: tuple[int, int, int]) -> DocumentMap:
    places = [Place(start, end, Box(page, 0, 0, 1, 1)) for start, end, page in pages]
    return DocumentMap("d", "s", "d.pdf", body, None, places)


def test_words_are_cut() -> None:
    assert words("Inspections, of 2 BOILERS") == ["inspec", "of", "2", "boiler"]


def test_a_unit_is_scored_by_bm25() -> None:
    index = Bm25([["pear", "pear", "grow"], ["apple"], ["pear", "late", "in", "the"]])
    found = dict(index.best("pear pear", 3))
    idf = math.log1p((3 - 2 + 0.5) / (2 + 0.5))
    assert found == pytest.approx({unit: idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / (8 / 3)))
                                   for unit, count, length in ((0, 2, 3), (2, 1, 4))})  # fmt: skip
    assert index.best("unknown", 3) == [] and len(index.best("pear apple", 2)) == 2


def test_a_page_reaches_from_its_first_to_its_last_character() -> None:
    assert list(pages_of(document(BODY, (0, 11, 1), (12, 23, 1), (24, len(BODY), 2)))) == [(0, 23), (24, len(BODY))]
    assert list(pages_of(document())) == []


def test_windows_hold_so_many_words_and_all_of_them() -> None:
    body = " ".join(f"w{number}" for number in range(2 * WINDOW + 1))
    found = [body[start:end].split() for start, end in windows_of(document(body))]
    assert [len(window) for window in found] == [WINDOW, WINDOW, 1] and [
        word for window in found for word in window
    ] == body.split()
