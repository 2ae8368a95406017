"""The stages of vectors.

A text that any file under the state holds for the same model is taken from there, others are embedded
once; bucket by bucket, so that a run holds few vectors at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError, ModelError, RefusedText, SettingsError
from pipelines.indexing.embeddings import uneven, vector_key
from pipelines.records import Embedding, Failure
from pipelines.schemas import to_table
from resources.parquet.vectors import KnownVectors
from resources.stages.embedded_items import SEARCHED, STAGES, FromModel, FromVectors, Item, Rows, headings, stacked
from resources.state.stage_work import Makeshift

if TYPE_CHECKING:
    from pipelines.ports import CountingEmbedder, Progress, Vectors
    from resources.state.stage_work import Outcome, StageReport, Work
    from resources.state.state import State


BEGINNING = 256
"""Characters of a refused text that stand in for it, at most half of it."""
NOTHING = "Text"
MANY, SHARE = 10, 0.2
"""More texts than both that are not taken, or not answered, of several documents, end a run."""
BAD_VECTOR = "vector"
"""The code of a vector that cannot be used."""
_SHOWN = 20
"""Files that an error names."""
_CODES = ("unreachable", BAD_VECTOR, "refused_text")
"""Of a document's failure, where several things are wrong with it the first of these."""


@dataclass(frozen=True, slots=True)
class _Refused:
    """A text of which the model gave no vector: the chunk or sentence, why, and what was said of it."""

    item_id: str
    code: str
    said: str


def embed(state: State, stage: str, buckets: Sequence[int]) -> StageReport:
    """Brings a stage of vectors up to date. A text of which a model gives no vector that can be used has the vector of
    its beginning, or else of its headings, or of a word, and its document a failure that says so.

    Raises ModelError naming a file and what the model or endpoint did, where it gives none of any text, or does not
    take or answer more than SHARE of those of several documents; what was made until then is kept. Raises
    SettingsError where the model cannot give what settings.sentences.embedded asks for."""
    generation, form = state.ensure_generation(), state.settings.sentences.embedded
    identity, name = generation.embedder["identity"], generation.embedder["name"]
    texts = _Texts(state.run.progress_of(stage))
    ready = partial(_embedder, state, form)
    tables = [
        _Bought(each, KnownVectors(state.parts.tables, each.table, identity), texts, ready, name, state.listing.file_of)
        if isinstance(each, FromModel)
        else each
        for each in STAGES[stage](form)
    ]
    before = state.parts.embedders.tokens(identity)
    report = state.run_stage(stage, buckets, lambda works: _outcomes(works, tables, state), note=identity)
    tokens = state.parts.embedders.tokens(identity) - before if texts.embedded else 0
    report.notes.update({"texts embedded": texts.embedded, "texts reused": texts.reused, "tokens": tokens})
    if texts.embedded:
        state.parts.catalog.add_cost(state.run.id, stage, texts.embedded, tokens, report.seconds, generation.generation)
    return report


def _embedder(state: State, form: str) -> CountingEmbedder:
    """Ready to use. What it cannot give is told when it is first asked for anything, before it is paid for more."""
    embedder = state.ready_embedder()
    if form == "pooled" and not embedder.pools:
        others = ", ".join(sorted(SEARCHED.keys() - {"pooled"}))
        raise SettingsError(
            f"sentences.embedded is pooled, but embedder {state.ensure_generation().embedder['name']!r} gives no "
            f"vectors of tokens whose mean is that of a text; set sentences.embedded to one of {others}, or name a "
            "local model with mean pooling"
        )
    return embedder


def _outcomes(works: Iterable[Work], tables: Sequence[_Bought | FromVectors], state: State) -> Iterator[Outcome]:
    pending, bought = list(works), [each for each in tables if isinstance(each, _Bought)]
    for each in bought:
        each.expect(pending)
    for work in pending:
        made: dict[str, Rows] = {}
        for source in tables:
            made[source.table] = source.rows_of(work, next(reversed(made.values()), {}))
            _require_unit(source.table, made[source.table], state.listing.file_of)
        outcome: dict[str, Any] = {
            doc_id: {table: rows.get(doc_id, ()) for table, rows in made.items()} for doc_id in work.doc_ids
        }
        refused: dict[str, list[_Refused]] = {}
        for each in bought:
            for doc_id, said in each.refused.items():
                refused.setdefault(doc_id, []).extend(said)
        for doc_id in refused.keys() & outcome.keys():
            failure = _refusal(state, doc_id, work.stage.name, refused[doc_id])
            outcome[doc_id] = Makeshift(outcome[doc_id], failure)
        yield outcome


def _refusal(state: State, doc_id: str, stage: str, refused: Sequence[_Refused]) -> Failure:
    raw = next((raw for raw in state.listing.raw_documents() if raw.doc_id == doc_id), None)
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


def _require_unit(table: str, rows: Rows, file_of: Callable[[str], str]) -> None:
    every = [row for own in rows.values() for row in own]
    for bad in uneven(stacked(every)) if every else ():
        row = every[bad]
        where = f"{row.item_id} in {file_of(row.doc_id)}"
        raise ModelError(
            f"{table}: the model gave no unit vector for {where}; mend the model, then run again", BAD_VECTOR
        )


def _beginning(work: Work, items: Sequence[Item], refused: Mapping[str, str]) -> Iterator[Item]:
    """The items; in place of a text that was refused, most often for its length, how it begins."""
    for item in items:
        yield _with_text(item, item.text[: min(BEGINNING, len(item.text) // 2)]) if item.text in refused else item


def _heading(work: Work, items: Sequence[Item], refused: Mapping[str, str]) -> Iterator[Item]:
    """The items; in place of one that was refused again, the headings above it."""
    above = headings(work)
    for item in items:
        yield _with_text(item, above[item.item_id] or NOTHING) if item.text in refused else item


def _nothing(work: Work, items: Sequence[Item], refused: Mapping[str, str]) -> Iterator[Item]:
    """The items; in place of one that was refused a third time, a word that says nothing."""
    for item in items:
        yield _with_text(item, NOTHING) if item.text in refused else item


def _with_text(item: Item, text: str) -> Item:
    return replace(item, key=vector_key(text), text=text)


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
        name: str,
        file_of: Callable[[str], str],
    ) -> None:
        self.table, self._items_of, self._known = source.table, source.items_of, known
        self._texts, self._embedder, self._name, self._file_of = texts, embedder, name, file_of
        self._items: dict[int, list[Item]] = {}
        self._last: dict[str, int] = {}
        self.refused: dict[str, list[_Refused]] = {}
        """doc_id to its texts of which the model gave no vector."""

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
        failed = self._make(items)
        self._note(items, failed)
        for instead in (_beginning, _heading, _nothing):
            if failed is None:
                break
            items = list(instead(work, items, failed.refused))
            self._known.seek([item.key for item in items])
            failed = self._make(items)
        if failed:
            raise self._stuck(items, failed)
        rows: dict[str, list[Embedding]] = {}
        for item, vector in zip(items, self._known.rows([item.key for item in items]), strict=True):
            row = Embedding(item.doc_id, item.index, item.item_id, item.key, vector)
            rows.setdefault(item.doc_id, []).append(row)
        self._known.forget({item.key for item in items if self._last.get(item.key, work.bucket) == work.bucket})
        return rows

    def _note(self, items: Sequence[Item], failed: RefusedText | None) -> None:
        """Raises ModelError where so much is refused that it is no fault of the texts. A bad vector says nothing of the
        other texts: a model that gives no other ends the run when it gives none of a word."""
        if failed is None:
            return
        for item in items:
            if item.text in failed.refused:
                refused = _Refused(item.item_id, failed.code_of(item.text), failed.refused[item.text])
                self.refused.setdefault(item.doc_id, []).append(refused)
        counts = Counter(doc_id for doc_id, own in self.refused.items() for no in own if no.code != BAD_VECTOR)
        if len(counts) > 1 and counts.total() > max(MANY, SHARE * self._texts.wanted):
            raise self._stuck(items, failed, f", and {counts.total() - 1} others")

    def _stuck(self, items: Sequence[Item], failed: RefusedText, others: str = " nor its headings") -> ModelError:
        refused = [item for item in items if item.text in failed.refused]
        item = min(refused, key=lambda item: failed.code_of(item.text) == BAD_VECTOR)
        where, said = f"{item.item_id} of {self._file_of(item.doc_id)}", failed.refused[item.text]
        code = failed.code_of(item.text)
        if code == RefusedText.default_code:
            return RefusedText(
                f"{said}; it does not take {where}{others}: see what it says to that text, set another model or a "
                "smaller embedder.max_tokens, or leave that file out (sources.exclude)",
                failed.refused,
            )
        return ModelError(f"{self.table}: {said} for {where}{others}; mend the model, then run again", code)

    def _make(self, items: Sequence[Item]) -> RefusedText | None:
        """Has vectors made that are not known; returns what was said of those that were not made.

        Raises ModelError; what was made before it stands in a file."""
        missing = self._known.missing(item.key for item in items)
        fresh: dict[str, dict[str, tuple[int, int] | None]] = {}
        for item in items:
            if item.key in missing:
                fresh.setdefault(item.text, {})[item.key] = item.span
        if not fresh:
            return None
        texts, progress = list(fresh), self._texts.embedding(len(fresh))
        spans = [[span for span in keys.values() if span] for keys in fresh.values()]
        embedder, failed = self._embedder(), RefusedText("", {})
        try:
            vectors = embedder.pooled(texts, spans, progress) if any(spans) else embedder.passages(texts, progress)
        except RefusedText as told:
            if told.vectors is None:
                raise self._stuck(items, told, ", nor any other text") from None
            failed, vectors = told, told.vectors
        except ModelError as error:
            self._keep(items, error.done)
            raise self._unfinished(items, missing, error) from None
        owners = [(text, key) for text, keys in fresh.items() for key in keys]
        poor = {owners[row][0] for row in uneven(vectors)} - failed.refused.keys()
        said = f"embedder {self._name!r} gave no unit vector"
        failed = RefusedText(said, {**failed.refused, **dict.fromkeys(poor, said)}, None,
                             {**failed.codes, **dict.fromkeys(poor, BAD_VECTOR)})  # fmt: skip
        self._texts.embedded -= len(failed.refused)
        taken = [text not in failed.refused for text, _ in owners]
        self._known.add([key for (_, key), good in zip(owners, taken, strict=True) if good], vectors[taken])
        return failed if failed.refused else None

    def _keep(self, items: Sequence[Item], done: Mapping[str, Vectors]) -> None:
        """Writes vectors into a file that no commit names, where the next run finds them."""
        made = {item.key: item for item in items if item.span is None and item.text in done}
        rows = [
            Embedding(item.doc_id, item.index, item.item_id, key, tuple(done[item.text].tolist()))
            for key, item in made.items()
        ]
        if rows:
            self._known.keep(to_table(Embedding, rows))

    def _unfinished(self, items: Sequence[Item], missing: set[str], error: ModelError) -> ModelError:
        """The error, with the files whose texts wait for their vectors."""
        waiting = list(
            dict.fromkeys(item.doc_id for item in items if item.key in missing and item.text not in error.done)
        )
        named = ", ".join(map(self._file_of, waiting[:_SHOWN]))
        more = f" and {len(waiting) - _SHOWN} more" if len(waiting) > _SHOWN else ""
        return ModelError(f"{error}. These wait for their vectors: {named}{more}", error.code)
