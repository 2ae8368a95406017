"""The documents of one part according to Parquet, and their rows for Postgres."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipelines.increments import DocumentState
from pipelines.indexing.indexed_documents import DocumentFacts, document_facts, row_hash
from pipelines.records import ParsedDocument, RawDocument
from pipelines.schemas import from_table
from resources.engine.vectors import vectors_of
from resources.postgres.index_rows import IndexedDocument

if TYPE_CHECKING:
    from resources.engine import Part

TEXTS = ("chunks", "sentences", "abbreviations", "document_summaries", "chunk_contexts")
TERMS = "chunk_terms"
"""The table of terms. It is computed only from chunks and titles, so their hashes cover it too."""
VECTORS = ("chunk_embeddings", "sentence_search_embeddings")
INPUTS = ("raw_documents", "parsed_documents", *TEXTS, *VECTORS)
"""The tables from which a document's index rows are computed."""


@dataclass
class PartRows:
    """The rows of one part's documents. `hashes` maps each document to the hash of its rows."""

    part: Part
    states: Mapping[str, Mapping[str, DocumentState]]
    raws: Mapping[str, RawDocument]
    parsed: Mapping[str, ParsedDocument]
    hashes: dict[str, str] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    """Ids of documents that failed at a stage after parsing. Readers keep the rows that they have."""

    def stale(self, doc_id: str) -> bool:
        return self.states["parsed_documents"][doc_id].failed is not None

    def facts(self, doc_id: str) -> DocumentFacts:
        return document_facts(self.raws[doc_id], self.parsed[doc_id])

    def documents(self, doc_ids: Sequence[str]) -> list[IndexedDocument]:
        """Return these documents with their rows for Postgres."""
        wanted = set(doc_ids)
        if not wanted:
            return []
        rows = {table: self.part.records(table, wanted) for table in (*TEXTS, TERMS)}
        vectors = {table: vectors_of(self.part, table, wanted) for table in VECTORS}
        return [
            self._document(
                doc_id,
                {table: found.get(doc_id, []) for table, found in rows.items()},
                {table: found[doc_id] for table, found in vectors.items()},
            )
            for doc_id in doc_ids
        ]

    def _document(
        self, doc_id: str, rows: Mapping[str, Sequence[Any]], vectors: Mapping[str, Mapping[str, Any]]
    ) -> IndexedDocument:
        (summary,) = rows["document_summaries"]
        return IndexedDocument(
            raw=self.raws[doc_id],
            parsed=self.parsed[doc_id],
            facts=self.facts(doc_id),
            summary=summary.text,
            stale=self.stale(doc_id),
            row_hash=self.hashes[doc_id],
            chunks=rows["chunks"],
            contexts={item.chunk_id: item.text for item in rows["chunk_contexts"]},
            terms={row.chunk_id: dict(zip(row.terms, row.counts, strict=True)) for row in rows[TERMS]},
            vectors=vectors["chunk_embeddings"],
            sentences=rows["sentences"],
            sentence_vectors=vectors["sentence_search_embeddings"],
            abbreviations=rows["abbreviations"],
            summary_method=summary.method,
            context_methods={item.chunk_id: item.method for item in rows["chunk_contexts"]},
        )


def read_part(part: Part) -> PartRows:
    """Read a part's listing, parses and document states. Rows of documents are read on demand. The part has all of
    INPUTS and TERMS."""
    states = {table: part.states(table) for table in INPUTS}
    raws = {raw.doc_id: raw for raw in from_table(RawDocument, part.read("raw_documents"))}
    parsed = from_table(ParsedDocument, part.read("parsed_documents"))
    found = PartRows(part, states, raws, {document.doc_id: document for document in parsed})
    for doc_id in found.parsed:
        outputs = [state.output for table in INPUTS[1:] if (state := states[table].get(doc_id))]
        if not all(outputs) or len(outputs) < len(INPUTS) - 1:
            found.held.add(doc_id)
            continue
        raw = raws[doc_id]
        found.hashes[doc_id] = row_hash(found.facts(doc_id), raw.uri, raw.content_hash, found.stale(doc_id), outputs)
    return found


def changed_groups(
    found: PartRows, held: Collection[str], served: Mapping[str, tuple[int, tuple[str, ...]]]
) -> dict[str, tuple[str, ...]]:
    """Return the new groups of each document in `held` whose groups changed although its rows are kept. `served` maps a
    document to its bucket and groups."""
    now = {doc_id: found.facts(doc_id).groups for doc_id in held}
    return {doc_id: groups for doc_id, groups in now.items() if served[doc_id][1] != groups}
