"""What the pipelines ask of the outside world, as protocols. resources/ implements them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pipelines.records import Box

Vectors = NDArray[np.float32]
"""Shape (n, dimension), rows of unit length."""

Spans = Sequence[tuple[int, int]]
"""Parts of a text, as its first character and the one after its last."""

Progress = Callable[[int, int], None]
"""Called with (done, total) while long work goes on."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What a model is given of a text at once, prompt included, and its weight in the vector of the whole text."""

    text: str
    weight: int


class TextEmbedder(Protocol):
    """Turns texts into unit vectors. What exceeds the model's limit is embedded in windows that
    are averaged; nothing is cut."""

    @property
    def identity(self) -> str:
        """Hash of the weights and conventions; two embedders of one identity give one vector."""

    @property
    def dimension(self) -> int: ...

    def passages(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors: ...

    def queries(self, texts: Sequence[str]) -> Vectors: ...

    @property
    def pools(self) -> bool:
        """Whether `with_spans` can be asked: the vector of a text is the mean of those of its tokens."""

    def with_spans(
        self, texts: Sequence[str], spans: Sequence[Spans], progress: Progress | None = None
    ) -> tuple[Vectors, Vectors]:
        """Unit vectors of the texts, shape (len(texts), dimension), as `passages` gives them, and out of the same pass
        one for each span of characters of each text, in order, shape (spans of all, dimension): the mean of its
        tokens' vectors as they come out of the encoding of the whole text (Guenther et al., Late chunking, 2024)."""


class CountingEmbedder(TextEmbedder, Protocol):
    """An embedder of a generation: it says what it has embedded so far."""

    @property
    def tokens(self) -> int: ...

    def load(self) -> None:
        """Makes it ready, so that what it is made of has been read."""

    @property
    def prompt(self) -> str:
        """What it puts before a passage."""

    @property
    def window(self) -> int:
        """Tokens of the longest text that it is given at once; 0 where there is no such limit."""

    def pieces(self, texts: Sequence[str]) -> list[list[Piece]]:
        """What `passages` gives the model of each text: the whole, or windows whose vectors are averaged by weight."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a language model is asked: rendered texts, and pictures as PNG or JPEG. The reply has at most
    `most_tokens`; `top_logprobs` alternatives of its first token are told. `image_names` stand for the pictures
    in the key of the reply: they stay the same where the same picture is drawn a little differently."""

    system: str
    user: str
    most_tokens: int
    images: tuple[bytes, ...] = ()
    image_names: tuple[str, ...] = ()
    top_logprobs: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """As the model gave it. `finish` as the endpoint says (`stop`, `length`, `content_filter`); `logprobs`
    are (token, natural logarithm of its probability) of the first token's alternatives; `key` is the
    fingerprint of model, parameters and prompt under which it is kept."""

    text: str
    finish: str = "stop"
    logprobs: tuple[tuple[str, float], ...] = ()
    key: str = ""


@dataclass(frozen=True, slots=True)
class NoReply:
    """A prompt without a usable reply. code: `unusable` (the model was asked as often as allowed, the
    message says what was wrong), `unreachable` (the endpoint did not answer), `rejected` (it refused
    the request: wrong key, model or parameters), `pending` (in a batch), `budget` (llm.max_cost is spent)."""

    code: str
    message: str
    key: str = ""


ReplyCheck = Callable[[Reply], str | None]
"""Why a reply cannot be used; None where it can."""


class LanguageModel(Protocol):
    """The model of one role. Replies are kept by model, parameters and prompt: none is bought twice."""

    @property
    def name(self) -> str:
        """The model's name at its endpoint."""

    def replies(self, prompts: Iterable[Prompt], unusable: ReplyCheck) -> Generator[Reply | NoReply, None, None]:
        """One for each prompt, in order. The prompts are taken lazily, in the caller's thread, a bounded
        number ahead of the replies; several are asked at once."""


class CrossEncoder(Protocol):
    """Reads a question and a passage together."""

    def scores(self, question: str, passages: Sequence[str]) -> list[float]:
        """How well each passage answers the question, in [0, 1]; in the order given."""


class SentenceSplitter(Protocol):
    """Sentence spans of each text, in its language; spans are trimmed and never empty."""

    def __call__(self, texts: Sequence[str], language: str) -> list[list[tuple[int, int]]]: ...


@dataclass(frozen=True, slots=True)
class Filters:
    """Restrictions of one query. `equal` maps an allow-listed key (source, uri, title, version,
    language, block_type, section, `kv.KEY` or a metadata key) to accepted values; `groups` are
    the asker's."""

    equal: dict[str, tuple[str, ...]] = field(default_factory=dict)
    dated_from: str | None = None
    dated_to: str | None = None
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk as one retrieval route found it; a higher score is better."""

    chunk_id: str
    score: float


@dataclass(frozen=True, slots=True)
class FoundSentence:
    """A sentence as it is ranked. `score` is its cosine to the question; `paragraph_id` is empty where its
    paragraph is not known, and its whole chunk stands for it; `paged` where its document has pages."""

    sentence_id: str
    doc_id: str
    index: int
    chunk_id: str
    paragraph_id: str
    text: str
    source: str
    page: int | None
    paged: bool
    score: float

    @property
    def place(self) -> ParagraphKey:
        return self.chunk_id, self.paragraph_id


ParagraphKey = tuple[str, str]
"""Chunk and paragraph; of a paragraph that is too long for one chunk, each has a part."""


@dataclass(frozen=True, slots=True)
class ReachedSentence:
    """What an `edge` of the anchor `via` leads to, as of Reached: `steps` sentences away in reading order, or by
    a link of that `similarity`."""

    sentence: FoundSentence
    edge: str
    via: str
    steps: int
    similarity: float | None


@dataclass(frozen=True, slots=True)
class Anchor:
    """A sentence that the question was found to be near to; `score` is their cosine."""

    sentence_id: str
    text: str
    source: str
    page: int | None
    boxes: tuple[Box, ...]
    score: float


@dataclass(frozen=True, slots=True)
class Reached:
    """How the sentence route came to a paragraph. edge: `anchor` where it holds `anchors`; else `next`, `previous`
    or `related`, by which the sentence `via` (an anchor's id) leads to it, with the `similarity` of a link."""

    paragraph_id: str
    edge: str
    anchors: tuple[Anchor, ...] = ()
    via: str = ""
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk as a reader sees it, with what rerankers need. Where the sentence route `reached` it, text, boxes,
    pages and spans are those of one paragraph of the chunk."""

    chunk_id: str
    doc_id: str
    index: int
    source: str
    uri: str
    title: str
    effective_date: str | None
    family: str
    section_id: str
    header_chain: tuple[str, ...]
    block_types: tuple[str, ...]
    text: str
    overlap: str
    context: str
    page_start: int | None
    page_end: int | None
    boxes: tuple[Box, ...]
    spans: tuple[tuple[int, int], ...]
    previous_id: str | None
    next_id: str | None
    context_method: str = "extractive"
    reached: Reached | None = None


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph as a passage, and the boxes of its sentences by their ids."""

    passage: Passage
    boxes: Mapping[str, tuple[Box, ...]]


@dataclass(frozen=True, slots=True)
class DocumentTerms:
    """How much a document says of a question's terms: by term the sum of its BM25 weights, without idf, over the
    document's `chunks` many chunks. `found` are those of them that were asked for."""

    doc_id: str
    uri: str
    found: tuple[str, ...]
    chunks: int
    weights: Mapping[str, float]


class SearchIndex(Protocol):
    """One generation, read in one transaction."""

    def dense(self, vector: Sequence[float], k: int, filters: Filters) -> list[Candidate]: ...

    def lexical(self, terms: Sequence[str], k: int, filters: Filters) -> list[Candidate]: ...

    def similarities(self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters) -> dict[str, float]:
        """The cosine of each of these chunks."""

    def sentence_similarities(
        self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters
    ) -> dict[str, float]:
        """The greatest cosine of a sentence of each of these chunks; the chunk's own where it has no sentence."""

    def lexical_scores(self, chunk_ids: Sequence[str], terms: Sequence[str], filters: Filters) -> dict[str, float]:
        """What `lexical` scores these chunks; those without any of the terms are left out."""

    def document_terms(self, chunk_ids: Sequence[str], terms: Sequence[str], filters: Filters) -> list[DocumentTerms]:
        """Of the documents of these chunks."""

    def passages(self, chunk_ids: Sequence[str], filters: Filters) -> dict[str, Passage]: ...

    def newest_date(self) -> str | None:
        """The newest effective date in the generation, ISO."""

    def frequencies(self, terms: Sequence[str]) -> tuple[dict[str, int], int]:
        """In how many chunks each term stood when the generation was made, and of how many; unknown terms are
        left out."""

    def sentences(self, vector: Sequence[float], k: int, filters: Filters, least: float) -> list[FoundSentence]:
        """The k sentences of highest cosine among those of at least this confidence, ties by id; fewer only
        where fewer match."""

    def sentences_of(
        self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters, least: float
    ) -> list[FoundSentence]:
        """All sentences of these chunks that match, by id."""

    def expanded(
        self, sentence_ids: Sequence[str], steps: int, vector: Sequence[float], filters: Filters, least: float
    ) -> list[ReachedSentence]:
        """What matches of the sentences' own paragraphs, of the sentences up to so many steps before and after
        them, and of what they are RELATED_TO; one that several edges lead to comes once for each."""

    def paragraphs(self, keys: Sequence[ParagraphKey], filters: Filters) -> dict[ParagraphKey, Paragraph]:
        """Paragraphs as passages, by the same rule of groups as `passages`."""
