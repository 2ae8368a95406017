"""The language of a document, declared and detected."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.parsing.elements import build_elements, declared_language
from pipelines.records import ParsedFile
from resources.parsers.html import parse as parse_html
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
def test_what_a_file_declares_is_read(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    parse = {".html": parse_html, ".md": parse_markdown, ".eml": parse_email}[path.suffix]
    assert parse(path).properties["language"] == "uk-UA"
