"""The interfaces that the pipelines need from the outside world, as protocols; resources/ implements them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pipelines.records import Box

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vectors: TypeAlias = "NDArray[np.float32]"
"""Array of shape (n, dimension), with rows of unit length."""

Spans = Sequence[tuple[int, int]]
"""Spans of a text: for each the offset of its first character and the offset after its last one."""

Progress = Callable[[int, int], None]
"""A function that is called with (done, total) during long work."""


@dataclass(frozen=True, slots=True)
class WeightedText:
    """A text that a model gets in one call, prompt included, and its weight in the vector of the whole text."""

    text: str
    weight: int


class TextEmbedder(Protocol):
    """A model that turns texts into unit vectors. A text over the model's limit is embedded in windows that are
    averaged; nothing is cut."""

    @property
    def identity(self) -> str:
        """Hash of the weights and conventions; embedders with the same identity give the same vectors."""

    @property
    def dimension(self) -> int: ...

    def passages(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors: ...

    def queries(self, texts: Sequence[str]) -> Vectors: ...

    @property
    def pools(self) -> bool:
        """True if `with_spans` may be called: the vector of a text is the mean of its tokens' vectors."""

    def with_spans(
        self, texts: Sequence[str], spans: Sequence[Spans], progress: Progress | None = None
    ) -> tuple[Vectors, Vectors]:
        """Return unit vectors of the texts, shape (len(texts), dimension), as `passages` does, and vectors of spans.

        The second array has one vector for each span of characters of each text, in order, shape (spans of all,
        dimension). It comes from the same pass: the mean of the span's token vectors in the encoding of the whole text
        (Guenther et al., Late chunking, 2024)."""


class CountingEmbedder(TextEmbedder, Protocol):
    """An embedder of a generation, which also counts the tokens it has embedded so far."""

    @property
    def tokens(self) -> int: ...

    def load(self) -> None:
        """Load the model now, so that its files are read."""

    @property
    def prompt(self) -> str:
        """The text put before a passage."""

    @property
    def window(self) -> int:
        """Most tokens of a text that the model takes in one call; 0 if there is no such limit."""

    def pieces(self, texts: Sequence[str]) -> list[list[WeightedText]]:
        """Return the pieces of each text that `passages` gives the model: the whole, or windows averaged by weight."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request to a language model: rendered texts, and pictures as PNG or JPEG. The reply has at most `most_tokens`,
    and lists `top_logprobs` alternatives of its first token. `image_names` replace the pictures in the key of the
    reply: they stay the same if the same picture is drawn slightly differently."""

    system: str
    user: str
    most_tokens: int
    images: tuple[bytes, ...] = ()
    image_names: tuple[str, ...] = ()
    top_logprobs: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply, unchanged. `finish` is the endpoint's reason (`stop`, `length`, `content_filter`); `logprobs`
    are (token, natural logarithm of its probability) of the first token's alternatives; `key` is the fingerprint of
    model, parameters and prompt under which the reply is cached. `model` is the one that wrote it, if it was cached."""

    text: str
    finish: str = "stop"
    logprobs: tuple[tuple[str, float], ...] = ()
    key: str = ""
    model: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class NoReply:
    """A prompt without a usable reply. `code` is `unusable` (the model was asked as often as allowed, and the message
    says what was wrong), `unreachable` (the endpoint did not answer), `rejected` (it refused the request: wrong key,
    model or parameters), `pending` (in a batch), or `budget` (llm.max_cost is spent)."""

    code: str
    message: str
    key: str = ""


ReplyCheck = Callable[[Reply], str | None]
"""A function that returns why a reply cannot be used, or None if it can be used."""


class LanguageModel(Protocol):
    """The model of one role. Replies are cached by model, parameters and prompt, so none is paid for twice."""

    @property
    def name(self) -> str:
        """The model's name at its endpoint."""

    def replies(self, prompts: Iterable[Prompt], unusable: ReplyCheck) -> Generator[Reply | NoReply, None, None]:
        """Yield one reply for each prompt, in order. Prompts are read lazily, in the caller's thread, a limited number
        ahead of the replies; several calls are in progress at a time."""


class CrossEncoder(Protocol):
    """A model that reads a question and a passage together."""

    def scores(self, question: str, passages: Sequence[str]) -> list[float]:
        """Return how well each passage answers the question, in [0, 1], in the order given."""


class SentenceSplitter(Protocol):
    """A function that returns the sentence spans of each text, in its language; spans are trimmed and never empty."""

    def __call__(self, texts: Sequence[str], language: str) -> list[list[tuple[int, int]]]: ...


@dataclass(frozen=True, slots=True)
class Comparison:
    """A bound of a metadata value: `numbers` is the range for numeric values, in Postgres's notation, and `days` has
    the first and last day for dates. Each is None if the bound is not of that type."""

    key: str
    numbers: str | None
    days: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Filters:
    """Restrictions of one query. `equal` maps an allow-listed key (source, uri, title, version, language, block_type,
    section, `kv.KEY` or a metadata key) to accepted values; `groups` are the user's groups. Both dates are included.
    `documents` are the ids of those to search; None means all."""

    equal: dict[str, tuple[str, ...]] = field(default_factory=dict)
    dated_from: str | None = None
    dated_to: str | None = None
    groups: tuple[str, ...] = ()
    compared: tuple[Comparison, ...] = ()
    documents: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk as one retrieval route found it; a higher score is better."""

    chunk_id: str
    score: float


@dataclass(frozen=True, slots=True)
class FoundSentence:
    """A sentence with its rank. `score` is its cosine to the question. `paragraph_id` is empty if its paragraph is
    unknown; its whole chunk then replaces the paragraph. `paged` is true if its document has pages."""

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
"""Chunk id and paragraph id. A paragraph longer than one chunk has a part, and so a key, in each of its chunks."""


@dataclass(frozen=True, slots=True)
class ReachedSentence:
    """A sentence reached from the anchor `via` by an `edge`, as in Reached: `steps` sentences away in reading order, or
    by a link of that `similarity`."""

    sentence: FoundSentence
    edge: str
    via: str
    steps: int
    similarity: float | None


@dataclass(frozen=True, slots=True)
class Anchor:
    """A sentence found to be near the question; `score` is their cosine."""

    sentence_id: str
    text: str
    source: str
    page: int | None
    boxes: tuple[Box, ...]
    score: float


@dataclass(frozen=True, slots=True)
class Reached:
    """The way in which the sentence route reached a paragraph. `edge` is `anchor` if the paragraph contains `anchors`.
    Otherwise it is `next`, `previous` or `related`: the edge from the sentence `via` (an anchor's id), with the
    `similarity` of a link."""

    paragraph_id: str
    edge: str
    anchors: tuple[Anchor, ...] = ()
    via: str = ""
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk as a reader sees it, with the data that rerankers need. If the sentence route `reached` it, text, boxes,
    pages and spans belong to one paragraph of the chunk."""

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
    """The weights of a question's terms in a document: for each term the sum of its BM25 weights, without idf, over all
    `chunks` of the document. `found` are the requested chunks that belong to it."""

    doc_id: str
    uri: str
    found: tuple[str, ...]
    chunks: int
    weights: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class FoundAbbreviation:
    """An abbreviation with the number of `documents` that define it and that the asker may see, and the keys of both
    forms."""

    short: str
    long: str
    short_key: str
    long_key: str
    documents: int


Terms = Mapping[str, float] | Sequence[str]
"""Terms to search for, each with its weight. In a sequence, the weight of a term is the number of its repeats."""


class SearchIndex(Protocol):
    """The search tables of one generation, read in one transaction."""

    @property
    def keeps_names(self) -> bool:
        """True if names of documents are stored. Generations of older versions have no names."""

    def dense(self, vector: Sequence[float], k: int, filters: Filters) -> list[Candidate]: ...

    def lexical(self, terms: Terms, k: int, filters: Filters) -> list[Candidate]:
        """Return the k chunks of highest BM25 score for these terms, each multiplied by its weight."""

    def similarities(self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters) -> dict[str, float]:
        """Return the cosine of each of these chunks."""

    def sentence_similarities(
        self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters
    ) -> dict[str, float]:
        """Return the greatest cosine of a sentence of each of these chunks, or the chunk's own if it has no
        sentence."""

    def lexical_scores(self, chunk_ids: Sequence[str], terms: Terms, filters: Filters) -> dict[str, float]:
        """Return the score that `lexical` would give these chunks; chunks without any of the terms are left out."""

    def surrounding_scores(self, chunk_ids: Sequence[str], terms: Terms, filters: Filters) -> dict[str, float]:
        """Return the BM25 score of each of these chunks, taken as one text with the chunk before and after it."""

    def document_terms(self, chunk_ids: Sequence[str], terms: Terms, filters: Filters) -> list[DocumentTerms]:
        """Return the weights of terms in the documents of these chunks."""

    def passages(self, chunk_ids: Sequence[str], filters: Filters) -> dict[str, Passage]: ...

    def bearers(self, names: Collection[str], filters: Filters) -> tuple[dict[str, int], int]:
        """Return how many documents have each of these names, without names that no document has, and the number of
        documents. Only documents that the asker may see count, and large numbers are capped."""

    def named_documents(self, names: Mapping[str, float], k: int, filters: Filters) -> dict[str, float]:
        """Return the k documents with the greatest sum of weights of their names, and the sums; ties by id. Filters on
        documents apply; filters on chunks and dates are left to the search."""

    def documents_of(self, chunk_ids: Sequence[str], filters: Filters) -> dict[str, str]:
        """Return the document of each of these chunks."""

    def abbreviations(self, keys: Collection[str], filters: Filters) -> list[FoundAbbreviation]:
        """Return the abbreviations that have one of these keys (terms joined by spaces) as either form; those that most
        documents define come first."""

    def newest_date(self) -> str | None:
        """Return the newest effective date in the generation, in ISO form."""

    def frequencies(self, terms: Sequence[str]) -> tuple[dict[str, int], int]:
        """Return in how many chunks each term occurred when the generation was built, and the number of chunks; unknown
        terms are left out."""

    def sentences(self, vector: Sequence[float], k: int, filters: Filters, least: float) -> list[FoundSentence]:
        """Return the k sentences of highest cosine among those with at least this confidence, ties by id. Return fewer
        only if fewer match."""

    def sentences_of(
        self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters, least: float
    ) -> list[FoundSentence]:
        """Return all matching sentences of these chunks, in order of id."""

    def expand(
        self, sentence_ids: Sequence[str], steps: int, vector: Sequence[float], filters: Filters, least: float
    ) -> list[ReachedSentence]:
        """Return the matching sentences of the sentences' own paragraphs, of up to `steps` sentences before and after
        them, and of sentences that they are RELATED_TO. A sentence that several edges reach is returned once for each
        edge."""

    def paragraphs(self, keys: Sequence[ParagraphKey], filters: Filters) -> dict[ParagraphKey, Paragraph]:
        """Return paragraphs as passages, filtered by groups in the same way as `passages`."""
