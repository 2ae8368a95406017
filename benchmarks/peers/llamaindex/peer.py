"""LlamaIndex: PDFs to PGVectorStore by an IngestionPipeline whose document store knows what is in it.

developers.llamaindex.ai/python/examples/ingestion/document_management_pipeline (reader, pipeline, document store),
developers.llamaindex.ai/python/examples/vector_stores/postgres,
.../framework/integrations/retrievers/reciprocal_rerank_fusion (hybrid: BM25 beside vectors, without further queries).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

from common import DOCUMENTS, HYBRID, MODEL, STATE, VARIANT, K, Place, main, url

TABLE = "documents"
ABOUT = {
    "settings": "SimpleDirectoryReader(filename_as_id=True), which reads PDFs by pypdf; SentenceSplitter as it is, "
    f'1024 tokens of its own, 200 shared; IngestionPipeline(docstore_strategy="{VARIANT}") with SimpleDocumentStore, '
    "persisted after each run; PGVectorStore; its retriever; hybrid: QueryFusionRetriever of it and BM25Retriever by "
    "reciprocal_rerank",
    "rows": f"SELECT metadata_->>'file_name', text FROM data_{TABLE}",
}
PACKAGES = (
    "llama-index-core",
    "llama-index-readers-file",
    "llama-index-vector-stores-postgres",
    "llama-index-embeddings-huggingface",
    "llama-index-retrievers-bm25",
    "pypdf",
)


def store():
    from llama_index.vector_stores.postgres import PGVectorStore

    return PGVectorStore.from_params(
        connection_string=url("postgresql+psycopg2"),
        async_connection_string=url("postgresql+asyncpg"),
        table_name=TABLE,
        embed_dim=384,
    )


def model():
    from llama_index.embeddings.huggingface import HuggingFaceEmbedding

    return HuggingFaceEmbedding(model_name=MODEL)


def index(folder: Path) -> None:
    from llama_index.core import SimpleDirectoryReader
    from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
    from llama_index.core.node_parser import SentenceSplitter
    from llama_index.core.storage.docstore import SimpleDocumentStore

    documents = SimpleDirectoryReader(str(folder), filename_as_id=True).load_data()
    pipeline = IngestionPipeline(
        transformations=[SentenceSplitter(), model()],
        docstore=SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy(VARIANT),
        vector_store=store(),
    )
    kept = STATE / "pipeline"
    if kept.exists():
        pipeline.load(str(kept))
    pipeline.run(documents=documents)
    pipeline.persist(str(kept))


def query(questions: Sequence[str]) -> list[list[Place]]:
    from llama_index.core import VectorStoreIndex

    retriever = VectorStoreIndex.from_vector_store(store(), embed_model=model()).as_retriever(similarity_top_k=K)
    asked = fused(retriever) if HYBRID else retriever
    return [[place(hit.node) for hit in asked.retrieve(question)] for question in questions]


def fused(vectors):
    """The nodes are made again for BM25: the store of documents keeps whole pages."""
    from llama_index.core import SimpleDirectoryReader
    from llama_index.core.llms import MockLLM
    from llama_index.core.node_parser import SentenceSplitter
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.retrievers.bm25 import BM25Retriever

    nodes = SentenceSplitter()(SimpleDirectoryReader(str(DOCUMENTS), filename_as_id=True).load_data())
    words = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=K)
    return QueryFusionRetriever(
        [vectors, words], llm=MockLLM(), similarity_top_k=K, num_queries=1, mode="reciprocal_rerank", use_async=False
    )


def place(node) -> Place:
    """The reader makes a document of each page and numbers them in their ids; a page's label may be `iv`."""
    page = int(node.ref_doc_id.rpartition("_part_")[2]) + 1
    return node.metadata["file_name"], page, page


if __name__ == "__main__":
    main(ABOUT, PACKAGES, index, query)
