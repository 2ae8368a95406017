"""LangChain: PDFs to PGVectorStore by its indexing API, which keeps a record of what is in the store.

docs.langchain.com/oss/python/langchain/knowledge-base (reader, splitter and its sizes),
docs.langchain.com/oss/python/integrations/vectorstores/pgvectorstore,
reference.langchain.com/python/langchain-core/indexing/api (index, and what its modes delete),
reference.langchain.com/python/langchain-classic/retrievers/ensemble (hybrid: BM25 beside vectors).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

from common import DOCUMENTS, HYBRID, MODEL, VARIANT, K, Place, main, url

TABLE = "vectorstore"
ABOUT = {
    "settings": "PyPDFLoader; RecursiveCharacterTextSplitter of 1000 characters, 200 shared; "
    f'index(cleanup="{VARIANT}") with SQLRecordManager; PGVectorStore; its similarity search; hybrid: '
    "EnsembleRetriever of it and BM25Retriever, half each",
    "rows": f"SELECT langchain_metadata->>'source', content FROM {TABLE}",
}
PACKAGES = (
    "langchain-core",
    "langchain-community",
    "langchain-postgres",
    "langchain-huggingface",
    "rank-bm25",
    "pypdf",
)


def store(make: bool):
    from langchain_huggingface import HuggingFaceEmbeddings
    from langchain_postgres import PGEngine, PGVectorStore
    from sqlalchemy.exc import ProgrammingError

    engine = PGEngine.from_connection_string(url=url("postgresql+psycopg"))
    if make:
        try:
            engine.init_vectorstore_table(table_name=TABLE, vector_size=384)
        except ProgrammingError as error:
            if "already exists" not in str(error):
                raise
    embeddings = HuggingFaceEmbeddings(model_name=MODEL)
    return PGVectorStore.create_sync(engine=engine, table_name=TABLE, embedding_service=embeddings)


def chunks_of(folder: Path):
    from langchain_community.document_loaders import PyPDFLoader
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    pages = [page for file in sorted(folder.glob("*.pdf")) for page in PyPDFLoader(str(file)).load()]
    splitter = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=200, add_start_index=True)
    return splitter.split_documents(pages)


def index(folder: Path) -> None:
    from langchain_classic.indexes import SQLRecordManager
    from langchain_classic.indexes import index as write

    chunks = chunks_of(folder)
    records = SQLRecordManager(f"pgvector/{TABLE}", db_url=url("postgresql+psycopg"))
    records.create_schema()
    write(chunks, records, store(make=True), cleanup=VARIANT, source_id_key="source")


def query(questions: Sequence[str]) -> list[list[Place]]:
    found = store(make=False)
    ask = hybrid(found).invoke if HYBRID else lambda question: found.similarity_search(question, k=K)
    return [
        [
            (Path(hit.metadata["source"]).name, hit.metadata["page"] + 1, hit.metadata["page"] + 1)
            for hit in ask(question)[:K]
        ]
        for question in questions
    ]


def hybrid(found):
    from langchain_classic.retrievers import EnsembleRetriever
    from langchain_community.retrievers import BM25Retriever

    words, vectors = BM25Retriever.from_documents(chunks_of(DOCUMENTS)), found.as_retriever(search_kwargs={"k": K})
    words.k = K
    return EnsembleRetriever(retrievers=[words, vectors], weights=[0.5, 0.5])


if __name__ == "__main__":
    main(ABOUT, PACKAGES, index, query)
