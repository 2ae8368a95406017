"""Letters of pages whose meaning is in a style: raised and lowered by a rule, and signs by their font."""

from __future__ import annotations

import pytest

from pipelines.records import Block, ParsedFile
from resources.parsers import html


def texts(source: str) -> list[str]:
    return [_text(block) for block in _parsed(source).blocks]


def _parsed(source: str) -> ParsedFile:
    return html.parse_source(source, "page.html")


def _text(block: Block) -> str:
    runs = [run for cell in block.cells for run in cell.runs] if block.cells else block.runs
    return " ".join("".join(run.text for run in runs).split())


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('10<span style="vertical-align: super">−9</span> m', "10⁻⁹ m"),
        ('CO<span style="font-size:70%;vertical-align:sub">2</span>', "CO₂"),
        ("<style>.c2{font-size:6pt;vertical-align:super}</style>Fläche 5 m<span class=c2>2</span>", "Fläche 5 m²"),
        ('площа 5 м<font style="vertical-align:super"><b>3</b></font>', "площа 5 м³"),
        ('x<span style="vertical-align:sub">i</span> ≤ 3', "x_i ≤ 3"),
        ('21<span style="vertical-align:super">st</span> of May', "21st of May"),
        ('10<sup>6<span style="display:none">9</span></sup> Pa', "10⁶ Pa"),
        ("10<sup><b>6</b><del>7</del></sup> Pa", "10⁶ Pa"),
        ('10<span style="vertical-align:baseline">6</span>', "106"),
    ],
)
def test_letters_that_a_style_raises_or_lowers(source: str, text: str) -> None:
    assert texts(f"<p>{source}</p>") == [text]
    assert texts(f"<table><tr><td>{source}</td><td>a</td></tr></table>") == [f"{text} a"]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("Danke <span style='font-family:Wingdings'>J</span>!", "Danke ☺!"),
        ('ja <span style="font-family:&quot;Wingdings&quot;,sans-serif">&#252;</span>', "ja ✓"),
        ("<span style='font-family:Symbol'>&#61537;</span> = 5 %", "α = 5 %"),
        ('<font face="Symbol">b<b>g</b>d</font> rays', "βγδ rays"),
        ("<span style='font-family:Symbol'>a<span style='font:7.0pt \"Times New Roman\"'>&nbsp;a</span></span>", "α a"),
        ("<style>.s{font-family:Wingdings}</style><span class=s>&uuml;</span> так", "✓ так"),
        ("<span style='font-family:\"Segoe UI\",Symbol'>a</span>", "a"),
        ("<span style='font-family:\"Segoe UI Symbol\"'>a</span>", "a"),
        ("<span style='font-family:Symbol'>&nbsp;b</span>", "β"),
    ],
)
def test_signs_by_their_font(source: str, text: str) -> None:
    assert texts(f"<p>{source}</p>") == [text]
    assert texts(f"<table><tr><td>{source}</td><td>z</td></tr></table>") == [f"{text} z"]


def test_signs_keep_their_places() -> None:
    source = "<p>Ja <span style='font-family:Wingdings'>J</span> gut</p>"
    runs = [run for run in _parsed(source).blocks[0].runs if run.source_start is not None]
    assert [(run.text.strip(), source[run.source_start : run.source_end]) for run in runs] == [
        *(("Ja", "Ja"), ("☺", "J"), ("gut", "gut")),
    ]


def test_the_bullets_of_a_list_that_word_saved() -> None:
    item = (
        "<p class=MsoListParagraph style='mso-list:l0 level1 lfo1'><![if !supportLists]><span "
        "style='font-family:{}'>{}<span style='font:7.0pt \"Times New Roman\"'>&nbsp;&nbsp; </span></span>"
        "<![endif]>{}</p>"
    )
    marks = (("Symbol", "·"), ("Wingdings", "§"), ("Wingdings", "v"), ("Wingdings", "q"), ("Wingdings", "Ø"))
    source = "".join(item.format(font, mark, f"Punkt {mark}") for font, mark in marks)
    blocks = _parsed(source).blocks
    assert [(block.kind, block.marker, _text(block)) for block in blocks] == [
        ("list_item", "•", f"Punkt {mark}") for _, mark in marks
    ]
