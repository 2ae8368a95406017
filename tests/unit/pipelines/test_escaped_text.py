"""What documents and others say is printed so that it steers nothing."""

from __future__ import annotations

import ast
import json

import pytest

from pincite.console import PrintableLines, as_json, block, rows, say, tell
from pipelines.escaped_text import escape_controls, escape_json_controls, one_line
from tests.support.places import ROOT

RAW = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"]
RAW += list("\xad\u061c\u180e\u200b\u200e\u202a\u202e\u2028\u2029\u2060\u2066\u2069\ufeff\ufffa\U000e0041\ud800")


@pytest.mark.defends("3b")
@pytest.mark.parametrize("char", RAW, ids=ascii)
def test_invisible_characters_are_written_as_their_number(char: str) -> None:
    assert escape_controls(f"a{char}b").isprintable() and escape_controls(f"a{char}b").isascii()
    written = escape_json_controls(json.dumps({"a": char}, ensure_ascii=False))
    assert written.isprintable() and json.loads(written) == {"a": char}


@pytest.mark.defends("3b")
@pytest.mark.parametrize("char", [*RAW, "\t", "\n"], ids=ascii)
def test_a_name_stays_on_its_line(char: str) -> None:
    assert one_line(f"a{char}b").isprintable() and one_line(f"a{char}b").isascii()


@pytest.mark.defends("3b")
def test_only_a_block_has_several_lines(capsys: pytest.CaptureFixture[str]) -> None:
    forged = "x\nfailed: other.pdf"
    for printed in (tell, say):
        printed(forged)
    tell(block([forged, PrintableLines("two\nlines"), rows([(forged, 1)], ("name", "count"))]))
    shown = capsys.readouterr()
    escaped = "x\\nfailed: other.pdf"
    table = [f"{'name':{len(escaped)}}  count", f"{escaped}  1"]
    assert shown.err.splitlines() == [escaped]
    assert shown.out.splitlines() == [escaped, escaped, "two", "lines", *table]


def test_visible_characters_are_unchanged() -> None:
    text = "Звіт №5 … é ñ 日本\tcell\nline"
    assert escape_controls(text) == text
    assert escape_json_controls(f'"{text[:10]}"') == f'"{text[:10]}"'


def test_the_command_prints_nowhere_else(capsys: pytest.CaptureFixture[str]) -> None:
    tell("a\x9bb")
    say("c\x1b[2Jd")
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("a\\x9bb\n", "c\\x1b[2Jd\n")
    assert as_json("\x9b") == '"\\u009b"'
    for path in (ROOT / "pincite").glob("*.py"):
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        names = {getattr(call, "attr", getattr(call, "id", "")) for call in calls}
        assert path.name == "console.py" or not names & {"echo", "secho", "print", "print_exc"}, path
