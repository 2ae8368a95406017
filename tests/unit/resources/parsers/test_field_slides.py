"""PPTX as people have them: titles in plain boxes, columns and cards, signs and raised letters, hidden parts."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pptx
import pytest
from pptx.util import Inches, Pt

from pipelines.parsing.box_order import PlacedBox, in_reading_order
from resources.parsers.office import presentation as reader
from tests.support.documents import elements_of
from tests.support.places import DATA, needs_data

CASES = DATA / "field-cases"
Box = tuple[str, float, float, float, float]


def slide_of(deck: Any, *boxes: Box, bold: tuple[str, ...] = (), sizes: dict[str, int] | None = None) -> Any:
    """A blank slide with text boxes (text, left, top, width, height in inches)."""
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    for text, left, top, width, height in boxes:
        frame = slide.shapes.add_textbox(*map(Inches, (left, top, width, height))).text_frame
        for at, line in enumerate(text.split("|")):
            paragraph = frame.paragraphs[0] if not at else frame.add_paragraph()
            run = paragraph.add_run()
            run.text = line
            if line in bold:
                run.font.bold = True
            if sizes and line in sizes:
                run.font.size = Pt(sizes[line])
    return slide


def saved(deck: Any, folder: Path) -> Path:
    deck.save(str(folder / "deck.pptx"))
    return folder / "deck.pptx"


def found(deck: Any, folder: Path) -> list[tuple[str, int | None, str]]:
    return [(e.kind, e.level, e.text) for e in elements_of(saved(deck, folder))[1]]


def texts(deck: Any, folder: Path) -> list[str]:
    return [text for _, _, text in found(deck, folder)]


COLUMNS: list[Box] = [
    ("Comparison of plans", 1, 0.3, 8, 0.6),
    *((f"Left {at}", 0.5, 1.5 + 0.9 * at, 4, 0.6) for at in range(3)),
    *((f"Right {at}", 5.2, 1.5 + 0.9 * at, 4, 0.6) for at in range(3)),
]
READ = ["Comparison of plans", "Left 0", "Left 1", "Left 2", "Right 0", "Right 1", "Right 2"]

# ---------------------------------------------------------------- titles and headings


@needs_data("field-cases")
def test_the_deck_of_the_field() -> None:
    elements = elements_of(CASES / "k01-deck.pptx")[1]
    assert [(e.kind, e.level, e.text) for e in elements if e.page_start in (2, 5)] == [
        ("heading", 1, "Slide two big title"),
        ("heading", 2, "Alpha heading"),
        ("paragraph", None, "Bullets of Alpha: alpha one"),
        ("heading", 2, "Beta heading"),
        ("paragraph", None, "Bullets of Beta: beta one, beta two"),
        ("heading", 1, "Comparison of plans"),
        *(
            ("paragraph", None, f"{side} {what}")
            for side in ("Left", "Right")
            for what in ("heading", "fact one", "fact two")
        ),
    ]


ABOVE, BELOW = (1, 0.4, 6, 0.6), (1, 2, 6, 1)


@pytest.mark.parametrize(
    ("boxes", "bold", "sizes", "title"),
    [
        ([("Our plan", *ABOVE), ("We hire two people in May.", *BELOW)], ("Our plan",), None, "Our plan"),
        ([("Наш план", *ABOVE), ("У травні наймемо двох.", *BELOW)], (), {"Наш план": 32}, "Наш план"),
        ([("我们的计划", *ABOVE), ("五月招两个人。", *BELOW)], (), None, "我们的计划"),
        ([("Our plan", 4, 1, 4, 1), ("15 May", 0, 0, 2, 1), ("Below.", 1, 3, 6, 1)], (), {"Our plan": 40}, "Our plan"),
        ([("Thank you", 2, 2, 6, 1)], (), {"Thank you": 44}, "Thank you"),
        ([("Our plan for|next year", 1, 0.4, 6, 1), ("We hire two.", *BELOW)], (), None, "Our plan for next year"),
    ],
)
def test_a_box_on_top_is_the_title(
    tmp_path: Path, boxes: list[Box], bold: tuple[str, ...], sizes: dict[str, int] | None, title: str
) -> None:
    deck = pptx.Presentation()
    slide_of(deck, *boxes, bold=bold, sizes=sizes)
    assert [entry for entry in found(deck, tmp_path) if entry[0] == "heading"] == [("heading", 1, title)]


@pytest.mark.parametrize(
    "boxes",
    [
        [("This sentence is on top.", 1, 0.4, 6, 0.6), ("So is this, below it.", 1, 2, 6, 1)],
        [("Write to ann@club.example", 1, 0.4, 6, 0.6), ("Or call.", 1, 2, 6, 1)],
        [("In the middle", 1, 3.5, 6, 0.6), ("Below the middle.", 1, 5, 6, 1)],
        [("42 %", 1, 0.4, 6, 0.6), ("of all members came.", 1, 2, 6, 1)],
        [("One", 1, 0.4, 3, 0.6), ("Two", 5, 0.4, 3, 0.6), ("Three.", 1, 2, 6, 1)],
        [("Alone", 1, 0.4, 3, 0.6)],
    ],
)
def test_boxes_that_are_no_titles_stay_paragraphs(tmp_path: Path, boxes: list[Box]) -> None:
    deck = pptx.Presentation()
    slide_of(deck, *boxes)
    assert {kind for kind, *_ in found(deck, tmp_path)} == {"paragraph"}


def test_an_empty_title_placeholder_gives_way_to_a_box(tmp_path: Path) -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    for text, top in (("Our plan", 0.2), ("We hire two people in May.", 3)):
        slide.shapes.add_textbox(*map(Inches, (1, top, 6, 0.6))).text_frame.text = text
    assert found(deck, tmp_path) == [("heading", 1, "Our plan"), ("paragraph", None, "We hire two people in May.")]


def test_bold_lines_above_text_in_a_box_are_headings(tmp_path: Path) -> None:
    deck = pptx.Presentation()
    box = "Benefits|Less paper for all offices|Costs|Two people and a printer"
    slide_of(deck, ("Our plan", 1, 0.3, 6, 0.6), (box, 1, 2, 6, 3), bold=("Benefits", "Costs"))
    assert found(deck, tmp_path) == [
        ("heading", 1, "Our plan"),
        ("heading", 2, "Benefits"),
        ("paragraph", None, "Less paper for all offices"),
        ("heading", 2, "Costs"),
        ("paragraph", None, "Two people and a printer"),
    ]


# ---------------------------------------------------------------- order


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_columns_are_read_one_after_the_other_whatever_the_order_of_the_file(tmp_path: Path, seed: int | None) -> None:
    boxes = list(COLUMNS)
    if seed is not None:
        random.Random(seed).shuffle(boxes)
    deck = pptx.Presentation()
    slide_of(deck, *boxes)
    assert texts(deck, tmp_path) == READ


def test_columns_in_hebrew_are_read_from_the_right(tmp_path: Path) -> None:
    boxes: list[Box] = [("השוואת תוכניות", 1, 0.3, 8, 0.6)]
    boxes += [(f"שמאל {at}", 0.5, 1.5 + 0.9 * at, 4, 0.6) for at in range(2)]
    boxes += [(f"ימין {at}", 5.2, 1.5 + 0.9 * at, 4, 0.6) for at in range(2)]
    deck = pptx.Presentation()
    slide_of(deck, *boxes)
    assert texts(deck, tmp_path) == ["השוואת תוכניות", "ימין 0", "ימין 1", "שמאל 0", "שמאל 1"]


def test_lines_that_run_down_are_read_from_the_right(tmp_path: Path) -> None:
    deck = pptx.Presentation()
    slide = slide_of(deck, ("左の文。", 1, 1, 1, 5), ("中の文。", 4, 1, 1, 5), ("右の文。", 7, 1, 1, 5))
    for shape in slide.shapes:
        shape.text_frame._txBody.bodyPr.set("vert", "eaVert")
    assert texts(deck, tmp_path) == ["右の文。", "中の文。", "左の文。"]


def test_cards_of_a_number_and_its_label_stay_together(tmp_path: Path) -> None:
    boxes: list[Box] = [("Our year", 0.5, 0.3, 8, 0.6)]
    boxes += [(f"{at} %", 0.5 + 3 * at, 1.5, 2.5, 0.8) for at in range(3)]
    boxes += [(f"of group {at}", 0.5 + 3 * at, 2.4, 2.5, 0.6) for at in range(3)]
    deck = pptx.Presentation()
    slide_of(deck, *boxes)
    assert texts(deck, tmp_path) == ["Our year", "0 %", "of group 0", "1 %", "of group 1", "2 %", "of group 2"]


def test_a_group_stays_together(tmp_path: Path) -> None:
    deck = pptx.Presentation()
    slide = slide_of(deck, ("Our year", 0.5, 0.3, 8, 0.6), ("Between them", 3.5, 2, 2, 0.6))
    for left, name in ((6, "right"), (0.5, "left")):
        group = slide.shapes.add_group_shape()
        for at in (1, 0):
            box = group.shapes.add_textbox(*map(Inches, (left, 1.5 + at, 2.5, 0.6)))
            box.text_frame.text = f"{name} {at}"
    assert texts(deck, tmp_path) == ["Our year", "left 0", "left 1", "Between them", "right 0", "right 1"]


def order(*boxes: Box, from_right: bool = False) -> str:
    placed = [PlacedBox(name, at, x, y, x + wide, y + tall) for at, (name, x, y, wide, tall) in enumerate(boxes)]
    return " ".join(box.item for box in in_reading_order(placed, from_right))


def test_boxes_in_their_order() -> None:
    cards = [
        (f"{kind}{row}{column}", 5.0 + 30 * column, (10.0 if kind == "n" else 21.0) + 30 * row, 25.0, 9.0)
        for row in range(2) for column in range(3) for kind in "nl"
    ]  # fmt: skip
    assert order(*cards) == order(*cards[::-1]) == "n00 l00 n01 l01 n02 l02 n10 l10 n11 l11 n12 l12"
    fields = [("S", 0.0, 10.0, 40.0, 30.0), ("W", 45.0, 10.0, 40.0, 30.0), ("O", 0.0, 45.0, 40.0, 30.0)]
    assert order(*fields, ("T", 45, 45, 40, 30)) == "S W O T"
    pairs = [
        (name, x, 10.0 + 15 * row, wide, 8.0)
        for row in range(3)
        for name, x, wide in ((f"{row}", 0, 5), (f"t{row}", 8, 60))
    ]
    assert order(*pairs) == order(*pairs[::-1]) == "0 t0 1 t1 2 t2"
    parts = [(name, 0.0, top, 30.0, 4.0) for name, top in (("A", 10.0), ("B", 45.0))]
    parts += [(f"{row}{at}", 30.0 * at, top, 25.0, 20.0) for row, top in (("a", 15.0), ("b", 50.0)) for at in range(3)]
    assert order(*parts) == "A a0 a1 a2 B b0 b1 b2"
    ragged = [
        ("l1", 0, 10, 40, 10),
        ("r1", 45, 10, 40, 10),
        ("l2", 0, 22, 40, 10),
        ("l3", 0, 34, 40, 10),
        ("r3", 45, 34, 40, 10),
    ]
    assert order(*ragged) == "l1 l2 l3 r1 r3"
    uneven = [("l1", 0, 15, 40, 10), ("l2", 0, 40, 40, 10)]
    uneven += [(f"r{top}", 50, top, 40, 6) for top in (15, 26, 42)]
    assert order(*uneven) == "l1 l2 r15 r26 r42"
    centred = [("title", 33, 3, 25, 4), ("l1", 15, 14, 16, 4), ("l2", 15, 22, 16, 4), ("r1", 57, 14, 18, 4)]
    assert order(*centred, ("r2", 57, 22, 18, 4), ("end", 20, 60, 50, 4)) == "title l1 l2 r1 r2 end"
    assert order(("behind", 0, 0, 100, 75), ("r", 50, 20, 40, 5), ("l", 5, 20, 40, 5)) == "behind l r"
    assert order(("a", 0, 0, 10, 10), ("b", 4, 4, 10, 10), ("c", 8, 8, 10, 10)) == "a b c"
    assert order() == "" and order(("only", 0, 0, 0, 0), ("next", 0, 0, 0, 0)) == "only next"


def test_many_boxes_take_little_time() -> None:
    boxes = [(f"{at}", float(at % 97), float(at % 89), 3.0, 3.0) for at in range(3000)]
    assert sorted(order(*boxes).split(), key=int) == [str(at) for at in range(3000)]
    assert len(order(*boxes[:399]).split()) == 399


# ---------------------------------------------------------------- letters


def set_runs(box: Any, *runs: tuple[str, str]) -> None:
    names = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    paragraph = box.text_frame.paragraphs[0]._p
    for text, properties in runs:
        paragraph.append(pptx.oxml.parse_xml(f"<a:r {names}>{properties}<a:t>{text}</a:t></a:r>"))


@pytest.mark.parametrize(
    ("runs", "right"),
    [
        ([("10", ""), ("6", '<a:rPr baseline="30000"/>'), (" parts", "")], "10⁶ parts"),
        ([("H", ""), ("2", '<a:rPr baseline="-25000"/>'), ("O", "")], "H₂O"),
        ([("10", ""), ("-", '<a:rPr baseline="30000"/>'), ("3", '<a:rPr baseline="30000"/>')], "10⁻³"),
        ([("1", ""), ("st", '<a:rPr baseline="30%"/>'), (" May", "")], "1st May"),
        ([("a", '<a:rPr><a:latin typeface="Symbol"/></a:rPr>'), (" is small", "")], "α is small"),
        ([("ü", '<a:rPr><a:latin typeface="Wingdings"/></a:rPr>'), (" done", "")], "✓ done"),
        ([("In ", ""), ("à", '<a:rPr><a:sym typeface="Wingdings"/></a:rPr>'), (" out", "")], "In → out"),
        ([("Café \uf0e0 bar", '<a:rPr><a:sym typeface="Wingdings"/></a:rPr>')], "Café → bar"),
        ([("One_x000D_ two _x000B_three", "")], "One two three"),
    ],
)
def test_letters_that_stand_for_something(tmp_path: Path, runs: list[tuple[str, str]], right: str) -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    set_runs(slide.shapes.add_textbox(*map(Inches, (1, 4, 6, 1))), *runs)
    table = slide.shapes.add_table(1, 2, *map(Inches, (1, 6, 6, 1))).table
    set_runs(table.cell(0, 0), *runs)
    table.cell(0, 1).text = "x"
    assert texts(deck, tmp_path) == [right, f"{right}\tx"]


def test_bullets_that_are_check_marks_are_text(tmp_path: Path) -> None:
    deck = pptx.Presentation()
    slide = slide_of(deck, ("Paper|Plastic|Glass", 1, 4, 6, 2))
    names = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    for paragraph, char in zip(slide.shapes[0].text_frame.paragraphs, "üû§", strict=True):
        for tag in (f'<a:buFont {names} typeface="Wingdings"/>', f'<a:buChar {names} char="{char}"/>'):
            paragraph._p.get_or_add_pPr().append(pptx.oxml.parse_xml(tag))
    assert found(deck, tmp_path) == [
        ("list_item", 1, "✓ Paper"),
        ("list_item", 1, "✗ Plastic"),
        ("list_item", 1, "Glass"),
    ]


def test_larger_lines_above_text_are_headings(tmp_path: Path) -> None:
    deck = pptx.Presentation()
    slide_of(
        deck,
        *(("Our plan", 1, 0.3, 6, 0.6), ("Benefits", 0.5, 1.5, 4, 0.5), ("Less paper for all", 0.5, 2.1, 4, 1)),
        *(("42 %", 5, 1.5, 4, 0.5), ("of all members came", 5, 2.1, 4, 1)),
        sizes={"Our plan": 40, "Benefits": 28, "42 %": 28},
    )
    assert [level for kind, level, _ in found(deck, tmp_path) if kind == "heading"] == [1, 2]
    assert texts(deck, tmp_path) == ["Our plan", "Benefits", "Less paper for all", "42 %", "of all members came"]


def test_letters_below_each_other_are_a_word(tmp_path: Path) -> None:
    deck = pptx.Presentation()
    slide_of(deck, ("P|L|A|N", 0.5, 3, 0.5, 3), ("Text beside it, not a word.", 2, 3, 5, 1))
    assert texts(deck, tmp_path) == ["PLAN", "Text beside it, not a word."]


# ---------------------------------------------------------------- hidden slides and shapes


def hide(shape: Any) -> None:
    shape._element.find("*/{*}cNvPr").set("hidden", "1")


def test_hidden_slides_are_left_out_and_counted_or_read_and_marked(tmp_path: Path) -> None:
    deck = pptx.Presentation()
    for text in ("Shown first", "Secret", "Shown last"):
        slide = slide_of(deck, (text, 1, 4, 6, 1))
        slide.notes_slide.notes_text_frame.text = f"Note to {text}"
    deck.slides[1]._element.set("show", "0")
    path = saved(deck, tmp_path)
    left = reader.parse(path)
    assert left.warnings == ("hidden in the file, and left out: 1 slide; `parsing.hidden: read` takes them",)
    assert left.pages == 3 and "Secret" not in repr(left.blocks)
    assert left.blocks[-1].runs[0].locator == "slide 3"
    taken = reader.parse(path, hidden=True)
    assert taken.warnings == ("hidden in the file, and read: 1 slide",)
    assert [block.metadata.get("hidden") for block in taken.blocks] == [None, None, "true", "true", None, None]


@pytest.mark.parametrize("grouped", [False, True])
def test_hidden_shapes_are_left_out_and_counted_or_read_and_marked(tmp_path: Path, grouped: bool) -> None:
    deck = pptx.Presentation()
    slide = slide_of(deck, ("Shown.", 1, 4, 6, 1))
    holder = slide.shapes.add_group_shape() if grouped else slide
    box = holder.shapes.add_textbox(*map(Inches, (1, 5.5, 6, 1)))
    box.text_frame.text = "Secret."
    hide(holder if grouped else box)
    empty = slide.shapes.add_textbox(*map(Inches, (1, 6.5, 6, 1)))
    hide(empty)
    path = saved(deck, tmp_path)
    left = reader.parse(path)
    assert left.warnings == ("hidden in the file, and left out: 1 shape; `parsing.hidden: read` takes them",)
    assert [block.runs[0].text for block in left.blocks] == ["Shown."]
    taken = reader.parse(path, hidden=True)
    assert [(block.runs[0].text, block.metadata) for block in taken.blocks] == [
        ("Shown.", {}),
        ("Secret.", {"hidden": "true"}),
    ]


def test_boxes_beside_a_slide_are_hidden(tmp_path: Path) -> None:
    deck = pptx.Presentation()
    slide_of(
        deck, ("Shown.", 1, 4, 6, 1), ("Left of it.", -7, 1, 6, 1), ("Below it.", 1, 8, 6, 1), ("Half.", 9, 5, 6, 1)
    )
    path = saved(deck, tmp_path)
    left = reader.parse(path)
    assert left.warnings == ("hidden in the file, and left out: 2 shapes; `parsing.hidden: read` takes them",)
    assert [block.runs[0].text for block in left.blocks] == ["Shown.", "Half."]
    marked = [block.runs[0].text for block in reader.parse(path, hidden=True).blocks if block.metadata]
    assert sorted(marked) == ["Below it.", "Left of it."]


def test_active_controls_are_told(tmp_path: Path) -> None:
    deck = pptx.Presentation()
    slide = slide_of(deck, ("Shown.", 1, 4, 6, 1))
    names = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
    slide._element.cSld.append(pptx.oxml.parse_xml(f'<p:controls {names}><p:control name="Box1"/></p:controls>'))
    assert reader.parse(saved(deck, tmp_path)).warnings == ("the values of 1 ActiveX control were not read",)


def test_a_hidden_title_is_no_title(tmp_path: Path) -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[5])
    slide.shapes.title.text = "Secret plan"
    hide(slide.shapes.title)
    slide.shapes.add_textbox(*map(Inches, (1, 4, 6, 1))).text_frame.text = "Shown."
    assert found(deck, tmp_path) == [("paragraph", None, "Shown.")]
