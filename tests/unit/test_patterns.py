"""No pattern takes more steps than in proportion to the text, however the text is made.

Steps are counted by a matcher of the tests that works as `re` does, so the machine makes no difference.
"""

from __future__ import annotations

import random
import re

import pytest

from pipelines.names import alike_words
from pipelines.query.rerankers import IMPORTANT_SECTIONS, UNIMPORTANT_SECTIONS
from pipelines.settings.query import LONGEST_SEARCHED as LONGEST
from pipelines.settings.query import MOST_STEPS
from pipelines.settings.query import most_steps as foretold
from pipelines.terms import _any_place, _any_script
from resources.parsers.source_text import _as_written
from resources.sources.files import _pattern
from tests.support.matching_steps import Matcher
from tests.support.pattern_attacks import most_steps, slow
from tests.support.patterns import LAYERS, Found, patterns

WRITTEN = ("a b", "a, b; c -- d", ",,,,,,,,", ". . . . . .")
GLOBS = ("**/*", "*.pdf", "a*b*c*d", "**/*a*b*/**/*c*.md", "**a**b**", "*/x/**")
BUILT = {
    "pipelines/defused_text.py:_pairs": [r"[\(\)]", r"[\[\]]"],
    "pipelines/evaluation/cloze.py:cloze": [r"(?<!\w)5\ days(?!\w)"],
    "pipelines/evaluation/document_map.py:_in_two": [re.escape("aaaaaaaa")],
    "pipelines/evaluation/document_map.py:starts": [re.escape("aaaa, aaaa")],
    "pipelines/names.py:alike_words": [alike_words({"acm", "hand", "нафтог"}).pattern],
    "pipelines/query/rerankers.py:_pattern": [
        "|".join(f"(?:{each})" for each in shipped) for shipped in (IMPORTANT_SECTIONS, UNIMPORTANT_SECTIONS)
    ],
    "pipelines/query/sentence_route.py:__init__": [r"\b(?!str|pla)(?:[a-z]+|[а-яіїє]+)\b"],
    "pipelines/settings/query.py:_compile": ["nothing is searched for here"],
    "pipelines/terms.py:_any_place": [_any_place().pattern],
    "pipelines/terms.py:_any_script": [_any_script().pattern],
    "resources/parsers/text/delimited.py:plain": [r"[^;\r\n]*", r"[^\|\r\n]*"],
    "resources/parsers/source_text.py:_as_written": [_as_written(text).pattern for text in WRITTEN],
    "resources/sources/files.py:_pattern": [_pattern(glob).pattern for glob in GLOBS],
}
"""What the patterns are that functions put together of what they are given."""

BOUNDED = {
    "pipelines/indexing/boundaries.py:_WORD_BEFORE": 24,
    "pipelines/parsing/joining.py:_DIVIDED": 100,
    "pipelines/evaluation/cloze.py:_GOVERNS": 1_000,
    "pipelines/evaluation/suggest.py:_PARTS": 4_000,
    "resources/sources/files.py:_pattern": 255,  # of a name; a path is linear in its names
}
"""The longest text that the code gives to a pattern that takes more than linear time."""
FEW = 1_000_000
"""Steps, some 10 ms, that such a pattern may take with such a text."""

ATTACKS = 15
"""Attacks on each pattern, the first and as many of the others: enough for all that is BAD."""
MORE_ATTACKS = 40
"""Those of `make rest`."""

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
    "an attribute of an element that is never closed": r'EncryptionMethod\s[^>]*?Algorithm="([^"]*+)"',
    "a key whose value never comes": r"(?m)^cuda\b[^=]*=\s*'",
    "two runs of the same": r"a*a*b",
    "spaces before a line's end": r"\s*\n",
    "a group of runs": r"(x+)+y",
    "a quotation that is never closed": r"(['\"]).*?\1;",
    "a run within a look ahead": r"(?=\w*!)\w",
    "an optional word a hundred times": r"(?:a?){100}b",
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
def test_every_pattern_takes_linear_time(found: list[Found], layer: str, most: int = ATTACKS) -> None:
    slower = {}
    for each in found:
        if not each.where.startswith(layer + "/") or each.where in BOUNDED:
            continue
        if growth := slow(each.pattern, each.flags, each.methods, most=most):
            slower[each.where] = (each.pattern, growth)
    assert not slower


@pytest.mark.faults
@pytest.mark.parametrize("layer", LAYERS)
def test_every_pattern_takes_linear_time_under_more_attacks(found: list[Found], layer: str) -> None:
    test_every_pattern_takes_linear_time(found, layer, MORE_ATTACKS)


def test_bounded_texts_cost_little(found: list[Found]) -> None:
    bounded = [each for each in found if each.where in BOUNDED]
    assert {each.where for each in bounded} == BOUNDED.keys()
    for each in bounded:
        assert most_steps(each.pattern, each.flags, each.methods, BOUNDED[each.where], FEW) <= FEW, each


def test_every_module_is_looked_at(found: list[Found]) -> None:
    """Those of containers, of functions, of f-strings and of bytes among them."""
    where = {each.where for each in found}
    assert {
        "pipelines/llm/reply_text.py:_EMPHASIS",
        "pipelines/evaluation/cloze.py:QUANTITY",
        "pincite/parsed.py:found",
        "resources/parsers/office/workbook.py:_MERGED",
    } <= where
    assert len(found) > 250
    assert {layer for layer in LAYERS if any(each.startswith(layer) for each in where)} >= {"pipelines", "resources"}


@pytest.mark.defends("1a")
@pytest.mark.parametrize("name", BAD)
def test_slow_patterns_are_caught(name: str) -> None:
    assert slow(BAD[name], methods=("fullmatch", "finditer"), most=ATTACKS, limit=FEW // 10)


@pytest.mark.parametrize("name", GOOD)
def test_quick_patterns_pass(name: str) -> None:
    assert slow(GOOD[name], methods=("fullmatch", "finditer")) is None


MATCHED = (
    r"(a|b)\1", r"(a)?b(?(1)c|d)", r"(?P<q>['\"]).*?(?P=q)", r"((a|b)*c)*d", r"(?:ab?)*+b", r"(?:a|ab){2}+c",
    r"(?<=a)b|(?<!b)c", r"(?>a+?)b", r"(?i:A)b|(?-i:c)", r"(?:a*)*?c", r"(?:a{0,2}b?){1,3}$", r"(?=(a*))\1b",
    r"(?:a(?:b|)){1,2}c",
)  # fmt: skip


def test_the_matcher_of_the_tests_finds_what_re_finds(found: list[Found]) -> None:
    """Its steps tell nothing unless it does what `re` does."""
    chance = random.Random(1)
    for pattern, flags in {*((each.pattern, each.flags) for each in found), *((each, 0) for each in MATCHED)}:
        text, flags = (pattern, flags) if isinstance(pattern, str) else (pattern.decode("latin-1"), flags | re.ASCII)
        real, own = re.compile(text, flags), Matcher(text, flags)
        letters = [*dict.fromkeys(re.sub(r"\W", "", text))][:8] + list("abcAB \n-1\"'")
        for _ in range(400 if pattern in MATCHED else 12):
            tried = "".join(chance.choices(letters, k=chance.randrange(12)))
            assert list(own.finditer(tried)) == [one.span() for one in real.finditer(tried)], (text, tried)
            for method in ("match", "fullmatch"):
                one = getattr(real, method)(tried)
                assert getattr(own, method)(tried) == (one and one.span()), (method, text, tried)


SETTINGS = (
    r"(a+)+$", r"(a|aa)+$", r"(?:a?){30}a{30}", r"(.*?,){5}x", r"\w*\w*\w*x", r"(?=(a+)+$)b", r"(a+)+\1", r"(?>a+)+b",
    r"(a)?(?(1)(a+)+|b)c", r"((a{0,20}){0,20}){0,20}b", r"a{0,100}a{0,100}b", r"(?:\b|a)*b", r"(a*)\1\1\1b",
    r"(?:a*+)*b", r"(?:a?)*+b", r"(?=(a*))(?=(a*))a*a*b", r"(?:(?:a|aa){3})*b", r"(a{1,2}){1,50}b", r"(a*?)*?b",
)  # fmt: skip


@pytest.mark.parametrize("pattern", SETTINGS)
def test_a_pattern_of_the_settings_takes_no_more_steps_than_foretold(pattern: str) -> None:
    """Those that may take more than MOST_STEPS are refused before they are tried."""
    told = foretold(pattern)
    assert told > MOST_STEPS or most_steps(pattern, 0, ("finditer",), LONGEST, MOST_STEPS) <= told
