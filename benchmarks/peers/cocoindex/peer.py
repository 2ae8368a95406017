"""CocoIndex: PDFs to a table of Postgres by an app that remembers what it made of each file.

github.com/cocoindex-io/cocoindex, examples/pdf_embedding (app, table, sizes of chunks, the query). Its reader of PDFs,
marker, loads models from a hub; pypdf, which examples/pdf_elements_embedding takes, stands in for it.
"""

from __future__ import annotations

import asyncio
import io
import os
import sys
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path, PurePath
from typing import Annotated

sys.path.append(str(Path(__file__).resolve().parent.parent))

from common import DATABASE, HOST, MODEL, STATE, USER, K, Place, main

os.environ["COCOINDEX_DB"] = str(STATE / "cocoindex.db")

import asyncpg
import cocoindex as coco
from cocoindex.connectors import localfs, postgres
from cocoindex.ops.sentence_transformers import SentenceTransformerEmbedder
from cocoindex.ops.text import RecursiveSplitter
from cocoindex.resources.chunk import Chunk
from cocoindex.resources.file import FileLike, PatternFilePathMatcher
from cocoindex.resources.id import IdGenerator
from numpy.typing import NDArray

TABLE = "pdf_embeddings"
ABOUT = {
    "settings": "pypdf, the pages of a file as one text; RecursiveSplitter of 2000 bytes, 500 shared; an app with "
    "mount_each over walk_dir, memo=True, and IdGenerator; no vector index; the query of the example",
    "rows": f"SELECT filename, text FROM {TABLE}",
}
PACKAGES = ("cocoindex", "asyncpg", "pypdf")
BREAK = "\n\n"

POOL = coco.ContextKey[asyncpg.Pool]("pdf_embedding_db")
EMBEDDER = coco.ContextKey[SentenceTransformerEmbedder]("embedder", detect_change=True)
splitter = RecursiveSplitter()


@dataclass
class PdfEmbedding:
    id: int
    filename: str
    page_start: int
    page_end: int
    text: str
    embedding: Annotated[NDArray, EMBEDDER]


async def connected() -> asyncpg.Pool:
    return await asyncpg.create_pool(host=HOST, user=USER, database=DATABASE)


@coco.lifespan
async def lifespan(builder: coco.EnvironmentBuilder) -> AsyncIterator[None]:
    async with await connected() as pool:
        builder.provide(POOL, pool)
        builder.provide(EMBEDDER, SentenceTransformerEmbedder(MODEL))
        yield


@coco.fn
async def process_chunk(
    chunk: Chunk, filename: PurePath, starts: list[int], ids: IdGenerator, table: postgres.TableTarget[PdfEmbedding]
) -> None:
    table.declare_row(
        row=PdfEmbedding(
            id=await ids.next_id(chunk.text),
            filename=str(filename),
            page_start=bisect_right(starts, chunk.start.char_offset),
            page_end=bisect_right(starts, chunk.end.char_offset - 1),
            text=chunk.text,
            embedding=await coco.use_context(EMBEDDER).embed(chunk.text),
        )
    )


@coco.fn(memo=True)
async def process_file(file: FileLike, table: postgres.TableTarget[PdfEmbedding]) -> None:
    from pypdf import PdfReader

    pages = [page.extract_text() for page in PdfReader(io.BytesIO(await file.read())).pages]
    starts = list(accumulate((len(page) + len(BREAK) for page in pages[:-1]), initial=0))
    chunks = splitter.split(BREAK.join(pages), chunk_size=2000, chunk_overlap=500, language="markdown")
    await coco.map(process_chunk, chunks, file.file_path.path, starts, IdGenerator(), table)


@coco.fn
async def app_main(folder: Path) -> None:
    schema = await postgres.TableSchema.from_class(PdfEmbedding, primary_key=["id"])
    table = await postgres.mount_table_target(POOL, table_name=TABLE, table_schema=schema)
    matcher = PatternFilePathMatcher(included_patterns=["**/*.pdf"])
    await coco.mount_each(process_file, localfs.walk_dir(folder, recursive=True, path_matcher=matcher).items(), table)


def index(folder: Path) -> None:
    coco.App(coco.AppConfig(name="PdfEmbedding"), app_main, folder=folder).update_blocking()


def query(questions: Sequence[str]) -> list[list[Place]]:
    async def asked() -> list[list[Place]]:
        embedder, found = SentenceTransformerEmbedder(MODEL), []
        statement = (
            f"SELECT filename, page_start, page_end FROM {TABLE} ORDER BY embedding <=> $1::text::vector LIMIT $2"
        )
        async with await connected() as pool:
            for question in questions:
                vector = str((await embedder.embed(question)).tolist())
                hits = await pool.fetch(statement, vector, K)
                found.append([(hit["filename"], hit["page_start"], hit["page_end"]) for hit in hits])
        return found

    return asyncio.run(asked())


if __name__ == "__main__":
    main(ABOUT, PACKAGES, index, query)
