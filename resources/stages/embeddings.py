"""The stages of vectors.

A text that any file under the state holds for the same model is taken from there, others are embedded
once; shard by shard, so that a run holds few vectors at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError, ModelError, SettingsError
from pipelines.indexing.embeddings import uneven
from pipelines.records import Failure
from resources.parquet.vectors import KnownVectors
from resources.stages.bought_vectors import BAD_VECTOR, BoughtVectors, Refused, Texts
from resources.stages.embedded_items import SENTENCE_FORMS, STAGES, Embedded, FromModel, FromVectors, by_document
from resources.state.stage_work import Makeshift

if TYPE_CHECKING:
    from pipelines.ports import CountingEmbedder
    from resources.state.stage_work import Outcomes, StageReport, Works
    from resources.state.state import State

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
