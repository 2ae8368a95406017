"""The plugin that writes docs/measured/reliability.md, and that every case of it has a test."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.defences import DEFENCES
from tests.support.places import ROOT
from tests.support.reliability import CASES, ORACLE, Told, missing, page

pytest_plugins = "pytester"

TESTS = ROOT / "tests"
assert np.__name__ in sys.modules, "pytester forgets what a session within this one imports, and numpy loads but once"
SOURCE = """
import pytest

@pytest.mark.case(2, served=True)
@pytest.mark.case(3)
def test_two(record_property):
    record_property("injected", 3)

@pytest.mark.case(3)
def test_three():
    assert 0
"""


def told(*cases: int | str, outcome: str = "passed", served: bool = False, **values: Any) -> Told:
    """A test as its three reports tell of it."""
    made = Told()
    properties = [*(("case", (number, served)) for number in cases), *values.items()]
    for when in ("setup", "call", "teardown"):
        there = outcome if when == "call" else "passed"
        if outcome != "skipped" or when != "call":
            skipped = outcome == "skipped" and when == "setup"
            made.hear(SimpleNamespace(when=when, failed=there == "failed", skipped=skipped, user_properties=properties))
    return made


NUMBERS: list[int | str] = [*CASES, *ORACLE, *DEFENCES]
EVERY = {f"tests/test_it.py::test_every[{number}]": told(number, served=number == 2, injected=3) for number in NUMBERS}


def rows(text: str) -> dict[str, list[str]]:
    """The cells of the tables by what stands in the first."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {first: rest for first, *rest in lines}


def test_injections_are_counted_and_nothing_is_lost_where_all_held_and_one_compared() -> None:
    tests = {**EVERY, "test_another": told(2), "test_not_here": told(5, outcome="skipped", served=True)}
    table = rows(page(tests))
    assert table["1"] == [*CASES[1], "3", "held", "not compared"]
    assert table["2"][2:] == ["4", "held", "nothing"]
    assert table["5"][2:] == ["3", "held; 1 not possible on this machine", "not compared"]
    assert table["a"] == [ORACLE["a"], "3", "held"]
    assert len(table) == len(CASES) + len(ORACLE) + len(DEFENCES) + 3
    assert missing(tests) == []


def test_a_failing_test_is_named_under_its_case() -> None:
    tests = {**EVERY, "test_another": told(2, outcome="failed")}
    assert rows(page(tests))["2"][2:] == ["4", "**failed**: `test_another`", "unknown"]
    assert "Failed beside these" not in page(tests)
    assert page(tests) == page(dict(reversed(tests.items())))


def test_a_case_that_no_test_injects_is_missing() -> None:
    tests = {name: value for name, value in EVERY.items() if not {5, "f"} & value.cases.keys()}
    tests["test_not_here"] = told(5, outcome="skipped")
    assert missing(tests) == ["5", "f"]
    assert rows(page(tests))["5"][2:] == ["0", "**not injected**", "unknown"]


def test_a_defence_that_no_test_shows_is_missing() -> None:
    tests = {name: value for name, value in EVERY.items() if not {"1c", "4b"} & value.cases.keys()}
    tests["test_not_here"] = told("1c", outcome="skipped")
    assert missing(tests) == ["1c", "4b"]


def test_a_defence_is_told_with_the_count_of_its_tests_and_is_none_without() -> None:
    tests = {name: value for name, value in EVERY.items() if "4b" not in value.cases}
    tests |= {"tests/a.py::test_blank[0]": told("4a"), "tests/a.py::test_blank[1]": told("4a", "4c")}
    tests["tests/a.py::test_unknown"] = told("4d", outcome="failed")
    tests["tests/a.py::test_elsewhere"] = told("4b", outcome="skipped")
    table = rows(page(tests))
    assert table["4a"] == [*DEFENCES["4a"], "5", "held"]
    assert table["4b"][2:] == ["0", "**not shown**"]
    assert table["4d"][3] == "**failed**: `tests/a.py::test_unknown`"


def test_lives_and_damaged_files_are_told_and_what_failed_of_no_case() -> None:
    lives = {
        f"test_life[{seed}]": told(outcome="failed" if seed == 8 else "passed", life=seed, steps=4, kills=1, polled=50)
        for seed in (7, 8, 9)
    }
    assert "Not run." in page(EVERY)
    text = page({**lives, "test_fuzz": told(17, injected=50, inputs=(1, 50))})
    soak, fuzz = text.partition("## The soak")[2].split("## The damaged files")
    assert "3 random lives of a folder (seeds 7 to 9), 12 steps" in soak
    assert "3 runs killed" in soak and "answered 150 times" in soak
    assert "**Failed**: `test_life[8]`" in soak
    assert "2 random lives of a folder (seeds 7, 9)," in page(
        {name: lives[name] for name in ("test_life[9]", "test_life[7]")}
    )
    assert "50 real files damaged at random (seeds 1 to 50)" in fuzz and "All held." in fuzz
    assert text.endswith("## Failed beside these\n\n- `test_life[8]`\n")


@pytest.fixture
def session(pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """Runs tests in a session of their own: what it said, its exit code, and the page."""
    pytester.makeini("[pytest]\nmarkers =\n    case(number, served): x\n")

    def run(source: str, *arguments: str) -> tuple[str, int, str]:
        file = pytester.path / "page.md"
        file.unlink(missing_ok=True)
        pytester.makepyfile(test_them=source)
        try:
            ran = pytester.inline_run("-p", "tests.support.reliability", "--reliability", str(file), *arguments)
        except KeyboardInterrupt:
            return capsys.readouterr().out, 2, file.read_text() if file.exists() else ""
        assert ran.ret is not None
        return capsys.readouterr().out, int(ran.ret), file.read_text() if file.exists() else ""

    return run


def test_a_session_writes_the_page_and_fails_where_a_case_is_missing(session) -> None:  # type: ignore[no-untyped-def]
    said, code, text = session(SOURCE)
    assert (code, rows(text)["2"][2:]) == (1, ["3", "held", "nothing"])
    assert rows(text)["3"][2:] == ["4", "**failed**: `test_them.py::test_three`", "unknown"]
    assert re.search(r"no test injected or shows 1, 4, 5,.*, 1a, 1b", said)
    assert session(SOURCE.replace("assert 0", "pass"))[1] == 1


@pytest.mark.faults
def test_a_number_that_is_no_case_is_refused(session) -> None:  # type: ignore[no-untyped-def]
    _, code, text = session(SOURCE.replace("case(3)", "case(30)"))
    assert (code, text) == (4, "")


@pytest.mark.faults
def test_a_case_missing_from_the_list_cannot_be_defended(session) -> None:  # type: ignore[no-untyped-def]
    held = SOURCE.replace("case(3)", "defends('4a')").replace("assert 0", "pass")
    assert rows(session(held)[2])["4a"][2:] == ["4", "held"]
    for wrong in ("'4z'", "'blank groups'", ""):
        _, code, text = session(SOURCE.replace("case(3)", f"defends({wrong})"))
        assert (code, text) == (4, "")


@pytest.mark.faults
def test_a_session_that_was_cut_short_writes_nothing(session) -> None:  # type: ignore[no-untyped-def]
    _, code, text = session(SOURCE.replace("assert 0", "raise KeyboardInterrupt"))
    assert (code, text) == (2, "")


@pytest.mark.faults
def test_the_page_is_the_same_in_one_process_and_in_several(session) -> None:  # type: ignore[no-untyped-def]
    alone, shared = session(SOURCE)[2], session(SOURCE, "-n", "2")[2]
    assert alone == shared != ""


# ---------------------------------------------------------------- the project's own tests


MARKS = ("pytest.mark.case", "pytest.mark.defends")


def claimed(source: str) -> Iterator[int | str]:
    """What the marks are given in a file, on helpers left out: a mark counts on a test only."""
    if not any(mark in source for mark in MARKS):
        return
    nodes = list(ast.walk(ast.parse(source)))
    helpers = (node for node in nodes if isinstance(node, ast.FunctionDef) and node.name[:5] != "test_")
    idle = {id(inner) for helper in helpers for mark in helper.decorator_list for inner in ast.walk(mark)}
    for node in nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func) in MARKS and id(node) not in idle:
            values = (argument.value for argument in node.args if isinstance(argument, ast.Constant))
            yield from (value for value in values if isinstance(value, (int, str)))


def test_a_mark_counts_on_a_test_only() -> None:
    source = "@pytest.mark.{}\ndef {}(): pass\n"
    marked = [
        source.format(*pair)
        for pair in (("case(3)", "helper"), ("case(4)", "test_a"), ("defends('1a', '1b')", "test_b"))
    ]
    assert list(claimed("".join(marked))) == [4, "1a", "1b"]


def test_every_case_and_defence_has_a_test() -> None:
    files = (path for folder in ("unit", "integration", "dagster", "faults") for path in (TESTS / folder).rglob("*.py"))
    assert {number for path in files for number in claimed(path.read_text(encoding="utf-8"))} == {
        *CASES,
        *ORACLE,
        *DEFENCES,
    }
