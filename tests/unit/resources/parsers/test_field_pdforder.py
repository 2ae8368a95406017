"""Field cases of PDF: reading order, turned text, and headings by looks."""

from __future__ import annotations

from pathlib import Path

from pipelines.records import Block
from resources.parsers.pdf.reader import parse
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
