"""Document summaries: what a model reads to write one, and central sentences, spread over the document,
where there is no model.

Centrality is the mean probability of a sentence's content words in the document (SumBasic,
Nenkova and Vanderwende 2005), with the words of a chosen sentence damped before the next choice.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from pipelines.llm.prompts import DEFAULT_LANGUAGE, PromptTemplate, as_data, most_tokens
from pipelines.llm.reply_text import clipped
from pipelines.ports import Prompt
from pipelines.records import DESCRIPTION, EXTRACTIVE, Chunk, DocumentSummary, Sentence

VERSION = 2
LONGEST = 8000
"""Characters of one chunk that a prompt shows."""
MARKS = {
    "en": ("[page {}]", "[pages {}–{}]", "[chunks left out here: {}; the middle of the document is missing]"),
    "uk": ("[сторінка {}]", "[сторінки {}–{}]", "[тут пропущено фрагментів: {}; середини документа немає]"),
}
"""By the prompt's language: one page, several pages, what is left out between the halves of the window."""
_WORD = re.compile(r"[^\W\d_]{4,}")
_FEWEST_WORDS, _MOST_WORDS = 4, 40


def words_of(text: str) -> list[str]:
    """Content words, folded and cut to six letters so that forms of one word count as one."""
    return [word[:6] for word in _WORD.findall(text.casefold())]


def window(chunks: int, width: int) -> list[int]:
    """Which of a document's chunks a summary reads: all, or the first floor(w/2) and last ceil(w/2)."""
    if chunks <= width:
        return list(range(chunks))
    return [*range(width // 2), *range(chunks - (width - width // 2), chunks)]


def summary_prompt(
    template: PromptTemplate, title: str, chunks: Sequence[Chunk], characters: int, width: int
) -> Prompt:
    """What a model is asked for a document's summary; `chunks` in reading order, `title` empty where it is
    only a file name. Own text only, so that nothing is read twice; each chunk under its page and under those
    of its headings that the chunk before it does not have."""
    chunks = written(chunks)
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
    """Whether a model wrote the chunk's text, of a figure."""
    return DESCRIPTION in chunk.block_types


def written(chunks: Sequence[Chunk]) -> list[Chunk]:
    """The chunks of the document's own text; all where it has none."""
    return [chunk for chunk in chunks if not is_description(chunk)] or list(chunks)


def read_text(chunk: Chunk) -> str:
    """What a prompt shows of a chunk: its own text, of which only an endless table row is cut."""
    return clipped(chunk.text, LONGEST)


def _marks(template: PromptTemplate) -> tuple[str, str, str]:
    return MARKS.get(template.language, MARKS[DEFAULT_LANGUAGE])


def _page_mark(template: PromptTemplate, chunk: Chunk) -> str:
    if chunk.page_start is None:
        return ""
    page, pages, _ = _marks(template)
    end = chunk.page_end or chunk.page_start
    return (page if end == chunk.page_start else pages).format(chunk.page_start, end)


def _new_headings(chunk: Chunk, above: Sequence[str]) -> list[str]:
    """Headings of the chunk that stand neither above the chunk before it nor inline in its own text."""
    inline = chunk.text[: chunk.offsets[0]].split("\n") if chunk.offsets else []
    return [heading for heading in chunk.header_chain if heading not in above and heading not in inline]


def document_summary(
    doc_id: str, sentences: Sequence[Sentence], chunk_ids: Sequence[str], characters: int, width: int
) -> DocumentSummary:
    """At most `characters` of the document's own sentences, in reading order.

    `chunk_ids` in reading order; the sentences of the window are the candidates."""
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
        return [clipped(candidates[0].text, characters)]
    return [chosen[item] for item in sorted(chosen)]
