"""The summary of an index run, as people read it."""

from __future__ import annotations

from typing import Any

from pincite.text.reports import index_summary


def result(**other: Any) -> dict[str, Any]:
    documents = {"listed": 1, "added": 1, "changed": 0, "unchanged": 0, "removed": 0}
    return {
        "generation": 1, "published": True, "embedder": "english-small",
        "documents": {**documents, "failed": [], "skipped": [], "warnings": []},
        "chunks": {"total": 1, "written": 1, "deleted": 0},
        "embedded": {"chunks": 1, "sentences": 2},
        "llm": dict.fromkeys(("calls", "cached", "pending"), 0),
        "failing_sources": {}, "seconds": {"total": 1.25}, "notes": [], **other,
    }  # fmt: skip


def test_one_document_is_no_documents() -> None:
    assert index_summary(result()).splitlines() == [
        "1 document: 1 added, 0 changed, 0 unchanged, 0 removed, 0 failed",
        "1 chunk: 1 written, 0 deleted; texts embedded: 1 of chunks, 2 of sentences",
        "generation 1 (english-small) is live; 1.2 s",
    ]


def test_a_generation_with_nothing_in_it_is_not_called_live() -> None:
    last = index_summary(result(chunks={"total": 0, "written": 0, "deleted": 1})).splitlines()[-1]
    assert last == "generation 1 (english-small) is empty: no passage can be found; 1.2 s"
