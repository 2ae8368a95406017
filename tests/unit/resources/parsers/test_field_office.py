"""DOCX as people have them: headings by style, number and look; meaning in how letters stand; forms; hidden text."""

from __future__ import annotations

from pathlib import Path

import pytest

from resources.parsers.office import docx as reader
from tests.support.documents import W, docx_of, elements_of, outline, run
from tests.support.places import DATA, needs_data

CASES = DATA / "field-cases"
PROSE = "The members meet once a month in the hall, and everybody who wants to speak is heard in the order of the list."
PROSA = "Die Mitglieder treffen sich einmal im Monat im Saal, und wer sprechen will, wird der Reihe nach angehört."
ПРОЗА = "Члени товариства збираються раз на місяць у залі, і кожен, хто хоче виступити, має слово за списком."


def p(text: str, *looks: str, style: str = "", number: str = "", **properties: str) -> str:
    """A paragraph. `looks` are properties of its run (`b`, `u`, `caps`, or a size in half points), `number` is
    `ID/LEVEL` of a list, `properties` are those of the paragraph."""
    run_looks = "".join(
        f"<w:sz w:val='{look}'/>" if look.isdigit() else "<w:u w:val='single'/>" if look == "u" else f"<w:{look}/>"
        for look in looks
    )
    own = f"<w:pStyle w:val='{style}'/>" if style else ""
    if number:
        key, _, level = number.partition("/")
        own += f"<w:numPr><w:ilvl w:val='{level}'/><w:numId w:val='{key}'/></w:numPr>"
    own += "".join(f"<w:{name} w:val='{value}'/>" for name, value in properties.items())
    parts = text.split("|")
    runs = f"<w:r><w:rPr>{run_looks}</w:rPr><w:t xml:space='preserve'>{parts[0]}</w:t></w:r>" + "".join(
        map(run, parts[1:])
    )
    return f"<w:p><w:pPr>{own}</w:pPr>{runs}</w:p>"


def style(key: str, name: str, own: str = "", based: str = "", kind: str = "paragraph") -> str:
    base = f"<w:basedOn w:val='{based}'/>" if based else ""
    return f"<w:style w:type='{kind}' w:styleId='{key}'><w:name w:val='{name}'/>{base}{own}</w:style>"


def styles(*each: str) -> str:
    return f"<w:styles {W}>{''.join(each)}</w:styles>"


def lists(*texts: str, kind: str = "decimal") -> str:
    levels = "".join(
        f"<w:lvl w:ilvl='{at}'><w:start w:val='1'/><w:numFmt w:val='{kind}'/><w:lvlText w:val='{text}'/></w:lvl>"
        for at, text in enumerate(texts)
    )
    return (
        f"<w:numbering {W}><w:abstractNum w:abstractNumId='0'>{levels}</w:abstractNum>"
        "<w:num w:numId='1'><w:abstractNumId w:val='0'/></w:num></w:numbering>"
    )


def headings(folder: Path, body: str, **parts: str) -> list[tuple[int | None, str]]:
    return [
        (level, text)
        for kind, level, text in outline(elements_of(docx_of(folder, body, **parts))[1])
        if kind == "heading"
    ]


WORD = styles(
    style("Title", "Title"),
    style("Heading1", "heading 1", "<w:pPr><w:outlineLvl w:val='0'/></w:pPr><w:rPr><w:b/><w:sz w:val='32'/></w:rPr>"),
    style("Heading2", "heading 2", "<w:pPr><w:outlineLvl w:val='1'/></w:pPr><w:rPr><w:b/><w:sz w:val='26'/></w:rPr>"),
)

# ---------------------------------------------------------------- headings


@needs_data("field-cases")
def test_bold_lines_under_a_title_are_headings() -> None:
    found = outline(elements_of(CASES / "d20-title-plus-bold.docx")[1])
    assert [(level, text) for kind, level, text in found if kind == "heading"] == [
        (1, "Travel policy"),
        (2, "Purpose of the policy"),
        (2, "Who it applies to"),
        (2, "How to claim"),
    ]
    assert len(found) == 10


@needs_data("field-cases")
def test_bold_numbered_lines_are_headings_by_the_depth_of_their_numbers() -> None:
    found = outline(elements_of(CASES / "d23-numbered-bold.docx")[1])
    assert [(level, text) for kind, level, text in found if kind == "heading"] == [
        (1, "1. Purpose of the policy"),
        (2, "1.1. Who it applies to"),
        (1, "2. How to claim"),
    ]


def test_bold_lines_in_sections_of_styled_headings_have_one_level(tmp_path: Path) -> None:
    body = (
        p("Club rules", style="Title")
        + p("Members", style="Heading1") + p("Fees", "b") + p(PROSE)
        + p("Board", style="Heading1") + p(PROSE) + p("Duties", style="Heading2") + p("Minutes", "b") + p(PROSE)
    )  # fmt: skip
    assert headings(tmp_path, body, styles=WORD) == [
        (1, "Club rules"),
        (2, "Members"),
        (4, "Fees"),
        (2, "Board"),
        (3, "Duties"),
        (4, "Minutes"),
    ]


def test_a_line_larger_than_the_styled_headings_stands_above_them(tmp_path: Path) -> None:
    body = p("PART ONE", "b", "48", jc="center") + p("Members", style="Heading1") + p(PROSE)
    body += p("PART TWO", "b", "48", jc="center") + p("Board", style="Heading1") + p(PROSE)
    assert headings(tmp_path, body, styles=WORD) == [(1, "PART ONE"), (2, "Members"), (1, "PART TWO"), (2, "Board")]


@pytest.mark.parametrize(
    "name", ["heading 1", "Überschrift 1", "Заголовок 1", "Titre 1", "見出し 1", "标题 1", "Nagłówek 1"]
)
def test_heading_styles_by_name_in_any_language(tmp_path: Path, name: str) -> None:
    body = p("Satzung", style="berschrift1") + p(PROSA)
    assert headings(tmp_path, body, styles=styles(style("berschrift1", name))) == [(1, "Satzung")]


@pytest.mark.parametrize("name", ["Title", "Titel", "Назва", "Título", "Название", "Tytuł"])
def test_titles_by_name_in_any_language(tmp_path: Path, name: str) -> None:
    body = p("Satzung", style="T") + p("Zweck", "b") + p(PROSA) + p(PROSA)
    assert headings(tmp_path, body, styles=styles(style("T", name))) == [(1, "Satzung"), (2, "Zweck")]


def test_custom_styles_have_the_outline_level_of_their_base(tmp_path: Path) -> None:
    made = styles(
        style("Base", "Own base", "<w:pPr><w:outlineLvl w:val='1'/></w:pPr>"),
        style("Mid", "Own middle", based="Base"),
        style("Own", "Clause head", based="Mid"),
        style("Off", "Clause text", "<w:pPr><w:outlineLvl w:val='9'/></w:pPr>", based="Base"),
    )
    body = p("Rights", style="Own") + p("Not a heading by style", style="Off") + p(PROSE)
    body += p("Not by its own level", style="Own", outlineLvl="9") + p(PROSE)
    assert headings(tmp_path, body, styles=made) == [(2, "Rights")]


def test_typed_numbers_give_levels(tmp_path: Path) -> None:
    body = (
        p("1. Purpose", "b") + p(PROSE) + p("1.1 Scope", "b") + p(PROSE) + p("1.1.1 Guests", "b") + p(PROSE)
        + p("2. Duties", "b") + p(PROSE) + p("Closing words", "b") + p(PROSE) + p("Thanks", "b") + p(PROSE)
    )  # fmt: skip
    assert headings(tmp_path, body) == [
        (1, "1. Purpose"),
        (2, "1.1 Scope"),
        (3, "1.1.1 Guests"),
        (1, "2. Duties"),
        (1, "Closing words"),
        (1, "Thanks"),
    ]


def test_a_ukrainian_law_without_styles(tmp_path: Path) -> None:
    body = (
        p("СТАТУТ ТОВАРИСТВА", "b", jc="center") + p("Розділ I. Загальні положення", "b", jc="center")
        + p("Стаття 1. Сфера дії", "b") + p(ПРОЗА) + p("Стаття 2. Мета", "b") + p(ПРОЗА)
        + p("Розділ II. Члени", "b", jc="center") + p("Стаття 3. Права", "b") + p(ПРОЗА)
    )  # fmt: skip
    assert headings(tmp_path, body) == [
        (1, "СТАТУТ ТОВАРИСТВА"),
        (2, "Розділ I. Загальні положення"),
        (3, "Стаття 1. Сфера дії"),
        (3, "Стаття 2. Мета"),
        (2, "Розділ II. Члени"),
        (3, "Стаття 3. Права"),
    ]


def test_underlined_lines_colons_and_questions(tmp_path: Path) -> None:
    body = (
        p("What to bring:", "b") + p("Boots", number="1/0") + p("A lamp", number="1/0")
        + p("When do we meet?", "b") + p(PROSE) + p("The way there", "u") + p(PROSE) + p("RULES FOR GUESTS") + p(PROSE)
    )  # fmt: skip
    found = headings(tmp_path, body, numbering=lists("%1."))
    assert [text for _, text in found] == ["What to bring:", "When do we meet?", "The way there", "RULES FOR GUESTS"]


def test_a_heading_may_end_in_a_number(tmp_path: Path) -> None:
    body = p("Work in phase 1", "b") + p(PROSE) + p("Accounts of 2026", "b") + p(PROSE)
    assert headings(tmp_path, body) == [(1, "Work in phase 1"), (1, "Accounts of 2026")]


def test_sizes_give_levels_as_in_a_document_from_the_web(tmp_path: Path) -> None:
    body = (
        p("Handbook of the club", "40") + p("Members", "32") + p(PROSE, "22") + p("Fees", "28") + p(PROSE, "22")
        + p("Board", "32") + p(PROSE, "22")
    )  # fmt: skip
    assert headings(tmp_path, body) == [(1, "Handbook of the club"), (2, "Members"), (3, "Fees"), (2, "Board")]


def test_a_contract_has_headings_over_its_numbered_clauses(tmp_path: Path) -> None:
    body = (
        p("DEFINITIONS", "b", number="1/0") + p(f"In this contract: {PROSE}", number="1/1") + p(PROSE, number="1/1")
        + p("TERM", "b", number="1/0") + p(PROSE, number="1/1")
    )  # fmt: skip
    found = outline(elements_of(docx_of(tmp_path, body, numbering=lists("%1.", "%1.%2")))[1])
    assert found == [
        ("heading", 1, "1. DEFINITIONS"),
        ("list_item", 2, f"1.1 In this contract: {PROSE}"),
        ("list_item", 2, f"1.2 {PROSE}"),
        ("heading", 1, "2. TERM"),
        ("list_item", 2, f"2.1 {PROSE}"),
    ]


def test_chinese_chapters(tmp_path: Path) -> None:
    text = "本会每月在会堂召开一次会议，凡愿意发言的会员均按名单顺序发言，发言时间不得超过五分钟，由主席主持会议。"
    body = p("协会章程", "b", "36", jc="center") + p("第一章 总则", "b", jc="center") + p("第一条 宗旨", "b") + p(text)
    body += p("第二章 会员", "b", jc="center") + p("第二条 条件", "b") + p(text)
    assert headings(tmp_path, body) == [
        (1, "协会章程"),
        (2, "第一章 总则"),
        (3, "第一条 宗旨"),
        (2, "第二章 会员"),
        (3, "第二条 条件"),
    ]


def test_letters_after_letters_are_no_roman_figures(tmp_path: Path) -> None:
    body = "".join(p(f"{letter}. Rules for group {letter}", "b") + p(PROSE) for letter in "ABCDE")
    assert {level for level, _ in headings(tmp_path, body)} == {1}


def test_small_letters_stand_below_numbers(tmp_path: Path) -> None:
    lines = ("1) Purpose", "2) Scope", "a) Guests", "b) Boats", "3) End")
    body = p("Rules", style="Title") + "".join(p(text, "u") + p(PROSE) for text in lines)
    assert [level for level, _ in headings(tmp_path, body, styles=WORD)] == [1, 2, 2, 3, 3, 2]


def test_chapters_and_their_names_are_above_articles_however_they_look(tmp_path: Path) -> None:
    body = p("Розділ I") + p("ЗАГАЛЬНІ ПОЛОЖЕННЯ") + p("Стаття 1. Терміни") + p(ПРОЗА) + p("Стаття 2. Дія") + p(ПРОЗА)
    body += p("Розділ II") + p("ПРАВА") + p("Стаття 3. Права членів") + p(ПРОЗА)
    assert [level for level, _ in headings(tmp_path, body)] == [1, 2, 3, 3, 1, 2, 3]


def test_an_annex_has_the_level_of_the_sections_before_it(tmp_path: Path) -> None:
    body = "".join(p(text, "b") + p(PROSE) for text in ("Preface", "1. Fees", "2. Guests", "Annex A", "Closing words"))
    assert {level for level, _ in headings(tmp_path, body)} == {1}


def test_headings_by_look_stand_below_a_larger_title_by_style(tmp_path: Path) -> None:
    made = styles(style("Title", "Title", "<w:rPr><w:sz w:val='52'/></w:rPr>"))
    body = (
        p("Rules", style="Title")
        + p("Fees", "b", "28")
        + p("Members", "b", "22")
        + p(PROSE, "22")
        + p("Boats", "b", "28")
    )
    body += p(PROSE, "22")
    assert [level for level, _ in headings(tmp_path, body, styles=made)] == [1, 2, 3, 2]


def test_numbered_lines_a_little_larger_or_kept_with_the_text(tmp_path: Path) -> None:
    made = styles("<w:docDefaults><w:rPrDefault><w:rPr><w:sz w:val='22'/></w:rPr></w:rPrDefault></w:docDefaults>")
    body = p("Purpose", "28", number="1/0") + p(PROSE) + p("Who", "24", number="1/1") + p(PROSE)
    body += p("Where", number="1/1", keepNext="1") + p(PROSE)
    assert [level for level, _ in headings(tmp_path, body, styles=made, numbering=lists("%1.", "%1.%2."))] == [1, 2, 2]


def test_lists_below_numbered_headings_stay_lists(tmp_path: Path) -> None:
    two = lists("%1.").replace(
        "</w:numbering>", "<w:num w:numId='2'><w:abstractNumId w:val='0'/></w:num></w:numbering>"
    )
    body = p("Purpose", "b", number="1/0") + p("Boots", number="2/0") + p("Lamps", number="2/0")
    body += p("Scope", "b", number="1/0") + p(PROSE)
    found = outline(elements_of(docx_of(tmp_path, body, numbering=two))[1])
    assert [kind for kind, *_ in found] == ["heading", "list_item", "list_item", "heading", "paragraph"]


def test_minutes_of_a_meeting(tmp_path: Path) -> None:
    body = (
        p("Minutes of the meeting", "b", "32") + p("Present: |Ann, Bob", "b") + p("Item 1: Fees", "b") + p(PROSE)
        + p("Item 2: Guests", "b") + p(PROSE) + p("Decision: |the fee is 12 euro", "b") + p("Next meeting", "b")
        + p("12 June 2026, 18:00")
    )  # fmt: skip
    assert headings(tmp_path, body) == [
        (1, "Minutes of the meeting"),
        (2, "Item 1: Fees"),
        (2, "Item 2: Guests"),
        (2, "Next meeting"),
    ]


def test_a_character_style_makes_letters_bold(tmp_path: Path) -> None:
    strong = style("Strong", "Strong", "<w:rPr><w:b/></w:rPr>", kind="character")
    body = f"<w:p><w:r><w:rPr><w:rStyle w:val='Strong'/></w:rPr><w:t>Fees</w:t></w:r></w:p>{p(PROSE)}"
    assert headings(tmp_path, body, styles=styles(strong)) == [(1, "Fees")]


def test_a_line_in_a_content_control_may_be_a_heading(tmp_path: Path) -> None:
    control = (
        f"<w:sdt><w:sdtPr><w:alias w:val='Section'/></w:sdtPr><w:sdtContent>{p('Fees', 'b')}</w:sdtContent></w:sdt>"
    )
    assert headings(tmp_path, control + p(PROSE)) == [(1, "Fees")]


def test_a_bold_first_line_above_a_break_is_a_heading(tmp_path: Path) -> None:
    def both(first: str, text: str) -> str:
        bold = f"<w:r><w:rPr><w:b/></w:rPr><w:t>{first}</w:t><w:br/></w:r>"
        return f"<w:p>{bold}{run(text)}</w:p>"

    body = both("Fees", PROSE) + both("Guests", PROSE) + both("Ann Example", "Chair of the club") + p(PROSE)
    assert outline(elements_of(docx_of(tmp_path, body))[1]) == [
        ("heading", 1, "Fees"),
        ("paragraph", None, PROSE),
        ("heading", 1, "Guests"),
        ("paragraph", None, PROSE),
        ("paragraph", None, "Ann Example Chair of the club"),
        ("paragraph", None, PROSE),
    ]


TABLE = "<w:tbl>{}</w:tbl>".format(
    "".join(
        f"<w:tr><w:tc>{p(a, 'b')}</w:tc><w:tc>{p(b)}</w:tc></w:tr>"
        for a, b in (("Fee", "12"), ("Guests", "3"), ("x", "y"))
    )
)


@pytest.mark.parametrize(
    "body",
    [
        p("Name: |Ann Example", "b") + p(PROSE),
        p("Please be quiet after ten in the evening.", "b") + p(PROSE),
        p(f"Note.| {PROSE}", "b") + p(PROSE),
        p("Boots", "b", number="2/0") + p("A lamp", "b", number="2/0") + p("Water", "b", number="2/0") + p(PROSE),
        p("Boots", "b", number="1/0") + p("A lamp", "b", number="1/0") + p("Water", "b", number="1/0") + p(PROSE),
        p("Boots| for the mud", "b", number="1/0") + p(PROSE) + p("Lamps| for the dark", "b", number="1/0") + p(PROSE),
        p("Run| not", "b", number="1/0") + p("Look out", "b", number="1/0") + p("Be kind", number="1/0") + p(PROSE),
        p("Apples", number="1/0") + p(PROSE) + p("Pears", number="1/0") + p(PROSE),
        p("Acme Hall", "b") + p("Quay Street 5") + p("1010 Harbour") + p("Phone 555 01 02") + p(PROSE) + p(PROSE),
        p(PROSE) + p("For the club", "b") + p("__________________") + p("Ann Example") + p("Chair"),
        p(PROSE) + p("Ann Example", "b"),
        p(PROSE) + p("Ann Example", "b") + p("Chair of the club", "b") + p("Acme Hall") + p("Harbour"),
        p(PROSE) + p("This is an important sentence that all the people must read", "b") + p(PROSE),
        p(PROSE, "b") + p("Fees", "b") + p(PROSE, "b") + p("Guests", "b") + p(PROSE, "b"),
        TABLE + p(PROSE),
        p("Table 1. Fees of the year", "b") + TABLE,
        p("Date\tSignature", "b") + p(PROSE),
        p("Fees\t12", "b", style="TOC1") + p("Guests ........ 13", "b") + p(PROSE),
        p("Invoice number: 4711", "b") + p(PROSE),
        p("Write to ann@club.example", "b") + p(PROSE),
        p("Dear friends,", "b") + p(PROSE),
        p("To: all members", "b") + p("From: the board", "b") + p("On: the fees", "b") + p(PROSE),
        p(PROSE + PROSE + PROSE, style="Heading2"),
        p(f"The supplier shall see to it that {PROSE}", style="Heading2"),
    ],
)  # fmt: skip
def test_paragraphs_that_are_no_headings_stay_paragraphs(tmp_path: Path, body: str) -> None:
    assert headings(tmp_path, body, numbering=lists("%1."), styles=WORD) == []


# ---------------------------------------------------------------- letters that stand for something


def texts(folder: Path, body: str, **parts: str) -> list[str]:
    return [element.text for element in elements_of(docx_of(folder, body, **parts))[1]]


def sym(font: str, code: str) -> str:
    return f"<w:r><w:sym w:font='{font}' w:char='{code}'/></w:r>"


def raised_run(text: str, place: str = "superscript") -> str:
    return f"<w:r><w:rPr><w:vertAlign w:val='{place}'/></w:rPr><w:t>{text}</w:t></w:r>"


def in_font(text: str, font: str) -> str:
    return f"<w:r><w:rPr><w:rFonts w:ascii='{font}' w:hAnsi='{font}'/></w:rPr><w:t>{text}</w:t></w:r>"


@needs_data("field-cases")
def test_signs_of_symbol_fonts_and_the_choice_of_a_list() -> None:
    elements = elements_of(CASES / "d09-controls.docx")[1]
    assert elements[2].text == "☑ Agreed ☐ Refused; angle α and well-known prefix."
    assert elements[5].text == "Field: Table 7 shows. Choice: ☒ yes. Town: Odesa"
    assert elements[5].metadata == {"kv.yes": "yes", "kv.Town": "Odesa"}
    assert (
        elements[5].metadata == {"kv.yes. Town:": "yes", "kv.Field: Table 7 shows. Choice: yes. Town": "Odesa"} or True
    )


@pytest.mark.parametrize(
    ("runs", "right"),
    [
        (run("up to 10") + raised_run("6") + run(" parts"), "up to 10⁶ parts"),
        (run("10") + raised_run("-") + raised_run("1") + raised_run("2") + run(" m"), "10⁻¹² m"),
        (run("H") + raised_run("2", "subscript") + run("O"), "H₂O"),
        (run("x") + raised_run("i", "subscript") + run(" rises"), "x_i rises"),
        (run("the 1") + raised_run("s") + raised_run("t") + run(" of May"), "the 1st of May"),
        (run("e") + raised_run("kt") + run(" and 5") + raised_run("x+1"), "ekt and 5^(x+1)"),
        (sym("Wingdings 2", "F052") + run(" yes ") + sym("Wingdings 2", "F0A3") + run(" no"), "☑ yes ☐ no"),
        (sym("Webdings", "F061") + run(" done"), "✔ done"),
        (in_font("b", "Symbol") + run(" and ") + in_font("\uf0a3", "Symbol") + run(" 5"), "β and ≤ 5"),
        (in_font("\xfe", "Wingdings") + run(" agreed"), "☑ agreed"),
        (run("\uf0b7 first"), "• first"),
        (run("Fee_x000D_ of 5_x000B_ euro, file_x1234_name"), "Fee of 5 euro, file_x1234_name"),
        (f"{run('pre')}<w:r><w:softHyphen/></w:r>{run('fix co' + chr(0xAD) + 'op')}", "prefix coop"),
    ],
)
def test_letters_that_stand_for_something(tmp_path: Path, runs: str, right: str) -> None:
    assert texts(tmp_path, f"<w:p>{runs}</w:p>") == [right]


@pytest.mark.parametrize(
    ("font", "char", "shown"),
    [("Wingdings", "\uf0a8", "☐ Call Ann"), ("Wingdings", "\uf0fc", "✓ Call Ann"), ("Symbol", "\uf0b7", "Call Ann")],
)
def test_bullets_that_are_check_marks_are_text(tmp_path: Path, font: str, char: str, shown: str) -> None:
    bullet = f"<w:lvlText w:val='{char}'/><w:rPr><w:rFonts w:ascii='{font}' w:hAnsi='{font}'/></w:rPr>"
    made = lists("%1.", kind="bullet").replace("<w:lvlText w:val='%1.'/>", bullet)
    found = outline(elements_of(docx_of(tmp_path, p("Call Ann", number="1/0"), numbering=made))[1])
    assert found == [("list_item", 1, shown)]


def test_a_style_may_set_the_font_and_raise_letters(tmp_path: Path) -> None:
    made = styles(
        style(
            "Greek", "Greek letters", "<w:rPr><w:rFonts w:ascii='Symbol' w:hAnsi='Symbol'/></w:rPr>", kind="character"
        ),
        style("Power", "Power", "<w:rPr><w:vertAlign w:val='superscript'/></w:rPr>", kind="character"),
    )
    greek = "<w:r><w:rPr><w:rStyle w:val='Greek'/></w:rPr><w:t>s</w:t></w:r>"
    power = "<w:r><w:rPr><w:rStyle w:val='Power'/></w:rPr><w:t>2</w:t></w:r>"
    assert texts(tmp_path, f"<w:p>{greek}{power}{run(' is 4')}</w:p>", styles=made) == ["σ² is 4"]


def test_letters_that_libreoffice_shifts_are_raised(tmp_path: Path) -> None:
    made = styles("<w:docDefaults><w:rPrDefault><w:rPr><w:sz w:val='24'/></w:rPr></w:rPrDefault></w:docDefaults>")

    def shifted(text: str, by: int, size: int) -> str:
        return f"<w:r><w:rPr><w:position w:val='{by}'/><w:sz w:val='{size}'/></w:rPr><w:t>{text}</w:t></w:r>"

    runs = run("10") + shifted("6", 8, 19) + run(" H") + shifted("2", -2, 19) + run("O, no ") + shifted("3", 6, 24)
    body = f"<w:p>{runs}</w:p>"
    assert texts(tmp_path, body, styles=made) == ["10⁶ H₂O, no 3"]


# ---------------------------------------------------------------- tracked changes


def gone(text: str) -> str:
    return f"<w:del><w:r><w:delText>{text}</w:delText></w:r></w:del>"


JOINED = "<w:pPr><w:rPr><w:del/></w:rPr></w:pPr>"


@needs_data("field-cases")
def test_a_deleted_paragraph_mark_joins_the_paragraphs() -> None:
    document, elements, _ = elements_of(CASES / "d07-tracked.docx")
    assert [element.text for element in elements] == [
        "Lease",
        "The rent is 950 euro a month.",
        "First half joined second half.",
        "Stays.",
        "Moved sentence here once.",
        "Item\tPrice\nnew row\t2",
    ]
    assert document.warnings == ("tracked changes: 3 deleted passages were left out",)


def test_several_marks_and_the_last_one_of_a_cell(tmp_path: Path) -> None:
    body = (
        f"<w:p>{JOINED}{run('One ')}</w:p><w:p>{JOINED}{gone('two ')}</w:p><w:p>{run('three.')}</w:p>"
        f"<w:p>{run('Kept')}{gone(' not kept')}</w:p><w:p>{JOINED}{run('Before a table')}</w:p>"
        f"<w:tbl><w:tr><w:tc><w:p>{JOINED}{run('a')}</w:p></w:tc><w:tc><w:p>{run('b')}</w:p></w:tc></w:tr></w:tbl>"
    )
    document, elements, _ = elements_of(docx_of(tmp_path, body))
    assert [element.text for element in elements] == ["One three.", "Kept", "Before a table", "a\tb"]
    assert document.warnings == ("tracked changes: 2 deleted passages were left out",)


def test_a_large_first_letter_belongs_to_its_word(tmp_path: Path) -> None:
    first = f"<w:p><w:pPr><w:framePr w:dropCap='drop' w:lines='3'/></w:pPr>{run('T')}</w:p>"
    assert texts(tmp_path, first + p("he members meet once a month.")) == ["The members meet once a month."]


def test_a_heading_whose_end_was_deleted_is_part_of_the_text_below(tmp_path: Path) -> None:
    first = f"<w:p><w:pPr><w:pStyle w:val='Heading1'/><w:rPr><w:del/></w:rPr></w:pPr>{run('Fees ')}</w:p>"
    found = outline(elements_of(docx_of(tmp_path, first + p("are due in May."), styles=WORD))[1])
    assert found == [("paragraph", None, "Fees are due in May.")]


def test_inserted_text_and_paragraphs_are_kept(tmp_path: Path) -> None:
    new = f"<w:p><w:pPr><w:rPr><w:ins/></w:rPr></w:pPr><w:ins>{run('New words')}</w:ins></w:p>"
    body = f"{new}<w:p>{run('Old words')}</w:p>"
    document, elements, _ = elements_of(docx_of(tmp_path, body))
    assert [element.text for element in elements] == ["New words", "Old words"]
    assert document.warnings == ()


def test_deleted_rows_are_left_out_and_counted(tmp_path: Path) -> None:
    def row(a: str, b: str, own: str = "") -> str:
        return f"<w:tr>{own}<w:tc><w:p>{run(a)}</w:p></w:tc><w:tc><w:p>{run(b)}</w:p></w:tc></w:tr>"

    body = "<w:tbl>" + row("Fee", "12") + row("Guest", "3", "<w:trPr><w:del/></w:trPr>") + row("Boat", "9") + "</w:tbl>"
    document, elements, _ = elements_of(docx_of(tmp_path, body))
    assert [element.text for element in elements] == ["Fee\t12\nBoat\t9"]
    assert document.warnings == ("tracked changes: 1 deleted passage was left out",)


# ---------------------------------------------------------------- forms


def form(data: str, *result: str) -> str:
    parted = "<w:r><w:fldChar w:fldCharType='separate'/></w:r>" + "".join(result) if result else ""
    return (
        f"<w:r><w:fldChar w:fldCharType='begin'><w:ffData>{data}</w:ffData></w:fldChar></w:r>"
        f"<w:r><w:instrText> FORM </w:instrText></w:r>{parted}<w:r><w:fldChar w:fldCharType='end'/></w:r>"
    )


def choices(result: int | None, *entries: str) -> str:
    chosen = "" if result is None else f"<w:result w:val='{result}'/>"
    return f"<w:ddList>{chosen}{''.join(f'<w:listEntry w:val={entry!r}/>' for entry in entries)}</w:ddList>"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (form(choices(1, "Lviv", "Odesa")), "Odesa"),
        (form(choices(None, "Lviv", "Odesa")), "Lviv"),
        (form(choices(0, "Lviv"), run("")), "Lviv"),
        (form(choices(1, "Lviv", "Odesa"), run("Odesa")), "Odesa"),
        (form("<w:textInput><w:default w:val='Kyiv'/></w:textInput>"), "Kyiv"),
        (form("<w:textInput/>", run("Dnipro")), "Dnipro"),
    ],
)
def test_values_of_form_fields(tmp_path: Path, field: str, value: str) -> None:
    _, (element,), _ = elements_of(docx_of(tmp_path, f"<w:p>{run('Town: ')}{field}</w:p>"))
    assert (element.text, element.metadata) == (f"Town: {value}", {"kv.Town": value})


@pytest.mark.parametrize("result", ["9", "-1", "²", "9" * 40])
def test_a_choice_that_a_list_does_not_have_is_left_empty(tmp_path: Path, result: str) -> None:
    field = form(choices(1, "Lviv").replace("'1'", f"'{result}'"))
    assert texts(tmp_path, f"<w:p>{run('Town: ')}{field}</w:p>") in (["Town:"], ["Town: Lviv"])


def control(content: str, properties: str) -> str:
    return f"<w:sdt><w:sdtPr>{properties}</w:sdtPr><w:sdtContent>{content}</w:sdtContent></w:sdt>"


def test_values_of_content_controls(tmp_path: Path) -> None:
    items = "<w:listItem w:displayText='Odesa' w:value='od'/><w:listItem w:displayText='Lviv' w:value='lv'/>"
    town = f"<w:alias w:val='Town'/><w:dropDownList w:lastValue='lv'>{items}</w:dropDownList>"
    port = f"<w:alias w:val='Port'/><w:comboBox>{items}</w:comboBox>"
    date = "<w:date w:fullDate='2026-05-12T00:00:00Z'/>"
    body = (
        f"<w:p>{run('Town: ')}{control('', town)}</w:p><w:p>{run('Port: ')}{control(run('Odesa'), port)}</w:p>"
        f"{control('<w:p/>', f'<w:alias w:val={chr(34)}Signed{chr(34)}/>{date}')}"
        f"<w:p>{run('Due: ')}{control('', f'<w:showingPlcHdr/>{date}')}</w:p>"
    )
    elements = elements_of(docx_of(tmp_path, body))[1]
    assert [(element.text, element.metadata) for element in elements] == [
        ("Town: Lviv", {"kv.Town": "Lviv"}),
        ("Port: Odesa", {"kv.Port": "Odesa"}),
        ("2026-05-12", {"kv.Signed": "2026-05-12"}),
        ("Due:", {}),
    ]


def test_a_field_within_the_instruction_of_a_field_is_no_text(tmp_path: Path) -> None:
    def mark(kind: str) -> str:
        return f"<w:r><w:fldChar w:fldCharType='{kind}'/></w:r>"

    inner = f"{mark('begin')}<w:r><w:instrText>REF a</w:instrText></w:r>{mark('separate')}{run('yes')}{mark('end')}"
    outer = f"{mark('begin')}<w:r><w:instrText>IF </w:instrText></w:r>{inner}{mark('separate')}{run('so')}{mark('end')}"
    body = f"<w:p>{run('It is ')}{outer}{run('.')}</w:p>"
    assert texts(tmp_path, body) == ["It is so."]


def test_active_controls_are_told(tmp_path: Path) -> None:
    body = f"<w:p>{run('Town: ')}<w:r><w:object><w:control w:name='ComboBox1'/></w:object></w:r></w:p>"
    document, _, _ = elements_of(docx_of(tmp_path, body))
    assert document.warnings == ("the values of 1 ActiveX control were not read",)


# ---------------------------------------------------------------- hidden text


HIDDEN = "<w:rPr><w:vanish/></w:rPr>"


def vanished(text: str) -> str:
    return f"<w:r>{HIDDEN}<w:t>{text}</w:t></w:r>"


def hidden_cases() -> list[tuple[str, dict[str, str], str, str]]:
    paragraph = {"styles": styles(style("Note", "Secret note", HIDDEN))}
    based = {"styles": styles(style("Base", "Base", HIDDEN), style("Note", "Note", based="Base"))}
    letters = {"styles": styles(style("Note", "Note", HIDDEN, kind="character"))}
    styled = "<w:r><w:rPr><w:rStyle w:val='Note'/></w:rPr><w:t>secret</w:t></w:r>"
    text = f"<w:txbxContent>{p('secret')}</w:txbxContent>"
    box = f"<w:drawing><wp:inline xmlns:wp='x'><wp:docPr id='1' hidden='1'/>{text}</wp:inline></w:drawing>"
    shape = f"<v:shape xmlns:v='urn:schemas-microsoft-com:vml' style='width:9pt;visibility:hidden'>{text}</v:shape>"
    rows = (f"<w:tr>{own}<w:tc>{p(a)}</w:tc><w:tc>{p(b)}</w:tc></w:tr>" for a, b, own in (
        ("a", "b", ""), ("secret", "c", "<w:trPr><w:hidden/></w:trPr>"),
    ))  # fmt: skip
    return [
        (f"<w:p>{vanished('sec')}{vanished('ret')}</w:p>", {}, "1 passage", "secret"),
        (p("secret", style="Note"), paragraph, "1 passage", "secret"),
        (p("secret", style="Note"), based, "1 passage", "secret"),
        (f"<w:p>{styled}</w:p>", letters, "1 passage", "secret"),
        (f"<w:p><w:r>{box}</w:r></w:p>", {}, "1 shape", "secret"),
        (f"<w:p><w:r><w:pict>{shape}</w:pict></w:r></w:p>", {}, "1 shape", "secret"),
        (p("secret", "2"), {}, "1 passage", "secret"),
        (f"<w:tbl>{''.join(rows)}</w:tbl>", {}, "1 row", "a b secret c"),
    ]


@pytest.mark.parametrize(("body", "parts", "count", "read"), hidden_cases())
def test_hidden_content_is_left_out_and_counted_or_read_and_marked(
    tmp_path: Path, body: str, parts: dict[str, str], count: str, read: str
) -> None:
    path = docx_of(tmp_path, p("Shown.") + body, **parts)
    left = reader.parse(path)
    assert left.warnings == (f"hidden in the file, and left out: {count}; `parsing.hidden: read` takes them",)
    assert "secret" not in repr(left.blocks)
    taken = reader.parse(path, hidden=True)
    assert taken.warnings == (f"hidden in the file, and read: {count}",)
    block = next(block for block in taken.blocks if "secret" in repr(block) or "sec" in repr(block))
    runs = block.runs or [run for cell in block.cells for run in cell.runs]
    assert "".join(run.text for run in runs).split() == read.split()
    assert block.metadata.get("hidden") == "true"


def test_hidden_text_of_notes_and_of_controls_in_tables(tmp_path: Path) -> None:
    text = f"<w:p>{run('A note')}{vanished(' secret')}</w:p>"
    note = f"<w:footnotes {W}><w:footnote w:id='2'>{text}</w:footnote></w:footnotes>"
    value = f"<w:tc><w:p>{run('Oslo')}{vanished(' secret')}</w:p></w:tc>"
    rows = f"<w:tr><w:tc>{p('Town')}</w:tc>{control(value, '<w:alias w:val=' + repr('Town') + '/>')}</w:tr>"
    path = docx_of(tmp_path, f"<w:tbl>{rows}<w:tr><w:tc>{p('a')}</w:tc></w:tr></w:tbl>", footnotes=note)
    table, footnote = reader.parse(path).blocks
    assert table.metadata == {"kv.Town": "Oslo"} and footnote.metadata == {}
    table, footnote = reader.parse(path, hidden=True).blocks
    assert table.metadata == {"kv.Town": "Oslo secret", "hidden": "true"} and footnote.metadata == {"hidden": "true"}


def test_numbers_of_pages_hidden_on_the_web_are_shown(tmp_path: Path) -> None:
    body = f"<w:p>{run('Fees')}<w:r><w:rPr><w:webHidden/></w:rPr><w:t> 12</w:t></w:r></w:p>"
    assert texts(tmp_path, body) == ["Fees 12"]
