from __future__ import annotations

import io
import json
import sys

import pytest

from pincite.console import block, rows, run_guarded, tell
from pipelines.errors import DatabaseError, UsageError


@pytest.mark.parametrize(
    ("error", "code", "exit_code"),
    [
        (UsageError("wrong"), "usage", 2),
        (DatabaseError("gone", "unreachable"), "unreachable", 1),
        (ZeroDivisionError("oops"), "internal", 1),
        (KeyboardInterrupt(), "interrupted", 1),
    ],
)
def test_every_error_is_one_json_document_and_its_exit_code(
    error: BaseException, code: str, exit_code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> int:
        raise error

    with pytest.raises(SystemExit) as exit_:
        run_guarded(True, work)
    printed = capsys.readouterr()
    assert json.loads(printed.out)["error"]["code"] == code
    assert exit_.value.code == exit_code
    assert "pincite: " in printed.err


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "variables", "shown"),
    [
        (io.StringIO, {"TERM": "xterm"}, "name  size\na     1\nwarning: a: \\x1b[2J\n"),
        (Screen, {"TERM": "xterm", "NO_COLOR": "1"}, "name  size\na     1\nwarning: a: \\x1b[2J\n"),
        (Screen, {"TERM": "dumb"}, "name  size\na     1\nwarning: a: \\x1b[2J\n"),
        (
            Screen,
            {"TERM": "xterm", "NO_COLOR": ""},
            "\x1b[1mname  size\x1b[0m\na     1\n\x1b[33mwarning\x1b[0m: a: \\x1b[2J\n",
        ),
    ],
    ids=["pipe", "no colour", "dumb", "terminal"],
)
def test_colours_are_for_terminals_alone(
    stream: type[io.StringIO], variables: dict[str, str], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    screen = stream()
    monkeypatch.setattr(sys, "stdout", screen)
    tell(block([rows([("a", 1)], ("name", "size")), "warning: a: \x1b[2J"]))
    assert screen.getvalue() == shown
