"""Rectangles of sentences in PDFs against the boxes of their characters, as PDFium gives them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.indexing.boundaries import sentence_spans
from pipelines.indexing.places import line_boxes
from pipelines.records import Box, Element, Span
from resources.parsers.ocr import _parse_markup
from resources.parsers.pdf.raw import Character, characters
from tests.support.documents import elements_of, pdf_of

LEFT = ["We file it. Who wins? Ill will is illicit. More Www mmm", "words follow here. Then all of it ends at last."]
RIGHT = ["Mom may swim. It is still silly. What a wide word", "that is! Little by little it fills. And so forth."]


def drawn(path: Path, draw: Callable[[Any], None], **options: Any) -> Path:
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(path), pagesize=(595, 842), **options)
    draw(canvas)
    canvas.showPage()
    canvas.save()
    return path


def letters(path: Path) -> list[Character]:
    import pypdfium2

    with pypdfium2.PdfDocument(path) as document:
        page = document[0]
        return [letter for letter in characters(page, page.get_textpage()) if letter.text.strip()]


def rectangles(element: Element) -> list[tuple[str, tuple[Box, ...]]]:
    spans = [Span(element.start + a, element.start + b) for a, b in sentence_spans(element.text)]
    return [
        (element.text[s.start - element.start : s.end - element.start], line_boxes(element.places, s)) for s in spans
    ]


def check(path: Path, sentences: list[str]) -> None:
    """Every sentence's rectangles hold the middles of its characters and of no others, and end where they do."""
    on_page = letters(path)
    found = [pair for element in elements_of(path)[1] for pair in rectangles(element)]
    assert [text for text, _ in found] == sentences
    for text, boxes in found:
        held = [
            letter
            for box in boxes
            for letter in on_page
            if box.x0 <= (letter.x0 + letter.x1) / 2 <= box.x1 and box.y0 <= (letter.y0 + letter.y1) / 2 <= box.y1
        ]
        assert sorted(letter.text for letter in held) == sorted(text.replace(" ", "")), text
        assert abs(min(letter.x0 for letter in held) - min(box.x0 for box in boxes)) < 1.5
        assert abs(max(letter.x1 for letter in held) - max(box.x1 for box in boxes)) < 1.5


LEFT_SENTENCES = [
    "We file it.",
    "Who wins?",
    "Ill will is illicit.",
    "More Www mmm words follow here.",
    "Then all of it ends at last.",
]


def test_sentences_of_a_paragraph(tmp_path: Path) -> None:
    path = pdf_of(tmp_path / "a.pdf", [[(72, 700, LEFT[0]), (72, 686, LEFT[1])]])
    check(path, LEFT_SENTENCES)


def test_sentences_of_two_columns(tmp_path: Path) -> None:
    lines = range(8)
    left = [(60, 700 - 13 * n, LEFT[n % 2][:44]) for n in lines]
    right = [(320, 700 - 13 * n, RIGHT[n % 2][:44]) for n in lines]
    path = pdf_of(tmp_path / "a.pdf", [[*left, *right]])
    check(path, [text for e in elements_of(path)[1] for text, _ in rectangles(e)])


@pytest.mark.parametrize("angle", [90, 180, 270])
def test_sentences_of_a_page_that_is_shown_turned(tmp_path: Path, angle: int) -> None:
    def draw(canvas: Any) -> None:
        canvas.setPageRotation(angle)
        canvas.translate(*{90: (842, 0), 180: (595, 842), 270: (0, 595)}[angle])  # reportlab turns the sheet too
        canvas.rotate(angle)
        for n, line in enumerate(LEFT):
            canvas.drawString(80, 400 - 14 * n, line)

    check(drawn(tmp_path / "a.pdf", draw), LEFT_SENTENCES)


def test_text_that_runs_up_the_page_is_marked_whole(tmp_path: Path) -> None:
    def draw(canvas: Any) -> None:
        canvas.translate(50, 100)
        canvas.rotate(90)
        canvas.drawString(0, 0, LEFT[0])

    (element,) = elements_of(drawn(tmp_path / "a.pdf", draw))[1]
    found = rectangles(element)
    assert len(found) > 2 and {boxes for _, boxes in found} == {(element.places[0].box,)}


def test_sentences_from_right_to_left(tmp_path: Path) -> None:
    """They are cut from the right, in proportion: to a few points."""
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFont

    font = next(Path("/usr/share/fonts").rglob("DejaVuSans.ttf"), None)
    if font is None:
        pytest.skip("the font DejaVu Sans is not installed: apt-get install fonts-dejavu-core")
    pdfmetrics.registerFont(TTFont("DejaVu", str(font)))

    def draw(canvas: Any) -> None:
        canvas.setFont("DejaVu", 11)
        canvas.drawRightString(520, 760, ".עדימ ינותנ ףסוא אוה עדימ רגאמ .ותמכסה אלל ותלוז לש תויטרפב םדא עגפי אל")

    (element,) = elements_of(drawn(tmp_path / "a.pdf", draw))[1]
    (first, (right,)), (second, (left,)) = rectangles(element)
    stops = sorted((letter.x0, letter.x1) for letter in letters(tmp_path / "a.pdf") if letter.text == ".")
    assert first.startswith("לא") and second.startswith("מאגר")
    assert abs(right.x0 - stops[1][0]) < 6 and abs(left.x1 - stops[1][0]) < 9 and right.x1 > 518


# ---------------------------------------------------------------- scans

HOCR = """<div class="ocr_page"><span class="ocr_line" title="bbox 10 100 400 120; x_size 20">
<span class="ocrx_word" title="bbox 10 100 60 120; x_wconf 96">It</span>
<span class="ocrx_word" title="bbox 70 100 160 120; x_wconf 96">ends.</span>
<span class="ocrx_word" title="bbox 175 100 240 120; x_wconf 96">Next</span>
<span class="ocrx_word" title="bbox 250 100 400 120; x_wconf 96">word.</span></span></div>"""


def test_a_scan_has_gaps_between_its_words() -> None:
    (gap,) = _parse_markup(HOCR.encode(), 0.5, 1, "tesseract").gaps
    assert (gap.y, gap.x_end, gap.x_start) == (55, 80, 87.5)
