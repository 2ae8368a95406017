"""From hits to what an answer may draw on: a few passages, in reading order, within a budget.

Documents stand in the order of their best hit, passages of one document as they are read, and chunks
that follow each other, or paragraphs of one chunk, as one passage. Nothing but text: no scores, ids or
marks of ours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

from pipelines.inert import inert
from pipelines.ports import Passage
from pipelines.query.results import Hit
from pipelines.tokens import beginning, count_tokens

_WORD = re.compile(r"\S+")
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\n+")


@dataclass(frozen=True, slots=True)
class Sentence:
    """What can be quoted: a sentence or table row of a chunk, with its own page; `lead` stands above it and must be
    read with it. `sentence_id` is "" where it is a whole passage. `cosine` is to the question, None where that has no
    vector, and for code. `stripped` tells that links and what else a viewer would act on were taken out."""

    chunk_id: str
    text: str
    page: int | None
    lead: str = ""
    sentence_id: str = ""
    cosine: float | None = None
    stripped: bool = False

    @property
    def led(self) -> str:
        """As the first row of a table is written."""
        return f"{self.lead}: {self.text}" if self.lead else self.text


@dataclass(frozen=True, slots=True)
class ContextPassage:
    """One numbered passage of the context: chunks of one document that follow each other, or paragraphs of one
    chunk. `name` is the document's as a citation gives it, `text` the first one's overlap, every one's own text
    and what leads it, and `sentences` those that stand whole in it."""

    number: int
    chunks: tuple[Passage, ...]
    name: str
    text: str
    sentences: tuple[Sentence, ...]

    @property
    def label(self) -> str:
        """Document and pages."""
        pages = [page for item in self.chunks for page in (item.page_start, item.page_end) if page is not None]
        return place(self.name, min(pages, default=None), max(pages, default=None))

    @property
    def about(self) -> str:
        """What the text says by where it stands: its document's title and the headings above it."""
        return "\n".join([self.chunks[0].title, *self.chunks[0].header_chain])


def place(name: str, first: int | None, last: int | None = None) -> str:
    """`Handbook, p. 3` or `Handbook, pp. 3–4`; the name alone where there are no pages."""
    if first is None:
        return name
    return f"{name}, p. {first}" if last in (first, None) else f"{name}, pp. {first}–{last}"


def _names(passages: Sequence[Passage], shared: Collection[str]) -> dict[str, str]:
    """Names of documents by id, as they are shown: the title, or the path where there is none or others have it."""
    titles = {item.doc_id: " ".join(inert(item.title).split()) for item in passages if item.title not in shared}
    here = Counter(titles.values())
    own = {doc_id: title for doc_id, title in titles.items() if title and here[title] == 1}
    return {item.doc_id: own.get(item.doc_id) or inert(item.uri) for item in passages}


def _joined(chunks: Sequence[Passage]) -> str:
    """Texts in order. Of chunks only the first brings its overlap: what the others repeat stands there already. What
    leads a paragraph is brought once."""
    said = [chunks[0].overlap, chunks[0].text]
    for item in chunks[1:]:
        if item.reached and not any(item.overlap in text for text in said):
            said.append(item.overlap)
        said.append(item.text)
    return "\n".join(filter(None, said))


def _cut(text: str, tokens: int) -> str:
    """The longest beginning within the budget that ends with a sentence or line, of words at the least."""
    room = beginning(text, tokens)
    ends = takewhile(room.__ge__, (match.start() for match in _SENTENCE_END.finditer(text)))
    words = takewhile(room.__ge__, (match.end() for match in _WORD.finditer(text)))
    return text[: max(ends, default=0) or max(words, default=0)]


def _runs(passages: Iterable[Passage]) -> list[list[Passage]]:
    """Chunks of one document that follow each other, and paragraphs of one chunk. What lies between a
    paragraph and one of another chunk is not known."""
    ordered = sorted(passages, key=lambda item: (item.index, item.spans))
    runs = [ordered[:1]]
    for before, item in pairwise(ordered):
        whole = not before.reached and not item.reached
        if before.chunk_id == item.chunk_id or (whole and before.next_id == item.chunk_id):
            runs[-1].append(item)
        else:
            runs.append([item])
    return runs


def _within(hits: Sequence[Hit], most: int, tokens: int) -> tuple[list[Passage], list[str]]:
    """The first hits that fit, and what is said of those that do not. The first is cut if it must be."""
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
    sentences: Mapping[str, Sequence[Sentence]],
    *,
    most: int,
    tokens: int,
    shared: Collection[str] = (),
) -> tuple[list[ContextPassage], list[str]]:
    """(passages numbered from 1, notes on what did not fit). `sentences` are by chunk id; those of the
    chunk before serve where its end is repeated. A chunk without any can be quoted whole. `shared` are titles that
    several documents have, and so name none."""
    kept, notes = _within(hits, most, tokens)
    names = _names(kept, shared)
    documents: dict[str, list[Passage]] = {}
    for passage in kept:
        documents.setdefault(passage.doc_id, []).append(passage)
    runs = [run for passages in documents.values() for run in _runs(passages)]
    made = []
    for number, run in enumerate(runs, start=1):
        text = _joined(run)
        made.append(
            ContextPassage(number, tuple(run), names[run[0].doc_id], text, tuple(_quotable(run, text, sentences)))
        )
    return made, notes


def _quotable(run: Sequence[Passage], text: str, sentences: Mapping[str, Sequence[Sentence]]) -> Iterable[Sentence]:
    before = run[0].previous_id
    if run[0].overlap and before:
        yield from _standing(sentences.get(before, ()), run[0].overlap)
    for chunk_id in dict.fromkeys(passage.chunk_id for passage in run):
        own = _standing(sentences.get(chunk_id, ()), text)
        parts = (Sentence(chunk_id, item.text, item.page_start) for item in run if item.chunk_id == chunk_id)
        yield from own or parts


def _standing(sentences: Iterable[Sentence], text: str) -> list[Sentence]:
    """Those that stand in the text. They come as they are read, so each is looked for from the last one on first."""
    found, at = [], 0
    for item in sentences:
        here = text.find(item.text, at)
        if here >= 0 or item.text in text:
            found.append(item)
            at = max(at, here)
    return found
