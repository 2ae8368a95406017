"""Lines of a file of golden questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import UsageError
from resources.evaluation.golden import read_questions


def read(file: Path, text: str) -> list[tuple[int, object]]:
    file.write_text(text, encoding="utf-8")
    return list(read_questions(file))


@pytest.mark.parametrize("line", ["{", "[" * 100_000, '{"question": "\\ud800"}', '{"\\udfff": 1}', "9" * 5000])
def test_a_line_that_is_no_text_in_json_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(UsageError, match="line 2: not valid JSON"):
        read(tmp_path / "golden.jsonl", f'{{"id": 1}}\n{line}\n')


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    """JSON lets U+2028, U+0085 and their like stand in a string."""
    text = '{"question": "a\u2028b\x85c"}\r\n\n{"question": "d"}'
    assert read(tmp_path / "golden.jsonl", text) == [(1, {"question": "a\u2028b\x85c"}), (3, {"question": "d"})]
