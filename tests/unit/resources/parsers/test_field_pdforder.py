"""Field cases of PDF: reading order, turned text, and headings by looks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pypdfium2 import PdfDocument
from reportlab.pdfgen.canvas import Canvas

from pipelines.records import Block
from resources.parsers.pdf.reader import parse
from tests.support.page_letters import letters_of
from tests.support.places import DATA, needs_data

CASES = DATA / "field-cases"


def blocks_of(path: Path) -> list[Block]:
    return [block for block in parse(path).blocks if not block.kind.startswith("page_")]


def text_of(block: Block) -> str:
    words = ""
    for run in block.runs:
        words += run.text if run.joined or not words else " " + run.text
    return words


def grid(block: Block) -> list[list[str]]:
    found: dict[int, list[str]] = {}
    for cell in block.cells:
        found.setdefault(cell.row, []).append(" ".join(run.text for run in cell.runs))
    return list(found.values())


@needs_data("field-cases")
def test_three_columns_of_the_federal_register() -> None:
    blocks = blocks_of(CASES / "federal-register-page1.pdf")
    assert not any(block.kind == "table" for block in blocks)
    texts = [text_of(block) for block in blocks]
    wanted = (
        "This section of the FEDERAL REGISTER contains notices to the public of the proposed issuance of rules and "
        "regulations. The purpose of these notices is to give interested persons an opportunity to participate in the "
        "rule making prior to the adoption of the final rules.",
        "AGENCY: Federal Aviation Administration (FAA), DOT.",
        "Mail: U.S. Department of Transportation, Docket Operations, M– 30, West Building Ground Floor, Room W12–140, "
        "1200 New Jersey Avenue SE, Washington, DC 20590.",
        "FOR FURTHER INFORMATION CONTACT: Ian Won, Manager, Seattle ACO Branch, FAA, 2200 South 216th St., Des Moines, "
        "WA 98198; phone and fax: 206–231– 3500; email: 9-FAA-SACO-AD-Inquiry@ faa.gov.",
        "Confidential Business Information (CBI)",
    )
    assert [text for text in texts if text in wanted] == list(wanted)
    invited = next(text for text in texts if text.startswith("The FAA invites you"))
    assert "a specific portion of the proposal, explain the reason for any recommended change" in invited


@needs_data("field-cases")
def test_a_heading_over_one_of_two_columns() -> None:
    blocks = blocks_of(CASES / "q01-two-col-20pt.pdf")
    assert (blocks[0].kind, text_of(blocks[0])) == ("heading", "Goats of the hill")
    assert [text_of(block).split()[0] for block in blocks[1:]] == [f"P{at}start" for at in range(16)]


@needs_data("field-cases")
def test_columns_above_and_below_a_table() -> None:
    blocks = blocks_of(CASES / "q04-span-plain.pdf")
    assert [text_of(block).split()[:1] for block in blocks] == [
        ["LEFTUP"], ["RIGHTUP"], ["Table"], [], ["LEFTDOWN"], ["RIGHTDOWN"],
    ]  # fmt: skip
    assert [block.kind for block in blocks] == ["paragraph", "paragraph", "caption", "table", "paragraph", "paragraph"]
    assert grid(blocks[3]) == [
        ["Kind", "Weight", "Milk", "Price"],
        ["Saanen", "60", "3.1", "200"],
        ["Alpine", "55", "2.9", "180"],
    ]


# ---------------------------------------------------------------- turned text


@needs_data("field-cases")
def test_a_mirrored_page_that_was_typeset_sideways() -> None:
    first, second = blocks_of(CASES / "issue-848-page8.pdf")
    assert "which seems to be far from ideal. Among other stories" in text_of(first)
    assert "Frank Frederickson, has been left critically injured" in text_of(first)
    assert text_of(first).endswith("in such dangerous environments.")
    assert text_of(second).startswith("At the Metro West Precinct in Old Detroit, officers respond")


@needs_data("field-cases")
def test_a_table_that_was_typeset_sideways() -> None:
    caption, table = blocks_of(CASES / "q20-rot-table-nohead.pdf")
    assert (caption.kind, text_of(caption)) == ("caption", "Table 5 Share options held by directors")
    names = [[f"Ann{at} Smith", "1,000", "200", "50", "750"] for at in range(16)]
    assert grid(table) == [["Director", "Granted", "Exercised", "Lapsed", "Outstanding"], *names]
    assert {cell.row for cell in table.cells if cell.header} == {0}
    box = table.cells[0].runs[0].box
    assert box is not None and (126 < box.x0 < 129, 136 < box.x1 < 138, 705 < box.y0 < 708, 737 < box.y1 < 739)


@needs_data("field-cases")
def test_turned_heads_of_a_ruled_table() -> None:
    blocks = blocks_of(CASES / "p01-rotated-headers.pdf")
    assert [block.kind for block in blocks] == ["heading", "paragraph", "table", "paragraph"]
    table = blocks[2]
    assert grid(table)[0] == ["Inlet pressure static", "Flow rate", "Temperature"]
    assert [cell.column for cell in table.cells if cell.row == 0 and cell.header] == [1, 2, 3]
    assert grid(table)[1:] == [
        ["Mass flow", "3.10", "3.35", "4.23"], ["Loss", "0.11", "0.12", "0.13"], ["Gain", "7.1", "7.2", "7.3"],
    ]  # fmt: skip


ROWS = [["City", "Rooms", "Beds"], ["Lviv", "12", "24"], ["Odesa", "7", "15"], ["Kyiv", "31", "64"]]
TEXT = [
    "The ferry crosses the river twice an hour, and every crossing, in",
    "either direction, takes eleven minutes. Tickets are sold aboard.",
]
WIDTH, HEIGHT = 595.0, 842.0


def sideways(canvas: Canvas, angle: int, x: float = 0, y: float = 0) -> None:
    """Turn what is drawn from here on counterclockwise; it begins where the page begins for whoever reads it."""
    canvas.translate(*{0: (x, y), 90: (WIDTH - x, y), 180: (WIDTH - x, HEIGHT - y), 270: (x, HEIGHT - y)}[angle])
    canvas.rotate(angle)


def draw(canvas: Canvas, top: float, table: bool = True) -> None:
    for at, line in enumerate(TEXT):
        canvas.drawString(72, top - 14 * at, line)
    for at, row in enumerate(ROWS if table else ()):
        for column, cell in enumerate(row):
            canvas.drawString(72 + 120 * column, top - 60 - 16 * at, cell)


def in_place(path: Path, blocks: Sequence[Block]) -> bool:
    """Say whether the letters of every run are within its box, on the page as PDFium shows it."""
    document = PdfDocument(path)
    sizes = [document[at].get_size() for at in range(len(document))]
    document.close()
    letters = [letters_of(path, at, *map(round, size)) for at, size in enumerate(sizes, 1)]
    for run in (run for block in blocks for run in (*block.runs, *(run for c in block.cells for run in c.runs))):
        assert run.box is not None
        inside = [
            one.char
            for one in letters[run.box.page - 1]
            if run.box.x0 - 2 < (one.left + one.right) / 2 < run.box.x1 + 2
            and run.box.y0 - 2 < (one.top + one.bottom) / 2 < run.box.y1 + 2
        ]
        if sorted(inside) != sorted(run.text.replace(" ", "")):
            return False
    return True


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("angle", [90, 180, 270])
def test_a_page_typeset_in_any_direction(tmp_path: Path, angle: int, rotation: int) -> None:
    """Also if the page itself is shown turned, in which case the text may be upright after all."""
    path = tmp_path / "a.pdf"
    canvas = Canvas(str(tmp_path / "straight.pdf"), pagesize=(WIDTH, HEIGHT))
    sideways(canvas, angle)
    draw(canvas, 500)
    canvas.save()
    document = PdfDocument(tmp_path / "straight.pdf")
    document[0].set_rotation(rotation)
    document.save(path)
    document.close()
    blocks = blocks_of(path)
    assert [block.kind for block in blocks] == ["paragraph", "table"]
    assert text_of(blocks[0]) == " ".join(TEXT)
    assert grid(blocks[1]) == ROWS
    assert in_place(path, blocks)


@pytest.mark.parametrize("angle", [90, 270])
def test_a_sideways_table_between_upright_head_and_foot(tmp_path: Path, angle: int) -> None:
    """The pages around the appendix are upright, and so are its own running head and its number."""
    path = tmp_path / "a.pdf"
    canvas = Canvas(str(path), pagesize=(WIDTH, HEIGHT))
    for number in range(1, 5):
        canvas.drawString(72, 800, "Annual report of the ferry")
        canvas.drawString(300, 30, str(number))
        if number == 3:
            canvas.saveState()
            sideways(canvas, angle)
            draw(canvas, 480)
            canvas.restoreState()
        else:
            draw(canvas, 700, table=False)
        canvas.showPage()
    canvas.save()
    found = list(parse(path).blocks)
    assert [text_of(block) for block in found if block.kind == "page_header"] == ["Annual report of the ferry"] * 4
    assert [text_of(block) for block in found if block.kind == "page_footer"] == ["1", "2", "3", "4"]
    content = [block for block in found if not block.kind.startswith("page_")]
    assert [block.kind for block in content] == ["paragraph", "paragraph", "paragraph", "table", "paragraph"]
    assert grid(content[3]) == ROWS
    assert in_place(path, content)


def test_turned_text_of_two_directions_beside_upright_text(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    canvas = Canvas(str(path), pagesize=(WIDTH, HEIGHT))
    draw(canvas, 700, table=False)
    for angle, word in ((90, "upwards"), (270, "downwards")):
        canvas.saveState()
        canvas.translate(300, 300)
        canvas.rotate(angle)
        for at, line in enumerate(
            (f"This remark is read {word}, as its first", "line says, and has two lines and a point.")
        ):
            canvas.drawString(0, -100 - 14 * at, line)
        canvas.restoreState()
    canvas.save()
    blocks = blocks_of(path)
    assert text_of(blocks[0]) == " ".join(TEXT)
    assert sorted(text_of(block) for block in blocks[1:]) == [
        "This remark is read downwards, as its first line says, and has two lines and a point.",
        "This remark is read upwards, as its first line says, and has two lines and a point.",
    ]
    assert in_place(path, blocks)


def test_a_stamp_along_the_margin_is_one_uncertain_line(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    canvas = Canvas(str(path), pagesize=(WIDTH, HEIGHT))
    draw(canvas, 700, table=False)
    canvas.setFont("Helvetica", 20)
    canvas.translate(40, 250)
    canvas.rotate(90)
    canvas.drawString(0, 0, "arXiv:2301.00001v2  [cs.CL]  3 Jan 2023")
    canvas.save()
    blocks = blocks_of(path)
    assert [(text_of(block), block.confidence) for block in blocks] == [
        (" ".join(TEXT), 1), ("arXiv:2301.00001v2 [cs.CL] 3 Jan 2023", 0.5),
    ]  # fmt: skip
    assert blocks[1].metadata == {"orientation": "rotated"}


def test_text_askew_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    canvas = Canvas(str(path), pagesize=(WIDTH, HEIGHT))
    draw(canvas, 700, table=False)
    canvas.translate(200, 300)
    canvas.rotate(45)
    canvas.drawString(0, 0, "Specimen")
    canvas.save()
    assert [text_of(block) for block in blocks_of(path)] == [" ".join(TEXT), "Specimen"]
