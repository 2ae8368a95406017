"""The language of a document, declared and detected."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.parsing.elements import build_elements, declared_language
from pipelines.records import Block, BlockCell, ParsedFile, TextRun
from resources.models.embedders.specs import choose_preset
from resources.models.text_models import detect_language
from resources.parsers.html import parse as parse_html
from resources.parsers.registry import Parse
from resources.parsers.text.email import parse as parse_email
from resources.parsers.text.markdown import parse as parse_markdown
from tests.unit.pipelines.parsing.test_elements import RAW, paragraph

ENGLISH = "The council adopted the budget of the observatory, and members approved the repairs of the telescope."


@pytest.mark.parametrize(
    ("declared", "code"),
    [
        ("uk", "uk"), ("UK", "uk"), ("en-GB", "en"), ("zh-Hant-TW", "zh"), ("pt_BR", "pt"), (" de ", "de"),
        ("iw", "he"), ("en, en-US", "en"), ("en, de", None), ("und", None), ("x-klingon", None),
        ("english", None), ("xx", None), ("", None), ("-", None), ("*", None), ("eng", None),
    ],
)  # fmt: skip
def test_a_code_is_taken_whatever_its_region_and_case(declared: str, code: str | None) -> None:
    assert declared_language(declared) == code


@pytest.mark.defends("7h")
@pytest.mark.parametrize(
    ("declared", "language", "warned"),
    [
        ("uk-UA", "uk", "declares its language as 'uk-UA', which is taken, but its text looks like 'en'"),
        ("en-US", "en", None),
        ("", "en", None),
        ("nonsense", "en", "'nonsense' was not understood; 'en' was detected"),
    ],
)
def test_a_declared_language_wins(declared: str, language: str, warned: str | None) -> None:
    file = ParsedFile((paragraph(ENGLISH),), {"language": declared} if declared else {})
    document, _ = build_elements(RAW, file, lambda text: "en")
    assert document.language == language
    assert len(document.warnings) == (warned is not None)
    assert warned is None or warned in document.warnings[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", '<html lang="uk-UA"><p>One.</p></html>'),
        ("b.html", '<html xml:lang="uk-UA"><p>One.</p></html>'),
        ("c.html", '<html><head><meta http-equiv="Content-Language" content="uk-UA"></head><p>One.</p></html>'),
        ("d.md", "---\nlang: uk-UA\n---\nOne.\n"),
        ("e.md", "---\nlanguage: uk-UA\n---\nOne.\n"),
        ("f.eml", "From: a@example.org\nSubject: One\nContent-Language: uk-UA\n\nOne.\n"),
    ],
)
def test_the_language_that_a_file_declares_is_read(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    parsers: dict[str, Parse] = {".html": parse_html, ".md": parse_markdown, ".eml": parse_email}
    assert parsers[path.suffix](path).properties["language"] == "uk-UA"


# ---------------------------------------------------------------- detected by prose


def head(text: str) -> Block:
    return Block("heading", (TextRun(text),), 1)


def table(*rows: tuple[str, ...]) -> Block:
    cells = [BlockCell(row, at, (TextRun(text),)) for row, texts in enumerate(rows) for at, text in enumerate(texts)]
    return Block("table", cells=tuple(cells))


def language_of(*blocks: Block, declared: str = "") -> str:
    file = ParsedFile(blocks, {"language": declared} if declared else {})
    return build_elements(RAW, file, detect_language)[0].language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (ENGLISH, "en"),
        ("Правила зберігання документів в архіві затверджує щороку рада, а їх виконання перевіряє директор.", "uk"),
        ("Der Antrag ist bis zum Monatsende beim Amt einzureichen, das ihn binnen einer Woche prüft.", "de"),
        ("Wniosek należy złożyć do końca miesiąca w urzędzie gminy, osobiście albo listem.", "pl"),
        ("就業規則 第一条 この規則は社員に適用する。", "ja"),
        ("員工手冊：員工每年享有十四天帶薪年假，須經部門經理批准。", "zh"),
        ("직원은 연간 15일의 유급 휴가를 받는다.", "ko"),
    ],
)
def test_prose_has_a_language(text: str, language: str) -> None:
    assert language_of(paragraph(text)) == language


@pytest.mark.parametrize(
    "text",
    [
        "hi",
        "Hello",
        "ok thanks",
        "12 34 USD 7%",
        "Iron Copper Zinc Nickel Lead Tin Gold Silver Platinum Mercury",
        "Anna Kovalenko Petro Shevchenko Olha Bondar Ivan Melnyk Maria Tkachenko",
        "AX-12 BX-14 CC-99 DD-01 QQ-77 ZX-12 KK-31 LM-14 NN-22 PQ-20 RS-19 TU-81 VW-22 XY-10 ZZ-12 AB-11 CD-13",
        "休假规定",
    ],
)
def test_little_text_and_lists_of_names_have_none(text: str) -> None:
    assert language_of(paragraph(text)) == "und"


def test_the_cells_of_a_table_tell_no_language_unless_they_are_prose() -> None:
    names = table(("Name", "Town"), *((f"Person{at}", "Київ") for at in range(200)))
    assert language_of(names) == "und"
    assert language_of(names, paragraph(ENGLISH)) == "en"
    assert language_of(table(("Question", "Answer"), ("Budget?", ENGLISH))) == "en"


def test_code_tells_no_language() -> None:
    code = Block(
        "code", (TextRun("fuer jedes element in der liste schreibe das element in die datei und das ist alles"),)
    )
    assert language_of(code, paragraph("Beispiel")) == "und"


def test_a_declared_language_counts_for_little_text_too() -> None:
    assert language_of(paragraph("hi"), declared="uk") == "uk"
    assert language_of(table(("Name", "Town"), ("Ann", "Kyiv")), declared="en-GB") == "en"


def test_a_short_text_of_a_language_nobody_knows_says_so() -> None:
    document, _ = build_elements(RAW, ParsedFile((paragraph("hi"),), {"language": "klingon"}), detect_language)
    assert document.language == "und"
    assert document.warnings == (
        "declared language 'klingon' was not understood; its text is too short or mixed to detect one",
    )


# ---------------------------------------------------------------- the embedder by the words of a corpus


@pytest.mark.parametrize(
    ("words", "preset"),
    [
        ({}, "english-small"),
        ({"en": 9_000}, "english-small"),
        ({"und": 500}, "english-small"),
        ({"en": 10_000, "af": 3}, "english-small"),
        ({"en": 10_000, "uk": 200}, "english-small"),
        ({"en": 9_000, "uk": 1_000}, "multilingual-small"),
        ({"en": 9_000, "de": 300, "fr": 300}, "multilingual-small"),
        ({"en": 9_000, "other script": 900, "und": 90_000}, "multilingual-small"),
        ({"de": 1}, "multilingual-small"),
    ],
)
def test_the_words_choose_the_embedder(words: dict[str, int], preset: str) -> None:
    assert choose_preset(words) == preset
