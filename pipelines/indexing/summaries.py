"""Document summaries without a model: central sentences, spread over the document.

Centrality is the mean probability of a sentence's content words in the document (SumBasic,
Nenkova and Vanderwende 2005), with the words of a chosen sentence damped before the next choice.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from pipelines.records import DocumentSummary, Sentence

VERSION = 1
EXTRACTIVE = "extractive"
WINDOW = 10
_WORD = re.compile(r"[^\W\d_]{4,}")
_FEWEST_WORDS, _MOST_WORDS = 4, 40


def words_of(text: str) -> list[str]:
    """Content words, folded and cut to six letters so that forms of one word count as one."""
    return [word[:6] for word in _WORD.findall(text.casefold())]


def window(chunks: int, width: int = WINDOW) -> list[int]:
    """Which of a document's chunks a summary reads: all, or the first floor(w/2) and last ceil(w/2)."""
    if chunks <= width:
        return list(range(chunks))
    return [*range(width // 2), *range(chunks - (width - width // 2), chunks)]


def document_summary(
    doc_id: str, sentences: Sequence[Sentence], chunk_ids: Sequence[str], characters: int = 250
) -> DocumentSummary:
    """At most `characters` of the document's own sentences, in reading order.

    `chunk_ids` in reading order; the sentences of the window are the candidates."""
    read = {chunk_ids[item] for item in window(len(chunk_ids))}
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
    left = set(range(len(candidates)))
    chosen: dict[int, str] = {}
    room = characters
    while left:
        best = max(left, key=lambda item: (sum(weight[word] for word in words[item]) / (len(words[item]) or 1), -item))
        left.discard(best)
        text = candidates[best].text
        if text in chosen.values() or len(text) > room:
            continue
        chosen[best] = text
        room -= len(text) + 1
        for word in words[best]:
            weight[word] *= weight[word]
    if not chosen and candidates:
        return [clipped(candidates[0].text, characters)]
    return [chosen[item] for item in sorted(chosen)]


def clipped(text: str, characters: int) -> str:
    """The text, or its beginning up to a word's end with an ellipsis."""
    if len(text) <= characters:
        return text
    cut = text[: characters - 1]
    return (cut.rsplit(None, 1)[0] if " " in cut else cut).rstrip(" ,;:.") + "…"
