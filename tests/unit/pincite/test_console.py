from __future__ import annotations

import json

import pytest

from pincite.console import guarded
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
        guarded(True, work)
    printed = capsys.readouterr()
    assert json.loads(printed.out)["error"]["code"] == code
    assert exit_.value.code == exit_code
    assert "pincite: " in printed.err
