"""Texts that a model writes about documents, chunks and figures, and the extracts that replace them if no model is set.

Each kind has the prompt that the model reads, the check of its reply, and the rows that are kept. A summary without a
model is central sentences, spread over the document: centrality is the mean probability of a sentence's content words
in the document (SumBasic, Nenkova and Vanderwende 2005), with the words of a chosen sentence damped before the next
choice. A context without a model is title, header chain and the key sentence before. A figure has no replacement; its
prompt holds only the picture and the language, so equal pictures share one description and are paid for once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pipelines.indexing.sentences import CODE
from pipelines.llm.prompts import DEFAULT_LANGUAGE, PromptTemplate, as_data, most_tokens
from pipelines.llm.reply_text import clean, clip
from pipelines.parsing.pictures import FIGURE, IMAGE_HASH
from pipelines.parsing.titles import begins_title
from pipelines.ports import NoReply, Prompt, Reply
from pipelines.records import (
    DESCRIPTION,
    EXTRACTIVE,
    FALLBACK,
    LLM,
    WAITING,
    Chunk,
    ChunkContext,
    DocumentSummary,
    Element,
    FigureDescription,
    ParsedDocument,
    Sentence,
)

# ---------------------------------------------------------------- summaries


LONGEST = 8000
"""Most characters of one chunk in a prompt."""
MARKS = {
    "en": ("[page {}]", "[pages {}–{}]", "[chunks left out here: {}; the middle of the document is missing]"),
    "uk": ("[сторінка {}]", "[сторінки {}–{}]", "[тут пропущено фрагментів: {}; середини документа немає]"),
}
"""Marks in the prompt's language for one page, several pages, and the chunks omitted in the middle of the window."""
_WORD = re.compile(r"[^\W\d_]{4,}")
_FEWEST_WORDS, _MOST_WORDS = 4, 40


def words_of(text: str) -> list[str]:
    """Return content words in lower case, cut to six letters so that forms of one word count as the same word."""
    return [word[:6] for word in _WORD.findall(text.casefold())]


def window(chunks: int, width: int) -> list[int]:
    """Return the chunks that a summary reads: all, or the first floor(w/2) and the last ceil(w/2)."""
    if chunks <= width:
        return list(range(chunks))
    return [*range(width // 2), *range(chunks - (width - width // 2), chunks)]


def summary_prompt(
    template: PromptTemplate, title: str, chunks: Sequence[Chunk], characters: int, width: int
) -> Prompt:
    """Return the prompt for a document's summary; `chunks` are in reading order, `title` is empty if it is only a file
    name.

    The prompt shows each chunk's own text, without overlap, after its page and after the headings that are new since
    the chunk before it.
    """
    chunks = own_text_chunks(chunks)
    *_, left_out = _marks(template)
    gap = width // 2 if len(chunks) > width else None
    parts: list[str] = []
    above: tuple[str, ...] = (title,)
    for position, item in enumerate(window(len(chunks), width)):
        if position == gap:
            parts.append(left_out.format(len(chunks) - width))
        chunk = chunks[item]
        headings = " › ".join(_new_headings(chunk, above))
        parts.append("\n".join(filter(None, (_page_mark(template, chunk), headings, read_text(chunk)))))
        above = (title, *chunk.header_chain)
    system, user = template.render(title=as_data(title), document=as_data("\n\n".join(parts)), characters=characters)
    return Prompt(system, user, most_tokens(characters))


def is_description(chunk: Chunk) -> bool:
    """Say whether the chunk's text is a model's description of a figure."""
    return DESCRIPTION in chunk.block_types


def own_text_chunks(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Return the chunks of the document's own text; return all chunks if no chunk has own text."""
    return [chunk for chunk in chunks if not is_description(chunk)] or list(chunks)


def read_text(chunk: Chunk) -> str:
    """Return a chunk's own text for a prompt; only an endless table row is cut."""
    return clip(chunk.text, LONGEST)


def _marks(template: PromptTemplate) -> tuple[str, str, str]:
    return MARKS.get(template.language, MARKS[DEFAULT_LANGUAGE])


def _page_mark(template: PromptTemplate, chunk: Chunk) -> str:
    if chunk.page_start is None:
        return ""
    page, pages, _ = _marks(template)
    end = chunk.page_end or chunk.page_start
    return (page if end == chunk.page_start else pages).format(chunk.page_start, end)


def _new_headings(chunk: Chunk, above: Sequence[str]) -> list[str]:
    """Return the headings of the chunk that are new since the chunk before it and not inline in its own text."""
    inline = chunk.text[: chunk.offsets[0]].split("\n") if chunk.offsets else []
    return [heading for heading in chunk.header_chain if heading not in above and heading not in inline]


def document_summary(
    doc_id: str, sentences: Sequence[Sentence], chunk_ids: Sequence[str], characters: int, width: int
) -> DocumentSummary:
    """Return at most `characters` of the document's own sentences, in reading order.

    `chunk_ids` are in reading order; candidates are the sentences of the chunks that `window` selects.
    """
    read = {chunk_ids[item] for item in window(len(chunk_ids), width)}
    candidates = [sentence for sentence in sentences if sentence.chunk_id in read and _is_prose(sentence)]
    chosen = _choose(candidates or [item for item in sentences if item.chunk_id in read], characters)
    return DocumentSummary(doc_id, " ".join(chosen), EXTRACTIVE)


def _is_prose(sentence: Sentence) -> bool:
    count = len(sentence.text.split())
    return sentence.source in ("paragraph", "list_item") and _FEWEST_WORDS <= count <= _MOST_WORDS


def _choose(candidates: Sequence[Sentence], characters: int) -> list[str]:
    words = [words_of(sentence.text) for sentence in candidates]
    counts = Counter(word for each in words for word in each)
    total = sum(counts.values()) or 1
    weight = {word: count / total for word, count in counts.items()}
    first = {candidates[item].text: item for item in reversed(range(len(candidates)))}
    chosen: dict[int, str] = {}
    room = characters
    # A text is chosen once, and room only shrinks: what cannot be chosen any more is not weighed again.
    while left := [item for text, item in first.items() if len(text) <= room and item not in chosen]:
        best = max(left, key=lambda item: (sum(weight[word] for word in words[item]) / (len(words[item]) or 1), -item))
        chosen[best] = text = candidates[best].text
        room -= len(text) + 1
        for word in words[best]:
            weight[word] *= weight[word]
    if not chosen and candidates:
        return [clip(candidates[0].text, characters)]
    return [chosen[item] for item in sorted(chosen)]


# ---------------------------------------------------------------- contexts


def context_window(chunks: int, at: int, width: int) -> tuple[range, range]:
    """Return the neighbours (before, after) of chunk `at` that its prompt shows: floor(w/2) and ceil(w/2), shifted at
    the document's ends so that there are w neighbours if the document is long enough."""
    shown = min(width, chunks - 1)
    start = min(max(at - width // 2, 0), chunks - 1 - shown)
    return range(start, at), range(at + 1, start + shown + 1)


def context_prompts(
    template: PromptTemplate, title: str, chunks: Sequence[Chunk], characters: int, width: int
) -> Iterator[Prompt]:
    """Yield the prompt for the context of each chunk of a document, in one pass; `title` is empty if it is only a file
    name.

    The prompts show only own texts and headings. They hold no number or page that an edit elsewhere in the document
    would change, and no neighbour that a model wrote.
    """
    own = [chunk for chunk in chunks if not is_description(chunk)]
    shown_title, at = as_data(title), 0
    for chunk in chunks:
        described = is_description(chunk)
        before, after = context_window(len(own) + described, at, width)
        at += not described
        # A description stands between own chunks without being one: those after it are counted from one earlier.
        system, user = template.render(
            title=shown_title,
            headings=as_data(" › ".join(heading for heading in chunk.header_chain if not begins_title(heading, title))),
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
    """Return one context for each chunk of one document, in the order of the chunks.

    The key sentence is the sentence of the chunk before, code excepted, that shares the most content words with the
    chunk. A title that is only a file name is left out.
    """
    by_chunk: Mapping[str, list[Sentence]] = _by_chunk(sentences)
    made = []
    before: list[Sentence] = []
    for chunk in chunks:
        places = [] if document.title_is_file_name else [document.title]
        said = document.title if places else ""
        places += [heading for heading in chunk.header_chain if not begins_title(heading, said)]
        parts = [" › ".join(places), _key_sentence(chunk, before)]
        text = clip(": ".join(part for part in parts if part), characters)
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


# ---------------------------------------------------------------- figures
#
# The header chain and the caption of a figure say what is around it, so its prompt need not.


CHARACTERS = 600
UNSEEN = "unseen"
"""Method of a figure whose picture cannot be shown to a model; the note says why."""

Said = Reply | NoReply | str
"""A model's reply about a picture, or the reason why the picture was not sent to a model."""


def figures_of(elements: Iterable[Element]) -> list[Element]:
    """Return the figures to describe in reading order: pictures without text."""
    return [
        element
        for element in elements
        if element.kind == FIGURE and not element.text and (IMAGE_HASH in element.metadata or _has_box(element))
    ]


def _has_box(element: Element) -> bool:
    return any(place.box for place in element.places)


def image_hash_of(figure: Element) -> str:
    """Return an id of a figure's picture: the hash of its bytes, or of its pages and box. If the file is not a PDF and
    its structural map has no hash, the id is the figure's place."""
    return figure.metadata.get(IMAGE_HASH) or f"{figure.doc_id}:{figure.index}"


def distinct(figures: Iterable[Element]) -> dict[str, Element]:
    """Return one figure for each picture, by its hash."""
    found: dict[str, Element] = {}
    for figure in figures:
        found.setdefault(image_hash_of(figure), figure)
    return found


def figure_prompt(template: PromptTemplate, image: bytes, name: str, characters: int = CHARACTERS) -> Prompt:
    """Return the prompt for a picture: `image` as PNG or JPEG, and `name`, the hash of the picture."""
    system, user = template.render(characters=characters)
    return Prompt(system, user, most_tokens(characters), (image,), (name,))


def figure_descriptions(
    figures: Sequence[Element],
    said: Mapping[str, Said],
    model: str,
    characters: int = CHARACTERS,
    before: Iterable[FigureDescription] = (),
) -> list[FigureDescription]:
    """Return a row for each figure of one document. `said` has replies by `image_hash_of`. `before` holds the
    document's last rows of this or an earlier model; their text is used until there is a reply."""
    last = {row.image_hash: row for row in before if row.text}
    return [
        _row(figure, index, said[image_hash_of(figure)], model, characters, last)
        for index, figure in enumerate(figures)
    ]


def _row(
    figure: Element, index: int, said: Said, model: str, characters: int, last: Mapping[str, FigureDescription]
) -> FigureDescription:
    def row(text: str, method: str, by: str = model, reply: str = "", note: str = "") -> FigureDescription:
        own = (figure.doc_id, index, figure.index, image_hash_of(figure))
        return FigureDescription(*own, text, method, by, reply, note)

    if isinstance(said, str):
        return row("", UNSEEN, by="", note=said)
    if isinstance(said, Reply):
        return row(clean(said.text, characters), LLM, by=said.model or model, reply=said.key)
    if said.code == "unusable":
        return row("", FALLBACK, reply=said.key, note=said.message)
    known = last.get(image_hash_of(figure))
    if known is not None:
        return row(known.text, WAITING, by=known.model, reply=known.reply, note=said.message)
    return row("", WAITING, by="", note=said.message)
