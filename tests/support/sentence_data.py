"""Sentences of the generations that search_data.py writes: three a chunk, the first two of one paragraph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from psycopg.types.json import Jsonb
from psycopg.types.range import Int4Range

from resources.postgres.catalog import GenerationRow
from resources.postgres.database import Database
from tests.support.search_data import Document, load

A_CHUNK = 3
COLUMNS = (
    "sentence_id, doc_id, ordinal, chunk_id, text, source, page, boxes, confidence, start, length, paragraph_id, "
    "section_id, section_path, previous_id, next_id, embedding, paragraph_start, paragraph_length, paragraph_span"
)


def texts(chunks: int) -> list[str]:
    """Of three sentences each."""
    return [
        f"First {number} says one. Second {number} says two. Third {number} says three." for number in range(chunks)
    ]


def sentence_id(place: int) -> str:
    return f"s{place:05d}"


def load_sentences(
    database: Database,
    documents: Sequence[Document],
    vectors: np.ndarray,
    links: Iterable[tuple[int, int, float]] = (),
    *,
    older: bool = False,
    half: bool = False,
    unsure: Iterable[int] = (),
) -> GenerationRow:
    """A generation of these documents, whose chunks hold three sentences; `vectors` and `links` are by the place
    of a sentence among all, `unsure` those of confidence 0.3; an `older` one does not know its paragraphs."""
    chunks, numbers = vectors[::A_CHUNK], vectors.tolist()
    generation, doubtful = load(database, documents, chunks, half=half, publish=False), set(unsure)
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SET search_path = {generation.schema}, public")
        place = 0
        with cursor.copy(f"COPY sentences ({COLUMNS}) FROM STDIN") as copy:
            for document in documents:
                for chunk, text in enumerate(document.texts):
                    parts = [part.rstrip(".") + "." for part in text.split(". ")]
                    second = len(" ".join(parts[:2])) + 1
                    for at, part in enumerate(parts):
                        number = place // A_CHUNK + 1
                        first, last = (0, second - 1) if at < 2 else (second, len(text))
                        span = Int4Range(1000 * chunk + first, 1000 * chunk + last)
                        copy.write_row(
                            (sentence_id(place), document.doc_id, chunk * A_CHUNK + at, f"c{number:05d}", part,
                             "paragraph", 7, Jsonb([{"page": 7, "x0": at, "y0": 1, "x1": 2, "y1": 3}]),
                             0.3 if place in doubtful else 1.0, text.index(part), len(part),
                             f"p{number:05d}-{at // 2}", f"section{chunk}", ["Top"], None, None,
                             "[" + ",".join(map(str, numbers[place])) + "]", *((0, 0, Int4Range(empty=True)) if older
                             else (first, last - first, span)))
                        )  # fmt: skip
                        place += 1
        rows = [(sentence_id(source), sentence_id(target), similarity) for source, target, similarity in links]
        cursor.executemany("INSERT INTO sentence_links VALUES (%s, %s, %s)", rows)
        what = f"(embedding::halfvec({vectors.shape[1]})) halfvec_cosine_ops" if half else "embedding vector_cosine_ops"
        cursor.execute(f"CREATE INDEX ON sentences USING hnsw ({what})")
        cursor.execute("ANALYZE sentences, sentence_links")
    return generation
