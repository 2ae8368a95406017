"""Chunk contexts: what a model reads to write one, and title, header chain and the key sentence before
where there is no model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pipelines.indexing.sentences import CODE
from pipelines.indexing.summaries import is_description, read_text, words_of
from pipelines.llm.prompts import PromptTemplate, as_data, most_tokens
from pipelines.llm.reply_text import clipped
from pipelines.ports import Prompt
from pipelines.records import EXTRACTIVE, Chunk, ChunkContext, ParsedDocument, Sentence

VERSION = 3


def context_window(chunks: int, at: int, width: int) -> tuple[range, range]:
    """Neighbours (before, after) of chunk `at` that its prompt shows: floor(w/2) and ceil(w/2), shifted at
    the document's ends so that there are w of them wherever the document has as many."""
    shown = min(width, chunks - 1)
    start = min(max(at - width // 2, 0), chunks - 1 - shown)
    return range(start, at), range(at + 1, start + shown + 1)


def context_prompts(
    template: PromptTemplate, title: str, chunks: Sequence[Chunk], characters: int, width: int
) -> Iterator[Prompt]:
    """What a model is asked for the context of each chunk of a document, in one pass; `title` empty where it is only
    a file name.

    Own texts and headings only: no number, page or count that an edit elsewhere in the document would change;
    and of its neighbours none that a model wrote."""
    own = [chunk for chunk in chunks if not is_description(chunk)]
    shown_title, at = as_data(title), 0
    for chunk in chunks:
        described = is_description(chunk)
        before, after = context_window(len(own) + described, at, width)
        at += not described
        # A description stands between own chunks without being one: those after it are counted from one earlier.
        system, user = template.render(
            title=shown_title,
            headings=as_data(" › ".join(heading for heading in chunk.header_chain if heading != title)),
            before=_own_texts(own[before.start : before.stop]),
            chunk=as_data(read_text(chunk)),
            after=_own_texts(own[after.start - described : after.stop - described]),
            characters=characters,
        )
        yield Prompt(system, user, most_tokens(characters))


def _own_texts(chunks: Iterable[Chunk]) -> str:
    return as_data("\n\n".join(map(read_text, chunks)))


def chunk_contexts(
    document: ParsedDocument, chunks: Sequence[Chunk], sentences: Sequence[Sentence], characters: int
) -> list[ChunkContext]:
    """One context for each chunk of one document, in the order of the chunks.

    The key sentence is the one of the chunk before that shares most content words with the
    chunk, and is not code; a title that is only a file name is left out."""
    by_chunk: Mapping[str, list[Sentence]] = _by_chunk(sentences)
    made = []
    before: list[Sentence] = []
    for chunk in chunks:
        places = [] if document.title_is_file_name else [document.title]
        places += [heading for heading in chunk.header_chain if heading not in places]
        parts = [" › ".join(places), _key_sentence(chunk, before)]
        text = clipped(": ".join(part for part in parts if part), characters)
        made.append(ChunkContext(document.doc_id, chunk.index, chunk.chunk_id, text, EXTRACTIVE))
        before = before if is_description(chunk) else by_chunk.get(chunk.chunk_id, [])
    return made


def _by_chunk(sentences: Sequence[Sentence]) -> dict[str, list[Sentence]]:
    grouped: dict[str, list[Sentence]] = {}
    for sentence in sentences:
        if sentence.source != CODE:
            grouped.setdefault(sentence.chunk_id, []).append(sentence)
    return grouped


def _key_sentence(chunk: Chunk, before: Sequence[Sentence]) -> str:
    if not before or chunk.has_overlap:
        return ""
    words = set(words_of(chunk.text))
    best = max(before, key=lambda item: (len(words & set(words_of(item.text))) / (len(item.text) + 40), item.index))
    return best.text
