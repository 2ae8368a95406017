"""Tokens: made once, kept as hashes, and nobody is let in by a file that is not one of tokens."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from pincite.guard import FILE, TokenFile
from pipelines.errors import IndexStateError, PinciteError, SettingsError


def test_a_token_is_known_until_it_is_taken_away(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path)
    made = tokens.add("anna", ("hr",), operator=False)
    found = TokenFile(tmp_path).who(made)
    assert found is not None and (found[0], found[1].groups) == ("anna", ("hr",))
    assert tokens.who(made + "x") is None and tokens.who("") is None
    other = TokenFile(tmp_path)
    other.remove("anna")
    assert tokens.who(made) is None


def test_neither_the_token_nor_a_readable_file_is_left(tmp_path: Path) -> None:
    made = TokenFile(tmp_path).add("anna", (), operator=True)
    file = tmp_path / FILE
    assert made.removeprefix("pincite_") not in file.read_text(encoding="utf-8")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_name_has_one_token(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path)
    tokens.add("anna", (), operator=False)
    with pytest.raises(IndexStateError, match=r"anna already has a token.*`pincite tokens remove anna`") as taken:
        tokens.add("anna", ("hr",), operator=False)
    assert taken.value.code == "name_taken"
    with pytest.raises(IndexStateError, match=r"'boris' has no token.*`pincite tokens list`") as unknown:
        tokens.remove("boris")
    assert unknown.value.code == "unknown_name"
    for name in ("", "a\nb", "x" * 101):
        with pytest.raises(PinciteError):
            tokens.add(name, (), operator=False)


ENTRY = {"sha256": "0" * 64, "groups": ["hr"], "operator": False, "created": "2026"}
DAMAGED = [
    "",
    "[]",
    '{"anna": 1}',
    json.dumps({"anna": {**ENTRY, "sha256": "00"}}),
    json.dumps({"anna": {**ENTRY, "groups": "hr"}}),
    json.dumps({"anna": {**ENTRY, "groups": [""]}}),
    json.dumps({"anna": {**ENTRY, "operator": "no"}}),
    json.dumps({"anna": {**ENTRY, "more": 1}}),
    f'{{"anna": {json.dumps(ENTRY)}, "anna": {json.dumps(ENTRY)}}}',
    "[" * 100_000,
]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_file_lets_nobody_in(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=r"tokens\.json"):
        TokenFile(tmp_path).who("anything")
