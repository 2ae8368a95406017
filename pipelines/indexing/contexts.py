"""Chunk contexts without a model: title, header chain and the key sentence before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipelines.indexing.summaries import EXTRACTIVE, clipped, words_of
from pipelines.records import Chunk, ChunkContext, ParsedDocument, Sentence

VERSION = 1


def chunk_contexts(
    document: ParsedDocument, chunks: Sequence[Chunk], sentences: Sequence[Sentence], characters: int = 250
) -> list[ChunkContext]:
    """One context for each chunk of one document, in the order of the chunks.

    The key sentence is the one of the chunk before that shares most content words with the
    chunk; a title that is only a file name is left out."""
    by_chunk: Mapping[str, list[Sentence]] = _by_chunk(sentences)
    made = []
    for position, chunk in enumerate(chunks):
        before = by_chunk.get(chunks[position - 1].chunk_id, []) if position else []
        places = [] if document.title_is_file_name else [document.title]
        places += [heading for heading in chunk.header_chain if heading not in places]
        parts = [" › ".join(places), _key_sentence(chunk, before)]
        text = clipped(": ".join(part for part in parts if part), characters)
        made.append(ChunkContext(document.doc_id, chunk.index, chunk.chunk_id, text, EXTRACTIVE))
    return made


def _by_chunk(sentences: Sequence[Sentence]) -> dict[str, list[Sentence]]:
    grouped: dict[str, list[Sentence]] = {}
    for sentence in sentences:
        grouped.setdefault(sentence.chunk_id, []).append(sentence)
    return grouped


def _key_sentence(chunk: Chunk, before: Sequence[Sentence]) -> str:
    if not before or chunk.has_overlap:
        return ""
    words = set(words_of(chunk.text))
    best = max(before, key=lambda item: (len(words & set(words_of(item.text))) / (len(item.text) + 40), item.index))
    return best.text
