"""One state, opened: settings, tables, catalog, parsers, models; and what the assets ask of it.

Works without Dagster. Everything heavy is made when first used; `warm` starts early what a run is
known to need, while it does other things.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError
from pipelines.records import RawDocument
from pipelines.schemas import from_table
from pipelines.settings import SourceSettings
from pipelines.stages import MAKER, WHOLE
from resources import computes, generations
from resources.listing import Listed, SourceBook
from resources.settings_file import Located
from resources.sources import Skipped
from resources.stage_runner import Compute, StageReport, StageRunner, per_document
from resources.vectors import KnownVectors

if TYPE_CHECKING:
    from pipelines.ports import CountingEmbedder
    from resources.catalog import Catalog, GenerationRow, ManifestRow
    from resources.database import Database
    from resources.embedders.specs import EmbedderSpec
    from resources.index_build import Built, IndexBuild
    from resources.parquet_tables import ParquetTables
    from resources.parser_pool import ParserPool
    from resources.text_worker import TextWorker

_LAST_USE = {"parsed_elements": "_pool", "sentences": "_worker"}
"""Parts that hold processes, and the stage after which a run lets go of them."""

StageProgress = Callable[[str, int, int], None]


def _silent(stage: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


class Workspace:
    """`progress` is called with (stage, done, total); `reports` collects what each stage did."""

    def __init__(self, located: Located, run_id: str = "", progress: StageProgress = _silent) -> None:
        self.located, self.settings, self.run_id = located, located.settings, run_id
        self.progress = progress
        self.reports: dict[str, StageReport] = {}
        self.dropped: Counter[str] = Counter()
        self._generation: GenerationRow | None = None
        self._listed: Listed | None = None
        self._embedders: dict[str, CountingEmbedder] = {}
        self._warm = False
        self._counted = 0
        self._warming: list[threading.Thread] = []
        self.built: Built | None = None
        self.quality: dict[str, Any] | None = None

    # ------------------------------------------------------------ parts

    @cached_property
    def database(self) -> Database:
        from resources.database import Database

        return Database(self.settings.database, self.located.state)

    @cached_property
    def catalog(self) -> Catalog:
        from resources.catalog import Catalog

        self.database.migrate()
        return Catalog(self.database)

    @cached_property
    def tables(self) -> ParquetTables:
        from resources.parquet_tables import ParquetTables

        return ParquetTables(str(self.located.state / "parquet"))

    @cached_property
    def runner(self) -> StageRunner:
        from resources.generations import text_models

        runner = StageRunner(self.settings, self.tables, self.catalog, self.run_id)
        runner.resolved = text_models()
        return runner

    @cached_property
    def sources(self) -> SourceBook:
        return SourceBook(self.located, self.catalog)

    @cached_property
    def _pool(self) -> ParserPool:
        from resources.parser_pool import ParserPool

        return ParserPool(self.settings.parsing)

    @cached_property
    def _worker(self) -> TextWorker:
        from resources.text_worker import TextWorker

        return TextWorker()

    def embedder(self, spec: EmbedderSpec) -> CountingEmbedder:
        """The embedder of a spec, loaded once whoever asks."""
        if spec.identity not in self._embedders:
            from resources.embedders.factory import make_embedder

            self._embedders[spec.identity] = make_embedder(spec, self.settings.embedder)
        return self._embedders[spec.identity]

    @cached_property
    def _build(self) -> IndexBuild:
        from resources.index_build import IndexBuild

        return IndexBuild(self)

    def warm(self) -> None:
        """Starts the text worker now, and lets the models be imported while documents parse."""
        self._worker.start()
        self._warm = True

    def _import_beside(self) -> None:
        if self._warm and not self._warming and self.settings.embedder.endpoint is None:
            self._warming.append(threading.Thread(target=_import_models, daemon=True, name="warm"))
            self._warming[0].start()

    def _release(self, name: str) -> None:
        part = self.__dict__.pop(name, None)
        if hasattr(part, "close"):
            part.close()

    def close(self) -> None:
        for name in (*_LAST_USE.values(), "database"):
            self._release(name)

    # ------------------------------------------------------------ documents

    def listed(self) -> Listed:
        """The files of the selected sources as they are now; read once a run."""
        if self._listed is None:
            self._listed = self._list()
        return self._listed

    def _list(self, names: Sequence[str] = ()) -> Listed:
        """Where no listing stands under the present settings (another number of buckets, say), all
        sources are listed whatever was asked: the others' documents would else be missing."""
        return self.sources.list_all(names, everything=not self.runner.manifest("raw_documents"))

    @property
    def skipped(self) -> list[Skipped]:
        return self._listed.skipped if self._listed else []

    def list_documents(self, buckets: Sequence[int], sources: Sequence[str], allow_deletions: bool) -> StageReport:
        """Commits the listing of the named sources, of all known ones when none is named."""
        if self._listed is None:
            self._listed = self._list(sources)
        listed = self._listed
        self.sources.guard(listed, self.raw_documents(), allow_deletions)
        report = self.runner.commit_listing(listed.documents, listed.sources, listed.failures, buckets)
        self.reports[report.stage] = report
        return report

    def raw_documents(self) -> list[RawDocument]:
        """All documents of the last committed listing."""
        rows = self.runner.manifest("raw_documents").values()
        return [raw for row in rows for raw in from_table(RawDocument, self.tables.read(row.file))]

    def path_of(self, raw: RawDocument) -> Path:
        return self.sources.root(raw.source) / raw.uri

    def source_settings(self) -> list[SourceSettings]:
        return self.sources.known()

    # ------------------------------------------------------------ stages

    def run(self, stage: str, buckets: Sequence[int], compute: Compute, note: str = "") -> StageReport:
        report = self.runner.run(stage, buckets, compute, note)
        self.reports[stage] = report
        if stage in _LAST_USE:
            self._release(_LAST_USE[stage])
        # Importing goes on only while this process waits for others: two threads that both want the
        # interpreter are slower than one after the other.
        for thread in self._warming:
            thread.join()
        return report

    def column(self, table: str, name: str) -> list[Any]:
        """One column of a whole table under the present settings."""
        rows = self.runner.manifest(table).values()
        return [value for row in rows for value in self.tables.read(row.file, [name])[name].to_pylist()]

    def ensure_generation(self) -> GenerationRow:
        """The generation of the settings, made with frozen statistics where there is none yet."""
        if self._generation is None:
            made = generations.ensure_generation(self.catalog, self.settings, self.runner, self._worker.passages)
            self._generation = made
            self.runner.resolved = generations.resolved_of(made)
        return self._generation

    @property
    def parse(self) -> Compute:
        self._import_beside()
        return computes.parse(self._pool, self.path_of, self._progress_of("parsed_elements"))

    @property
    def pack(self) -> Compute:
        return per_document(computes.pack(self._worker.passages, self.settings))

    @property
    def overlap(self) -> Compute:
        return computes.overlap(self._worker.passages, self.settings, lambda: self.runner.resolved)

    @property
    def split_sentences(self) -> Compute:
        return computes.split_sentences(self._worker.split, self.settings, self.dropped)

    @property
    def summarise(self) -> Compute:
        return per_document(computes.summarise(self.settings))

    @property
    def contextualise(self) -> Compute:
        return per_document(computes.contextualise(self.settings))

    def embed_chunks(self, buckets: Sequence[int]) -> StageReport:
        return self._embed("chunk_embeddings", buckets, computes.chunk_items)

    def embed_sentences(self, buckets: Sequence[int]) -> StageReport:
        return self._embed("sentence_embeddings", buckets, computes.sentence_items)

    def _embed(self, table: str, buckets: Sequence[int], items_of: Callable[..., computes.Items]) -> StageReport:
        model = self.ensure_generation().embedder["identity"]
        known = KnownVectors(self.tables, self.catalog, table, model)
        compute = computes.embed(table, items_of, self._ready_embedder, known, self._progress_of(table))
        report = self.run(table, buckets, compute, note=model)
        tokens = self._ready_embedder().tokens - self._counted if known.embedded else 0
        self._counted += tokens
        report.notes.update({"texts embedded": known.embedded, "texts reused": known.reused, "tokens": tokens})
        if known.embedded:
            generation = self.ensure_generation().generation
            self.catalog.add_cost(self.run_id, table, known.embedded, tokens, report.seconds, generation)
        return report

    def _ready_embedder(self) -> CountingEmbedder:
        return self.embedder(generations.spec_of(self.ensure_generation()))

    def _progress_of(self, stage: str) -> Callable[[int, int], None]:
        return lambda done, total: self.progress(stage, done, total)

    # ------------------------------------------------------------ the index

    def link_sentences(self) -> StageReport:
        report = self._build.link_sentences()
        self.reports["sentence_links"] = report
        return report

    def write_index(self, buckets: Sequence[int]) -> StageReport:
        report = self._build.write(buckets)
        self.reports["indexed_documents"] = report
        return report

    def publish(self) -> Built:
        self.built = self._build.publish()
        return self.built

    def score_golden(self) -> dict[str, Any] | None:
        """Scores of the settings' golden questions on the live generation; None where there are none."""
        from resources.evaluation import evaluate

        if not self.settings.publish.golden:
            return None
        run = evaluate(self, self.located.resolve(self.settings.publish.golden))
        live = self.catalog.live()
        if live:
            self.catalog.add_scores(live.generation, run["name"], run["metrics"])
        self.quality = run
        return run

    def empty_documents(self) -> list[tuple[str, str]]:
        self.ensure_generation()
        chunked = set(self.column("chunks", "doc_id"))
        bare = sorted(set(self.column("parsed_documents", "doc_id")) - chunked)
        return [("empty_document", f"{doc_id} has text but no chunk") for doc_id in bare]

    def disagreements(self) -> list[tuple[str, str]]:
        return self._build.disagreements()

    def link_problems(self) -> list[tuple[str, str]]:
        return self._build.link_problems()

    # ------------------------------------------------------------ the run as a whole

    def forget_source(self, name: str) -> int:
        """Takes a source's documents out of the listing; the next run takes them out of the index."""
        with self.database.exclusive("index"):
            count = sum(raw.source == name for raw in self.raw_documents())
            self.sources.root(name)
            self.runner.commit_listing([], [name])
            self.catalog.remove_source(name)
        return count

    def manifest_row(self, table: str, bucket: int) -> ManifestRow:
        """The commit of a bucket; raises IndexStateError (`missing_input`) where it was never made."""
        rows = self.runner.manifest(table)
        if bucket not in rows:
            part = table if bucket == WHOLE else f"bucket {bucket:02d} of {table}"
            raise IndexStateError(
                f"{part} has not been made with these settings; materialise {MAKER[table].name} first", "missing_input"
            )
        return rows[bucket]

    def manifest_file(self, table: str, bucket: int) -> str:
        return self.manifest_row(table, bucket).file


def _import_models() -> None:
    """The slow imports, so that the interpreter does them while worker processes parse."""
    import sentence_transformers  # noqa: F401
