"""RELATED_TO in Parquet: brought up to date with the documents whose sentences or vectors changed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from pipelines.errors import IndexStateError
from pipelines.fingerprint import combined
from pipelines.indexing.sentence_links import floor_for, sentence_links
from pipelines.records import SentenceLink
from pipelines.schemas import from_table, to_table
from pipelines.stages import STAGES, WHOLE
from resources.parquet.vectors import matrix
from resources.postgres.catalog import ManifestRow
from resources.stages.link_plan import LinkPlan, Made, link_plan
from resources.stages.link_update import (
    Updated,
    link_columns,
    link_table,
    linked,
    links_hash,
    near_one_another,
    updated,
)
from resources.state.stage_work import StageReport
from resources.state.table import committed

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from resources.parquet.tables import ParquetTables
    from resources.postgres.catalog import Catalog, GenerationRow
    from resources.state.state import State

STAGE = "sentence_links"


def link_sentences(state: State) -> StageReport:
    """Compares the sentences of documents that changed since the last links were made with all others.
    No row is read where no sentence and no vector changed. Raises IndexStateError (`missing_input`)
    where a shard's sentences have no vectors yet."""
    report, started = StageReport(STAGE, notes={"sentences compared": 0}), time.perf_counter()
    state.ensure_generation()
    runner, tables, made = state.runner, state.parts.tables, made_from(state)
    wanted = combined(rows[shard].output for rows in made.values() for shard in rows)
    own = runner.manifest(STAGE).get(WHOLE)
    before = own or _elsewhere(state)
    if own and own.input == wanted:
        report.kept, report.total = own.documents, own.rows
        report.notes["floor"] = float(tables.note(own.file))
        return report
    todo = link_plan(tables, made, before)
    found = _links(state, made, todo, before)
    _commit(state, found, todo.states(state.run.id), wanted)
    report.computed, report.kept, report.gone = len(todo.changed), todo.kept.num_rows, todo.gone
    report.total = report.written = len(found.links.sources)
    report.notes.update({"sentences compared": found.compared, "floor": found.floor})
    report.seconds = time.perf_counter() - started
    return report


def _elsewhere(state: State) -> ManifestRow | None:
    """The links as they were made of sentences and vectors in another number of shards."""
    layout = state.runner.layout(STAGES[STAGE])
    return layout.commits[STAGE][WHOLE] if layout else None


def _links(state: State, made: Made, todo: LinkPlan, before: ManifestRow | None) -> Updated:
    """With all vectors in memory only where they are not many, and too many changed or there were no links before."""
    settings, tables = state.settings.sentences, state.parts.tables
    floor, most = floor_for(settings, state.ensure_generation().embedder["name"]), settings.related_most

    def progress(done: int, total: int) -> None:
        state.run.progress(STAGE, done, total)

    files = [(row.file, made["sentence_embeddings"][shard].file) for shard, row in made["sentences"].items()]
    if before and (found := updated(tables, files, before.file, todo.changed, floor, most, progress)):
        return found
    if found := near_one_another(tables, files, floor, most, progress):
        return found
    sentences = LinkedSentences(tables, made)
    old = from_table(SentenceLink, tables.read(before.file)) if before else []
    known = {name for name, doc_id in zip(sentences.ids, sentences.doc_ids, strict=True) if doc_id not in todo.changed}
    links, compared, used = sentence_links(
        sentences.ids, sentences.chunk_ids, sentences.vectors, floor, most, progress, old, known if before else ()
    )
    return Updated(link_columns(to_table(SentenceLink, links)), compared, used)


def floor_used(catalog: Catalog, tables: ParquetTables, generation: GenerationRow) -> float | None:
    """The cosine that a generation's links had to reach; None where it has none yet."""
    row = catalog.manifest_of(STAGE, generation.keys.get(STAGE, "")).get(WHOLE)
    note = tables.note(row.file) if row and tables.exists(row.file) else ""
    return float(note) if note else None


def made_from(state: State) -> Made:
    """The committed shards of what links are made from.

    Raises IndexStateError (`missing_input`) where a shard's sentences have no vectors yet."""
    rows = {table: state.runner.manifest(table) for table in STAGES[STAGE].inputs}
    shards = sorted(rows["sentences"])
    return {table: {shard: committed(table, shard, rows[table]) for shard in shards} for table in rows}


def _commit(state: State, found: Updated, states: pa.Table, wanted: str) -> None:
    key = state.runner.key(STAGE)
    file = state.parts.tables.write(STAGE, key, WHOLE, link_table(found.links), states, note=str(found.floor))
    count = len(found.links.sources)
    row = ManifestRow(STAGE, key, WHOLE, file, wanted, links_hash(found.links), count, states.num_rows, state.run.id)
    state.parts.catalog.commit([row], STAGE, key, WHOLE)


class LinkedSentences:
    """All sentences in order of their ids, with their chunks, documents and vectors, shape (sentences, dimension); but
    for those that link_update.linked leaves out.

    The vectors are held once, and some rows beside them while they are read. Raises IndexStateError
    (`missing_input`)."""

    def __init__(self, tables: ParquetTables, made: Made) -> None:
        import pyarrow as pa

        embedded = made["sentence_embeddings"]
        files = [(row.file, embedded[shard].file) for shard, row in made["sentences"].items()]
        read = [linked(tables, *pair) for pair in files]
        whole = pa.concat_tables(read).sort_by("sentence_id") if read else None
        self.ids, self.chunk_ids, self.doc_ids = (
            whole[name].to_pylist() if whole else [] for name in ("sentence_id", "chunk_id", "doc_id")
        )
        places = {name: place for place, name in enumerate(self.ids)}
        self.vectors: NDArray[np.float32] = np.zeros((0, 0), dtype=np.float32)
        pieces = (piece for _, file in files for piece in tables.pieces(file, ["item_id", "vector"]))
        found = sum(self._take(piece, places) for piece in pieces)
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
