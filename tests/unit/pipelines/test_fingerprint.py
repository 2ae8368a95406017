from __future__ import annotations

from pipelines.fingerprint import bucket_of, document_id, fingerprint
from pipelines.records import Span


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


def test_buckets_are_in_range_and_spread() -> None:
    counts = [0] * 16
    for number in range(4000):
        counts[bucket_of(document_id("s", str(number)), 16)] += 1
    assert min(counts) > 150 and sum(counts) == 4000
