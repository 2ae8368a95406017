"""PDF files: the project's own, made ones, and the shared real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import DocumentError
from pipelines.records import Block
from resources.parsers.pdf.reader import parse
from tests.support.documents import elements_of, pdf_of
from tests.support.pdf_objects import pdf
from tests.support.places import DATA, LIBRARY, needs_data

TRAVEL = LIBRARY / "policies" / "travel-policy-2026.pdf"
POLICIES = sorted((DATA / "policies").glob("*.pdf"))
LEAFLETS = sorted((DATA / "unlp-medicine" / "pdf").glob("*.pdf"))


def test_policy_structure() -> None:
    document, elements, parsed = elements_of(TRAVEL)
    assert (document.title, document.pages, parsed.warnings) == ("Travel and Expenses Policy", 5, ())
    headings = {element.text: element.level for element in elements if element.kind == "heading"}
    assert (headings["3 Transport"], headings["3.1 Rail"]) == (2, 3)
    assert "Page 1 of 5" not in document.body
    assert sum(element.kind == "page_footer" for element in elements) == 5


def test_a_table_that_crosses_the_page() -> None:
    _, elements, _ = elements_of(TRAVEL)
    table = max((element for element in elements if element.kind == "table"), key=lambda e: len(e.cells))
    rows = table.text.split("\n")
    assert (table.page_start, table.page_end) == (3, 4)
    assert rows[0] == "City\tCountry\tHotel per night\tMeals per day\tAirport transfer"
    assert rows.count(rows[0]) == 1
    assert rows[1].startswith("Aberdeen") and rows[-1].startswith("Warsaw") and len(rows) == 28
    assert all(cell.header == (cell.row == 0) for cell in table.cells)


def test_places_are_boxes_on_the_page() -> None:
    _, elements, _ = elements_of(TRAVEL)
    for element in elements:
        for place in element.places:
            assert place.box is not None
            assert 1 <= place.box.page <= 5
            assert 0 <= place.box.x0 < place.box.x1 <= 620 and 0 <= place.box.y0 < place.box.y1 <= 850


@pytest.mark.case(18)
def test_a_pdf_without_text_has_no_text(tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as caught:
        elements_of(pdf_of(tmp_path / "scan.pdf", [[], []]))
    assert caught.value.code == "no_text"


@pytest.mark.parametrize(("kept", "warning"), [(9, "put back from the raw text"), (2, "plain lines"), (0, "plain")])
def test_words_that_the_layout_lost_come_from_the_raw_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int, warning: str
) -> None:
    """`kept` of ten lines come from the layout library; with none, it could not read the page."""
    from resources.parsers.pdf import pages as pdf_pages
    from resources.parsers.pdf.pages import native_pages

    lines = [f"Sentence {letter * 4} stands alone." for letter in "abcdefghij"]
    path = pdf_of(tmp_path / "a.pdf", [[(72, 700 - 40 * at, line) for at, line in enumerate(lines)]])

    class Fewer:
        def __init__(self, page: Any) -> None:
            self.page = page

        def __getattr__(self, name: str) -> Any:
            return self.page.text_items[:kept] if name == "text_items" else getattr(self.page, name)

    monkeypatch.setattr(pdf_pages, "native_pages", lambda *of: (Fewer(page) for page in native_pages(*of) if kept))
    found = parse(path)
    assert [run.text for block in found.blocks for run in block.runs] == lines
    assert found.warnings[0].startswith("page 1:") and warning in found.warnings[0]
    box = found.blocks[9].runs[0].box
    assert box is not None and 490 < box.y0 < box.y1 < 510 and abs(box.x0 - 72) < 3


# ---------------------------------------------------------------- fonts, directions, shapes


def unmapped(path: Path, readable: int, unreadable: int) -> Path:
    """A page with lines in Helvetica, and lines in a font that draws shapes under bare codes."""
    lines = [
        b"BT /F 11 Tf 72 %d Td (Line %d says who may enter the building.) Tj ET" % (760 - 20 * n, n)
        for n in range(readable)
    ]
    lines += [
        b"BT /G 11 Tf 72 %d Td (\\001\\002\\003\\004\\005\\006\\007\\010\\003\\002\\005\\004) Tj ET" % (400 - 20 * n)
        for n in range(unreadable)
    ]
    shapes = b" ".join(b"/g%d 10 0 R" % n for n in range(1, 9))
    names = b" ".join(b"/g%d" % n for n in range(1, 9))
    square = b"600 0 0 0 500 500 d1 0 0 500 500 re f"
    objects = {
        9: b"<</Type/Font/Subtype/Type3/FontBBox[0 0 600 600]/FontMatrix[.001 0 0 .001 0 0]/CharProcs<<%b>>"
        b"/Encoding<</Type/Encoding/Differences[1 %b]>>/FirstChar 1/LastChar 8/Widths[%b]>>"
        % (shapes, names, b" ".join([b"600"] * 8)),
        10: b"<</Length %d>>stream\n%b\nendstream" % (len(square), square),
    }
    fonts = b"/F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>/G 9 0 R"
    path.write_bytes(pdf([b"\n".join(lines)], fonts, objects))
    return path


def test_text_in_a_font_without_a_unicode_map_is_left_out_and_named(tmp_path: Path) -> None:
    found = parse(unmapped(tmp_path / "a.pdf", readable=6, unreadable=2))
    assert [run.text for block in found.blocks for run in block.runs] == [
        f"Line {n} says who may enter the building." for n in range(6)
    ]
    assert found.warnings == ("page 1: unmapped_fonts: 24 characters in fonts without a Unicode map are left out",)


def test_a_document_of_such_fonts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as caught:
        parse(unmapped(tmp_path / "a.pdf", readable=1, unreadable=9))
    assert caught.value.code == "unmapped_fonts"
    assert "108 of its" in str(caught.value) and "export it again" in str(caught.value)


@pytest.mark.case(25)
def test_white_text_is_hidden_on_the_page_and_not_on_a_dark_bar(tmp_path: Path) -> None:
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=(595, 842))
    canvas.setFillGray(0.1)
    canvas.rect(60, 690, 470, 40, stroke=0, fill=1)
    canvas.setFillGray(1)
    canvas.setFont("Helvetica-Bold", 18)
    canvas.drawString(72, 780, "For screen readers only")
    canvas.drawString(72, 702, "Visitors")
    canvas.setFillGray(0)
    canvas.setFont("Helvetica", 10)
    for line in range(9):
        canvas.drawString(
            72, 660 - 14 * line, "A line of running text that goes to the other margin of this page, more or less."
        )
    canvas.showPage()
    canvas.save()
    found = [(block.kind, block.runs[0].text) for block in parse(tmp_path / "a.pdf").blocks]
    assert found[0] == ("heading", "Visitors")
    read = [(block.metadata, block.runs[0].text) for block in parse(tmp_path / "a.pdf", hidden=True).blocks]
    assert read[0] == ({"hidden": "true"}, "For screen readers only")


def test_bookmarks_of_a_file(tmp_path: Path) -> None:
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=(595, 842))
    for number, title in enumerate(["who may enter", "which keys there are", "what visitors do"]):
        canvas.bookmarkPage(title)
        canvas.addOutlineEntry(title.capitalize(), title, level=number % 2)
        canvas.drawString(72, 760, title)
        for line in range(9):
            canvas.drawString(72, 720 - 16 * line, "A line of running text that goes to the other margin of this page.")
        canvas.showPage()
    canvas.save()
    found = parse(tmp_path / "a.pdf")
    headings = [(block.level, block.runs[0].text) for block in found.blocks if block.kind == "heading"]
    assert headings == [(1, "who may enter"), (2, "which keys there are"), (1, "what visitors do")]


@pytest.mark.parametrize("angle", [90, 180, 270])
def test_pages_shown_rotated(tmp_path: Path, angle: int) -> None:
    """Text drawn so that it stands upright once the page is turned; boxes are of the page as shown."""
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=(600, 800))
    canvas.setPageRotation(angle)
    canvas.translate(*{90: (800, 0), 180: (600, 800), 270: (0, 600)}[angle])  # reportlab turns the sheet too
    canvas.rotate(angle)
    lines = [f"Line {n} says that guests wear a badge." for n in range(4)]
    for number, line in enumerate(lines):
        canvas.drawString(100, 300 - 40 * number, line)
    canvas.showPage()
    canvas.save()
    found = parse(tmp_path / "a.pdf")
    assert [block.runs[0].text for block in found.blocks] == lines and not found.warnings
    box = found.blocks[0].runs[0].box
    assert box is not None
    assert abs(box.x0 - 100) < 3 and abs(box.y1 - (800 - 300)) < 5


def test_a_page_upside_down_is_read_as_the_page_upright(tmp_path: Path) -> None:
    """Its table, its typed text and the order of its words too; boxes are of the page as shown."""
    rows = [("City", "Rooms", "Beds"), ("Lviv", "12", "24"), ("Odesa", "7", "15"), ("Kyiv", "31", "64")]
    lines = ["The ferry crosses the river twice an hour, and every crossing", "takes eleven minutes. Tickets are sold."]
    texts = [(72.0, 700.0 - 14 * at, line) for at, line in enumerate(lines)]
    texts += [
        (72.0 + 150 * at, 600.0 - 14 * down, cell) for down, row in enumerate(rows) for at, cell in enumerate(row)
    ]

    def made(name: str, half_turn: bool) -> list[Block]:
        from reportlab.pdfgen.canvas import Canvas

        canvas = Canvas(str(tmp_path / name), pagesize=(595, 842))
        corners = (380.0, 480.0, 500.0, 500.0)
        if half_turn:
            canvas.translate(595, 842)
            canvas.rotate(180)
            corners = (595 - 500.0, 842 - 500.0, 595 - 380.0, 842 - 480.0)
        for x, y, text in texts:
            canvas.drawString(x, y, text)
        canvas.freeTextAnnotation("Typed below", "/Helv 12 Tf 0 g", Rect=corners, relative=0)
        canvas.save()
        return list(parse(tmp_path / name).blocks)

    upright, on_head = made("a.pdf", False), made("b.pdf", True)
    assert [block.kind for block in upright] == ["paragraph", "table", "paragraph"]
    for block, turned in zip(upright, on_head, strict=True):
        own = [*block.runs, *(run for cell in block.cells for run in cell.runs)]
        others = [*turned.runs, *(run for cell in turned.cells for run in cell.runs)]
        assert [run.text for run in own] == [run.text for run in others]
        for one, other in zip(own, others, strict=True):
            assert one.box is not None and other.box is not None
            assert abs(one.box.x0 - (595 - other.box.x1)) < 3 and abs(one.box.y0 - (842 - other.box.y1)) < 4


def test_a_line_upside_down_on_an_upright_page_has_its_words_in_order(tmp_path: Path) -> None:
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=(595, 842))
    lines = ["The answer stands below, upside down, as in riddles for children.", "Do not look before you know."]
    for at, line in enumerate(lines):
        canvas.drawString(72, 700 - 14 * at, line)
    canvas.translate(595, 842)
    canvas.rotate(180)
    answer = "The ferry crosses the river twice an hour."
    canvas.drawString(72, 700, answer)
    canvas.save()
    assert [block.runs[0].text for block in parse(tmp_path / "a.pdf").blocks][-1] == answer


@pytest.mark.case(22)
def test_text_from_right_to_left(tmp_path: Path) -> None:
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFont
    from reportlab.pdfgen.canvas import Canvas

    font = next(Path("/usr/share/fonts").rglob("DejaVuSans.ttf"), None)
    if font is None:
        pytest.skip("the font DejaVu Sans is not installed: apt-get install fonts-dejavu-core")
    pdfmetrics.registerFont(TTFont("DejaVu", str(font)))
    lines = [
        "לא יפגע אדם בפרטיות של זולתו ללא הסכמתו,",
        "לפי סעיף 12 לחוק משנת 1981.",
        "מאגר מידע הוא אוסף נתוני מידע.",
    ]
    drawn = [
        ",ותמכסה אלל ותלוז לש תויטרפב םדא עגפי אל",
        ".1981 תנשמ קוחל 12 ףיעס יפל",
        ".עדימ ינותנ ףסוא אוה עדימ רגאמ",
    ]
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=(595, 842))
    canvas.setFont("DejaVu", 11)
    for number, line in enumerate(drawn):
        canvas.drawRightString(520, 760 - 60 * number, line)
    canvas.showPage()
    canvas.save()
    found = parse(tmp_path / "a.pdf")
    assert [run.text for block in found.blocks for run in block.runs] == lines and not found.warnings


@pytest.mark.case(20)
def test_a_page_of_one_long_word(tmp_path: Path) -> None:
    """Patterns that look for a word's end from each of its letters take minutes."""
    content = b"BT /F 6 Tf 20 700 Td " + b"(%b) Tj " % (b"x" * 10_000) * 10 + b"ET"
    (tmp_path / "a.pdf").write_bytes(pdf([content]))
    _, elements, _ = elements_of(tmp_path / "a.pdf")
    assert [len(element.text) for element in elements] == [100_000]


@pytest.mark.case(20)
@pytest.mark.parametrize("text", [b"%bword of the hall", b"word of the hall%b", b"word of %bthe hall"])
def test_a_page_with_thousands_of_letters_that_stand_for_nothing(tmp_path: Path, text: bytes) -> None:
    """As where a font has no sign for a script."""
    nothing = b") Tj 1 Tz (%b) Tj 100 Tz (" % (b"\\000" * 3_000)  # set so narrow that the words stay on the page
    content = b"BT /F 6 Tf 20 700 Td (" + text % nothing + b") Tj ET"
    (tmp_path / "a.pdf").write_bytes(pdf([content]))
    _, elements, _ = elements_of(tmp_path / "a.pdf")
    assert "hall" in " ".join(element.text for element in elements)


# ---------------------------------------------------------------- real documents


@needs_data("policies")
def test_a_real_handbook() -> None:
    _, elements, _ = elements_of(DATA / "policies" / "employee_handbook.pdf")
    headings = {element.text: element.level for element in elements if element.kind == "heading"}
    assert {"Our Mission", "Values", "Workplace Safety", "Whistleblower Policy"} <= set(headings)
    assert set(headings.values()) == {1} and "Privacy" in headings and "Privacy Policy" not in headings
    values = [element for element in elements if element.kind == "list_item" and "take responsibility" in element.text]
    assert values[0].marker == "7."


def test_a_page_with_a_user_unit_has_its_boxes_in_the_points_that_it_is_drawn_in(tmp_path: Path) -> None:
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(tmp_path / "plain.pdf"), invariant=True)
    canvas.drawString(100, 700, "The lamp is trimmed at dusk.")
    canvas.save()
    plain = (tmp_path / "plain.pdf").read_bytes()
    (tmp_path / "scaled.pdf").write_bytes(plain.replace(b"/Rotate 0 /Trans", b"/UserUnit 2 /Aaa"))
    boxes = [elements_of(tmp_path / name)[1][0].places[0].box for name in ("plain.pdf", "scaled.pdf")]
    assert boxes[0] is not None
    assert boxes[0] == boxes[1]
