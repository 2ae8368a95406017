"""Monospaced fonts by their widths; text in fonts without a Unicode map."""

from __future__ import annotations

import pytest

from pipelines.parsing.pdf.layout import blocks_of
from pipelines.parsing.pdf.page import PdfItem, PdfPage, is_readable, monospaced_fonts

CODE = [
    "SELECT name FROM users",
    "WHERE id = 'abc'",
    "ORDER BY name",
    "iiii",
    "MMMM",
    "END",
    "CASE WHEN",
    "illi",
    "WWWW",
]


def set_in(font: str, texts: list[str], width: dict[str, float]) -> list[PdfItem]:
    """Lines whose letters have the widths given, in points at size 10."""
    return [
        PdfItem(text, 60, 100 + 14 * at, 60 + sum(width.get(c, 5.0) for c in text), 110 + 14 * at, 10, font=font)
        for at, text in enumerate(texts)
    ]


PROPORTIONAL = {**dict.fromkeys("iltfr'", 2.5), **dict.fromkeys("MWOmw", 8.0)}


def test_widths_tell_a_monospaced_font() -> None:
    even, uneven = set_in("Gothic", CODE, {}), set_in("Roman", CODE, PROPORTIONAL)
    assert monospaced_fonts([PdfPage(1, 600, 800, (*even, *uneven))]) == {"Gothic"}


def test_numbers_alone_do_not() -> None:
    """Figures have one width in most fonts."""
    assert not monospaced_fonts([PdfPage(1, 600, 800, tuple(set_in("Roman", ["1234", "5678", "90.12"] * 5, {})))])


def test_lines_in_a_monospaced_font_are_code() -> None:
    prose = [
        PdfItem(
            f"Running text number {n} of this page goes on and on for a while.", 60, 300 + 14 * n, 400, 310 + 14 * n, 10
        )
        for n in range(12)
    ]
    blocks = blocks_of([PdfPage(1, 600, 800, (*set_in("Gothic", CODE, {}), *prose))])[0]
    assert blocks[0].kind == "code" and [run.text for run in blocks[0].runs] == CODE


@pytest.mark.parametrize(
    "text",
    [
        "The quick brown fox jumps over it",
        "Строк зберігання журналів становить дев’яносто днів",
        "-",
        "fi fl ffi",
        "",
        "المادة الأولى من القانون",
        "第一条 为了规范",
        "NASDAQ HSBC KPMG plc 2024 and more words here",
    ],
)
def test_readable(text: str) -> None:
    assert is_readable(text)


@pytest.mark.parametrize(
    "text",
    ["\x04\x05\x06\x07 \x03\x06", "7KHTXLFN EURZQIR MXPSV RYHUWKH GRJDQG WKHQ", "\ue001\ue002\ue003", "\ufffd\ufffd a"],
)
def test_unreadable(text: str) -> None:
    assert not is_readable(text)
