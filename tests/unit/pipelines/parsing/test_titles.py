"""Titles of documents: the cover or a heading, never the name of a part, and told from others like it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.parsing.elements import build_elements
from pipelines.parsing.titles import (
    _JUNK,
    heads_a_section,
    names_a_kind,
    names_a_part,
    with_file_name,
    without_file_name,
)
from pipelines.records import Block, BlockCell, Box, ParsedFile, RawDocument, TextRun
from tests.support.documents import elements_of, pdf_of
from tests.support.matching_steps import Matcher
from tests.support.pattern_attacks import steps

RAW = RawDocument("d", "s", "folder/gold.docx", "h", 10, "application/x", None, None, None, None, (), {})
SHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def title_of(*blocks: Block, uri: str = "folder/gold.docx", declared: str = "", media: str = "x") -> tuple[str, bool]:
    raw = replace(RAW, uri=uri, media_type=media)
    document, _ = build_elements(raw, ParsedFile(blocks, {"title": declared}, 3, (), "test"), lambda text: "xx")
    return document.title, document.title_is_file_name


def head(text: str, level: int = 1) -> Block:
    return Block("heading", (TextRun(text),), level)


def para(text: str) -> Block:
    return Block("paragraph", (TextRun(text),))


def line(text: str, top: float, size: float, kind: str = "paragraph", page: int = 1) -> Block:
    box = Box(page, 50, top, 50 + size * len(text) / 2, top + size)
    return Block(kind, (TextRun(text, box),), 1 if kind == "heading" else None)


TABLE = Block("table", cells=tuple(BlockCell(0, at, (TextRun(text),)) for at, text in enumerate(("Item", "Price"))))
PROSE = "Each employee may ask for the money that was spent on sports, and gets it within a month of the request."


# ---------------------------------------------------------------- names of parts


@pytest.mark.parametrize(
    "text",
    [
        "Overview",
        "INTRODUCTION",
        "1. Introduction",
        "2 Summary",
        "IV. Conclusions",
        "Summary of Benefits",
        "Table of Contents",
        "Header",
        "Sheet1",
        "Page 1 of 10",
        "Part II",
        "Notes & Definitions",
        "Зміст",
        "ПЕРЕДМОВА",
        "Аркуш1",
        "Übersicht",
        "Inhaltsverzeichnis",
        "Résumé",
        "TABLE DES MATIÈRES",
        "Feuil2",
        "Índice",
        "Introducción",
        "Spis treści",
        "Wstęp",
        "Sommario",
        "Foglio 3",
        "目录",
        "はじめに",
        "14 February 2020",
    ],
)
def test_the_name_of_a_part_is_no_title(text: str) -> None:
    assert names_a_part(text)
    assert title_of(head(text), para(PROSE)) == ("gold", True)


@pytest.mark.parametrize(
    "text",
    [
        "A Title",
        "Introduction to Algorithms",
        "Summary of the Chornobyl reports",
        "Part-time work in Bavaria",
        "Overview of roles at Contoso",
        "Пам’ятка для вступників",
        "Handbuch der Mitarbeiter",
        "Contents insurance",
    ],
)
def test_a_title_may_hold_the_name_of_a_part(text: str) -> None:
    assert not names_a_part(text)
    assert title_of(head(text), para(PROSE)) == (text, False)


@pytest.mark.parametrize(
    "text", ["1.1 Traffic data", "3) Terms", "§ 5 Urlaub", "Chapter 1 Terms", "Розділ 2. Відпустки", "第一章 总则"]
)
def test_the_heading_of_a_section_is_no_title(text: str) -> None:
    assert heads_a_section(text)
    assert title_of(head(text), para(PROSE), head("Eligibility"), para(PROSE)) == ("gold", True)


@pytest.mark.parametrize("text", ["2023 in figures", "24 hours in Kyiv", "Part-time work", "Section heads at work"])
def test_a_number_alone_makes_no_section(text: str) -> None:
    assert not heads_a_section(text)


def test_headings_beside_a_part_are_parts_too() -> None:
    assert title_of(head("Overview"), para(PROSE), head("Gym fees"), para(PROSE)) == ("gold", True)


def test_a_part_without_text_gives_way_to_the_heading_below_it() -> None:
    assert title_of(head("Contents"), head("Gym fees in Kyiv"), para(PROSE)) == ("Gym fees in Kyiv", False)


# ---------------------------------------------------------------- declared titles


@pytest.mark.parametrize(
    "declared",
    ["10811.exe", "0001628280-17-001754", "Overview", "untitled", "Sheet1", "T", "cover.indd", "Зміст", "Folie 1"],
)
def test_a_useless_property_gives_way_to_the_heading(declared: str) -> None:
    assert title_of(head("Gym fees in Kyiv"), para(PROSE), declared=declared) == ("Gym fees in Kyiv", False)


@pytest.mark.parametrize("declared", ["Dense retrieval", "Amazon.com, Inc.", "Положення про відпустки"])
def test_a_property_that_says_something_is_the_title(declared: str) -> None:
    assert title_of(head("Gym fees in Kyiv"), para(PROSE), declared=declared) == (declared, False)


def test_a_mail_has_its_subject_whatever_it_says() -> None:
    found = title_of(para(PROSE), declared="Minutes", media="message/rfc822", uri="inbox/0001-2024.eml")
    assert found == ("Minutes", False)


# ---------------------------------------------------------------- covers of PDF files


PDF = {"media": "application/pdf", "uri": "gold.pdf"}


def test_a_cover_of_short_lines_names_the_document() -> None:
    cover = [line("Contoso Electronics", 180, 36), line("Northwind Health Plus Plan", 240, 24)]
    later = [line("Summary of Benefits", 60, 20, "heading", 3), line(PROSE, 100, 11, page=3)]
    found = title_of(*cover, line("April 2024", 700, 9), *later, **PDF)
    assert found == ("Contoso Electronics – Northwind Health Plus Plan", False)


def test_the_largest_text_of_a_full_page_is_the_title() -> None:
    page = [
        line("Table of Contents", 20, 9, "heading"),
        line("UNITED STATES", 40, 14, "heading"),
        line("FORM 10-K", 60, 14, "heading"),
        line("For the fiscal year ended June 30, 2016", 80, 10),
        line("OR", 90, 30, "heading"),
        line("MICROSOFT CORPORATION", 120, 20, "heading"),
        *(line(PROSE, 150 + 20 * at, 10) for at in range(8)),
    ]
    assert title_of(*page, **PDF) == ("MICROSOFT CORPORATION", False)


def test_the_kind_of_document_is_skipped_among_equal_lines() -> None:
    page = [line("FORM 10-Q", 60, 14), line("Mark one", 80, 9), line("NVIDIA CORPORATION", 120, 14)]
    assert title_of(*page, *(line(PROSE, 200 + 20 * at, 9) for at in range(8)), **PDF)[0] == "NVIDIA CORPORATION"


def test_lines_as_large_further_down_a_page_of_labels_belong_to_the_title() -> None:
    page = [
        line("UNITED STATES", 40, 17, "heading"),
        line("SECURITIES AND EXCHANGE COMMISSION", 60, 17, "heading"),
        line("Washington, D.C. 20549", 80, 10),
        line("SQUARE, INC.", 120, 17, "heading"),
        *(line(PROSE, 150 + 20 * at, 9) for at in range(8)),
        line("Gym fees", 400, 17, "heading"),
    ]
    assert title_of(*page, **PDF)[0] == "UNITED STATES – SECURITIES AND EXCHANGE COMMISSION – SQUARE, INC."


def test_a_sentence_is_never_a_title_however_large() -> None:
    page = [line(PROSE, 40, 30), *(line(PROSE, 100 + 20 * at, 10) for at in range(8))]
    assert title_of(*page, **PDF) == ("gold", True)


def test_letters_of_a_negative_height_make_no_cover() -> None:
    turned = Block("heading", (TextRun("Lamps", Box(1, 0, 9, 50, 1)),), level=1)
    assert title_of(turned, uri="gold.pdf", media="application/pdf") == ("Lamps", False)


def test_text_of_one_size_has_no_cover() -> None:
    page = [line("Gym fees", 40, 10), *(line(PROSE, 100 + 20 * at, 10) for at in range(8))]
    assert title_of(*page, **PDF) == ("gold", True)


def test_text_below_the_first_section_is_no_cover() -> None:
    page = [
        line("1. Scope", 40, 18, "heading"),
        line("Key", 80, 16),
        *(line(PROSE, 100 + 20 * at, 10) for at in range(8)),
    ]
    assert title_of(*page, **PDF) == ("gold", True)


def test_a_heading_below_a_page_of_prose_is_no_title() -> None:
    prose = [line(PROSE, 40 + 20 * at, 10) for at in range(8)]
    assert title_of(*prose, line("Sales by segment", 40, 14, "heading", 2), **PDF) == ("gold", True)
    scan = Block("figure", (TextRun("", Box(1, 0, 0, 500, 700)),))
    assert title_of(scan, line("Sales by segment", 40, 14, "heading", 2), line(PROSE, 80, 10, page=2), **PDF) == (
        "Sales by segment",
        False,
    )


def test_the_cover_of_a_made_file(tmp_path: Path) -> None:
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(tmp_path / "gold.pdf"), pagesize=(595, 842))
    for size, top, text in ((32, 640, "Hotel Dnipro"), (22, 590, "House rules for guests")):
        canvas.setFont("Helvetica-Bold", size)
        canvas.drawString(72, top, text)
    canvas.showPage()
    canvas.setFont("Helvetica-Bold", 18)
    canvas.drawString(72, 770, "Overview")
    canvas.setFont("Helvetica", 10)
    for at in range(20):
        canvas.drawString(72, 740 - 14 * at, "Guests leave their keys at the desk and pay for what they took.")
    canvas.save()
    assert elements_of(tmp_path / "gold.pdf")[0].title == "Hotel Dnipro – House rules for guests"


def test_a_plain_file_is_called_by_its_name(tmp_path: Path) -> None:
    path = pdf_of(
        tmp_path / "gold.pdf", [[(72, 700 - 14 * at, "guests leave their keys here, and") for at in range(9)]]
    )
    assert elements_of(path)[0].title_is_file_name


# ---------------------------------------------------------------- texts and sheets


def test_the_line_above_the_first_part_of_a_text_is_its_title() -> None:
    found = title_of(para("Lift Yourself Up with Memory"), para("Xin Cheng"), head("1 Introduction", 2), para(PROSE))
    assert found == ("Lift Yourself Up with Memory (gold)", False)
    found = title_of(para("Contoso"), para("Travel rules"), head("Overview"), para(PROSE))
    assert found == ("Contoso – Travel rules (gold)", False)


def test_a_greeting_or_a_note_is_no_title() -> None:
    assert title_of(para("Dear all,"), head("Overview"), para(PROSE)) == ("gold", True)
    assert title_of(para("Buy milk and bread"), para("Call Ann")) == ("gold", True)


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ((head("Sheet1"), TABLE), ("gold", True)),
        ((head("Header"), TABLE), ("gold", True)),
        ((head("Prices of hay"), TABLE), ("Prices of hay", False)),
        ((head("Sheet1"), para("Prices of hay in Galicia"), TABLE), ("Prices of hay in Galicia", False)),
        ((head("Prices"), TABLE, head("Costs"), TABLE), ("Prices", False)),
    ],
)
def test_a_workbook_has_its_title_row_or_the_name_of_its_sheet(
    blocks: tuple[Block, ...], expected: tuple[str, bool]
) -> None:
    assert title_of(*blocks, media=SHEET) == expected


# ---------------------------------------------------------------- titles that others are likely to have


@pytest.mark.parametrize(
    "text",
    [
        "Report",
        "Annual Report",
        "Form 10-K",
        "Employee Handbook",
        "Overview of Benefits",
        "Benefits details",
        "Geschäftsbericht",
        "Річний звіт",
    ],
)
def test_a_kind_of_document_is_told_by_the_name_of_its_file(text: str) -> None:
    assert names_a_kind(text)
    assert title_of(head(text), para(PROSE), uri="a/mills.docx") == (f"{text} (mills)", False)


@pytest.mark.parametrize("text", ["Travel policy", "First", "Handbook of goats", "Lease of the mill", "Договір оренди"])
def test_a_title_with_a_subject_stays_alone(text: str) -> None:
    assert not names_a_kind(text)
    assert title_of(head(text), para(PROSE), uri="a/doc-17.docx") == (text, False)


@pytest.mark.parametrize(
    ("title", "uri", "expected"),
    [
        ("Apple Inc.", "2022 Q3 AAPL.pdf", "Apple Inc. (2022 Q3 AAPL)"),
        ("Benefits of Contoso", "benefits-2024.docx", "Benefits of Contoso (benefits-2024)"),
        ("Benefits of Contoso 2024", "benefits-2024.docx", "Benefits of Contoso 2024"),
        ("Rules of the house", "rules_v2.pdf", "Rules of the house (rules_v2)"),
        ("Rules of the house", "67bfbcbe3cfd8f845785a8664b9b73b6b4751d72.pdf", "Rules of the house"),
        ("Employee handbook", "employee_handbook.pdf", "Employee handbook"),
    ],
)
def test_the_year_or_version_of_a_file_joins_a_title_without_it(title: str, uri: str, expected: str) -> None:
    assert with_file_name(title, uri) == expected
    assert without_file_name(expected, uri) == title


def test_a_title_that_its_author_declared_needs_no_year() -> None:
    assert title_of(para(PROSE), declared="Travel rules", uri="rules-2024.docx") == ("Travel rules", False)
    assert title_of(para(PROSE), declared="Report", uri="mill-2024.docx") == ("Report (mill-2024)", False)


def test_a_map_beside_nothing_has_the_name_of_its_file() -> None:
    assert title_of(head("Lease"), para(PROSE), uri="lease.elements.json") == ("Lease", False)


def test_a_title_stays_short_whatever_the_name_of_its_file() -> None:
    long = with_file_name("Report " * 60, f"{'name-' * 50}2024.pdf")
    assert len(long) <= 300


# ---------------------------------------------------------------- other languages


@pytest.mark.parametrize(
    "text",
    [
        "Εισαγωγή",
        "1. Σκοπός",
        "İçindekiler",
        "GİRİŞ",
        "מבוא",
        "תוכן עניינים",
        "مقدمة",
        "قائمة المحتويات",
        "บทนำ",
        "สารบัญ",
        "소개",
        "제1장 총칙",
        "总结",
        "表紙",
        "Innehållsförteckning",
        "Johdanto",
        "Bevezetés",
        "Introducere",
        "Въведение",
        "Mục lục",
    ],
)
def test_names_of_parts_in_other_languages(text: str) -> None:
    assert names_a_part(text) or heads_a_section(text)


@pytest.mark.parametrize(
    "text",
    [
        "Κανονισμός αδειών",
        "İzin yönetmeliği",
        "נוהל חופשה",
        "نظام الإجازات",
        "ข้อบังคับการทำงาน",
        "휴가 규정",
        "休假管理办法",
    ],
)
def test_names_of_documents_in_other_languages(text: str) -> None:
    assert not names_a_part(text)


@pytest.mark.parametrize(
    "declared",
    [
        "Презентация PowerPoint",
        "PowerPoint-Präsentation",
        "Présentation PowerPoint",
        "PowerPoint Sunusu",
        "מצגת של PowerPoint",
        "PowerPoint 演示文稿",
        "Unbenanntes Dokument",
        "Dokument bez tytułu",
        "무제 1",
        "Layout 1",
        "Mappe1",
        "文書1",
    ],
)
def test_titles_that_programs_give(declared: str) -> None:
    assert title_of(head("Rules of leave"), para(PROSE), declared=declared) == ("Rules of leave", False)


def test_a_declared_title_that_speaks_of_presentations() -> None:
    declared = "PowerPoint für Einsteiger"
    assert title_of(head("Rules of leave"), para(PROSE), declared=declared) == (declared, False)


def test_the_title_row_of_a_sheet_that_is_a_heading() -> None:
    blocks = (head("Sheet1"), head("Umsatz nach Region", 2), para("Stand: November, in Tsd. EUR"), TABLE)
    assert title_of(*blocks, media=SHEET) == ("Umsatz nach Region", False)
    assert title_of(head("Notes"), head("Umsatz"), TABLE, media=SHEET) == ("gold", True)


@pytest.mark.parametrize("run", ["1", "_", "1-", " ", "٣"])
def test_a_heading_of_digits_is_judged_in_proportion_to_its_length(run: str) -> None:
    junk = Matcher(_JUNK.pattern, _JUNK.flags)
    assert steps(junk, "fullmatch", run * 2000 + "ab") < 40 * len(run * 2000)


@pytest.mark.parametrize("text", ["", "1", "a", "1.2 a", "a-1", "__", "7 b 7", "x 12/3"])
def test_a_title_of_one_letter_is_no_title(text: str) -> None:
    assert _JUNK.fullmatch(text)


@pytest.mark.parametrize("text", ["ab", "1 ab", "a 1 b", "a_b"])
def test_two_letters_may_be_a_title(text: str) -> None:
    assert not _JUNK.fullmatch(text)


@pytest.mark.parametrize(
    ("declared", "heading", "title"),
    [
        ("Home | Town of Ely", "Parking in the old town", "Parking in the old town"),
        ("Home | Town of Ely", "Welcome", "Home | Town of Ely (gold)"),
        ("Overview :: Mills", "Overview", "Overview :: Mills (gold)"),
        ("Mills Ltd – FAQ", "FAQ", "Mills Ltd – FAQ (gold)"),
        ("Startseite - Stadt Ely", "Parken", "Parken"),
        ("Головна | Місто", "Стоянки", "Стоянки"),
        ("Parking | Town of Ely", "Parking", "Parking | Town of Ely"),
        ("Home-made cakes", "Cakes", "Home-made cakes"),
    ],
)
def test_a_page_that_names_only_its_site_is_called_by_its_heading_or_its_file(
    declared: str, heading: str, title: str
) -> None:
    assert title_of(head(heading), para(PROSE), declared=declared, media="text/html") == (title, False)


def test_other_files_keep_a_title_with_a_part_of_something() -> None:
    title = "Summary - Mills against Ely"
    assert title_of(head("Costs"), para(PROSE), declared=title, media="application/pdf") == (title, False)
