"""An opened state: its settings, its services, its current run and its generation.

It works without Dagster and does not depend on stages, which resources/stages/make.py updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipelines.settings.base import Settings, shaped_as
from pipelines.stages import Frozen, code_versions
from resources.engine import Engine, Table
from resources.memory import give_back
from resources.parsers.installed import installed_versions
from resources.settings_file import Project
from resources.state import generation as generations
from resources.state.listing import SourceListing
from resources.state.parts import Parts, Warmup
from resources.state.run import Run

if TYPE_CHECKING:
    from pipelines.ports import CountingEmbedder, Vectors
    from pipelines.records import PackedChunk
    from resources.engine import Compute, StageReport
    from resources.llm.model import BoughtModel
    from resources.models.embedders.specs import EmbedderSpec
    from resources.postgres.catalog import Catalog, GenerationRow
    from resources.postgres.database import Database
    from resources.sources.registry import Listed


# ---------------------------------------------------------------- state


LAST_OF_TEXT = "chunk_contexts"
"""The last stage that needs worker processes; a run closes them after it."""
SHARED = ("database", "catalog", "tables", "sources", "replies", "embedders", "language_model")
"""Names of parts that do not depend on the settings that shape an index, so states share them."""


class State:
    """A state under a project's settings. It opens its `parts` if none are given. Pass `generation` to open the state
    of an existing generation, and `listed` if the sources were already read."""

    def __init__(
        self,
        project: Project,
        run: Run | None = None,
        parts: Parts | None = None,
        generation: GenerationRow | None = None,
        listed: Listed | None = None,
    ) -> None:
        self.project = project
        self.run, self.parts = run or Run(), parts or Parts(project)
        self._generation, self._listed = generation, listed
        self._engine: Engine | None = None
        self._listing: SourceListing | None = None
        self._code_versions: dict[str, str] = {}
        self.warmup = Warmup(self.parts)

    @property
    def settings(self) -> Settings:
        """The project's settings."""
        return self.project.settings

    @property
    def catalog(self) -> Catalog:
        """The state's catalog, migrated to this version of pincite."""
        return self.parts.catalog

    @property
    def database(self) -> Database:
        return self.parts.database

    @property
    def engine(self) -> Engine:
        found = self._engine
        if found is None:
            frozen, keys = self._recorded_values()
            found = Engine(
                self.settings, self.parts.tables, self.parts.catalog, self.run, frozen, keys, installed_versions
            )
            self._engine = found
        return found

    def _recorded_values(self) -> tuple[Frozen, dict[str, str]]:
        row = self._generation
        return (generations.frozen_of(row), dict(row.keys)) if row else (generations.text_models(self.settings), {})

    @property
    def listing(self) -> SourceListing:
        found = self._listing
        if found is None:
            found = self._listing = SourceListing(self.parts, self.engine, self._listed)
        return found

    def table(self, name: str, key: str | None = None) -> Table:
        """Return the committed table, limited to the buckets of the run; with a recorded `key`, return the whole table
        under it, which needs only the catalog and the files."""
        if key is not None:
            return Table(name, self.parts.tables, self.catalog.manifest_of(name, key))
        return self.engine.table(name, self.run.buckets)

    # ------------------------------------------------------------ the same state otherwise

    def with_settings(
        self, settings: Settings, run: Run | None = None, generation: GenerationRow | None = None
    ) -> State:
        """Return the same state under other settings, sharing the parts that do not depend on them."""
        lent = [*SHARED, *(["pool"] if settings.parsing == self.settings.parsing else [])]
        parts = self.parts.with_settings(settings, *lent)
        return State(parts.project, run or self.run.for_other_state(), parts, generation)

    def of_generation(self, generation: GenerationRow) -> State:
        """Return the state under the settings of a generation: this state, or another one.

        Raise SettingsError if this version does not support them.
        """
        same = self._generation and self._generation.generation == generation.generation
        return self if same else self.with_generation(generation)

    def with_generation(self, generation: GenerationRow) -> State:
        return self.with_settings(shaped_as(self.settings, generation.settings), generation=generation)

    def close(self) -> None:
        for model in self.run.models:
            model.close()
        self.parts.close()

    # ------------------------------------------------------------ the generation

    def ensure_generation(self) -> GenerationRow:
        """Return the generation of the settings; create it with frozen statistics if it does not exist.

        A run of some buckets never creates one: it raises IndexStateError (`missing_input`) if there is no generation.
        """
        if self._generation is None:
            known = generations.find_generation(self.parts.catalog, self.settings)
            if not self.run.alone:
                self._generation = generations.require_frozen(known)
                self.engine.freeze(generations.frozen_of(self._generation))
                return self._generation
            made = generations.ensure_generation(
                self.parts.catalog, self.settings, self.engine, self._static_vectors, self.embedder
            )
            self.engine.freeze(generations.frozen_of(made))
            self._generation = made
            if known and known.generation != made.generation:
                self.run.rebuilt.update(range(self.settings.buckets))
        return self._generation

    def _static_vectors(self, chunks: Sequence[PackedChunk]) -> tuple[list[PackedChunk], Vectors]:
        return generations.static_vectors(self.parts.pool, chunks)

    @property
    def generation(self) -> GenerationRow | None:
        """The generation of the settings, if it was already requested from this state."""
        return self._generation

    @property
    def code_versions(self) -> dict[str, str]:
        """The version of each asset's settings, models and stages, with the installed models."""
        if not self._code_versions:
            self._code_versions = code_versions(self.settings, generations.installed_models(self.settings))
        return self._code_versions

    def replace_generation(self, generation: GenerationRow) -> None:
        """Replace the generation by one with newer statistics."""
        self._generation = generation

    @property
    def serving(self) -> bool:
        """True if readers use the generation of these settings."""
        live = self.parts.catalog.live()
        return live is not None and self._generation is not None and live.generation == self._generation.generation

    # ------------------------------------------------------------ models

    def embedder(self, spec: EmbedderSpec) -> CountingEmbedder:
        """Return the embedder of a spec. It is loaded once for all callers."""
        return self.parts.embedders.embedder_of(spec, self.settings.embedder)

    def ready_embedder(self) -> CountingEmbedder:
        """Return the generation's embedder, loaded and checked to have the recorded weights."""
        return self.parts.embedders.ready(generations.spec_of(self.ensure_generation()), self.settings.embedder)

    def language_model(self, role: str, stage: str) -> BoughtModel:
        """Return the model of a role, whose replies are stored under this run and generation."""
        model = self.parts.language_model(
            self.settings,
            role,
            self.parts.replies,
            run_id=self.run.id,
            generation=self._generation.generation if self._generation else None,
            stage=stage,
            retry_rejected=self.run.retry_failed,
        )
        self.run.models.append(model)
        return model

    # ------------------------------------------------------------ running a stage

    def run_stage(self, stage: str, buckets: Sequence[int], compute: Compute, note: str = "") -> StageReport:
        """Update a stage in some buckets with a compute function, and record the report."""
        report = self.run.report(self.engine.run(stage, buckets, compute, note))
        if stage == LAST_OF_TEXT:
            self.parts.release("pool")
        self.warmup.join()
        give_back()
        return report
