"""The context of an answer: a few passages, in reading order, within a token budget.

Documents are in the order of their best hit. The passages of one document are in reading order. Chunks that follow each
other, or paragraphs of one chunk, become one passage. The context is text only: it has no scores, ids or marks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

from pipelines.defused_text import defuse
from pipelines.ports import Passage
from pipelines.query.results import Hit
from pipelines.tokens import beginning, count_tokens

_WORD = re.compile(r"\S+")
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\n+")


@dataclass(frozen=True, slots=True)
class QuotableSentence:
    """A quotable sentence or table row of a chunk, with its own page.

    `lead` is the text above it that belongs to it. `sentence_id` is "" if this is a whole passage. `cosine` is the
    similarity to the question, None if the question has no vector, and for code. `kind` is the kind of element that it
    comes from, such as `list_item`. `stripped` says that links and other active content were removed.
    """

    chunk_id: str
    text: str
    page: int | None
    lead: str = ""
    sentence_id: str = ""
    cosine: float | None = None
    kind: str = ""
    stripped: bool = False

    @property
    def text_after_lead(self) -> str:
        """Return the sentence after its lead, written like the first row of a table."""
        return f"{self.lead}: {self.text}" if self.lead else self.text


@dataclass(frozen=True, slots=True)
class ContextPassage:
    """A numbered passage of the context: chunks of one document that follow each other, or paragraphs of one chunk.

    `name` is the document's name in a citation. `text` has the overlap of the first chunk, the own text of every chunk,
    and their leads. `sentences` has the sentences that the text contains completely.
    """

    number: int
    chunks: tuple[Passage, ...]
    name: str
    text: str
    sentences: tuple[QuotableSentence, ...]

    @property
    def label(self) -> str:
        """Return the document's name with its pages."""
        pages = [page for item in self.chunks for page in (item.page_start, item.page_end) if page is not None]
        return place(self.name, min(pages, default=None), max(pages, default=None))

    @property
    def place_context(self) -> str:
        """Return the context from the text's position: its document's title and the headings above it."""
        return "\n".join([self.chunks[0].title, *self.chunks[0].header_chain])


def place(name: str, first: int | None, last: int | None = None) -> str:
    """Return `Handbook, p. 3` or `Handbook, pp. 3–4`, or the name alone if there are no pages."""
    if first is None:
        return name
    return f"{name}, p. {first}" if last in (first, None) else f"{name}, pp. {first}–{last}"


def _names(passages: Sequence[Passage], shared: Collection[str]) -> dict[str, str]:
    """Return the displayed names of documents by id: the title, or the path if the title is empty or not unique."""
    titles = {item.doc_id: " ".join(defuse(item.title).split()) for item in passages if item.title not in shared}
    here = Counter(titles.values())
    own = {doc_id: title for doc_id, title in titles.items() if title and here[title] == 1}
    return {item.doc_id: own.get(item.doc_id) or defuse(item.uri) for item in passages}


def _join_texts(chunks: Sequence[Passage]) -> str:
    """Return the texts in order. Only the first chunk brings its overlap, since the other overlaps repeat text that is
    already there. A paragraph's lead is added once."""
    said = [chunks[0].overlap, chunks[0].text]
    for item in chunks[1:]:
        if item.reached and not any(item.overlap in text for text in said):
            said.append(item.overlap)
        said.append(item.text)
    return "\n".join(filter(None, said))


def _cut(text: str, tokens: int) -> str:
    """Return the longest beginning within the budget that ends with a sentence or line, or else with a word."""
    room = beginning(text, tokens)
    ends = takewhile(room.__ge__, (match.start() for match in _SENTENCE_END.finditer(text)))
    words = takewhile(room.__ge__, (match.end() for match in _WORD.finditer(text)))
    return text[: max(ends, default=0) or max(words, default=0)]


def _runs(passages: Iterable[Passage]) -> list[list[Passage]]:
    """Return runs: chunks of one document that follow each other, and paragraphs of one chunk. Paragraphs of different
    chunks are never joined, since the text between them is unknown."""
    ordered = sorted(passages, key=lambda item: (item.index, item.spans))
    runs = [ordered[:1]]
    for before, item in pairwise(ordered):
        whole = not before.reached and not item.reached
        if before.chunk_id == item.chunk_id or (whole and before.next_id == item.chunk_id):
            runs[-1].append(item)
        else:
            runs.append([item])
    return runs


def _hits_within(hits: Sequence[Hit], most: int, tokens: int) -> tuple[list[Passage], list[str]]:
    """Return the first hits that fit, and notes about the hits that do not fit. The first hit is cut if it is too
    long."""
    kept: list[Passage] = []
    left, notes = tokens, []
    for hit in hits[:most]:
        passage = hit.passage
        shown = f"{passage.overlap}\n{passage.text}"
        fits = beginning(shown, left) == len(shown)
        if not fits and not kept:
            passage = replace(passage, overlap="", text=_cut(passage.text, left))
            notes.append(f"hit 1 is longer than {tokens} tokens (query.context_tokens): its beginning was read")
        elif not fits:
            notes.append(f"hit {hit.rank} was not read: the context is full (query.context_tokens is {tokens})")
            continue
        kept.append(passage)
        left -= count_tokens(shown) if fits else left
    return kept, notes


def assemble(
    hits: Sequence[Hit],
    sentences: Mapping[str, Sequence[QuotableSentence]],
    *,
    most: int,
    tokens: int,
    shared: Collection[str] = (),
) -> tuple[list[ContextPassage], list[str]]:
    """Return (passages numbered from 1, notes on what did not fit).

    `sentences` are by chunk id. The sentences of the previous chunk are used if the overlap repeats its end. A chunk
    without sentences can be quoted whole. `shared` are titles that several documents have, which therefore identify no
    document.
    """
    kept, notes = _hits_within(hits, most, tokens)
    names = _names(kept, shared)
    documents: dict[str, list[Passage]] = {}
    for passage in kept:
        documents.setdefault(passage.doc_id, []).append(passage)
    runs = [run for passages in documents.values() for run in _runs(passages)]
    made = []
    for number, run in enumerate(runs, start=1):
        text = _join_texts(run)
        made.append(
            ContextPassage(number, tuple(run), names[run[0].doc_id], text, tuple(_quotable(run, text, sentences)))
        )
    return made, notes


def _quotable(
    run: Sequence[Passage], text: str, sentences: Mapping[str, Sequence[QuotableSentence]]
) -> Iterable[QuotableSentence]:
    before = run[0].previous_id
    if run[0].overlap and before:
        yield from _standing(sentences.get(before, ()), run[0].overlap)
    for chunk_id in dict.fromkeys(passage.chunk_id for passage in run):
        own = _standing(sentences.get(chunk_id, ()), text)
        parts = (QuotableSentence(chunk_id, item.text, item.page_start) for item in run if item.chunk_id == chunk_id)
        yield from own or parts


def _standing(sentences: Iterable[QuotableSentence], text: str) -> list[QuotableSentence]:
    """Return the sentences that the text contains. They are in reading order, so each search starts after the last
    find."""
    found, at = [], 0
    for item in sentences:
        here = text.find(item.text, at)
        if here >= 0 or item.text in text:
            found.append(item)
            at = max(at, here)
    return found
