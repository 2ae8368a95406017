"""PDF files: the project's own, made ones, and the shared real ones."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from pipelines.errors import DocumentError
from resources.parsers.pdf import parse
from tests.unit.parsers.documents import elements_of

ROOT = Path(__file__).parents[3]
LIBRARY = ROOT / "tests" / "data" / "library" / "policies"
SHARED = ROOT.parent / "shared" / "data"
POLICIES = sorted((SHARED / "policies").glob("*.pdf"))
LEAFLETS = sorted((SHARED / "unlp-medicine" / "pdf").glob("*.pdf"))
needs_shared = pytest.mark.skipif(not POLICIES, reason="the shared data folder is not beside the project")


def test_policy_structure() -> None:
    document, elements, parsed = elements_of(LIBRARY / "travel-policy-2026.pdf")
    assert (document.title, document.pages, parsed.warnings) == ("Travel and Expenses Policy", 5, ())
    headings = {element.text: element.level for element in elements if element.kind == "heading"}
    assert (headings["3 Transport"], headings["3.1 Rail"]) == (2, 3)
    assert "Page 1 of 5" not in document.body
    assert sum(element.kind == "page_footer" for element in elements) == 5


def test_a_table_that_crosses_the_page() -> None:
    _, elements, _ = elements_of(LIBRARY / "travel-policy-2026.pdf")
    table = max((element for element in elements if element.kind == "table"), key=lambda e: len(e.cells))
    rows = table.text.split("\n")
    assert (table.page_start, table.page_end) == (3, 4)
    assert rows[0] == "City\tCountry\tHotel per night\tMeals per day\tAirport transfer"
    assert rows.count(rows[0]) == 1
    assert rows[1].startswith("Aberdeen") and rows[-1].startswith("Warsaw") and len(rows) == 28
    assert all(cell.header == (cell.row == 0) for cell in table.cells)


def test_places_are_boxes_on_the_page() -> None:
    _, elements, _ = elements_of(LIBRARY / "travel-policy-2026.pdf")
    for element in elements:
        for place in element.places:
            assert place.box is not None
            assert 1 <= place.box.page <= 5
            assert 0 <= place.box.x0 < place.box.x1 <= 620 and 0 <= place.box.y0 < place.box.y1 <= 850


def pdf_of(path: Path, pages: list[list[tuple[float, float, str]]], **options: object) -> Path:
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(path), pagesize=(595, 842), **options)
    for texts in pages:
        for x, y, text in texts:
            canvas.drawString(x, y, text)
        canvas.showPage()
    canvas.save()
    return path


def test_a_pdf_without_text_has_no_text(tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as caught:
        elements_of(pdf_of(tmp_path / "scan.pdf", [[], []]))
    assert caught.value.code == "no_text"


@pytest.mark.parametrize(("kept", "warning"), [(9, "the rest is from the raw text"), (2, "plain lines"), (0, "plain")])
def test_words_that_the_layout_lost_come_from_the_raw_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int, warning: str
) -> None:
    """`kept` of ten lines come from the layout library; with none, it could not read the page."""
    from resources.parsers import pdf

    lines = [f"Sentence {letter * 4} stands alone." for letter in "abcdefghij"]
    path = pdf_of(tmp_path / "a.pdf", [[(72, 700 - 40 * at, line) for at, line in enumerate(lines)]])
    layouts = pdf._layouts

    class Fewer:
        def __init__(self, page: object) -> None:
            self.page = page

        def __getattr__(self, name: str) -> object:
            return self.page.text_items[:kept] if name == "text_items" else getattr(self.page, name)

    monkeypatch.setattr(pdf, "_layouts", lambda p: {n: Fewer(page) for n, page in layouts(p).items() if kept})
    found = parse(path)
    assert [run.text for block in found.blocks for run in block.runs] == lines
    assert found.warnings[0].startswith("page 1:") and warning in found.warnings[0]
    box = found.blocks[9].runs[0].box
    assert box is not None and 490 < box.y0 < box.y1 < 510 and abs(box.x0 - 72) < 3


# ---------------------------------------------------------------- real documents

_WORD = re.compile(r"[^\W_]+")


def lost_words(path: Path) -> Counter[str]:
    """Words of the raw text of a file that none of its elements has, hyphenation aside."""
    import pypdfium2

    document = pypdfium2.PdfDocument(path)
    raw = Counter(char for page in document for char in page.get_textpage().get_text_range() if char.isalnum())
    document.close()
    _, elements, _ = elements_of(path)
    kept = Counter(char for element in elements for char in element.text if char.isalnum())
    return raw - kept


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize("path", [*POLICIES, *LEAFLETS], ids=lambda path: path.stem[:12])
def test_no_letter_of_the_real_documents_is_lost(path: Path) -> None:
    assert sum(lost_words(path).values()) <= 2


@needs_shared
def test_a_real_handbook() -> None:
    _, elements, _ = elements_of(SHARED / "policies" / "employee_handbook.pdf")
    headings = {element.text: element.level for element in elements if element.kind == "heading"}
    assert {"Our Mission", "Values", "Workplace Safety", "Whistleblower Policy"} <= set(headings)
    assert headings["Privacy"] == 1 and headings["Privacy Policy"] > 1
    values = [element for element in elements if element.kind == "list_item" and "take responsibility" in element.text]
    assert values[0].marker == "7."
