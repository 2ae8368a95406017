from __future__ import annotations

from typing import Any

from pincite.text.passages import explanation_shown

HASHES = {name: 4 * (8 * digit) for name, digit in zip("abcdef", "abcdef", strict=True)}
RUN = "0b2c3d4e-0000-4000-8000-000000000000"


def stage(name: str, **values: Any) -> dict[str, Any]:
    return {
        "stage": name, "key": HASHES["a"], "version": 3, "settings": {"buckets": 4}, "keys_before": {}, "inputs": [],
        "fingerprint": HASHES["b"], "failed_fingerprint": None, "stands_in": False,
        "tables": [{"table": name, "output": HASHES["c"], "file": f"{name}/00.parquet"}],
        "at": "2026-11-21T10:00:00+00:00",
        "run": RUN, "reason": "new document", "committed_at": "2026-11-21T10:00:01+00:00", "cost": None, **values,
    }  # fmt: skip


def explanation(*stages: dict[str, Any], **values: Any) -> dict[str, Any]:
    return {
        "chunk_id": HASHES["f"], "page_start": 3, "page_end": 4,
        "document": {
            "doc_id": HASHES["e"], "source": "docs", "uri": "a.pdf", "title": "Travel", "path": "/x/docs/a.pdf",
            "file": "changed", "content_hash": HASHES["d"], "size": 1234, "media_type": "application/pdf", "pages": 9,
            "language": "en", "effective_date": None, "version": "2", "groups": [], "principals": [], "bucket": 5,
            "stale": False, "failures": [],
        },
        "generation": {
            "generation": 7, "key": HASHES["a"], "live": True, "embedder": "small", "dimension": 3,
            "created_at": "c", "published_at": None,
            "statistics": {"chunks": 9, "average_terms": 12.5, "languages": {"en": 2}},
        },
        "parquet": "/x/parquet", "stages": list(stages), "problems": [], **values,
    }  # fmt: skip


def block(shown: str, title: str) -> list[str]:
    """The lines under a heading."""
    return shown.split(f"\n\n{title}\n")[1].split("\n\n")[0].splitlines()


def test_the_head_names_the_place_the_chunk_and_the_generation() -> None:
    shown = explanation_shown(explanation())
    assert shown.splitlines()[:2] == ["a.pdf, pp. 3–4  [docs]  Travel", f"chunk {HASHES['f']}, generation 7 (live)"]
    assert block(shown, "document") == [
        "  file            /x/docs/a.pdf (changed since it was last listed)",
        "  content         dddddddddd, 1,234 bytes, application/pdf",
        "  pages           9",
        "  language        en",
        "  effective date  –",
        "  version         2",
        "  groups          everyone",
        "  document id     eeeeeeeeee, bucket 05",
    ]
    assert shown.splitlines()[-1] == "all agree, from the document to the vector"


def test_a_stage_has_every_component_in_aligned_columns_and_short_hashes() -> None:
    made = stage(
        "chunks",
        settings={"buckets": 4, "overlap_floors": {"en": 0.4, "*": 0.5}, "static_vectors": HASHES["e"]},
        keys_before={"packed_chunks": HASHES["d"]},
        inputs=[
            {"table": "packed_chunks", "used": HASHES["f"][:16], "now": HASHES["f"]},
            {"table": "parsed_documents", "used": HASHES["b"][:16], "now": HASHES["e"]},
        ],
        overlap_tokens=12, chunk_before=HASHES["d"], floor=0.4, language="en",
    )  # fmt: skip
    assert block(explanation_shown(explanation(made)), "chunks") == [
        "  key                    aaaaaaaaaa",
        "    version              3",
        "    buckets              4",
        "    overlap_floors       en 0.4, * 0.5",
        "    static_vectors       eeeeeeeeee",
        "    after packed_chunks  dddddddddd",
        "  from packed_chunks     ffffffffff",
        "  from parsed_documents  bbbbbbbbbb then, eeeeeeeeee now",
        "  to chunks              cccccccccc",
        "    file                 chunks/00.parquet",
        "  made                   2026-11-21T10:00:00+00:00",
        f"  by run                 {RUN}",
        "  why                    new document",
        "  bucket committed       2026-11-21T10:00:01+00:00",
        "  cost                   no model call in that run",
        "  overlap                12 tokens of chunk dddddddddd",
        "  cosine floor           0.400 for en",
    ]


def test_a_stage_made_before_there_were_records_says_so() -> None:
    shown = explanation_shown(explanation(stage("sentences", at=None, run=None, reason=None, committed_at=None)))
    unknown = [line.split("  ")[1] for line in block(shown, "sentences") if line.endswith("  not recorded")]
    assert unknown == ["made", "by run", "why", "bucket committed", "cost"]


def test_elements_are_a_table_under_their_stage() -> None:
    boxes = [{"page": 1, "x0": 1, "y0": 2, "x1": 3, "y1": 4}]
    elements = [
        {"index": 1, "kind": "heading", "page_start": 1, "page_end": 1, "words": "Limits", "boxes": boxes},
        {"index": 2, "kind": "table", "page_start": 1, "page_end": 2, "words": "City Limit", "boxes": 2 * boxes},
        {"index": 3, "kind": "paragraph", "page_start": None, "page_end": None, "words": "Later", "boxes": []},
    ]
    shown = explanation_shown(explanation(stage("parsed_elements", elements=elements)))
    assert block(shown, "parsed_elements")[-4:] == [
        "  element    page  boxes  begins",
        "  heading    1     1      Limits",
        "  table      1–2   2      City Limit",
        "  paragraph  –     0      Later",
    ]


def vector(**values: Any) -> dict[str, Any]:
    embedder = {"kind": "preset", "name": "small", "identity": HASHES["e"], "passage_prefix": "passage: "}
    return stage(
        "chunk_embeddings", embedded_text="Travel › Limits\nOne word " + 40 * "and another ", text_hash=HASHES["b"],
        recorded_text_hash=HASHES["b"], embedder=embedder, dimension=3, norm=1.0, first_values=[0.5, -0.25, 1.0],
        same_in_postgres=True, **values,
    )  # fmt: skip


def test_the_embedded_text_is_shown_whole_with_what_it_cost() -> None:
    cost = {"items": 14, "tokens": 2000, "seconds": 1.25, "standing": 1, "share": 0.031, "share_tokens": 62}
    lines = block(explanation_shown(explanation(vector(cost=cost))), "chunk_embeddings")
    text = " ".join(" ".join(lines).split())
    assert "embedded text Travel › Limits One word " + 40 * "and another " + "hash of it bbbbbbbbbb" in text
    assert (
        "14 texts, 2,000 tokens, 1.2 s in that run (1 chunk of it here now); this one about 62 tokens (3.1 %)" in text
    )
    assert "prefix 'passage: '" in text and "begins 0.5000 -0.2500 1.0000 in Postgres the same" in text
    assert max(map(len, lines)) <= 96
    reused = block(explanation_shown(explanation(vector())), "chunk_embeddings")
    assert any("no model call in that run: the vectors were there before" in line for line in reused)


def test_a_bought_text_is_shown_with_what_its_run_paid() -> None:
    cost = {"calls": 1, "tokens": 1250, "cost": 0.0125, "currency": "EUR"}
    text = {"text": "What it is about.", "method": "llm", "model": "writer", "reply": HASHES["b"], "note": ""}
    made = stage("document_summaries", cost=cost, **text)
    lines = block(explanation_shown(explanation(made)), "document_summaries")
    assert [" ".join(line.split()) for line in lines[-4:]] == [
        "cost 1 call, 1,250 tokens, 0.0125 EUR in that run",
        "method llm of writer", "note –", "text What it is about.",
    ]  # fmt: skip


def test_each_figure_has_its_description_or_why_there_is_none() -> None:
    text = {"text": "A map.", "method": "llm", "model": "seeing", "reply": HASHES["b"], "note": ""}
    none = {"text": "", "method": "fallback", "model": "seeing", "reply": HASHES["c"], "note": "the model refused"}
    figures = [{"element": 3, **text}, {"element": 8, **none}]
    lines = block(explanation_shown(explanation(stage("figure_descriptions", figures=figures))), "figure_descriptions")
    assert [" ".join(line.split()) for line in lines[-8:]] == [
        "figure 3", "method llm of seeing", "note –", "text A map.",
        "figure 8", "method fallback of seeing", "note the model refused", "text –",
    ]  # fmt: skip
    empty = block(explanation_shown(explanation(stage("figure_descriptions", figures=[]))), "figure_descriptions")
    assert " ".join(empty[-1].split()) == "cost no model call in that run"


def test_a_stale_document_and_problems_are_said() -> None:
    failed = stage(
        "parsed_elements", failed_fingerprint=HASHES["f"],
        inputs=[{"table": "raw_documents", "used": HASHES["b"][:16], "now": HASHES["f"]}],
    )  # fmt: skip
    result = explanation(failed, problems=[{"code": "vector", "message": "another; run `pincite index`"}])
    result["document"] |= {
        "stale": True,
        "failures": [{"stage": "parsed_elements", "code": "empty", "message": "0 bytes"}],
    }
    shown = explanation_shown(result)
    assert block(shown, "document")[-2:] == [
        "  stale           served in its last good version",
        "  failed          parsed_elements: empty: 0 bytes",
    ]
    assert "  failed with         raw_documents ffffffffff; what follows is of the last good version" in shown
    assert shown.splitlines()[-1] == "problem: vector: another; run `pincite index`" and "all agree" not in shown
