"""Pictures of real files become figures, and the text of the document stays as it is."""

from __future__ import annotations

import io
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from pipelines.parsing.pictures import ALT, IMAGE, IMAGE_HASH
from pipelines.records import Box, Element
from resources.hashes import bytes_hash
from resources.parsers.elements_map import parse_map, to_map
from tests.support.documents import elements_of
from tests.support.pictures import BLUE, GREEN, RED, data_url, illustrated_pdf, picture

WORDS = "Sales grew in every quarter of the year."


def kinds(elements: list[Element]) -> list[str]:
    return [element.kind for element in elements]


def figures(elements: list[Element]) -> list[Element]:
    return [element for element in elements if element.kind == "figure"]


def hashes(elements: list[Element]) -> list[str]:
    return [figure.metadata[IMAGE_HASH] for figure in figures(elements)]


# ---------------------------------------------------------------- DOCX


def docx_with(path: Path, *parts: Any) -> Path:
    """Text as paragraphs, bytes as pictures two inches wide, (bytes, inches) as wide as that."""
    import docx
    from docx.shared import Inches

    document = docx.Document()
    for part in parts:
        if isinstance(part, str):
            document.add_paragraph(part)
        else:
            data, wide = part if isinstance(part, tuple) else (part, 2)
            document.add_picture(io.BytesIO(data), width=Inches(wide))
    document.save(str(path))
    return path


def test_a_picture_of_docx_is_a_figure_at_its_place(tmp_path: Path) -> None:
    document, elements, _ = elements_of(docx_with(tmp_path / "a.docx", WORDS, picture(RED), "After it."))
    assert kinds(elements) == ["paragraph", "figure", "paragraph"]
    (figure,) = figures(elements)
    assert (figure.text, figure.start, figure.end) == ("", len(WORDS), len(WORDS))
    assert figure.metadata == {IMAGE: "word/media/image1.png", IMAGE_HASH: bytes_hash(picture(RED))}
    assert document.body == f"{WORDS}\n\nAfter it."


def test_icons_are_no_figures(tmp_path: Path) -> None:
    _, elements, _ = elements_of(docx_with(tmp_path / "a.docx", WORDS, (picture(), 0.5)))
    assert not figures(elements)


def test_a_picture_in_a_cell_follows_its_table_and_leaves_the_cells_as_they_are(tmp_path: Path) -> None:
    import docx
    from docx.shared import Inches

    document = docx.Document()
    table = document.add_table(2, 2)
    for cell, text in zip((cell for row in table.rows for cell in row.cells), "abcd", strict=True):
        cell.text = text
    table.cell(1, 1).paragraphs[0].add_run().add_picture(io.BytesIO(picture()), width=Inches(2))
    document.add_paragraph(WORDS)
    document.save(str(tmp_path / "a.docx"))
    _, elements, _ = elements_of(tmp_path / "a.docx")
    assert kinds(elements) == ["table", "figure", "paragraph"]
    assert [cell.text for cell in elements[0].cells] == list("abcd") and elements[0].metadata == {}


def test_the_author_s_description_of_a_picture_is_kept(tmp_path: Path) -> None:
    import docx
    from docx.oxml.ns import qn
    from docx.shared import Inches

    document = docx.Document()
    document.add_paragraph(WORDS).add_run().add_picture(io.BytesIO(picture()), width=Inches(2))
    next(document.element.iter(qn("wp:docPr"))).set("descr", "Four bars,\neach higher")
    document.save(str(tmp_path / "a.docx"))
    assert figures(elements_of(tmp_path / "a.docx")[1])[0].metadata[ALT] == "Four bars, each higher"


# ---------------------------------------------------------------- PPTX, XLSX


def pptx_with(path: Path, *slides: list[bytes]) -> Path:
    import pptx
    from pptx.util import Inches

    deck = pptx.Presentation()
    for number, pictures in enumerate(slides, start=1):
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        slide.shapes.title.text = f"Slide {number}"
        for at, data in enumerate(pictures):
            slide.shapes.add_picture(io.BytesIO(data), Inches(1), Inches(2 + 2 * at), Inches(3), Inches(1.5))
    deck.save(str(path))
    return path


def test_pictures_of_slides_are_figures_of_their_slide(tmp_path: Path) -> None:
    _, elements, _ = elements_of(pptx_with(tmp_path / "a.pptx", [picture(RED)], [], [picture(BLUE)]))
    assert [(figure.page_start, figure.places[0].locator) for figure in figures(elements)] == [
        (1, "slide 1"),
        (3, "slide 3"),
    ]
    assert hashes(elements) == [bytes_hash(picture(RED)), bytes_hash(picture(BLUE))]
    assert kinds(elements) == ["heading", "figure", "heading", "heading", "figure"]


def test_a_logo_on_most_slides_is_no_figure(tmp_path: Path) -> None:
    slides = [[picture(GREEN), picture(RED)], [picture(GREEN)], [picture(GREEN)], []]
    _, elements, _ = elements_of(pptx_with(tmp_path / "a.pptx", *slides))
    assert hashes(elements) == [bytes_hash(picture(RED))]


def test_pictures_over_a_sheet_are_figures_at_their_cell(tmp_path: Path) -> None:
    import openpyxl
    from openpyxl.drawing.image import Image as Drawing

    book = openpyxl.Workbook()
    book.active.append(["Quarter", "Sales"])
    book.active.append(["first", 12])
    book.active.add_image(Drawing(io.BytesIO(picture())), "D4")
    only = book.create_sheet("Pictures")
    only.add_image(Drawing(io.BytesIO(picture(BLUE))), "A1")
    book.save(tmp_path / "a.xlsx")
    document, elements, _ = elements_of(tmp_path / "a.xlsx")
    assert [figure.places[0].locator for figure in figures(elements)] == ["Sheet!D4", "Pictures!A1"]
    assert "Pictures" not in document.body  # a sheet without text has no heading


# ---------------------------------------------------------------- HTML, Markdown, e-mail


def test_pictures_written_into_html_follow_their_block(tmp_path: Path) -> None:
    red, blue = data_url(picture(RED)), data_url(picture(BLUE))
    path = tmp_path / "a.html"
    path.write_text(
        f"<header><img src='{red}'></header><h1>Report</h1><p>{WORDS} <img src='{red}' alt='four bars'> So it was.</p>"
        f"<table><tr><td>a</td><td>b</td></tr><tr><td><img src='{blue}'></td><td>c</td></tr></table><p>The end.</p>"
        "<img src='https://example.org/x.png'><img src='x.png'>"
        f"<img width=16 src='{blue}'><img src='{data_url(picture(GREEN, (20, 20)))}'>"
    )
    document, elements, _ = elements_of(path)
    assert kinds(elements) == ["heading", "paragraph", "figure", "table", "figure", "paragraph"]
    assert hashes(elements) == [bytes_hash(picture(RED)), bytes_hash(picture(BLUE))]
    assert elements[1].text == f"{WORDS} four bars So it was." and "base64" not in document.body


def test_pictures_written_into_markdown_follow_their_block(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text(
        f"{WORDS} ![bars]({data_url(picture(RED))}) So it was.\n\n- item ![]({data_url(picture(BLUE))})\n\n"
        f"<p><img alt='x' src=\"{data_url(picture(GREEN))}\"></p>\n\n![](x.png)\n"
    )
    document, elements, _ = elements_of(path)
    assert kinds(elements) == ["paragraph", "figure", "list_item", "figure", "caption", "figure"]
    assert hashes(elements) == [bytes_hash(picture(colour)) for colour in (RED, BLUE, GREEN)]
    assert document.body == f"{WORDS} bars So it was.\n\nitem\n\nx"


def test_pictures_written_into_a_message_are_figures(tmp_path: Path) -> None:
    message = EmailMessage()
    message["From"], message["Subject"] = "anna@example.org", "Sales"
    message.set_content("plain")
    message.add_alternative(f"<p>{WORDS}</p><p><img src='{data_url(picture())}'></p>", subtype="html")
    (tmp_path / "a.eml").write_bytes(bytes(message))
    assert hashes(elements_of(tmp_path / "a.eml")[1]) == [bytes_hash(picture())]


@pytest.mark.parametrize(
    "url", ["data:image/png;base64,***", "data:image/svg+xml;base64,PHN2Zy8+", "data:text/plain,abc"]
)
def test_an_invalid_picture_is_no_figure(tmp_path: Path, url: str) -> None:
    (tmp_path / "a.html").write_text(f"<p>{WORDS}</p><img src='{url}'>")
    assert not figures(elements_of(tmp_path / "a.html")[1])


# ---------------------------------------------------------------- PDF, maps


def test_a_picture_of_a_page_is_a_figure_between_what_stands_above_and_under_it(tmp_path: Path) -> None:
    path = illustrated_pdf(
        tmp_path / "a.pdf",
        ([(picture(), 100, 120, 200, 150)], [(100, 100, WORDS), (100, 300, "Figure 1. Sales of the year")]),
        ([], [(100, 100, "Another page with words of its own.")]),
    )
    _, elements, _ = elements_of(path)
    assert kinds(elements)[:3] == ["paragraph", "figure", "caption"]
    (figure,) = figures(elements)
    assert figure.places[0].box == Box(1, 100.0, 120.0, 300.0, 270.0) and figure.page_start == 1


def test_a_turned_page_has_the_box_that_a_reader_sees(tmp_path: Path) -> None:
    path = illustrated_pdf(tmp_path / "a.pdf", ([(picture(), 100, 420, 200, 150)], [(100, 400, WORDS)]), turned=90)
    (figure,) = figures(elements_of(path)[1])
    assert figure.places[0].box == Box(1, 230.0, 100.0, 380.0, 300.0)


def test_a_picture_in_a_form_stands_where_the_form_puts_it(tmp_path: Path) -> None:
    from reportlab.lib.utils import ImageReader
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=(600, 800))
    canvas.drawString(100, 700, WORDS)
    canvas.beginForm("inner")
    canvas.drawImage(ImageReader(io.BytesIO(picture())), 0, 0, 100, 80)
    canvas.endForm()
    canvas.translate(300, 200)
    canvas.scale(1.5, 1.5)
    canvas.doForm("inner")
    canvas.save()
    (figure,) = figures(elements_of(tmp_path / "a.pdf")[1])
    assert figure.places[0].box == Box(1, 300.0, 480.0, 450.0, 600.0)


def test_a_map_may_have_figures_with_and_without_a_text() -> None:
    box = {"page": 1, "x0": 10, "y0": 20, "x1": 200, "y1": 120}
    elements = [
        {"kind": "figure", "text": "", "boxes": [box]},
        {"kind": "figure", "text": "A map of the town.", "boxes": [box], "metadata": {"kv.Scale": "1:5000"}},
    ]
    parsed = parse_map({"version": 1, "elements": elements}, "a.pdf.elements.json")
    assert [(block.kind, block.runs[0].text, block.runs[0].box) for block in parsed.blocks] == [
        ("figure", "", Box(1, 10, 20, 200, 120)),
        ("figure", "A map of the town.", Box(1, 10, 20, 200, 120)),
    ]
    assert parse_map(to_map(parsed), "again").blocks == parsed.blocks
