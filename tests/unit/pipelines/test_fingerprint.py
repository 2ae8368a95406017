from __future__ import annotations

import pytest

from pipelines.fingerprint import document_id, fingerprint, records_hash
from pipelines.records import Box, ParsedDocument, Place, Span, Stop


def test_parts_do_not_run_into_each_other() -> None:
    assert fingerprint("ab", "c") != fingerprint("a", "bc")
    assert fingerprint(["a"], "b") != fingerprint(["a", "b"])
    assert fingerprint(None) != fingerprint("None")


def test_known_value_never_moves() -> None:
    assert fingerprint("document", 1, {"b": 2, "a": Span(1, 2)}) == "ac4c6fe489ed28a19885f390818e8120"


def test_mappings_and_sets_have_no_order() -> None:
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint(frozenset({"x", "y"})) == fingerprint(frozenset({"y", "x"}))


def test_document_is_its_place() -> None:
    assert document_id("handbook", "a/b.md") == document_id("handbook", "a/b.md")
    assert document_id("handbook", "a/b.md") != document_id("other", "a/b.md")


def test_records_have_their_fingerprint() -> None:
    place = Place(1, 5, Box(1, 0.5, 1e-9, 3.25, 1e22), 7, None, "Ä!A1", (Stop(1, 2.5, 3.0),))
    parsed = ParsedDocument(
        "d", 'é\ud83d "\\', True, "uk", "b\n", None, None, "2", ("a", "b"), {"z": "1", "a": "2", "": "0"}, ()
    )
    for rows in ([], [place], [place, place], [parsed], [("d", 1, "i", "h")]):
        assert records_hash(rows) == fingerprint(rows)
    with pytest.raises(TypeError, match="bytes"):
        records_hash([b"x"])
