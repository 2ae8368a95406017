"""No pattern takes more time than in proportion to the text, however the text is made."""

from __future__ import annotations

import re

import pytest

from pipelines.query.rerankers.weighted import IMPORTANT_SECTIONS, UNIMPORTANT_SECTIONS
from pipelines.terms import _any_script
from resources.parsers.text.source_text import _as_written
from resources.sources.walk import _pattern
from tests.support.pattern_attacks import slow
from tests.support.patterns import LAYERS, Found, patterns

WRITTEN = ("a b", "a, b; c -- d", ",,,,,,,,", ". . . . . .")
GLOBS = ("**/*", "*.pdf", "a*b*c*d", "**/*a*b*/**/*c*.md", "**a**b**", "*/x/**")
BUILT = {
    "pipelines/inert.py:_pairs": [r"[\(\)]", r"[\[\]]"],
    "pipelines/evaluation/cloze.py:cloze": [r"(?<!\w)5\ days(?!\w)"],
    "pipelines/evaluation/document_map.py:_in_two": [re.escape("aaaaaaaa")],
    "pipelines/evaluation/document_map.py:starts": [re.escape("aaaa, aaaa")],
    "pipelines/query/rerankers/weighted.py:_pattern": [
        "|".join(f"(?:{each})" for each in shipped) for shipped in (IMPORTANT_SECTIONS, UNIMPORTANT_SECTIONS)
    ],
    "pipelines/query/sentence_selection.py:__init__": [r"\b(?!str|pla)(?:[a-z]+|[а-яіїє]+)\b"],
    "pipelines/settings/query.py:_compile": ["nothing is searched for here"],
    "pipelines/terms.py:_any_script": [_any_script().pattern],
    "resources/parsers/text/delimited.py:plain": [r"[^;\r\n]*", r"[^\|\r\n]*"],
    "resources/parsers/text/source_text.py:_as_written": [_as_written(text).pattern for text in WRITTEN],
    "resources/sources/walk.py:_pattern": [_pattern(glob).pattern for glob in GLOBS],
}
"""What the patterns are that functions put together of what they are given."""

BOUNDED = {
    "pipelines/indexing/boundaries.py:_WORD_BEFORE": 24,
    "pipelines/parsing/pdf/hyphens.py:_DIVIDED": 100,
    "pipelines/query/quantities.py:_GOVERNS": 1_000,
    "pipelines/evaluation/suggested.py:_PARTS": 4_000,
    "resources/sources/walk.py:_pattern": 255,  # of a name; a path is linear in its names
}
"""The longest text that the code gives to a pattern that takes more than linear time."""

BAD = {
    "form labels": r"(?:[^.!?…_]{0,40}(?:_{3,}|\.{6,}|…{3,}))+[\W_]*",
    "numbering": r"^\s*(?:[\divxlc]+[.)]?(?:\d+[.)]?)*[\s.:—–-]+)?$",
    "a repeat of repeats": r"(a+)+$",
    "equal branches": r"(?:a|a)*b",
    "overlapping neighbours": r"\d+\w*\d+x",
    "spaces at the end": r"\s+$",
    "a run before a letter": r"\d+x",
    "something somewhere": r".*foo",
    "a tag that is never closed": r"<[^>]*>",
    "an end that never comes": r"<!--.*?-->",
    "a label after a label": r"(?:the |a |the a )*summary",
}
GOOD = {
    "spaces at the end": r"(?<!\s)\s++$",
    "a run before a letter": r"(?<!\d)\d++x",
    "words": r"\w+",
    "a possessive repeat of repeats": r"(?<!a)(?:a++)++$",
    "a bounded run": r"<[^>]{0,20}>",
    "a tag": r"<[^<>]*+>",
    "alternatives": r"\b(?:mg|ml|kg)\b|[$€]\d{1,9}",
}


pytestmark = pytest.mark.defends("1a")


@pytest.fixture(scope="module")
def found() -> list[Found]:
    return patterns(BUILT)


@pytest.mark.defends("1a")
@pytest.mark.parametrize("layer", LAYERS)
def test_every_pattern_takes_linear_time(found: list[Found], layer: str, most: int = 50) -> None:
    slower = {}
    for each in found:
        if not each.where.startswith(layer + "/") or each.where in BOUNDED:
            continue
        if growth := slow(each.pattern, each.flags, each.methods, most=most):
            slower[each.where] = (each.pattern, growth)
    assert not slower


@pytest.mark.faults
@pytest.mark.parametrize("layer", LAYERS)
def test_every_pattern_takes_linear_time_under_every_attack(found: list[Found], layer: str) -> None:
    test_every_pattern_takes_linear_time(found, layer, most=0)


def test_bounded_texts_cost_little(found: list[Found]) -> None:
    bounded = [each for each in found if each.where in BOUNDED]
    assert {each.where for each in bounded} == BOUNDED.keys()
    for each in bounded:
        assert not slow(each.pattern, each.flags, each.methods, longest=BOUNDED[each.where], most=50), each


def test_every_module_is_looked_at(found: list[Found]) -> None:
    """Those of containers, of functions, of f-strings and of bytes among them."""
    where = {each.where for each in found}
    assert {
        "pipelines/llm/reply_text.py:_EMPHASIS",
        "pipelines/query/quantities.py:QUANTITY",
        "pincite/parsed.py:found",
        "resources/parsers/office/workbook.py:_MERGED",
    } <= where
    assert len(found) > 250
    assert {layer for layer in LAYERS if any(each.startswith(layer) for each in where)} >= {"pipelines", "resources"}


@pytest.mark.defends("1a")
@pytest.mark.parametrize("name", BAD)
def test_slow_patterns_are_caught(name: str) -> None:
    assert slow(BAD[name], methods=("fullmatch", "finditer"))


@pytest.mark.parametrize("name", GOOD)
def test_quick_patterns_pass(name: str) -> None:
    assert slow(GOOD[name], methods=("fullmatch", "finditer")) is None
