"""Tables of real PDF files that other parsers got wrong, and how the lines of a page are read."""

from __future__ import annotations

from pathlib import Path

from pipelines.records import Block
from resources.parsers.pdf.reader import parse
from tests.support.places import DATA, require_data


def tables(name: str) -> list[list[list[str]]]:
    file = DATA / "field-cases" / name
    require_data(file)
    return [shown(block) for block in parse(file).blocks if block.kind == "table"]


def shown(block: Block) -> list[list[str]]:
    found: dict[int, list[str]] = {}
    for cell in block.cells:
        found.setdefault(cell.row, []).append(" ".join(run.text for run in cell.runs))
    return [found[row] for row in sorted(found)]


def test_a_row_a_month_where_only_quarters_are_ruled() -> None:
    first = tables("issue-53-example.pdf")[0]
    labels = [row[0] for row in first[2:]]
    assert labels[:6] == ["FY2013", "FY2014", "Apr-2015", "May-2015", "Jun-2015", "FY15 1st Q TTL"]
    assert len(first) == 17
    assert first[4] == ["Apr-2015", "653,278", "107.5", "2,958,643", "108.7", "3,951,483", "103.0", "74.9"]


def test_a_row_a_line_in_a_box_with_a_ruled_head() -> None:
    found = tables("senate-expenditures.pdf")
    rows = [row for table in found for row in table]
    assert ["BAIN, J MATTHEW", "DISTRICT DIRECTOR", "37,499.96"] in rows
    whole = [row for row in rows if row[0].startswith("DHAW")]
    assert {len(row) for row in whole} == {7}
    assert len(whole) == 22
    assert (whole[0][0], whole[0][4], whole[0][6]) == ("DHAW20190001", "03/06/2019", "920.68")
    assert whole[0][5].startswith("STAFF TRANSPORTATION AIRFARE FOR E JOHNSON")


def test_the_lines_of_a_patient_are_not_in_the_table_of_results() -> None:
    (table,) = tables("issue-461-example.pdf")
    assert table[0][:2] == ["项目", "检验方法"]
    assert table[1][0] == "白细胞计数(WBC)"
    assert len(table) == 23


def test_prose_above_an_unruled_table_is_not_in_a_table() -> None:
    cells = [text for table in tables("q04-span-plain.pdf") for row in table for text in row]
    assert [text for text in cells if "LEFTUP" in text or "RIGHTUP" in text] == []


# ---------------------------------------------------------------- drawn lines


def drawn(path: Path, rows: int, stripes: bool) -> list[list[list[str]]]:
    """A statement whose rows are shaded in turn by one area a cell, or whose header and foot are areas as thin as
    lines."""
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(path), pagesize=(600, 800))
    for at in range(rows):
        y = 700 - 14 * at
        for left, right in ((50, 290), (290, 430), (430, 550)) if stripes and at % 2 else ():
            canvas.setFillColorRGB(0.8, 0.93, 1.0)
            canvas.rect(left, y - 4, right - left, 14, stroke=0, fill=1)
        canvas.setFillColorRGB(0, 0, 0)
        canvas.setFont("Helvetica", 9)
        for x, text in ((60, f"Item number {at}"), (340, f"{7 * at + 11}.5"), (470, f"{3 * at + 20}.1")):
            canvas.drawString(x, y, text)
    if not stripes:
        for y in (713, 695, 700 - 14 * rows + 8):
            canvas.rect(50, y, 500, 0.7, stroke=0, fill=1)
    canvas.save()
    return [shown(block) for block in parse(path).blocks if block.kind == "table"]


def test_shaded_rows_are_one_table(tmp_path: Path) -> None:
    (table,) = drawn(tmp_path / "a.pdf", 7, stripes=True)
    assert table == [[f"Item number {at}", f"{7 * at + 11}.5", f"{3 * at + 20}.1"] for at in range(7)]


def test_areas_as_thin_as_lines_are_lines(tmp_path: Path) -> None:
    from pypdfium2 import PdfDocument

    from resources.parsers.ocr import OcrSettings
    from resources.parsers.pdf.pages import pages_of
    from resources.parsers.registry import PageGuard

    (table,) = drawn(tmp_path / "a.pdf", 6, stripes=False)
    assert len(table) == 6
    document = PdfDocument(str(tmp_path / "a.pdf"))
    (read,) = pages_of(document, tmp_path / "a.pdf", PageGuard(), OcrSettings())
    lines = [rule for rule in read.page.rules if not rule.edge]
    assert sorted({round(rule.y0) for rule in lines}) == [87, 105, 176]
    assert [rule for rule in read.page.rules if rule.edge] == []
