"""Repeated sentences in the context of an answer, which are left out before a language model reads it.

A sentence is left out if its words and their punctuation, compared without regard to space and case, are contained in a
longer sentence of its document, or equal those of an earlier sentence of its document.

A short sentence, such as a label over a list or a table row, gets its meaning from its position, so it is always kept.
A row is only compared with rows under the same lead. A sentence never hides one of another document: otherwise a
document could repeat the words of others in a sentence that says the opposite. A sentence that gives orders to a model
is neither left out nor hides another. Every kept sentence is found word for word in the passage that is sent.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from pipelines.query.assemble import ContextPassage, QuotableSentence
from pipelines.query.retrieve import SHORT
from pipelines.query.support import gives_orders

MOST_LOST = 100
"""Most sentences of a passage that are not at their expected position. Each needs a search of the whole text, so with
more of them the passage is unchanged."""
_SPACES = re.compile(r"[ \t]*+")
_LINE_END = re.compile(r"[ \t]*+\n?")

Words = tuple[str, ...]
Place = tuple[int, int]
"""The number of a passage, and the position of a sentence in it."""
Scope = tuple[str, str]
"""A document's id, and the lead text above a sentence. Sentences are compared only within one scope."""


def without_repeats(context: Sequence[ContextPassage]) -> list[ContextPassage]:
    """Return the passages without repeated and contained sentences, numbered from 1. Empty passages are left out."""
    repeats = _repeats(context)
    pruned = [_prune(passage, repeats.get(at, ())) for at, passage in enumerate(context)]
    remaining = [passage for passage in pruned if passage.text.strip()]
    return [replace(passage, number=number) for number, passage in enumerate(remaining, start=1)]


def _repeats(context: Sequence[ContextPassage]) -> dict[int, set[int]]:
    """Return the positions of the sentences to leave out, by passage. The longest of sentences that contain each other
    is kept, and the first of equal ones."""
    groups: dict[Scope, set[Words]] = {}
    compared = list(_comparable(context))
    for _, words, scope in compared:
        groups.setdefault(scope, set()).add(words)
    contained = {scope: _contained_texts(texts) for scope, texts in groups.items()}
    found: dict[int, set[int]] = {}
    said: set[tuple[Scope, Words]] = set()
    for (passage, at), words, scope in compared:
        if words in contained[scope] or (scope, words) in said:
            found.setdefault(passage, set()).add(at)
        said.add((scope, words))
    return found


def _comparable(context: Iterable[ContextPassage]) -> Iterator[tuple[Place, Words, Scope]]:
    """Yield each sentence that is long enough with its words, and the scope of the sentences that it may hide."""
    for number, passage in enumerate(context):
        for at, sentence in enumerate(passage.sentences):
            words = tuple(sentence.text.casefold().split())
            if len(" ".join(words)) >= SHORT and not gives_orders(sentence.text_after_lead):
                yield (number, at), words, (passage.chunks[0].doc_id, sentence.lead)


def _contained_texts(texts: Collection[Words]) -> set[Words]:
    """Return the texts that a longer text contains, in time linear in their words.

    The texts form a trie. For each prefix, the longest suffix that is also a prefix is found by the algorithm of Aho
    and Corasick (Efficient string matching, 1975). A text is contained if another continues after it, or if it is such
    a suffix.
    """
    branches: list[dict[str, int]] = [{}]
    whole: dict[Words, int] = {}
    for words in texts:
        node = 0
        for word in words:
            after = branches[node].setdefault(word, len(branches))
            if after == len(branches):
                branches.append({})
            node = after
        whole[words] = node
    ends = [0] * len(branches)
    nodes = deque(branches[0].values())
    while nodes:
        node = nodes.popleft()
        for word, after in branches[node].items():
            end = ends[node]
            while end and word not in branches[end]:
                end = ends[end]
            ends[after] = branches[end].get(word, 0)
            nodes.append(after)
    inner = set(ends)
    return {words for words, node in whole.items() if branches[node] or node in inner}


def _prune(passage: ContextPassage, left_out: Collection[int]) -> ContextPassage:
    """Return the passage without the sentences at these positions, or unchanged if another sentence would be
    damaged."""
    text = _text_without(passage, left_out) if left_out else None
    if text is None:
        return passage
    kept = tuple(item for at, item in enumerate(passage.sentences) if at not in left_out)
    return replace(passage, text=text, sentences=kept)


def _text_without(passage: ContextPassage, left_out: Collection[int]) -> str | None:
    """Return the text without the sentences at these positions, with all others word for word, or None if that is not
    possible. Sentences are in reading order, and each is searched after the one before."""
    text, parts, lost = passage.text, list[str](), list[QuotableSentence]()
    at, done = 0, 0
    for position, sentence in enumerate(passage.sentences):
        here = text.find(sentence.text, at)
        if here < 0:
            lost.append(sentence)
            if position in left_out or len(lost) > MOST_LOST:
                return None
            continue
        at = here + len(sentence.text)
        if position in left_out:
            if here > done:
                parts.append(text[done:here])
            begins = not parts or parts[-1].endswith("\n")
            space = (_LINE_END if begins else _SPACES).match(text, at)
            done = at = space.end() if space else at
    remaining = "".join([*parts, text[done:]]) if done < len(text) else "".join(parts).rstrip()
    return remaining if all(sentence.text in remaining for sentence in lost) else None
