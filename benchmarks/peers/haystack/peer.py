"""Haystack: PDFs to PgvectorDocumentStore by an indexing pipeline whose writer overwrites.

haystack.deepset.ai/tutorials/08_preprocessing (converter, cleaner, splitter, embedder, writer),
docs.haystack.deepset.ai/docs/pgvectordocumentstore, .../documentwriter (what to do with what is there already),
haystack.deepset.ai/tutorials/33_hybrid_retrieval (hybrid: BM25 in memory beside vectors, joined).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

from common import HYBRID, MODEL, K, Place, main, url

TABLE = "haystack_documents"
ABOUT = {
    "settings": "PyPDFToDocument; DocumentCleaner and DocumentSplitter as they are, 200 words; DocumentWriter with "
    "DuplicatePolicy.OVERWRITE; PgvectorDocumentStore with search_strategy hnsw; PgvectorEmbeddingRetriever; hybrid: "
    'DocumentJoiner(join_mode="reciprocal_rank_fusion") of it and InMemoryBM25Retriever',
    "rows": f"SELECT meta->>'file_path', content FROM {TABLE}",
}
PACKAGES = ("haystack-ai", "pgvector-haystack", "sentence-transformers-haystack", "pypdf")


def store():
    from haystack_integrations.document_stores.pgvector import PgvectorDocumentStore

    os.environ["PG_CONN_STR"] = url()
    return PgvectorDocumentStore(
        table_name=TABLE, embedding_dimension=384, vector_function="cosine_similarity", search_strategy="hnsw"
    )


def index(folder: Path) -> None:
    from haystack import Pipeline
    from haystack.components.converters import PyPDFToDocument
    from haystack.components.preprocessors import DocumentCleaner, DocumentSplitter
    from haystack.components.writers import DocumentWriter
    from haystack.document_stores.types import DuplicatePolicy
    from haystack_integrations.components.embedders.sentence_transformers import SentenceTransformersDocumentEmbedder

    pipeline = Pipeline()
    pipeline.add_component("converter", PyPDFToDocument())
    pipeline.add_component("cleaner", DocumentCleaner())
    pipeline.add_component("splitter", DocumentSplitter())
    pipeline.add_component("embedder", SentenceTransformersDocumentEmbedder(model=MODEL))
    pipeline.add_component("writer", DocumentWriter(document_store=store(), policy=DuplicatePolicy.OVERWRITE))
    for first, second in (("converter", "cleaner"), ("cleaner", "splitter"), ("splitter", "embedder")):
        pipeline.connect(first, second)
    pipeline.connect("embedder", "writer")
    pipeline.run({"converter": {"sources": sorted(folder.glob("*.pdf"))}})


def query(questions: Sequence[str]) -> list[list[Place]]:
    from haystack import Pipeline
    from haystack_integrations.components.embedders.sentence_transformers import SentenceTransformersTextEmbedder
    from haystack_integrations.components.retrievers.pgvector import PgvectorEmbeddingRetriever

    pipeline = Pipeline()
    pipeline.add_component("embedder", SentenceTransformersTextEmbedder(model=MODEL, progress_bar=False))
    pipeline.add_component("retriever", PgvectorEmbeddingRetriever(document_store=store(), top_k=K))
    pipeline.connect("embedder.embedding", "retriever.query_embedding")
    if HYBRID:
        add_words(pipeline)
    found = []
    for question in questions:
        words = {"words": {"query": question}} if HYBRID else {}
        hits = pipeline.run({"embedder": {"text": question}, **words})["joiner" if HYBRID else "retriever"]["documents"]
        found.append([(Path(hit.meta["file_path"]).name, *[hit.meta["page_number"]] * 2) for hit in hits])
    return found


def add_words(pipeline) -> None:
    from haystack.components.joiners import DocumentJoiner
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    memory = InMemoryDocumentStore()
    memory.write_documents(store().filter_documents())
    pipeline.add_component("words", InMemoryBM25Retriever(document_store=memory, top_k=K))
    pipeline.add_component("joiner", DocumentJoiner(join_mode="reciprocal_rank_fusion", top_k=K))
    pipeline.connect("words", "joiner")
    pipeline.connect("retriever", "joiner")


if __name__ == "__main__":
    main(ABOUT, PACKAGES, index, query)
