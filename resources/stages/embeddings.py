"""The stages of vectors: each text is embedded once, and a text that the model refuses gets a fallback.

A vector of the same model in any file of the state is reused. Vectors are made part by part, so few are in memory at a
time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError, ModelError, RefusedText, SettingsError
from pipelines.indexing.embeddings import uneven_rows, vector_key
from pipelines.plural import plural
from pipelines.records import Failure
from resources.engine import Fallback
from resources.engine.vectors import KnownVectors, digits_of, keys_from, vector_table
from resources.stages.embedded_items import (
    POOLED,
    SENTENCE_FORMS,
    STAGES,
    Embedded,
    FromModel,
    FromVectors,
    Item,
    by_document,
    headings,
)

if TYPE_CHECKING:
    from pipelines.ports import Progress, TextEmbedder, Vectors
    from resources.engine import Outcomes, StageReport, Work, Works
    from resources.state.state import State


# ---------------------------------------------------------------- vectors from the model, and fallbacks


BEGINNING = 256
"""Characters at the start of a refused text that are embedded in its place; at most half of the text is used."""
NOTHING = "Text"
MANY, SHARE = 10, 0.2
"""Limits for refused or unanswered texts, a number and a share. If more texts than both limits are refused in several
documents, the model is at fault, so the run stops."""
BAD_VECTOR = "vector"
"""Error code for an unusable vector."""
_SHOWN = 20
"""Most files that an error names."""


@dataclass(frozen=True, slots=True)
class TextWithoutVector:
    """A text for which the model returned no vector: the chunk or sentence, the error code, and the message."""

    item_id: str
    code: str
    said: str


@dataclass
class TextCounts:
    """Counts of texts in one run of a stage: to be embedded, embedded, and reused."""

    progress: Progress
    wanted: int = 0
    embedded: int = 0
    reused: int = 0

    def embedding(self, count: int) -> Progress:
        """Convert the progress of the next `count` texts to progress of all texts."""
        before = self.embedded
        self.embedded += count
        return lambda at, of: self.progress(before + count * at // max(1, of), self.wanted)


@dataclass
class _Pass:
    """Texts sent to the model together. Each text has the keys of its vectors, with the span, or None for the whole
    text. Vectors of the parts in `beside` are needed only later."""

    own: dict[str, dict[str, tuple[int, int] | None]] = field(default_factory=dict)
    beside: dict[str, list[Item]] = field(default_factory=dict)

    def make(self, embedder: TextEmbedder, progress: Progress) -> _Vectors:
        """Embed the texts. Raise ModelError, or its subclass RefusedText."""
        texts = list(self.own)
        spans = [
            list(dict.fromkeys(span for span in (*self.own[text].values(), *self._spans(text)) if span))
            for text in texts
        ]
        if not any(spans):
            return _Vectors(texts, spans, embedder.passages(texts, progress), None)
        return _Vectors(texts, spans, *embedder.with_spans(texts, spans, progress))

    def _spans(self, text: str) -> list[tuple[int, int] | None]:
        return [item.span for item in self.beside.get(text, ())]


class _Vectors:
    """The model's vectors of texts and of their spans."""

    def __init__(
        self, texts: Sequence[str], spans: Sequence[Sequence[tuple[int, int]]], whole: Vectors, parts: Vectors | None
    ) -> None:
        owned = [(text, span) for text, own in zip(texts, spans, strict=True) for span in own]
        self._texts = {text: number for number, text in enumerate(texts)}
        self._spans = {pair: number for number, pair in enumerate(owned)}
        self._whole, self._parts = whole, parts

    def vectors_of(self, wanted: Sequence[tuple[str, tuple[int, int] | None]]) -> Vectors:
        """Return the vectors of these texts and spans, shape (len(wanted), dimension)."""
        import numpy as np

        made = np.empty((len(wanted), self._whole.shape[1]), dtype=np.float32)
        for row, (text, span) in enumerate(wanted):
            if span is None or self._parts is None:
                made[row] = self._whole[self._texts[text]]
            else:
                made[row] = self._parts[self._spans[text, span]]
        return made


class BoughtVectors:
    """The rows of a table with vectors from the model; each text is embedded once. `known` has the known vectors by
    table."""

    def __init__(
        self,
        source: FromModel,
        known: Mapping[str, KnownVectors],
        texts: TextCounts,
        embedder: Callable[[], TextEmbedder],
        name: str,
        file_of: Callable[[str], str],
    ) -> None:
        self.table, self._items_of, self._known = source.table, source.items_of, known[source.table]
        self._beside = source.beside and (source.beside.items_of, known[source.beside.table])
        self._texts, self._embedder, self._name, self._file_of = texts, embedder, name, file_of
        self._last: dict[str, int] = {}
        """Keys that several parts need, with the number of the last of these parts."""
        self._numbers: dict[str, int] = {}
        """Numbers of the parts, by their first id."""
        self.refused: dict[str, list[TextWithoutVector]] = {}
        """Texts for which the model returned no vector, by doc_id."""

    def expect(self, works: Iterable[Work]) -> None:
        """Look up the known vectors for all texts of these works. Only keys are stored, since the texts of a corpus do
        not fit in memory."""
        import numpy as np

        keys, texts, parts = [keys_from(())], [keys_from(())], [np.zeros(0, np.int32)]
        self._numbers.clear()
        for number, work in enumerate(works):
            self._numbers[work.part.first] = number
            items = self._items_of(work)
            keys.append(keys_from(item.key for item in items))
            texts.append(keys_from(item.key if item.span is None else vector_key(item.text) for item in items))
            parts.append(np.full(len(items), number, np.int32))
            work.forget()
        asked, text_of, part_of = map(np.concatenate, (keys, texts, parts))
        order = np.argsort(asked, kind="stable")
        asked, text_of, part_of = asked[order], text_of[order], part_of[order]
        edge, changes = np.ones(len(asked[:1]), np.bool_), asked[1:] != asked[:-1]
        first, last = (np.flatnonzero(np.concatenate(own)) for own in ((edge, changes), (changes, edge)))
        several = last[part_of[first] != part_of[last]]
        self._last = dict(zip(digits_of(asked[several]), part_of[several].tolist(), strict=True))
        unknown = last[~self._known.expect(asked[last])]
        fresh = np.unique(text_of[unknown])
        self._texts.wanted += len(fresh)
        self._texts.reused += len(np.unique(text_of[last])) - len(fresh)

    def rows_of(self, work: Work) -> Embedded:
        items, number = self._items_of(work), self._numbers[work.part.first]
        failed = self._make(work, items)
        self._note(items, failed)
        for instead in (_beginning, _heading, _nothing):
            if failed is None:
                break
            items = list(instead(work, items, failed.refused))
            self._known.seek([item.key for item in items])
            failed = self._make(work, items)
        if failed:
            raise self._stuck_error(items, failed)
        made = Embedded([item.row for item in items], self._known.rows([item.key for item in items]))
        self._known.forget({item.key for item in items if self._last.get(item.key, number) == number})
        return made

    def _note(self, items: Sequence[Item], failed: RefusedText | None) -> None:
        """Raise ModelError if too many texts are refused for the texts to be at fault. Unusable vectors do not count
        here: a model that returns only these ends the run when it returns one for a single word."""
        if failed is None:
            return
        for item in items:
            if item.text in failed.refused:
                refused = TextWithoutVector(item.row.item_id, failed.code_of(item.text), failed.refused[item.text])
                self.refused.setdefault(item.row.doc_id, []).append(refused)
        counts = Counter(doc_id for doc_id, own in self.refused.items() for no in own if no.code != BAD_VECTOR)
        if len(counts) > 1 and counts.total() > max(MANY, SHARE * self._texts.wanted):
            raise self._stuck_error(items, failed, f", and {plural(counts.total() - 1, 'other')}")

    def _stuck_error(self, items: Sequence[Item], failed: RefusedText, others: str = " nor its headings") -> ModelError:
        refused = [item for item in items if item.text in failed.refused]
        item = min(refused, key=lambda item: failed.code_of(item.text) == BAD_VECTOR)
        where, said = f"{item.row.item_id} of {self._file_of(item.row.doc_id)}", failed.refused[item.text]
        code = failed.code_of(item.text)
        if code == RefusedText.default_code:
            return RefusedText(
                f"{said}; it does not take {where}{others}: see what it says to that text, set another model or a "
                "smaller embedder.max_tokens, or leave that file out (sources.exclude)",
                failed.refused,
            )
        return ModelError(f"{self.table}: {said} for {where}{others}; check the model, then run again", code)

    def _make(self, work: Work, items: Sequence[Item]) -> RefusedText | None:
        """Request the unknown vectors from the model. Return the refusals, or None if all were made. Raise ModelError;
        vectors made before it are stored in a file."""
        missing = self._known.missing(item.key for item in items)
        asked = _Pass()
        for item in items:
            if item.key in missing:
                asked.own.setdefault(item.text, {})[item.key] = item.span
        if not asked.own:
            return None
        asked.beside = self._parts_of(work, asked.own)
        embedder, failed = self._embedder(), RefusedText("", {})
        progress = self._texts.embedding(len(asked.own))
        try:
            made = asked.make(embedder, progress)
        except RefusedText as told:
            if told.vectors is None:
                raise self._stuck_error(items, told, ", nor any other text") from None
            failed, made = told, _Vectors(list(asked.own), [()] * len(asked.own), told.vectors, None)
        except ModelError as error:
            self._keep(items, error.done)
            raise self._unfinished_error(items, missing, error) from None
        self._keep_beside(work, asked, made)
        owners = [(text, key, span) for text, keys in asked.own.items() for key, span in keys.items()]
        vectors = made.vectors_of([(text, span) for text, _, span in owners])
        poor = {owners[row][0] for row in uneven_rows(vectors)} - failed.refused.keys()
        said = f"embedder {self._name!r} gave no unit vector"
        failed = RefusedText(said, {**failed.refused, **dict.fromkeys(poor, said)}, None,
                             {**failed.codes, **dict.fromkeys(poor, BAD_VECTOR)})  # fmt: skip
        self._texts.embedded -= len(failed.refused)
        taken = [text not in failed.refused for text, _, _ in owners]
        self._known.add([key for (_, key, _), good in zip(owners, taken, strict=True) if good], vectors[taken])
        return failed if failed.refused else None

    def _parts_of(self, work: Work, texts: Mapping[str, object]) -> dict[str, list[Item]]:
        """Return the parts of these texts whose vectors are unknown and will be needed by another stage."""
        if not self._beside:
            return {}
        items_of, known = self._beside
        items = [item for item in items_of(work) if item.text in texts]
        work.forget()
        unknown = known.seek(item.key for item in items)
        found: dict[str, list[Item]] = {}
        for item in items:
            if item.key in unknown:
                found.setdefault(item.text, []).append(item)
        return found

    def _keep_beside(self, work: Work, asked: _Pass, made: _Vectors) -> None:
        if not (self._beside and asked.beside):
            return
        items = [item for own in asked.beside.values() for item in own]
        vectors = made.vectors_of([(item.text, item.span) for item in items])
        poor = set(uneven_rows(vectors))
        good = [row for row in range(len(items)) if row not in poor]
        self._beside[1].keep(vector_table([items[row].row for row in good], vectors[good]), work.part.range)

    def _keep(self, items: Sequence[Item], done: Mapping[str, Vectors]) -> None:
        """Write vectors into a file outside of commits, where the next run finds them."""
        import numpy as np

        made = {item.key: item for item in items if item.span is None and item.text in done}
        if made:
            vectors = np.stack([done[item.text] for item in made.values()])
            self._known.keep(vector_table([item.row for item in made.values()], vectors))

    def _unfinished_error(self, items: Sequence[Item], missing: set[str], error: ModelError) -> ModelError:
        """Return the error with the names of files whose texts wait for vectors."""
        waiting = list(
            dict.fromkeys(item.row.doc_id for item in items if item.key in missing and item.text not in error.done)
        )
        named = ", ".join(map(self._file_of, waiting[:_SHOWN]))
        more = f" and {len(waiting) - _SHOWN} more" if len(waiting) > _SHOWN else ""
        return ModelError(f"{error}. These wait for their vectors: {named}{more}", error.code)


def _beginning(work: Work, items: Sequence[Item], refused: Mapping[str, str]) -> Iterator[Item]:
    """Yield the items; a refused text, which is usually too long, is replaced by its beginning."""
    for item in items:
        yield _with_text(item, item.text[: min(BEGINNING, len(item.text) // 2)]) if item.text in refused else item


def _heading(work: Work, items: Sequence[Item], refused: Mapping[str, str]) -> Iterator[Item]:
    """Yield the items; a text that was refused twice is replaced by the headings above it."""
    above = headings(work)
    for item in items:
        yield _with_text(item, above[item.row.item_id] or NOTHING) if item.text in refused else item


def _nothing(work: Work, items: Sequence[Item], refused: Mapping[str, str]) -> Iterator[Item]:
    """Yield the items; a text that was refused three times is replaced by a word without content."""
    for item in items:
        yield _with_text(item, NOTHING) if item.text in refused else item


def _with_text(item: Item, text: str) -> Item:
    """Return an item with another whole text in place of its text or span."""
    return replace(item, row=replace(item.row, text_hash=vector_key(text)), text=text, span=None)


# ---------------------------------------------------------------- the stages


_CODES = ("unreachable", BAD_VECTOR, "refused_text")
"""Codes of a document's failure, worst first: of several faults the first in this order is reported."""


def embed(state: State, stage: str, buckets: Sequence[int]) -> StageReport:
    """Update a stage of vectors.

    A text without a usable vector gets the vector of its beginning, or else of its headings, or else of a word; its
    document gets a failure. Raise ModelError, naming a file and the model's error, if the model returns no vector at
    all, or if it refuses or leaves unanswered more than a share of the texts in several documents. Vectors made before
    are kept. Raise SettingsError if the model does not support settings.sentences.embedded.
    """
    generation, form = state.ensure_generation(), state.settings.sentences.embedded
    identity, name = generation.embedder["identity"], generation.embedder["name"]
    texts = TextCounts(state.run.progress_of(stage))
    known = {table: KnownVectors(state.parts.tables, table, identity) for table in _tables(stage, form)}
    ready = partial(_embedder, state, form)
    tables = [
        BoughtVectors(each, known, texts, ready, name, state.listing.file_of) if isinstance(each, FromModel) else each
        for each in STAGES[stage](form)
    ]
    before = state.parts.embedders.tokens(identity)
    report = state.run_stage(stage, buckets, lambda works: _outcomes(works, tables, state), note=identity)
    tokens = state.parts.embedders.tokens(identity) - before if texts.embedded else 0
    report.notes.update({"texts embedded": texts.embedded, "texts reused": texts.reused, "tokens": tokens})
    if texts.embedded:
        state.catalog.add_cost(state.run.id, stage, texts.embedded, tokens, report.seconds, generation.generation)
    for each in STAGES[stage](form):
        known[each.table].unkeep(state.engine.key(stage), buckets, state.settings.buckets)
    return report


def _tables(stage: str, form: str) -> set[str]:
    sources = STAGES[stage](form)
    beside = {each.beside.table for each in sources if isinstance(each, FromModel) and each.beside}
    return beside | {each.table for each in sources}


def _embedder(state: State, form: str) -> TextEmbedder:
    """Return the embedder, ready to use. If it does not support the settings, raise SettingsError at its first use,
    before more is paid for."""
    if not state.parts.embedders.is_ready(state.ensure_generation().embedder["identity"]):
        state.run.report_start(f"loading {state.ensure_generation().embedder['name']}")
    embedder = state.ready_embedder()
    if form in POOLED and not embedder.pools:
        others = ", ".join(sorted(SENTENCE_FORMS.keys() - POOLED.keys()))
        raise SettingsError(
            f"sentences.embedded is {form}, but embedder {state.ensure_generation().embedder['name']!r} gives no "
            f"vectors of tokens whose mean is the vector of the text; set sentences.embedded to one of {others}, or "
            "name a local model with mean pooling"
        )
    return embedder


def _outcomes(works: Works, tables: Sequence[BoughtVectors | FromVectors], state: State) -> Outcomes:
    """Yield the outcomes of the works. Known vectors are looked up first, in one pass over all works for each table."""
    bought = [each for each in tables if isinstance(each, BoughtVectors)]
    for each in bought:
        each.expect(works)
    for work in works:
        made: dict[str, Embedded] = {}
        for source in tables:
            if isinstance(source, BoughtVectors):
                made[source.table] = source.rows_of(work)
            else:
                made[source.table] = source.rows_of(work, next(reversed(made.values())))
            _require_unit(source.table, made[source.table], state.listing.file_of)
        outcome: dict[str, Any] = dict(by_document(work.doc_ids, made))
        refused: dict[str, list[TextWithoutVector]] = {}
        for each in bought:
            for doc_id, said in each.refused.items():
                refused.setdefault(doc_id, []).extend(said)
        for doc_id in refused.keys() & outcome.keys():
            failure = _refusal(state, doc_id, work.stage.name, refused[doc_id])
            outcome[doc_id] = Fallback(outcome[doc_id], failure)
        yield work, outcome


def _refusal(state: State, doc_id: str, stage: str, refused: Sequence[TextWithoutVector]) -> Failure:
    raw = state.listing.documents([doc_id]).get(doc_id)
    if raw is None:
        raise IndexStateError(
            f"{stage}: {doc_id} is no longer listed; materialise all assets from raw_documents on", "missing_input"
        )
    first = min(refused, key=lambda item: _CODES.index(item.code))
    told = (
        f"{len(refused)} of its texts have no vector of their own, {first.item_id} among them, and are found by their "
        f"words and beginnings only: {first.said}"
    )
    return Failure(doc_id, raw.source, raw.uri, stage, first.code, told)


def _require_unit(table: str, made: Embedded, file_of: Callable[[str], str]) -> None:
    for bad in uneven_rows(made.vectors) if made.rows else ():
        row = made.rows[bad]
        where = f"{row.item_id} in {file_of(row.doc_id)}"
        raise ModelError(
            f"{table}: the model gave no unit vector for {where}; check the model, then run again", BAD_VECTOR
        )
