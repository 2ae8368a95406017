"""Every table by name, with the type of its records."""

from __future__ import annotations

from collections.abc import Mapping

from pipelines import records

TABLES: Mapping[str, type] = {
    "raw_documents": records.RawDocument,
    "parsed_documents": records.ParsedDocument,
    "parsed_elements": records.Element,
    "figure_descriptions": records.FigureDescription,
    "structural_chunks": records.StructuralChunk,
    "packed_chunks": records.PackedChunk,
    "chunks": records.Chunk,
    "chunk_terms": records.ChunkTerms,
    "sentences": records.Sentence,
    "filtered_sentences": records.FilteredSentence,
    "document_summaries": records.DocumentSummary,
    "chunk_contexts": records.ChunkContext,
    "chunk_embeddings": records.Embedding,
    "sentence_embeddings": records.Embedding,
    "sentence_search_embeddings": records.Embedding,
    "sentence_links": records.SentenceLink,
}


def tables(*names: str) -> dict[str, type]:
    """Some of them."""
    return {name: TABLES[name] for name in names}
