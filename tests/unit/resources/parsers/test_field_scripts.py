"""Raised and lowered figures of PDF pages: class 7 of the field cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from resources.parsers.pdf.reader import parse
from tests.support.pdf_objects import pdf


def plain(text: str) -> bytes:
    return b"/F 10 Tf 0 Ts (%b) Tj " % text.encode("cp1252")


def up(text: str, size: float = 6.5, rise: float = 3.6) -> bytes:
    return b"/F %.1f Tf %.1f Ts (%b) Tj " % (size, rise, text.encode("cp1252"))


def down(text: str) -> bytes:
    return up(text, 6.5, -2)


def said(folder: Path, *parts: bytes, before: bytes = b"40 700 Td ") -> str:
    content = b"BT " + before + b"".join(parts) + b"ET "
    rest = b"BT /F 10 Tf 40 600 Td (The last line of this page is plain.) Tj ET"
    (folder / "a.pdf").write_bytes(pdf([content + rest]))
    blocks = parse(folder / "a.pdf").blocks
    return " ".join(run.text for block in blocks for run in block.runs).removesuffix(
        " The last line of this page is plain."
    )


SCRIPTS = {
    "a power": ([plain("There are 10"), up("6"), plain(" people")], "There are 10⁶ people"),
    "a long power": ([plain("up to 10"), up("12"), plain(" units")], "up to 10¹² units"),
    "a power below zero": ([plain("a rate of 10"), up("-6"), plain(" a year")], "a rate of 10⁻⁶ a year"),
    "a unit": ([plain("a room of 25 m"), up("2"), plain(" and 60 m"), up("3")], "a room of 25 m² and 60 m³"),
    "a substance": ([plain("H"), down("2"), plain("O and CO"), down("2"), plain(" in water")], "H₂O and CO₂ in water"),
    "a note after a word": ([plain("the second cut of hay."), up("1"), plain(" More")], "the second cut of hay.¹ More"),
    "a note after a quote": ([plain('she said "no"'), up("14"), plain(" and left")], 'she said "no"¹⁴ and left'),
    "a note after a sum": ([plain("a loss of 1,056"), up("2"), plain(" in all")], "a loss of 1,056² in all"),
    "a note after a year": ([plain("since 2019"), up("37"), plain(" it fell")], "since 2019³⁷ it fell"),
    "an isotope": ([plain("as Ca"), up("2+"), plain(" is taken up")], "as Ca²⁺ is taken up"),
}  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTS)
def test_raised_and_lowered_figures(tmp_path: Path, name: str) -> None:
    parts, wanted = SCRIPTS[name]
    assert said(tmp_path, *parts) == wanted


def test_sizes_given_by_the_matrix(tmp_path: Path) -> None:
    content = [b"/F 1 Tf 10 0 0 10 40 700 Tm (25 m) Tj 6 0 0 6 62.3 703.5 Tm (2) Tj 10 0 0 10 66 700 Tm (of floor) Tj "]
    assert said(tmp_path, *content, before=b"").replace(" ", "") == "25m²offloor"


PLAIN = {
    "small capitals": ([plain("the N"), up("ATO", 7.5, 0), plain(" and its 28")], "the NATO and its 28"),
    "small figures on the line": ([plain("Form A"), up("4", 7.5, 0), plain(" is filled in")], "Form A4 is filled in"),
    "a large first letter": ([up("A", 30, 0), plain("4 paper is used for this")], "A4 paper is used for this"),
    "a fraction": ([plain("a share of 1"), up("3"), plain("/"), down("4"), plain(" of it")], "a share of 13/4 of it"),
    "ordinals": ([plain("on the 21"), up("st"), plain(" of May")], "on the 21st of May"),
    "a larger rest of the page": ([plain("Part 1"), up("2", 10, 3), plain(" here")], "Part 12 here"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_plain_text_is_neither_raised_nor_lowered(tmp_path: Path, name: str) -> None:
    parts, wanted = PLAIN[name]
    assert said(tmp_path, *parts).replace(" ", "") == wanted.replace(" ", "")


def test_small_cells_beside_large_ones(tmp_path: Path) -> None:
    cells = b"BT /F 10 Tf 40 700 Td (Rent of a flat) Tj /F 7 Tf 160 2 Td (1 050) Tj 100 0 Td (2) Tj ET "
    (tmp_path / "a.pdf").write_bytes(pdf([cells]))
    text = " ".join(run.text for block in parse(tmp_path / "a.pdf").blocks for run in block.runs)
    assert text == "Rent of a flat 1 050 2"


def test_raised_figures_keep_the_ends_of_sentences_before_them(tmp_path: Path) -> None:
    content = [plain("It was sold. Hay of the second cut."), up("1"), plain(" More text follows here.")]
    said(tmp_path, *content)
    run = parse(tmp_path / "a.pdf").blocks[0].runs[0]
    assert run.text == "It was sold. Hay of the second cut.¹ More text follows here."
    assert [round(x) for x in run.gaps[0]] == [89, 94]
