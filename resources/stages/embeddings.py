"""The stages of vectors: each text is embedded once, and a text that the model refuses gets a fallback.

A vector that any file of the state holds for the same model is reused. Vectors are made shard by shard, so a run holds
few at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError, ModelError, RefusedText, SettingsError
from pipelines.indexing.embeddings import uneven, vector_key
from pipelines.records import Failure
from resources.parquet.vectors import KnownVectors, digits_of, keys_from, vector_table
from resources.stages.embedded_items import (
    SENTENCE_FORMS,
    STAGES,
    Embedded,
    FromModel,
    FromVectors,
    Item,
    by_document,
    headings,
)
from resources.state.stage_work import Makeshift

if TYPE_CHECKING:
    from pipelines.ports import CountingEmbedder, Progress, Vectors
    from resources.state.stage_work import Outcomes, StageReport, Work, Works
    from resources.state.state import State


# ---------------------------------------------------------------- bought vectors
#
# Rows of a table of vectors that the model makes: each text once, and what stands in where there is no vector.


BEGINNING = 256
"""Characters of a refused text that stand in for it, at most half of it."""
NOTHING = "Text"
MANY, SHARE = 10, 0.2
"""More texts than both that are not taken, or not answered, of several documents, end a run."""
BAD_VECTOR = "vector"
"""The code of a vector that cannot be used."""
_SHOWN = 20
"""Files that an error names."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A text of which the model gave no vector: the chunk or sentence, why, and what was said of it."""

    item_id: str
    code: str
    said: str


@dataclass
class Texts:
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


@dataclass
class _Pass:
    """What is asked of the model at once: of each text the keys of its vectors, of the whole (None) or of a span; those
    of `beside` are not asked for yet."""

    own: dict[str, dict[str, tuple[int, int] | None]] = field(default_factory=dict)
    beside: dict[str, list[Item]] = field(default_factory=dict)

    def made(self, embedder: CountingEmbedder, progress: Progress) -> _Vectors:
        """Raises ModelError, RefusedText among them."""
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
    """What the model made of texts and of their spans."""

    def __init__(
        self, texts: Sequence[str], spans: Sequence[Sequence[tuple[int, int]]], whole: Vectors, parts: Vectors | None
    ) -> None:
        owned = [(text, span) for text, own in zip(texts, spans, strict=True) for span in own]
        self._texts = {text: number for number, text in enumerate(texts)}
        self._spans = {pair: number for number, pair in enumerate(owned)}
        self._whole, self._parts = whole, parts

    def of(self, wanted: Sequence[tuple[str, tuple[int, int] | None]]) -> Vectors:
        """Shape (len(wanted), dimension)."""
        import numpy as np

        made = np.empty((len(wanted), self._whole.shape[1]), dtype=np.float32)
        for row, (text, span) in enumerate(wanted):
            if span is None or self._parts is None:
                made[row] = self._whole[self._texts[text]]
            else:
                made[row] = self._parts[self._spans[text, span]]
        return made


class BoughtVectors:
    """Rows of a table that the model makes, each text embedded once. `known` are the vectors by table."""

    def __init__(
        self,
        source: FromModel,
        known: Mapping[str, KnownVectors],
        texts: Texts,
        embedder: Callable[[], CountingEmbedder],
        name: str,
        file_of: Callable[[str], str],
    ) -> None:
        self.table, self._items_of, self._known = source.table, source.items_of, known[source.table]
        self._beside = source.beside and (source.beside.items_of, known[source.beside.table])
        self._texts, self._embedder, self._name, self._file_of = texts, embedder, name, file_of
        self._last: dict[str, int] = {}
        """The keys that several shards ask for, and the last of these."""
        self.refused: dict[str, list[Refused]] = {}
        """doc_id to its texts of which the model gave no vector."""

    def expect(self, works: Iterable[Work]) -> None:
        """Looks for what is known of all that these works will ask for. Keys are held and no text: a corpus has more of
        it than memory."""
        import numpy as np

        keys, texts, shards = [keys_from(())], [keys_from(())], [np.zeros(0, np.int32)]
        for work in works:
            items = self._items_of(work)
            keys.append(keys_from(item.key for item in items))
            texts.append(keys_from(item.key if item.span is None else vector_key(item.text) for item in items))
            shards.append(np.full(len(items), work.shard, np.int32))
            work.forget()
        asked, text_of, shard_of = map(np.concatenate, (keys, texts, shards))
        order = np.argsort(asked, kind="stable")
        asked, text_of, shard_of = asked[order], text_of[order], shard_of[order]
        edge, changes = np.ones(len(asked[:1]), np.bool_), asked[1:] != asked[:-1]
        first, last = (np.flatnonzero(np.concatenate(parts)) for parts in ((edge, changes), (changes, edge)))
        several = last[shard_of[first] != shard_of[last]]
        self._last = dict(zip(digits_of(asked[several]), shard_of[several].tolist(), strict=True))
        fresh = np.unique(text_of[last][~self._known.expect(asked[last])])
        self._texts.wanted += len(fresh)
        self._texts.reused += len(np.unique(text_of[last])) - len(fresh)

    def rows_of(self, work: Work) -> Embedded:
        items = self._items_of(work)
        failed = self._make(work, items)
        self._note(items, failed)
        for instead in (_beginning, _heading, _nothing):
            if failed is None:
                break
            items = list(instead(work, items, failed.refused))
            self._known.seek([item.key for item in items])
            failed = self._make(work, items)
        if failed:
            raise self._stuck(items, failed)
        made = Embedded([item.row for item in items], self._known.rows([item.key for item in items]))
        self._known.forget({item.key for item in items if self._last.get(item.key, work.shard) == work.shard})
        return made

    def _note(self, items: Sequence[Item], failed: RefusedText | None) -> None:
        """Raises ModelError where so much is refused that it is no fault of the texts. A bad vector says nothing of the
        other texts: a model that gives no other ends the run when it gives none of a word."""
        if failed is None:
            return
        for item in items:
            if item.text in failed.refused:
                refused = Refused(item.row.item_id, failed.code_of(item.text), failed.refused[item.text])
                self.refused.setdefault(item.row.doc_id, []).append(refused)
        counts = Counter(doc_id for doc_id, own in self.refused.items() for no in own if no.code != BAD_VECTOR)
        if len(counts) > 1 and counts.total() > max(MANY, SHARE * self._texts.wanted):
            raise self._stuck(items, failed, f", and {counts.total() - 1} others")

    def _stuck(self, items: Sequence[Item], failed: RefusedText, others: str = " nor its headings") -> ModelError:
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
        return ModelError(f"{self.table}: {said} for {where}{others}; mend the model, then run again", code)

    def _make(self, work: Work, items: Sequence[Item]) -> RefusedText | None:
        """Has vectors made that are not known; returns what was said of those that were not made.

        Raises ModelError; what was made before it stands in a file."""
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
            made = asked.made(embedder, progress)
        except RefusedText as told:
            if told.vectors is None:
                raise self._stuck(items, told, ", nor any other text") from None
            failed, made = told, _Vectors(list(asked.own), [()] * len(asked.own), told.vectors, None)
        except ModelError as error:
            self._keep(items, error.done)
            raise self._unfinished(items, missing, error) from None
        self._keep_beside(work, asked, made)
        owners = [(text, key, span) for text, keys in asked.own.items() for key, span in keys.items()]
        vectors = made.of([(text, span) for text, _, span in owners])
        poor = {owners[row][0] for row in uneven(vectors)} - failed.refused.keys()
        said = f"embedder {self._name!r} gave no unit vector"
        failed = RefusedText(said, {**failed.refused, **dict.fromkeys(poor, said)}, None,
                             {**failed.codes, **dict.fromkeys(poor, BAD_VECTOR)})  # fmt: skip
        self._texts.embedded -= len(failed.refused)
        taken = [text not in failed.refused for text, _, _ in owners]
        self._known.add([key for (_, key, _), good in zip(owners, taken, strict=True) if good], vectors[taken])
        return failed if failed.refused else None

    def _parts_of(self, work: Work, texts: Mapping[str, object]) -> dict[str, list[Item]]:
        """Parts of these texts whose vectors another stage will ask for, and that are not known."""
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
        vectors = made.of([(item.text, item.span) for item in items])
        poor = set(uneven(vectors))
        good = [row for row in range(len(items)) if row not in poor]
        self._beside[1].keep(vector_table([items[row].row for row in good], vectors[good]), work.shard)

    def _keep(self, items: Sequence[Item], done: Mapping[str, Vectors]) -> None:
        """Writes vectors into a file that no commit names, where the next run finds them."""
        import numpy as np

        made = {item.key: item for item in items if item.span is None and item.text in done}
        if made:
            vectors = np.stack([done[item.text] for item in made.values()])
            self._known.keep(vector_table([item.row for item in made.values()], vectors))

    def _unfinished(self, items: Sequence[Item], missing: set[str], error: ModelError) -> ModelError:
        """The error, with the files whose texts wait for their vectors."""
        waiting = list(
            dict.fromkeys(item.row.doc_id for item in items if item.key in missing and item.text not in error.done)
        )
        named = ", ".join(map(self._file_of, waiting[:_SHOWN]))
        more = f" and {len(waiting) - _SHOWN} more" if len(waiting) > _SHOWN else ""
        return ModelError(f"{error}. These wait for their vectors: {named}{more}", error.code)


def _beginning(work: Work, items: Sequence[Item], refused: Mapping[str, str]) -> Iterator[Item]:
    """The items; in place of a text that was refused, most often for its length, how it begins."""
    for item in items:
        yield _with_text(item, item.text[: min(BEGINNING, len(item.text) // 2)]) if item.text in refused else item


def _heading(work: Work, items: Sequence[Item], refused: Mapping[str, str]) -> Iterator[Item]:
    """The items; in place of one that was refused again, the headings above it."""
    above = headings(work)
    for item in items:
        yield _with_text(item, above[item.row.item_id] or NOTHING) if item.text in refused else item


def _nothing(work: Work, items: Sequence[Item], refused: Mapping[str, str]) -> Iterator[Item]:
    """The items; in place of one that was refused a third time, a word that says nothing."""
    for item in items:
        yield _with_text(item, NOTHING) if item.text in refused else item


def _with_text(item: Item, text: str) -> Item:
    """Another text, whole, in place of an item's text or of a part of it."""
    return replace(item, row=replace(item.row, text_hash=vector_key(text)), text=text, span=None)


# ---------------------------------------------------------------- embeddings
#
# The stages of vectors.
#
# A text that any file under the state holds for the same model is taken from there, others are embedded
# once; shard by shard, so that a run holds few vectors at a time.


_CODES = ("unreachable", BAD_VECTOR, "refused_text")
"""Of a document's failure, where several things are wrong with it the first of these."""


def embed(state: State, stage: str, shards: Sequence[int]) -> StageReport:
    """Brings a stage of vectors up to date. A text of which a model gives no vector that can be used has the vector of
    its beginning, or else of its headings, or of a word, and its document a failure that says so.

    Raises ModelError naming a file and what the model or endpoint did, where it gives none of any text, or does not
    take or answer more than a share of those of several documents; what was made until then is kept. Raises
    SettingsError where the model cannot give what settings.sentences.embedded asks for."""
    generation, form = state.ensure_generation(), state.settings.sentences.embedded
    identity, name = generation.embedder["identity"], generation.embedder["name"]
    texts = Texts(state.run.progress_of(stage))
    known = {table: KnownVectors(state.parts.tables, table, identity) for table in _tables(stage, form)}
    ready = partial(_embedder, state, form)
    tables = [
        BoughtVectors(each, known, texts, ready, name, state.listing.file_of) if isinstance(each, FromModel) else each
        for each in STAGES[stage](form)
    ]
    before = state.parts.embedders.tokens(identity)
    report = state.run_stage(stage, shards, lambda works: _outcomes(works, tables, state), note=identity)
    tokens = state.parts.embedders.tokens(identity) - before if texts.embedded else 0
    report.notes.update({"texts embedded": texts.embedded, "texts reused": texts.reused, "tokens": tokens})
    if texts.embedded:
        state.parts.catalog.add_cost(state.run.id, stage, texts.embedded, tokens, report.seconds, generation.generation)
    for each in STAGES[stage](form):
        known[each.table].unkeep(report.shards, state.runner.key(stage))
    return report


def _tables(stage: str, form: str) -> set[str]:
    sources = STAGES[stage](form)
    beside = {each.beside.table for each in sources if isinstance(each, FromModel) and each.beside}
    return beside | {each.table for each in sources}


def _embedder(state: State, form: str) -> CountingEmbedder:
    """Ready to use. What it cannot give is told when it is first asked for anything, before it is paid for more."""
    if not state.parts.embedders.is_ready(state.ensure_generation().embedder["identity"]):
        state.run.at(f"loading {state.ensure_generation().embedder['name']}")
    embedder = state.ready_embedder()
    if form == "fast" and not embedder.pools:
        others = ", ".join(sorted(SENTENCE_FORMS.keys() - {"fast"}))
        raise SettingsError(
            f"sentences.embedded is fast, but embedder {state.ensure_generation().embedder['name']!r} gives no "
            f"vectors of tokens whose mean is that of a text; set sentences.embedded to one of {others}, or name a "
            "local model with mean pooling"
        )
    return embedder


def _outcomes(works: Works, tables: Sequence[BoughtVectors | FromVectors], state: State) -> Outcomes:
    """What all works will ask for is looked for first, by a pass over them for each table."""
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
        refused: dict[str, list[Refused]] = {}
        for each in bought:
            for doc_id, said in each.refused.items():
                refused.setdefault(doc_id, []).extend(said)
        for doc_id in refused.keys() & outcome.keys():
            failure = _refusal(state, doc_id, work.stage.name, refused[doc_id])
            outcome[doc_id] = Makeshift(outcome[doc_id], failure)
        yield work, outcome


def _refusal(state: State, doc_id: str, stage: str, refused: Sequence[Refused]) -> Failure:
    raw = state.listing.documents([doc_id]).get(doc_id)
    if raw is None:
        raise IndexStateError(
            f"{stage}: {doc_id} is not listed any more; materialise all from raw_documents on", "missing_input"
        )
    first = min(refused, key=lambda item: _CODES.index(item.code))
    told = (
        f"{len(refused)} of its texts have no vector of their own, {first.item_id} among them, and are found by their "
        f"words and beginnings only: {first.said}"
    )
    return Failure(doc_id, raw.source, raw.uri, stage, first.code, told)


def _require_unit(table: str, made: Embedded, file_of: Callable[[str], str]) -> None:
    for bad in uneven(made.vectors) if made.rows else ():
        row = made.rows[bad]
        where = f"{row.item_id} in {file_of(row.doc_id)}"
        raise ModelError(
            f"{table}: the model gave no unit vector for {where}; mend the model, then run again", BAD_VECTOR
        )
