"""The languages of the pages: every text of every template has a Ukrainian one, and the browser's language is shown."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from jinja2.ext import extract_from_ast
from markupsafe import Markup
from starlette.testclient import TestClient

from pincite.guard import Anybody
from pincite.serve.application import application
from pincite.serve.pages import HERE, Words, environment, ukrainian, words_of
from tests.support.bare_index import URL, bare_service

TEMPLATES = sorted(path.name for path in (HERE / "templates").glob("*.html"))
CALLS = ("t", "tn", "translatable")
SHOWN = {"alt", "aria-label", "placeholder", "title"}
"""Attributes whose values people read or hear."""

# ---------------------------------------------------------------- templates and their Ukrainian


def used_texts() -> Iterator[tuple[str, ...]]:
    """Yield (text,) or (one, many) of each call in the templates, and in the modules of the server."""
    made = environment()
    for name in TEMPLATES:
        tree = made.parse((HERE / "templates" / name).read_text(encoding="utf-8"))
        for _, function, texts in extract_from_ast(tree, CALLS, babel_style=False):
            given = (texts,) if isinstance(texts, str) else tuple(text for text in texts or () if text)
            assert len(given) == (2 if function == "tn" else 1) or not given, (name, function, texts)
            yield given
    for path in HERE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                said = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
                if called in CALLS and said:
                    yield tuple(said)


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def test_every_text_has_aukrainian_one_and_no_other_is_kept() -> None:
    used = {given[0]: given for given in used_texts() if given}
    assert used.keys() - ukrainian().keys() == set(), "no Ukrainian text"
    assert ukrainian().keys() - used.keys() == set(), "no page has this text"
    for text, given in used.items():
        found = ukrainian()[text]
        forms = found if isinstance(found, list) else [found]
        assert len(forms) == (3 if len(given) == 2 else 1), text
        assert all(fields(form) == fields(given[-1]) for form in forms), text


class _Texts(HTMLParser):
    """The words of a page that a template has outside its expressions."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_data(self, data: str) -> None:
        self.found += re.findall(r"[^\W\d_]{2,}[^\n]*", data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in SHOWN and value:
                self.handle_data(value)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_has_no_text_outside_the_calls(name: str) -> None:
    source = (HERE / "templates" / name).read_text(encoding="utf-8")
    plain = "".join(value for _, kind, value in environment().lex(source) if kind == "data")
    page = _Texts()
    page.feed(plain)
    found = [text for text in page.found if text != "pincite"]
    assert found == []


# ---------------------------------------------------------------- languages


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("", "en"), ("uk", "uk"), ("uk-UA,uk;q=0.9,en;q=0.8", "uk"), ("en-GB,uk;q=0.5", "en"), ("de, UK;q=0.1", "uk"),
        ("de,fr", "en"), ("en;q=0.2, uk ; q=0.7", "uk"), ("uk;q=0, en", "en"), ("uk;q=x", "en"), ("uk;q=nan", "en"),
        ("*", "en"), ("," * 5_000 + "uk", "en"), ("ukx", "en"),
    ],
)  # fmt: skip
def test_the_language_is_the_one_that_the_browser_prefers(accepted: str, language: str) -> None:
    assert words_of(accepted).language == language


def test_counts_take_the_form_of_their_language() -> None:
    english, ukrainian = Words("en"), Words("uk")
    forms = {n: ukrainian.tn("{n} document", "{n} documents", n).split()[-1] for n in (0, 1, 2, 5, 11, 12, 21, 22, 111)}
    assert forms == {
        0: "документів", 1: "документ", 2: "документи", 5: "документів", 11: "документів", 12: "документів",
        21: "документ", 22: "документи", 111: "документів",
    }  # fmt: skip
    assert english.tn("{n} document", "{n} documents", 1) == "1 document"
    assert english.tn("{n} document", "{n} documents", 12_345) == "12,345 documents"
    assert ukrainian.tn("{n} document", "{n} documents", 12_345) == "12\u00a0345 документів"


def test_dates_and_times_are_written_as_in_their_language() -> None:
    assert Words("en").day("2026-11-27") == "27\u00a0November 2026"
    assert Words("uk").day("2026-11-27") == "27\u00a0листопада 2026"
    assert Words("en").moment("2026-11-27T23:40:00-02:00") == "28\u00a0November 2026, 01:40\u00a0UTC"
    assert (Words("uk").day("soon"), Words("en").day(None), Words("en").moment("soon")) == ("soon", "", "soon")


def test_a_value_within_a_text_is_never_markup_of_its_own() -> None:
    assert Words().t("Groups: {names}", names="<b> {names}") == "Groups: <b> {names}"  # the template escapes it
    linked = Words().t("Groups: {names}", names=Markup("<b>x</b>"))
    assert isinstance(linked, Markup) and linked == "Groups: <b>x</b>"
    mixed = Words().tn("{n} {a}", "{n} {a} {b}", 2, a="<i>\u202e", b=Markup("<b>x</b>"))
    assert mixed == "2 &lt;i&gt; <b>x</b>"


def test_a_page_is_in_the_language_of_the_browser() -> None:
    client = TestClient(application(bare_service(), Anybody(), URL), base_url=URL)
    for accepted, language, word in (("uk", "uk", "Шукати"), ("de", "en", "Search")):
        reply = client.get("/", headers={"Accept-Language": accepted})
        assert f'<html lang="{language}">' in reply.text and f"<button>{word}</button>" in reply.text
        assert reply.headers["vary"] == "Accept-Language"
