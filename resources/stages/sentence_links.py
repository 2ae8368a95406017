"""RELATED_TO in Parquet: brought up to date with the documents whose sentences or vectors changed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.errors import IndexStateError
from pipelines.fingerprint import combined
from pipelines.increments import DocumentState, Plan, plan
from pipelines.indexing.embeddings import vector_key
from pipelines.indexing.sentence_links import floor_for, sentence_links
from pipelines.records import SentenceLink
from pipelines.schemas import from_table, to_table
from pipelines.stages import STAGES, WHOLE
from resources.parquet.vectors import matrix
from resources.postgres.catalog import ManifestRow
from resources.state.stage_work import StageReport, with_rows
from resources.state.table import committed

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from resources.parquet.tables import ParquetTables
    from resources.postgres.catalog import Catalog, GenerationRow
    from resources.state.state import State

STAGE = "sentence_links"

_Made = Mapping[str, Mapping[int, ManifestRow]]


def link_sentences(state: State) -> StageReport:
    """Compares the sentences of documents that changed since the last links were made with all others.
    No row is read where no sentence and no vector changed. Raises IndexStateError (`missing_input`)
    where a bucket's sentences have no vectors yet."""
    report, started = StageReport(STAGE, notes={"sentences compared": 0}), time.perf_counter()
    embedder, settings = state.ensure_generation().embedder["name"], state.settings.sentences
    runner, tables, made = state.runner, state.parts.tables, made_from(state)
    wanted = combined(rows[bucket].output for rows in made.values() for bucket in rows)
    before = runner.manifest(STAGE).get(WHOLE)
    if before and before.input == wanted:
        report.kept, report.total = before.documents, before.rows
        report.notes["floor"] = float(tables.note(before.file))
        return report
    todo = _plan(tables, made, before)
    sentences = LinkedSentences(tables, made)
    old = from_table(SentenceLink, tables.read(before.file)) if before else []
    links, compared, floor = sentence_links(
        sentences.ids, sentences.chunk_ids, sentences.vectors, floor_for(settings, embedder), settings.related_most,
        lambda done, total: state.run.progress(STAGE, done, total), old, sentences.of(todo.keep),
    )  # fmt: skip
    _commit(state, links, floor, _states(todo, state.run.id), wanted)
    report.computed, report.kept, report.gone = len(todo.compute), len(todo.keep), len(todo.gone)
    report.total = report.written = len(links)
    report.notes.update({"sentences compared": compared, "floor": floor})
    report.seconds = time.perf_counter() - started
    return report


def floor_used(catalog: Catalog, tables: ParquetTables, generation: GenerationRow) -> float | None:
    """The cosine that a generation's links had to reach; None where it has none yet."""
    row = catalog.manifest_of(STAGE, generation.keys.get(STAGE, "")).get(WHOLE)
    note = tables.note(row.file) if row and tables.exists(row.file) else ""
    return float(note) if note else None


def made_from(state: State) -> _Made:
    """The committed buckets of what links are made from.

    Raises IndexStateError (`missing_input`) where a bucket's sentences have no vectors yet."""
    rows = {table: state.runner.manifest(table) for table in STAGES[STAGE].inputs}
    buckets = sorted(rows["sentences"])
    return {table: {bucket: committed(table, bucket, rows[table]) for bucket in buckets} for table in rows}


def _plan(tables: ParquetTables, made: _Made, before: ManifestRow | None) -> Plan:
    """Which documents' sentences are as they were for the last links, by the states that stand beside them."""
    now: dict[str, dict[str, DocumentState]] = {table: {} for table in made}
    for table, rows in made.items():
        for row in rows.values():
            now[table].update(with_rows(tables.documents(row.file)))
    return plan(now, tables.documents(before.file) if before else None)


def _states(todo: Plan, run_id: str) -> dict[str, DocumentState]:
    at = datetime.now(UTC).isoformat(timespec="seconds")
    fresh = {doc_id: DocumentState(wanted, "", None, run_id, at, todo.reasons[doc_id])
             for doc_id, wanted in todo.compute.items()}  # fmt: skip
    return {**todo.keep, **fresh}


def _commit(
    state: State, links: Sequence[SentenceLink], floor: float, states: Mapping[str, DocumentState], wanted: str
) -> None:
    """The output is a hash of the links alone: the same links are not loaded again because documents changed."""
    key = state.runner.key(STAGE)
    file = state.parts.tables.write(STAGE, key, WHOLE, to_table(SentenceLink, links), states, note=str(floor))
    output = combined(f"{link.source_id} {link.target_id} {link.similarity}" for link in links)
    row = ManifestRow(STAGE, key, WHOLE, file, wanted, output, len(links), len(states), state.run.id)
    state.parts.catalog.commit([row], STAGE, key, WHOLE)


def _stand_ins(tables: ParquetTables, sentences: str, vectors: str) -> set[str]:
    """Ids of sentences that have the vector of another text, since an endpoint refused theirs."""
    marked = {doc_id for doc_id, state in tables.documents(vectors).items() if state.stands_in}
    if not marked:
        return set()
    read = tables.read(vectors, ["item_id", "text_hash"])
    keys: dict[Any, str] = dict(zip(read["item_id"].to_pylist(), read["text_hash"].to_pylist(), strict=True))
    read = tables.read(sentences, ["sentence_id", "doc_id", "text"])
    rows = zip(*(read[name].to_pylist() for name in ("sentence_id", "doc_id", "text")), strict=True)
    return {name for name, doc_id, text in rows if doc_id in marked and keys[name] != vector_key(text)}


def _linked(tables: ParquetTables, sentences: str, vectors: str) -> pa.Table:
    """The sentences of a bucket that have a vector of their own: id, chunk and document."""
    read = tables.read(sentences, ["sentence_id", "chunk_id", "doc_id"]).replace_schema_metadata(None)
    if poor := _stand_ins(tables, sentences, vectors):
        read = read.filter([name not in poor for name in read["sentence_id"].to_pylist()])
    embedded = with_rows(tables.documents(vectors))
    if held := set(read["doc_id"].unique().to_pylist()) - embedded.keys():
        read = read.filter([doc_id not in held for doc_id in read["doc_id"].to_pylist()])
    return read


class LinkedSentences:
    """All sentences in order of their ids, with their chunks, documents and vectors, shape (sentences, dimension). Left
    out are those that an endpoint refused: what stands in for them is like other sentences by its place, not its sense.

    The vectors are held once, and one bucket's beside them while they are read. Raises IndexStateError
    (`missing_input`)."""

    def __init__(self, tables: ParquetTables, made: _Made) -> None:
        import pyarrow as pa

        embedded = made["sentence_embeddings"]
        files = [(row.file, embedded[bucket].file) for bucket, row in made["sentences"].items()]
        read = [_linked(tables, *pair) for pair in files]
        whole = pa.concat_tables(read).sort_by("sentence_id") if read else None
        self.ids, self.chunk_ids, self.doc_ids = (
            whole[name].to_pylist() if whole else [] for name in ("sentence_id", "chunk_id", "doc_id")
        )
        places = {name: place for place, name in enumerate(self.ids)}
        self.vectors: NDArray[np.float32] = np.zeros((0, 0), dtype=np.float32)
        found = sum(self._take(tables.read(file, ["item_id", "vector"]), places) for _, file in files)
        if found != len(places):
            raise IndexStateError(
                f"{len(places) - found} sentences have no vector yet; materialise sentence_embeddings first",
                "missing_input",
            )

    def _take(self, read: pa.Table, places: Mapping[str, int]) -> int:
        """Puts vectors into their places; how many."""
        vectors = matrix(read["vector"])
        if not self.vectors.size and vectors.size:
            self.vectors = np.empty((len(places), vectors.shape[1]), dtype=np.float32)
        named = [(row, places[name]) for row, name in enumerate(read["item_id"].to_pylist()) if name in places]
        if named:
            rows, own = np.array(named, dtype=np.int64).T
            self.vectors[own] = vectors[rows]
        return len(named)

    def of(self, doc_ids: Mapping[str, DocumentState]) -> set[str]:
        """The ids of these documents' sentences."""
        return {name for name, doc_id in zip(self.ids, self.doc_ids, strict=True) if doc_id in doc_ids}
