"""Messages of the product: the thing first, at most two sentences, in plain words.

They are the errors that the product raises, found by their source, the texts of codes, and the problems of `verify`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from pincite.codes import ERRORS, EXITS, EXPLAINED, FAILURES, SKIPPED
from pipelines.errors import PinciteError
from resources.checks.findings import AUDITED, PROBLEMS
from tests.support.places import ROOT
from tests.unit.test_plain_words import OPENINGS, PHRASES

PRODUCT = ("pipelines", "resources", "assets", "pincite")
VALUE = "\N{LOZENGE}"
"""Stands for a value that is put into a message."""
ROUNDABOUT = (
    *("it", "its", "this", "these", "they", "there", "here", "such", "nothing", "nobody", "somebody", "something"),
    *("cannot", "could", "can", "must", "may", "is", "are", "was", "has", "have", "not", "only", "too"),
    *("name", "give", "take", "set", "say", "write", "run", "see", "choose", "leave", "add", "make", "mend", "check"),
    *("install", "remove", "start", "stop", "use", "wait", "try", "load", "expected", "found"),
)
"""First words that put the thing later: pronouns, auxiliaries, and verbs of what to do."""
_FIRST = re.compile(r"[A-Za-z]+")
_ENDS = re.compile(r"[.!?]\s+(?=[A-Z`\N{LOZENGE}])")
_PHRASE = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b", re.IGNORECASE)
_ABBREVIATIONS = re.compile(r"\b(?:e\.g|i\.e)\.")


def faults_of(message: str, *, ends_with_stop: bool = False) -> list[str]:
    """Return what a message does against the rules."""
    first = _FIRST.match(message)
    word = first[0] if first and not message.startswith(f"run {VALUE}") else ""
    word = "" if message[len(word) : len(word) + 1] in ("_", ".") else word
    plain = re.sub(r"`[^`]*`", "`it`", message)
    rules = {
        "more than two sentences": len(_ENDS.split(_ABBREVIATIONS.sub("", message).strip())) > 2,
        f"begins with {word!r}": word.lower() in ROUNDABOUT or word in OPENINGS or word.capitalize() in OPENINGS,
        "a phrase that nobody else uses": _PHRASE.search(plain.replace("None", "")) is not None,
        "an exclamation": "!" in plain,
        "a full stop at its end": message.rstrip().endswith(".") and not message.endswith("...") and not ends_with_stop,
        "no full stop at its end": ends_with_stop and not message.endswith((".", VALUE)),
    }
    return [rule for rule, broken in rules.items() if broken]


_CLASS = re.compile(r"^[ \t]*class (\w+)\(([^)]*)\)", re.MULTILINE)


@cache
def error_names() -> frozenset[str]:
    """Return the names of the errors of the product, those of a single package too."""
    names = {PinciteError.__name__}
    found = [each for text in _sources().values() for each in _CLASS.findall(text)]
    classes = [(name, set(re.findall(r"\w+", bases))) for name, bases in found]
    while more := {name for name, bases in classes if bases & names} - names:
        names |= more
    return frozenset(names)


def written_text(node: ast.expr) -> str:
    """Return the text of an expression, with VALUE for each part that the source does not write out."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(written_text(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return written_text(node.left) + written_text(node.right)
    return VALUE


def raised_messages(source: str, errors: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yield line and message of each error that is made, if any word of the message is written there."""
    if not re.search(rf"\b(?:{'|'.join(errors)})\(", source):  # most files, which take long to parse
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in errors and node.args:
            argument = node.args[0]
            for each in (argument.body, argument.orelse) if isinstance(argument, ast.IfExp) else (argument,):
                text = written_text(each)
                if text.strip(VALUE):
                    yield node.lineno, text


@cache
def _sources() -> dict[Path, str]:
    return {path: path.read_text() for top in PRODUCT for path in sorted((ROOT / top).rglob("*.py"))}


@pytest.mark.parametrize("top", PRODUCT)
def test_raised_errors_name_the_thing_first_in_at_most_two_sentences(top: str) -> None:
    errors = error_names()
    broken = [
        f"{path.relative_to(ROOT)}:{line}: {fault}: {message}"
        for path, source in _sources().items()
        if path.is_relative_to(ROOT / top)
        for line, message in raised_messages(source, errors)
        for fault in faults_of(message)
    ]
    assert broken == []


def meanings() -> Iterator[tuple[str, str]]:
    for table in (EXITS, ERRORS, SKIPPED, AUDITED):
        yield from ((str(code), meaning) for code, (meaning, _) in table.items())
    yield from ((code, meaning) for code, (_, meaning, _) in FAILURES.items())
    yield from EXPLAINED.items()


def remedies() -> Iterator[tuple[str, str]]:
    for table in (EXITS, ERRORS, SKIPPED, AUDITED, PROBLEMS):
        yield from ((str(code), remedy) for code, (_, remedy) in table.items())
    yield from ((code, remedy) for code, (_, _, remedy) in FAILURES.items())


def test_meanings_of_codes_are_at_most_two_sentences_about_the_thing() -> None:
    assert {code: faults for code, meaning in meanings() if (faults := faults_of(meaning, ends_with_stop=True))} == {}


def test_problems_of_verify_name_the_thing_first() -> None:
    assert {code: faults for code, (what, _) in PROBLEMS.items() if (faults := faults_of(what))} == {}


def test_remedies_are_at_most_two_sentences() -> None:
    begun = re.compile(r"begins with")
    assert {
        code: faults
        for code, remedy in remedies()
        if (faults := [fault for fault in faults_of(remedy) if not begun.match(fault)])
    } == {}


def test_every_code_has_a_remedy() -> None:
    assert [code for code, remedy in remedies() if not remedy and code not in NO_REMEDY] == []


NO_REMEDY = frozenset({"changed_rows"})
"""Problems whose remedy depends on the rows: the message of each finding has it."""


@pytest.mark.parametrize(
    ("message", "count"),
    [
        ("cannot list \N{LOZENGE}", 1),
        ("there is no lamp", 1),
        ("name a lamp", 1),
        ("What was asked for cannot be meant", 1),
        ("the lamp is out. Light it. Then read", 1),
        ("the lamp is out!", 1),
        ("the lamp is out.", 1),
        ("a lamp and of what it is made", 1),
        ("the light of the lamp is none", 1),
        ("\N{LOZENGE}: the lamp is out; light it", 0),
        ("serve.auth is off. Set it, such as `tokens!`", 0),
        ("no lamp is lit; write FOLDER=...", 0),
    ],
)
def test_faults_are_found(message: str, count: int) -> None:
    assert len(faults_of(message)) == count, faults_of(message)
