"""One state, opened: settings, tables, catalog, parsers, models; and what the assets ask of it.

Works without Dagster. Everything heavy is made when first used; `warm` starts early what a run is
known to need, while it does other things.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError, Waiting
from pipelines.records import RawDocument
from pipelines.schemas import from_table
from pipelines.settings import SourceSettings, shaped_as
from pipelines.stages import MAKER, WHOLE
from resources import computes, embedding, generations
from resources.child_process import protect_children
from resources.document_listing import commit_listing
from resources.document_work import static_vectors
from resources.listing import Listed, SourceBook
from resources.mending import lost_buckets, mended
from resources.orphans import Before
from resources.private_state import shut
from resources.settings_file import Located
from resources.source_walk import Skipped
from resources.stage_runner import StageRunner, withheld
from resources.stage_work import Compute, StageReport

if TYPE_CHECKING:
    from pipelines.ports import CountingEmbedder
    from resources.catalog import Catalog, GenerationRow, ManifestRow
    from resources.database import Database
    from resources.document_pool import DocumentPool
    from resources.embedders.specs import EmbedderSpec
    from resources.index_build import IndexBuild
    from resources.llm.model import BoughtModel
    from resources.llm.replies import ReplyStore
    from resources.parquet_tables import ParquetTables
    from resources.publishing import Built

LAST_OF_TEXT = "chunk_contexts"
"""The stage after which a run lets go of the processes that work on documents."""
_SHARED = ("database", "catalog", "tables", "sources", "replies")
"""Parts that do not depend on the settings that shape an index."""

StageProgress = Callable[[str, int, int], None]


def silent(stage: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


class Workspace:
    """`progress` is called with (stage, done, total); `reports` collects what each stage did."""

    def __init__(self, located: Located, run_id: str = "", progress: StageProgress = silent) -> None:
        protect_children()
        self.located, self.settings, self.run_id = located, located.settings, run_id
        shut(located.state)
        self.progress = progress
        self.reports: dict[str, StageReport] = {}
        self._generation: GenerationRow | None = None
        self._listed: Listed | None = None
        self._embedders: dict[str, CountingEmbedder] = {}
        self._checked: set[str] = set()
        self._warm = False
        self._warming: list[threading.Thread] = []
        self._raws: tuple[list[str], list[RawDocument]] | None = None
        self._lent: frozenset[str] = frozenset()
        self.models: list[BoughtModel] = []
        self.waiting = ""
        self.built: Built | None = None
        self.problems: dict[str, list[tuple[str, str]]] = {}
        self.remade: set[int] = set()
        """Buckets of which a damaged file was made again; the stages after it look at them too."""

    def begin(self, run_id: str) -> None:
        """Names the run that is recorded with what is made from now on."""
        self.run_id = self.runner.run_id = run_id

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
    def replies(self) -> ReplyStore:
        from resources.llm.replies import ReplyStore

        return ReplyStore(self.database, self.tables)

    @cached_property
    def runner(self) -> StageRunner:
        from resources.generations import text_models

        runner = StageRunner(self.settings, self.tables, self.catalog, self.run_id)
        runner.resolved = text_models(self.settings)
        return runner

    @cached_property
    def sources(self) -> SourceBook:
        return SourceBook(self.located, self.catalog)

    @cached_property
    def pool(self) -> DocumentPool:
        from resources.document_pool import DocumentPool

        state = self.located.state
        usable = state.is_dir() and os.access(state, os.W_OK)
        return DocumentPool(self.settings.parsing, state / "work" if usable else None)

    def embedder(self, spec: EmbedderSpec) -> CountingEmbedder:
        """The embedder of a spec, loaded once whoever asks."""
        if spec.identity not in self._embedders:
            from resources.embedders.factory import make_embedder

            self._embedders[spec.identity] = make_embedder(spec, self.settings.embedder)
        return self._embedders[spec.identity]

    @cached_property
    def index_build(self) -> IndexBuild:
        from resources.index_build import IndexBuild

        return IndexBuild(self)

    def language_model(self, role: str, stage: str) -> BoughtModel:
        """The model of a role, whose replies are kept under this run and generation."""
        from resources.llm.factory import language_model

        generation = self._generation.generation if self._generation else None
        model = language_model(
            self.settings,
            role,
            self.replies,
            run_id=self.run_id,
            generation=generation,
            stage=stage,
            retry_rejected=self.runner.retry_failed,
        )
        self.models.append(model)
        return model

    @property
    def serving(self) -> bool:
        """Whether readers are served from the generation of these settings."""
        live = self.catalog.live()
        return live is not None and self._generation is not None and live.generation == self._generation.generation

    def warm(self, documents: int) -> None:
        """Starts now the processes that so many documents want, and lets the models be imported while they parse."""
        self.pool.warm(documents)
        self._warm = True

    def _import_beside(self) -> None:
        if self._warm and not self._warming and self.settings.embedder.endpoint is None:
            self._warming.append(threading.Thread(target=_import_models, daemon=True, name="warm"))
            self._warming[0].start()

    def beside(self, generation: GenerationRow) -> Workspace:
        """The same state under the settings that another generation was made with.

        Raises SettingsError where this version does not know them."""
        settings = shaped_as(self.settings, generation.settings)
        other = type(self)(replace(self.located, settings=settings), self.run_id, self.progress)
        lent = [*_SHARED, *(["pool"] if settings.parsing == self.settings.parsing else [])]
        other.__dict__.update({name: getattr(self, name) for name in lent})
        other._lent, other._embedders, other._generation = frozenset(lent), self._embedders, generation
        other.models = self.models
        other.runner.resolved, other.runner.recorded = generations.resolved_of(generation), generation.keys
        return other

    def of(self, generation: GenerationRow) -> Workspace:
        """The workspace that holds what a generation was made from: this one, or one beside it."""
        same = self._generation and self._generation.generation == generation.generation
        return self if same else self.beside(generation)

    def _release(self, name: str) -> None:
        part: Any = None if name in self._lent else self.__dict__.pop(name, None)
        if part is not None:
            part.close()

    def close(self) -> None:
        for model in self.models:
            model.close()
        for name in ("pool", "database"):
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
        everything = not self.runner.manifest("raw_documents")
        return self.sources.list_all(names, everything, self._known_before())

    def _known_before(self) -> Callable[[str], Before]:
        """What is known of a source when it is listed again."""
        raws, lost = self.raw_documents(), self.catalog.lost_files()
        failures = self.catalog.failures([self.runner.key("raw_documents")])

        def before(name: str) -> Before:
            contents = {raw.uri: raw.content_hash for raw in raws if raw.source == name}
            restricted = {raw.uri for raw in raws if raw.source == name and raw.groups}
            withheld = {item.uri for item in failures if item.source == name and item.code == "orphan"}
            return Before({**lost.get(name, {}), **contents}, restricted, withheld)

        return before

    @property
    def skipped(self) -> list[Skipped]:
        return self._listed.skipped if self._listed else []

    def guard(self, allow_deletions: bool) -> None:
        """Refuses the listing as it is now where it would delete most of a source. Raises SourceError."""
        mended(self, lambda: self.sources.guard(self.listed(), self.raw_documents(), allow_deletions))

    def list_documents(self, buckets: Sequence[int], sources: Sequence[str], allow_deletions: bool) -> StageReport:
        """Commits the listing of the named sources, of all known ones when none is named."""
        return mended(self, lambda: self._list_documents(buckets, sources, allow_deletions))

    def _list_documents(self, buckets: Sequence[int], sources: Sequence[str], allow_deletions: bool) -> StageReport:
        lost = lost_buckets(self, "raw_documents")
        if lost:  # with the files of all sources, also of those that this run was not asked for
            self._listed = self.sources.list_all(everything=True, before=self._known_before())
        elif self._listed is None:
            self._listed = self._list(sources)
        listed = self._listed
        self.sources.guard(listed, self.raw_documents(), allow_deletions)
        wanted = sorted({*buckets, *lost})
        report = commit_listing(self.runner, listed.documents, listed.sources, listed.failures, wanted, listed.known)
        self.remade.update(lost)
        self.reports[report.stage] = report
        return report

    def restrict_listing(self) -> None:
        """Commits what restricts the documents that were listed before, as far as their sources can be listed now."""
        if not self.runner.manifest("raw_documents"):
            return
        listed = self._listed or self.sources.list_remembered(self._known_before())
        failures = [item for item in listed.failures if withheld(item)]
        commit_listing(self.runner, [], [], failures, known=listed.known)

    def raw_documents(self) -> list[RawDocument]:
        """All documents of the last committed listing."""
        files = [row.file for row in self.runner.manifest("raw_documents").values()]
        if self._raws is None or self._raws[0] != files:
            self._raws = files, [raw for file in files for raw in from_table(RawDocument, self.tables.read(file))]
        return self._raws[1]

    def file_of(self, doc_id: str) -> str:
        """Source and uri, as people are told of a document."""
        found = (f"{raw.source}/{raw.uri}" for raw in self.raw_documents() if raw.doc_id == doc_id)
        return next(found, doc_id)

    def path_of(self, raw: RawDocument) -> Path:
        return self.sources.root(raw.source) / raw.uri

    def source_settings(self) -> list[SourceSettings]:
        return self.sources.known()

    # ------------------------------------------------------------ stages

    def run(self, stage: str, buckets: Sequence[int], compute: Compute, note: str = "") -> StageReport:
        report = self.runner.run(stage, buckets, compute, note)
        self.reports[stage] = report
        if stage == LAST_OF_TEXT:
            self._release("pool")
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
            made = generations.ensure_generation(
                self.catalog, self.settings, self.runner, partial(static_vectors, self.pool), self.embedder
            )
            self._generation = made
            self.runner.resolved = generations.resolved_of(made)
        return self._generation

    def make(self, stage: str, buckets: Sequence[int]) -> StageReport:
        """Brings a partitioned stage of text up to date, all but the listing and the index. What is damaged of the
        stages before it is made again first."""
        return mended(self, lambda: self._make(stage, buckets), before=stage)

    def _make(self, stage: str, buckets: Sequence[int]) -> StageReport:
        if self.tables.damaged:
            buckets = sorted({*buckets, *self.remade, *lost_buckets(self, stage)})
        if stage not in ("parsed_elements", "figure_descriptions", "structural_chunks", "packed_chunks"):
            self.ensure_generation()
        if stage == "chunk_embeddings":
            self._require_replies()
        if stage in embedding.STAGES:
            return embedding.embed(self, stage, buckets)
        if stage == "parsed_elements":
            self._import_beside()
        before = len(self.models)
        report = self.run(stage, buckets, computes.compute_of(self, stage))
        for model in self.models[before:]:
            report.notes.update({"model": model.name, "currency": self.settings.llm.currency, **asdict(model.spent)})
        return report

    def _require_replies(self) -> None:
        """A generation that nobody is served from is not embedded twice: it waits for its batches.

        Raises Waiting."""
        waiting = {item.doc_id: item.message for item in self.runner.failures() if item.code == "pending"}
        if waiting and not self.serving:
            count = f"{len(waiting)} documents wait" if len(waiting) > 1 else "1 document waits"
            raise Waiting(
                f"{count} for a batch of the language model ({next(iter(waiting.values()))}); run `pincite index` "
                "again to collect it"
            )

    def ready_embedder(self) -> CountingEmbedder:
        """The generation's embedder, loaded. Its weights are looked at after that: those that were exchanged
        while a run went on would else be taken for the old ones."""
        spec = generations.spec_of(self.ensure_generation())
        embedder = self.embedder(spec)
        if spec.identity not in self._checked:
            embedder.load()
            generations.require_weights(spec)
            self._checked.add(spec.identity)
        return embedder

    def tokens_embedded(self, identity: str) -> int:
        """Tokens that an embedder has been given so far."""
        return self._embedders[identity].tokens if identity in self._embedders else 0

    def progress_of(self, stage: str) -> Callable[[int, int], None]:
        return lambda done, total: self.progress(stage, done, total)

    # ------------------------------------------------------------ the index

    def link_sentences(self) -> StageReport:
        from resources.link_build import link_sentences

        self.reports["sentence_links"] = mended(self, lambda: link_sentences(self), before="sentence_links")
        return self.reports["sentence_links"]

    def write_index(self, buckets: Sequence[int]) -> StageReport:
        report = mended(
            self, lambda: self.index_build.write(sorted({*buckets, *self.remade})), before="indexed_documents"
        )
        self.reports["indexed_documents"] = report
        return report

    # ------------------------------------------------------------ the run as a whole

    def forget_source(self, name: str) -> int:
        """Takes a source's documents out of the listing; the next run takes them out of the index."""
        with self.database.exclusive("index"):
            count = sum(raw.source == name for raw in self.raw_documents())
            self.sources.root(name)
            commit_listing(self.runner, [], [name])
            self.catalog.remove_source(name)
        return count

    def committed(self, table: str, bucket: int, rows: Mapping[int, ManifestRow]) -> ManifestRow:
        """The commit of a bucket; raises IndexStateError (`missing_input`) where it was never made."""
        if bucket not in rows:
            part = table if bucket == WHOLE else f"bucket {bucket:02d} of {table}"
            raise IndexStateError(
                f"{part} has not been made with these settings; materialise {MAKER[table].name} first", "missing_input"
            )
        return rows[bucket]

    def manifest_row(self, table: str, bucket: int) -> ManifestRow:
        return self.committed(table, bucket, self.runner.manifest(table))

    def manifest_file(self, table: str, bucket: int) -> str:
        return self.manifest_row(table, bucket).file


def _import_models() -> None:
    """The slow imports, so that the interpreter does them while worker processes parse."""
    import sentence_transformers  # noqa: F401
