"""Hits by document, and the names by which people tell documents apart."""

from __future__ import annotations

from typing import Any

import pytest

from resources.search.passages import document_format, document_names, with_documents


def hit(rank: int, doc_id: str, uri: str, title: str, source: str = "s", date: str | None = None) -> dict[str, Any]:
    return {"rank": rank, "doc_id": doc_id, "source": source, "uri": uri, "title": title, "date": date}


HITS = [
    hit(1, "a", "travel/2026.pdf", "Travel Policy", date="2026-03-01"),
    hit(2, "b", "travel/2024.pdf", "Travel Policy"),
    hit(3, "a", "travel/2026.pdf", "Travel Policy", date="2026-03-01"),
    hit(4, "c", "notes.TXT", "Notes  of\nMay"),
]


def test_hits_are_grouped_by_document_in_the_order_of_their_best() -> None:
    found = with_documents({"query": "q", "hits": HITS})
    assert [(group["doc_id"], group["hits"]) for group in found["documents"]] == [("a", [1, 3]), ("b", [2]), ("c", [4])]
    assert found["documents"][0] == {
        "doc_id": "a", "source": "s", "uri": "travel/2026.pdf", "title": "Travel Policy",
        "name": "Travel Policy (2026.pdf)", "format": "pdf", "date": "2026-03-01", "hits": [1, 3],
    }  # fmt: skip
    assert found["hits"] == [
        {**each, "name": found["documents"][at]["name"]} for each, at in zip(HITS, (0, 1, 0, 2), strict=True)
    ]
    assert found["query"] == "q" and "citations" not in found


def test_a_citation_is_named_as_its_document() -> None:
    quoted = [{"source": "s", "uri": "travel/2024.pdf"}, {"source": "s", "uri": "gone/away.md"}]
    found = with_documents({"hits": HITS, "citations": quoted, "marked": quoted[:1]})
    assert [item["name"] for item in found["citations"]] == ["Travel Policy (2024.pdf)", "away.md"]
    assert [item["name"] for item in found["marked"]] == ["Travel Policy (2024.pdf)"]


@pytest.mark.parametrize(
    ("documents", "shared", "names"),
    [
        ([("a.pdf", "One"), ("b.pdf", "Two")], (), ["One", "Two"]),
        ([("a.pdf", "One"), ("b.pdf", "Two")], ("Two",), ["One", "Two (b.pdf)"]),
        ([("x/a.pdf", "One"), ("y/a.pdf", "One")], (), ["One (x/a.pdf)", "One (y/a.pdf)"]),
        ([("x/a.pdf", ""), ("https://h.example/", " ")], (), ["a.pdf", "h.example"]),
    ],
)
def test_a_name_identifies_its_document(
    documents: list[tuple[str, str]], shared: tuple[str, ...], names: list[str]
) -> None:
    hits = [hit(at, uri, uri, title) for at, (uri, title) in enumerate(documents)]
    assert list(document_names(hits, shared).values()) == names


def test_one_path_in_two_sources_is_named_with_them() -> None:
    hits = [hit(1, "a", "a.pdf", "One", "s"), hit(2, "b", "a.pdf", "One", "t")]
    assert list(document_names(hits).values()) == ["One (s/a.pdf)", "One (t/a.pdf)"]


@pytest.mark.parametrize(
    ("uri", "ending"),
    [
        ("a/b.PDF", "pdf"),
        ("a.htm", "html"),
        ("mail.eml", "eml"),
        ("https://h.com", ""),
        ("Makefile", ""),
        ("a.b/c", ""),
    ],
)
def test_a_format_is_the_usual_ending(uri: str, ending: str) -> None:
    assert document_format(uri) == ending
