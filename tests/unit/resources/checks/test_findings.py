"""Findings are reported by code: the first few, and how many more there are."""

from __future__ import annotations

from resources.checks.findings import SHOWN, group_findings


def test_more_findings_than_are_shown_are_counted() -> None:
    found = [("changed_sentence", f"sentence {number}") for number in range(SHOWN + 2)]
    ((code, message),) = group_findings([*found], 2)
    assert code == "changed_sentence" and message.startswith("generation 2: sentences that differ")
    assert f"sentence 0; sentence 1; sentence {SHOWN - 1}; and 2 more. " in message
    assert "g0002.documents" in message


def test_findings_that_are_all_shown_are_not_counted() -> None:
    ((_, message),) = group_findings([("leftover_schema", "g0009")])
    assert "more" not in message and "g0009. Drop each" in message
