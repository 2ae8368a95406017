"""The write of documents and links from Parquet into a generation's Postgres tables, and the check that the two agree.

A bucket is planned and written part by part, so only one part's documents are in memory at a time.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError
from pipelines.fingerprint import combine
from pipelines.plural import plural
from pipelines.ranges import ALL_IDS, bucket_of, bucket_range
from pipelines.records import ChunkTerms, ParsedDocument, RawDocument, SentenceLink
from pipelines.stages import NAMES_VERSION
from resources.engine import StageReport
from resources.postgres.catalog import IndexCommit, add_statistics, commit_index_rows
from resources.postgres.generation_tables import EMPTY, GenerationTables
from resources.postgres.vector_indexes import INDEXED_TABLES, Indexed, index_name
from resources.state import generation as generations

if TYPE_CHECKING:
    from psycopg import Connection

    from pipelines.indexing.indexed_documents import DocumentFacts
    from pipelines.ranges import Range
    from resources.engine import Part
    from resources.postgres.catalog import GenerationRow
    from resources.postgres.index_rows import IndexedDocument
    from resources.stages.part_rows import PartRows
    from resources.state.state import State


# ---------------------------------------------------------------- the write of one bucket


@dataclass
class BucketWrite:
    """The plan and the rows of one bucket's write. `stands` has the hashes of these parts' documents in Postgres; with
    `whole`, all documents are written again."""

    parts: Sequence[Part]
    stands: Mapping[str, str]
    whole: bool
    changed: dict[str, list[str]] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    held: set[str] = field(default_factory=set)
    regrouped: dict[str, tuple[str, ...]] = field(default_factory=dict)
    documents: dict[str, int] = field(default_factory=dict)
    """Number of served documents, by the first id of their part."""
    chunks: int = 0
    _last: PartRows | None = None

    def plan(self, index: GenerationTables) -> None:
        """Find the documents to write, delete or hold before anything is written. If Postgres has no documents, they
        are examined only in `batches`."""
        from resources.stages.part_rows import changed_groups

        known, left = {} if self.whole else self.stands, set(self.stands)
        for part in self.parts if self.stands else ():
            found = self._read(part)
            self.changed[part.first] = [doc_id for doc_id, value in found.hashes.items() if known.get(doc_id) != value]
            self.documents[part.first] = len(found.hashes)
            left -= found.hashes.keys() | found.held
            held = found.held & self.stands.keys()
            self.held |= held
            if held:
                self.regrouped |= changed_groups(found, held, index.document_groups(min(held), max(held) + "0"))
        self.gone = [] if self.whole else sorted(left)

    def batches(self) -> Iterator[Sequence[IndexedDocument]]:
        """Yield the documents to write, one part at a time."""
        for part in self.parts:
            if self.stands and not self.changed[part.first]:
                continue
            found = self._read(part)
            changed = self.changed.setdefault(part.first, list(found.hashes))
            self.documents[part.first] = len(found.hashes)
            documents = found.documents(changed)
            self.chunks += sum(len(document.chunks) for document in documents)
            yield documents

    def _read(self, part: Part) -> PartRows:
        from resources.stages.part_rows import read_part

        if self._last is None or self._last.part is not part:
            self._last = None
            self._last = read_part(part)
        return self._last

    @property
    def documents_written(self) -> int:
        """The number of documents written."""
        return sum(map(len, self.changed.values()))


def standing_of(stands: Mapping[str, str], parts: Sequence[Part]) -> dict[str, str]:
    """Return the hashes of the documents in these parts; the parts are in order."""
    starts = [part.first for part in parts]

    def is_within(doc_id: str) -> bool:
        at = bisect_right(starts, doc_id)
        return at > 0 and doc_id < parts[at - 1].after

    return {doc_id: value for doc_id, value in stands.items() if is_within(doc_id)}


# ---------------------------------------------------------------- the build of an index


NAMES = "document_names"
"""Statistic of a generation: the version of pipelines.names that made the names of all its documents."""
PARTS = "indexed_parts"
"""Name of the commits that record, for each part of a bucket, the inputs of its documents' rows."""


class IndexBuild:
    """The last steps of a run, for one generation."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._catalog = state.catalog

    @property
    def generation(self) -> GenerationRow:
        return self._state.ensure_generation()

    @property
    def index(self) -> GenerationTables:
        return GenerationTables(self._state.database, self.generation, self._state.settings.vector_index)

    # ------------------------------------------------------------ rows

    def write(self, buckets: Sequence[int]) -> StageReport:
        """Replace the rows of documents that changed. A bucket is skipped if its inputs and its rows are unchanged
        since its last write; a bucket that another program changed is written completely. A bucket's rows and its
        commit are one transaction."""
        report, started = StageReport("indexed_documents"), time.perf_counter()
        written = self._catalog.index_commits("indexed_documents", self.key)
        parts = self._catalog.index_commits(PARTS, self.key)
        made = self._parts(buckets)
        self.require_terms()
        states = self.index.bucket_states(buckets)
        for done, bucket in enumerate(buckets, start=1):
            wanted, before = _input(made[bucket]), written.get(self._range(bucket)[0])
            touched = states.get(bucket, EMPTY) != (before.output if before else EMPTY)
            if before and before.input == wanted and not touched:
                report.kept += before.documents
                report.total += before.rows
                report.buckets[bucket] = {"documents": before.documents, "written": 0, "rows": before.rows}
            else:
                known = parts if before and not touched else {}
                self._write_bucket(bucket, made[bucket], wanted, touched, known, report)
            self._state.run.progress("indexed_documents", done, len(buckets))
        if len(buckets) == self._state.settings.buckets and self.generation.statistics.get(NAMES) != NAMES_VERSION:
            self.note({NAMES: NAMES_VERSION})
        report.seconds = time.perf_counter() - started
        return report

    def _parts(self, buckets: Sequence[int]) -> dict[int, list[Part]]:
        """Return the parts from which the rows of each of these buckets are made. Raise IndexStateError
        (`missing_input`)."""
        from resources.stages.part_rows import INPUTS, TERMS

        found: dict[int, list[Part]] = {bucket: [] for bucket in buckets}
        for part in self._state.engine.parts((*INPUTS, TERMS), buckets, require=True):
            found[part.bucket].append(part)
        return found

    def _range(self, bucket: int) -> Range:
        return bucket_range(bucket, self._state.settings.buckets)

    @property
    def key(self) -> str:
        """The key of the manifest rows for this generation's tables."""
        return self.generation.schema

    def is_unchanged(self) -> bool:
        """Say whether all rows are unchanged since the last run, as far as counts and hashes of documents show."""
        committed = self._catalog.index_commits("indexed_documents", self.key)
        states = self.index.bucket_states()
        made = {bucket_of(first, self._state.settings.buckets): row for first, row in committed.items()}
        if any(states.get(bucket, EMPTY) != row.output or not row.input for bucket, row in made.items()):
            return False
        self.index.require_names()
        links = self._catalog.index_commits("loaded_links", self.key).get(ALL_IDS[0])
        if links is None or len(committed) != self._state.settings.buckets:
            return False
        valid, terms = self.index.vector_indexes.states(), self.generation.statistics.get("terms")
        return (
            self.generation.statistics.get(NAMES) == NAMES_VERSION
            and self.precision == self.generation.precision
            and self.index.link_count() == links.rows
            and (terms is None or self.index.term_count() == terms)
            and all(valid.get(index_name(table)) for table in INDEXED_TABLES)
        )

    @property
    def precision(self) -> str:
        """The precision of the vector indexes in the settings."""
        wanted = self._state.settings.vector_index.precision
        return self.generation.precision if wanted == "auto" else wanted

    def build_vector_indexes(self, live: bool) -> Indexed:
        """Build the vector indexes that are missing or have another precision. With `live` writers are not blocked."""
        if self.precision != self.generation.precision:
            self.note({"precision": self.precision})
        return self.index.vector_indexes.build(live)

    def documents(self, bucket: int) -> Iterator[list[IndexedDocument]]:
        """Yield a bucket's documents with their rows according to Parquet, one part at a time. A part is freed before
        the next is read."""
        from resources.stages.part_rows import read_part

        for part in self._parts([bucket])[bucket]:
            found = read_part(part)
            yield found.documents(list(found.hashes))
            del found

    def _write_bucket(
        self,
        bucket: int,
        parts: Sequence[Part],
        wanted: str,
        whole: bool,
        before: Mapping[str, IndexCommit],
        report: StageReport,
    ) -> None:
        """Write a bucket. Parts with the same inputs as in their commits `before` are not read."""
        inputs = {part.first: _input([part]) for part in parts}
        kept = {part.first: row for part in parts if (row := before.get(part.first))
                and (row.after, row.input) == (part.after, inputs[part.first])}  # fmt: skip
        fresh = [part for part in parts if part.first not in kept]
        todo = BucketWrite(fresh, standing_of(self.index.document_hashes(bucket), fresh), whole)
        todo.plan(self.index)

        def commit(connection: Connection[Any], state: str, rows: int) -> None:
            run, key, count = self._state.run.id, self.key, sum(todo.documents.values())
            count += sum(row.documents for row in kept.values())
            row = IndexCommit("indexed_documents", key, *self._range(bucket), wanted, state, rows, count, run)
            own = [
                IndexCommit(PARTS, key, *part.range, inputs[part.first], "", 0, todo.documents.get(part.first, 0), run)
                for part in fresh
            ]
            commit_index_rows(connection, [row, *own])
            report.buckets[bucket] = {"documents": count, "written": todo.documents_written, "rows": rows}
            report.total += rows
            report.kept += count - todo.documents_written

        deleted = self.index.replace_by_parts(
            bucket,
            todo.batches(),
            [*todo.gone, *(doc_id for changed in todo.changed.values() for doc_id in changed)],
            whole=whole,
            held=todo.held,
            regrouped=todo.regrouped,
            commit=commit,
        )
        report.written += todo.chunks
        report.notes["chunks deleted"] = report.notes.get("chunks deleted", 0) + deleted
        report.computed += todo.documents_written
        report.gone += len(todo.gone)

    def require_terms(self) -> None:
        """Freeze the term statistics of the lexical index, unless they are frozen. A run of some buckets does not
        freeze them.

        Raise IndexStateError (`missing_input`) in such a run if they are not frozen.
        """
        if self._state.run.alone:
            self.freeze_terms()
        elif "average_terms" not in self.generation.statistics:
            raise IndexStateError(
                f"the terms of generation {self.generation.generation} were not counted, and a run of some buckets "
                "does not do it; materialise term_statistics first",
                "missing_input",
            )

    def freeze_terms(self) -> None:
        """Count document frequencies and the mean length for the lexical index, once per generation. Deleted
        frequencies are counted again."""
        from pipelines.schemas import from_table
        from resources.stages.part_rows import INPUTS, TERMS

        statistics = self.generation.statistics
        if not statistics.get("chunks"):  # all documents had failed: no row was weighed by these
            statistics = {name: value for name, value in statistics.items() if name != "average_terms"}
        if "average_terms" in statistics and self.index.term_count() == statistics.get("terms"):
            return
        generations.require_whole(self._state.engine, "chunks")
        frequency: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        chunks = total = 0
        for part in self._state.engine.parts((*INPUTS[:2], TERMS), require=True):
            facts = _facts(part)
            for own in from_table(ChunkTerms, part.read(TERMS)):
                frequency[facts[own.doc_id].groups].update(own.terms)
                chunks += 1
                total += sum(own.counts)
        average = statistics.get("average_terms", total / chunks if chunks else 1.0)
        values = {"chunks": chunks, "average_terms": average, "terms": sum(map(len, frequency.values()))}
        if "average_terms" not in statistics:  # no row was written before
            values[NAMES] = NAMES_VERSION

        def commit(connection: Connection[Any]) -> None:
            self._state.replace_generation(add_statistics(connection, self.generation.generation, values))

        self.index.freeze_terms(frequency, commit)

    # ------------------------------------------------------------ links

    def load_links(self) -> None:
        """Make RELATED_TO in Postgres equal to Parquet. Nothing is read if it already is."""
        from pipelines.schemas import from_table

        links = self._state.engine.whole("sentence_links")
        output, count = links.output("sentence_links"), links.rows("sentence_links")
        loaded = self._catalog.index_commits("loaded_links", self.key).get(ALL_IDS[0])
        if loaded and loaded.input == output and self.index.link_count() == loaded.rows:
            return
        pieces = links.pieces("sentence_links")
        self.index.replace_links(link for piece in pieces for link in from_table(SentenceLink, piece))
        row = IndexCommit("loaded_links", self.key, *ALL_IDS, output, output, count, 0, self._state.run.id)
        self._catalog.commit_index(row)

    # ------------------------------------------------------------ checks

    def note(self, statistics: Mapping[str, Any]) -> None:
        """Store statistics with the generation."""
        self._state.replace_generation(self._catalog.add_statistics(self.generation.generation, statistics))

    def missing_buckets(self) -> list[tuple[str, str]]:
        """Return a problem if a backfill has not yet filled all buckets of the generation."""
        written = self._catalog.index_commits("indexed_documents", self.key)
        buckets = range(self._state.settings.buckets)
        missing = [f"{bucket:02d}" for bucket in buckets if self._range(bucket)[0] not in written]
        if not missing:
            return []
        return [("missing_bucket", f"indexed_documents has not been made for buckets {', '.join(missing)}")]

    def disagreements(self, buckets: Collection[int] = ()) -> list[tuple[str, str]]:
        """Return the differences between the rows of these buckets, or of all written ones, and the rows that Parquet
        has."""
        problems = []
        states = self.index.bucket_states(buckets)
        written = self._catalog.index_commits("indexed_documents", self.key)
        known = [bucket_of(first, self._state.settings.buckets) for first in written]
        made = self._parts([bucket for bucket in known if not buckets or bucket in buckets])
        for bucket, parts in made.items():
            row = written[self._range(bucket)[0]]
            chunks = sum(part.rows("chunks") for part in parts)
            found = None if chunks == row.rows else _hashes(parts)
            if found:
                served = sum(_chunks_but(found[1], part) for part in parts)
                stored = row.rows - self.index.chunks_of(found[1])
                if stored != served:
                    told = f"{plural(stored, 'chunk')} in Postgres, {served} in Parquet"
                    problems.append(("count", f"bucket {bucket:02d}: {told}"))
            if states.get(bucket, EMPTY) == row.output and row.input == _input(parts):
                continue
            hashes, held = found or _hashes(parts)
            stored_hashes = self.index.document_hashes(bucket)
            both = (stored_hashes.keys() | hashes.keys()) - held
            differ = sorted(doc for doc in both if stored_hashes.get(doc) != hashes.get(doc))
            problems += [("disagree", f"document {doc_id} differs between Parquet and Postgres") for doc_id in differ]
            if states.get(bucket, EMPTY) != row.output and not differ:
                problems.append(("disagree", f"rows of bucket {bucket:02d} were changed by somebody else"))
        return problems


def _facts(part: Part) -> dict[str, DocumentFacts]:
    from pipelines.indexing.indexed_documents import document_facts
    from pipelines.schemas import from_table

    raws = {raw.doc_id: raw for raw in from_table(RawDocument, part.read("raw_documents"))}
    parsed = from_table(ParsedDocument, part.read("parsed_documents"))
    return {document.doc_id: document_facts(raws[document.doc_id], document) for document in parsed}


def _hashes(parts: Sequence[Part]) -> tuple[dict[str, str], set[str]]:
    """Return the hashes for the rows of these parts' documents according to Parquet, and the held documents (those that
    keep their rows although they failed)."""
    from resources.stages.part_rows import read_part

    hashes, held = dict[str, str](), set[str]()
    for part in parts:
        found = read_part(part)
        hashes.update(found.hashes)
        held |= found.held
    return hashes, held


def _chunks_but(held: Collection[str], part: Part) -> int:
    """Return the number of chunks in a part, without those of the `held` documents."""
    column = part.read("chunks", ["doc_id"])["doc_id"].to_pylist()
    return sum(doc_id not in held for doc_id in column)


def _input(parts: Sequence[Part]) -> str:
    """Return a hash of the inputs of these parts' rows, and of the rules for making rows."""
    from pipelines.indexing.indexed_documents import VERSION
    from resources.stages.part_rows import INPUTS

    inputs = (text for part in parts for text in (*map(part.output, INPUTS), *map(part.input, INPUTS)))
    return combine([f"rows {VERSION}", *inputs]) if parts else combine([])
