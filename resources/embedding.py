"""The stages of vectors: what of each document has one, and what is searched for a sentence.

A text that any file under the state holds for the same model is taken from there, others are embedded
once; bucket by bucket, so that a run holds few vectors at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pipelines.errors import ModelError, RefusedText, SettingsError
from pipelines.indexing.embeddings import (
    blended,
    blended_key,
    embedded_text,
    headed,
    headings_outside,
    uneven,
    vector_key,
)
from pipelines.records import Embedding
from resources.vectors import KnownVectors, matrix

if TYPE_CHECKING:
    from pipelines.ports import CountingEmbedder, Progress, Vectors
    from resources.stage_runner import Outcome, StageReport, Work
    from resources.workspace import Workspace

Rows = Mapping[str, Sequence[Embedding]]
"""doc_id to its rows of one table."""

# ---------------------------------------------------------------- what has a vector


@dataclass(frozen=True, slots=True)
class Item:
    """A text that has a vector, or with `span` the part of it that has; `key` is of what the vector is made of."""

    doc_id: str
    index: int
    item_id: str
    key: str
    text: str
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class FromModel:
    """A table of vectors that the model makes."""

    table: str
    items_of: Callable[[Work], list[Item]]


@dataclass(frozen=True, slots=True)
class FromVectors:
    """A table made from the rows of the table before it, without the model."""

    table: str
    rows_of: Callable[[Work, Rows], Rows]


def chunks(work: Work) -> list[Item]:
    items = []
    for doc_id in work.doc_ids:
        (summary,) = work.all("document_summaries", doc_id)
        contexts = {context.chunk_id: context.text for context in work.all("chunk_contexts", doc_id)}
        for chunk in work.all("chunks", doc_id):
            text = embedded_text(chunk, summary.text, contexts[chunk.chunk_id])
            items.append(Item(doc_id, chunk.index, chunk.chunk_id, vector_key(text), text))
    return items


def sentences(work: Work) -> list[Item]:
    rows = _columns(work, "sentences", "index", "sentence_id", "text")
    return [Item(doc_id, index, name, vector_key(text), text) for doc_id, index, name, text in rows]


def headed_sentences(work: Work) -> list[Item]:
    chains = {name: chain for _, name, chain in _columns(work, "chunks", "chunk_id", "header_chain")}
    items = []
    for doc_id, index, name, chunk_id, sentence in _columns(
        work, "sentences", "index", "sentence_id", "chunk_id", "text"
    ):
        text = headed(chains[chunk_id], sentence)
        items.append(Item(doc_id, index, name, vector_key(text), text))
    return items


def sentences_in_chunks(work: Work) -> list[Item]:
    """Each a span of its chunk, which stands after its headings."""
    texts, offsets = {}, {}
    for _, chunk_id, chain, own, units in _columns(work, "chunks", "chunk_id", "header_chain", "text", "offsets"):
        texts[chunk_id] = headed(headings_outside(chain, own, units), own)
        offsets[chunk_id] = len(texts[chunk_id]) - len(own)
    items = []
    for doc_id, index, name, chunk_id, start, length in _columns(
        work, "sentences", "index", "sentence_id", "chunk_id", "start", "length"
    ):
        at = offsets[chunk_id] + start
        key = vector_key(texts[chunk_id], (at, at + length))
        items.append(Item(doc_id, index, name, key, texts[chunk_id], (at, at + length)))
    return items


def blended_with_chunks(work: Work, rows: Rows) -> Rows:
    """Unit means of each sentence's vector and its chunk's."""
    if not any(rows.values()):
        return rows
    chunk_of = {name: chunk_id for _, name, chunk_id in _columns(work, "sentences", "sentence_id", "chunk_id")}
    read = work.tables.read(work.files["chunk_embeddings"], ["item_id", "text_hash", "vector"])
    places = {chunk_id: place for place, chunk_id in enumerate(read["item_id"].to_pylist())}
    keys, vectors = read["text_hash"].to_pylist(), matrix(read["vector"])
    made = {}
    for doc_id, own in rows.items():
        at = [places[chunk_of[row.item_id]] for row in own]
        mixed = blended(_stacked(own), vectors[at]) if own else ()
        made[doc_id] = [
            Embedding(doc_id, row.index, row.item_id, blended_key(row.text_hash, keys[place]), vector)
            for row, place, vector in zip(own, at, mixed, strict=True)
        ]
    return made


def _columns(work: Work, table: str, *names: str) -> Iterator[tuple[Any, ...]]:
    """doc_id and these columns of the documents to compute, in table order; whole records, with their boxes, would
    take longer to read than all else here."""
    import pyarrow as pa
    import pyarrow.compute as pc

    read = work.tables.read(work.files[table], ["doc_id", *names])
    read = read.filter(pc.is_in(read["doc_id"], pa.array(work.doc_ids, pa.string())))
    return zip(*(read[name].to_pylist() for name in ("doc_id", *names)), strict=True)


_BARE, _SEARCHED = "sentence_embeddings", "sentence_search_embeddings"

SEARCHED: Mapping[str, FromModel | FromVectors] = {
    "blended": FromVectors(_SEARCHED, blended_with_chunks),
    "pooled": FromModel(_SEARCHED, sentences_in_chunks),
    "header-chain": FromModel(_SEARCHED, headed_sentences),
    "bare": FromVectors(_SEARCHED, lambda work, rows: rows),
}
"""What is searched for a sentence, by settings.sentences.embedded."""

STAGES: Mapping[str, Callable[[str], tuple[FromModel | FromVectors, ...]]] = {
    "chunk_embeddings": lambda form: (FromModel("chunk_embeddings", chunks),),
    "sentence_embeddings": lambda form: (FromModel(_BARE, sentences), SEARCHED[form]),
}
"""The tables of each stage. The bare sentences' vectors are what links are made from."""

# ---------------------------------------------------------------- a stage


def embed(workspace: Workspace, stage: str, buckets: Sequence[int]) -> StageReport:
    """Brings a stage of vectors up to date.

    Raises ModelError naming the item whose vector cannot be used, SettingsError where the model cannot give what
    settings.sentences.embedded asks for."""
    generation, form = workspace.ensure_generation(), workspace.settings.sentences.embedded
    identity, texts = generation.embedder["identity"], _Texts(workspace.progress_of(stage))
    ready = partial(_embedder, workspace, form)
    tables = [
        _Bought(each, KnownVectors(workspace.tables, each.table, identity), texts, ready, workspace.file_of)
        if isinstance(each, FromModel)
        else each
        for each in STAGES[stage](form)
    ]
    before = workspace.tokens_embedded(identity)
    report = workspace.run(stage, buckets, lambda works: _outcomes(works, tables, workspace.file_of), note=identity)
    tokens = workspace.tokens_embedded(identity) - before if texts.embedded else 0
    report.notes.update({"texts embedded": texts.embedded, "texts reused": texts.reused, "tokens": tokens})
    if texts.embedded:
        workspace.catalog.add_cost(
            workspace.run_id, stage, texts.embedded, tokens, report.seconds, generation.generation
        )
    return report


def _embedder(workspace: Workspace, form: str) -> CountingEmbedder:
    """Ready to use. What it cannot give is told when it is first asked for anything, before it is paid for more."""
    embedder = workspace.ready_embedder()
    if form == "pooled" and not embedder.pools:
        others = ", ".join(sorted(SEARCHED.keys() - {"pooled"}))
        raise SettingsError(
            f"sentences.embedded is pooled, but embedder {workspace.ensure_generation().embedder['name']!r} gives no "
            f"vectors of tokens whose mean is that of a text; set sentences.embedded to one of {others}, or name a "
            "local model with mean pooling"
        )
    return embedder


def _outcomes(
    works: Iterable[Work], tables: Sequence[_Bought | FromVectors], file_of: Callable[[str], str]
) -> Iterator[Outcome]:
    pending = list(works)
    for each in tables:
        if isinstance(each, _Bought):
            each.expect(pending)
    for work in pending:
        made: dict[str, Rows] = {}
        for each in tables:
            made[each.table] = each.rows_of(work, next(reversed(made.values()), {}))
            _require_unit(each.table, made[each.table], file_of)
        yield {doc_id: {table: rows.get(doc_id, ()) for table, rows in made.items()} for doc_id in work.doc_ids}


def _require_unit(table: str, rows: Rows, file_of: Callable[[str], str]) -> None:
    every = [row for own in rows.values() for row in own]
    for bad in uneven(_stacked(every)) if every else ():
        row = every[bad]
        where = f"{row.item_id} in {file_of(row.doc_id)}"
        raise ModelError(
            f"{table}: the model gave no unit vector for {where}; mend the model, then run again", "vector"
        )


def _stacked(rows: Sequence[Embedding]) -> Vectors:
    import numpy as np

    return np.stack([np.asarray(row.vector, dtype=np.float32) for row in rows])


@dataclass
class _Texts:
    """How many texts a run of a stage must have embedded, has had embedded, and found known."""

    progress: Progress
    wanted: int = 0
    embedded: int = 0
    reused: int = 0

    def embedding(self, count: int) -> Progress:
        """Progress of the next `count` texts, as progress of the whole."""
        before = self.embedded
        self.embedded += count
        return lambda at, of: self.progress(before + count * at // max(1, of), self.wanted)


class _Bought:
    """Rows of a table that the model makes, each text embedded once."""

    def __init__(
        self,
        source: FromModel,
        known: KnownVectors,
        texts: _Texts,
        embedder: Callable[[], CountingEmbedder],
        file_of: Callable[[str], str],
    ) -> None:
        self.table, self._items_of, self._known = source.table, source.items_of, known
        self._texts, self._embedder, self._file_of = texts, embedder, file_of
        self._items: dict[int, list[Item]] = {}
        self._last: dict[str, int] = {}

    def expect(self, works: Sequence[Work]) -> None:
        """Lists what these works will ask for, and looks for what is known of it."""
        for work in works:
            self._items[work.bucket] = self._items_of(work)
            work.forget()
            self._last.update((item.key, work.bucket) for item in self._items[work.bucket])
        unknown = self._known.seek(self._last)
        every = [item for items in self._items.values() for item in items]
        fresh = {item.text for item in every if item.key in unknown}
        self._texts.wanted += len(fresh)
        self._texts.reused += len({item.text for item in every}) - len(fresh)

    def rows_of(self, work: Work, before: Rows) -> Rows:
        items = self._items.pop(work.bucket)
        self._make(items)
        rows: dict[str, list[Embedding]] = {}
        for item, vector in zip(items, self._known.rows([item.key for item in items]), strict=True):
            row = Embedding(item.doc_id, item.index, item.item_id, item.key, vector)
            rows.setdefault(item.doc_id, []).append(row)
        self._known.forget({item.key for item in items if self._last[item.key] == work.bucket})
        return rows

    def _make(self, items: Sequence[Item]) -> None:
        missing = self._known.missing(item.key for item in items)
        fresh: dict[str, dict[str, tuple[int, int] | None]] = {}
        for item in items:
            if item.key in missing:
                fresh.setdefault(item.text, {})[item.key] = item.span
        if not fresh:
            return
        texts, progress = list(fresh), self._texts.embedding(len(fresh))
        spans = [[span for span in keys.values() if span] for keys in fresh.values()]
        embedder = self._embedder()
        try:
            vectors = embedder.pooled(texts, spans, progress) if any(spans) else embedder.passages(texts, progress)
        except RefusedText as refused:
            item = next(item for item in items if item.text == refused.text)
            where = f"{item.item_id} in {self._file_of(item.doc_id)}"
            raise RefusedText(
                f"{refused}; it does not take the text of {where}: leave that file out (sources.exclude), or set "
                "another model or a smaller embedder.max_tokens",
                text=refused.text,
            ) from None
        self._known.add([key for keys in fresh.values() for key in keys], vectors)
