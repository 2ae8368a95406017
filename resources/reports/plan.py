"""The report of `pincite plan`: the work and purchases of the next run, determined by a trial run that stores nothing.

The stages that lead to prompts run for the changed documents and write to an overlay of the state, which is removed
afterwards. Prompts to the language model are only counted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from pipelines.errors import IndexStateError, SettingsError, SourceError
from pipelines.llm.prompts import cost, prompt_tokens
from pipelines.ports import NoReply, Prompt, Reply, ReplyCheck
from pipelines.settings.models import Role
from pipelines.settings.sources import SourceSettings
from pipelines.stages import STAGE_OF_ROLE, STAGES, stage_key
from resources.documents.pool import DocumentPool
from resources.engine import MemoryManifest
from resources.engine.files import Files
from resources.engine.tables import ParquetTables
from resources.generations.due import find_due, served_now
from resources.llm.replies import reply_keys
from resources.postgres.catalog import GenerationRow, IndexCommit, SourceRow, source_moved
from resources.postgres.statements import query
from resources.reports import run_result as outcome
from resources.sources.folder import source_from
from resources.sources.registry import Listed, SourceRegistry
from resources.stages.make import guard, list_documents, make
from resources.state import generation as generations
from resources.state.parts import Parts
from resources.state.run import Run, StageProgress, silent
from resources.state.state import State

if TYPE_CHECKING:
    from pipelines.settings.base import Settings
    from pipelines.settings.models import EmbedderSettings
    from resources.llm.replies import KeptReply, ReplyStore
    from resources.models.embedders.specs import EmbedderSpec
    from resources.postgres.catalog import Catalog
    from resources.settings_file import Project


# ---------------------------------------------------------------- a state that a trial run may write to
#
# Writes go to an overlay over the real state, which disappears with the trial run.


class PlannedTables(ParquetTables):
    """A table store that reads the state's files and its own; it writes only into its own temporary folder."""

    def __init__(self, files: Files, own: str) -> None:
        super().__init__(files)
        self._own = ParquetTables(own)
        self._written: set[str] = set()

    def write(self, *arguments: Any, **named: Any) -> str:
        file = self._own.write(*arguments, **named)
        self._written.add(file)
        return file

    def _open(self, file: str) -> Any:
        return self._own._open(file) if file in self._written else super()._open(file)

    def exists(self, file: str) -> bool:
        return file in self._written or super().exists(file)

    def intact(self, file: str) -> bool:
        return file in self._written or super().intact(file)

    def require_intact(self, file: str) -> None:
        if file not in self._written:
            super().require_intact(file)


class PlannedRegistry(SourceRegistry):
    """A source registry that fetches changed documents, so that their content can be parsed, and removes nothing."""

    def settle(self, names: Sequence[str]) -> None:
        """Keep the files of deleted documents, since the live generation still serves them."""

    def keep_memberships(self, listed: Listed, whole: bool = True) -> None:
        """Do nothing: a trial run changes no memberships."""

    def _clock(self, sources: Sequence[SourceSettings]) -> datetime | None:
        return None


class PlannedCatalog(MemoryManifest):
    """The state's catalog, overlaid with the rows that a trial run writes. Everything is empty if there is no state
    yet."""

    def __init__(self, catalog: Catalog | None) -> None:
        super().__init__(catalog)
        self._catalog = catalog
        self._sources: dict[str, SourceRow] = {}

    def sources(self) -> list[SourceRow]:
        known = {row.name: row for row in (self._catalog.sources() if self._catalog else ())}
        return list({**self._sources, **known}.values())

    def remember_source(self, name: str, root: str, settings: Mapping[str, Any]) -> None:
        known = next((row for row in self.sources() if row.name == name), None)
        if known and known.root != root:
            raise source_moved(name, known.root, root)
        self._sources[name] = SourceRow(name, root, settings, datetime.now(UTC), None)

    def lost_files(self) -> dict[str, dict[str, str]]:
        return self._catalog.lost_files() if self._catalog else {}

    def remember_lost(self, name: str, lost: Mapping[str, str]) -> None:
        """Do nothing: a trial run stores nothing."""

    def index_commits(self, name: str, schema: str) -> dict[str, IndexCommit]:
        return self._catalog.index_commits(name, schema) if self._catalog else {}

    def live(self) -> GenerationRow | None:
        return self._catalog.live() if self._catalog else None

    def generations(self) -> list[GenerationRow]:
        return self._catalog.generations() if self._catalog else []

    def generation(self, number: int) -> GenerationRow | None:
        return self._catalog.generation(number) if self._catalog else None

    def find_generation(self, key: str) -> GenerationRow | None:
        return self._catalog.find_generation(key) if self._catalog else None

    def is_held(self) -> bool:
        return self._catalog.is_held() if self._catalog else False

    def create_generation(
        self,
        key: str,
        settings: Mapping[str, Any],
        embedder: Mapping[str, Any],
        dimension: int,
        statistics: Mapping[str, Any],
        keys: Mapping[str, str],
    ) -> GenerationRow:
        now = datetime.now(UTC)
        return GenerationRow(
            0, key, settings, embedder, dimension, statistics, None, now, None, None, keys, None
        )  # fmt: skip


# ---------------------------------------------------------------- trial run


_NOT_PLANNED = frozenset({"raw_documents", "chunk_embeddings", "sentence_embeddings", "sentence_links"})
_STAND_IN = "A picture. " * 50


@dataclass
class PromptCost:
    """The cost of one stage's prompts: `calls` must be bought, `cached` have a stored reply, `pending` wait in a
    batch."""

    stage: str
    model: str
    calls: int = 0
    cached: int = 0
    pending: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0


@dataclass
class CountingModel:
    """A ports.LanguageModel that counts prompts; it answers only from kept replies. For a figure it returns a stand-in
    description: the description becomes a chunk, and without it the prompts for the chunk's context would not be
    counted."""

    role: Role
    store: ReplyStore | None
    spent: PromptCost
    gave_up: str | None = None
    _seen: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        return self.role.model

    def replies(self, prompts: Iterable[Prompt], unusable: ReplyCheck) -> Generator[Reply | NoReply, None, None]:
        for prompt in prompts:
            (key,) = reply_keys(self.role, [prompt], self.store.get if self.store else _nothing, unusable)
            found = self._kept_reply(key, unusable)
            if found is not None:
                self.spent.cached += 1
            elif key not in self._seen:
                self._seen.add(key)
                if key in self._in_batches:
                    self.spent.pending += 1
                else:
                    self._count(prompt)
            yield found or (Reply(_STAND_IN) if self.role.name == "figure" else NoReply("planned", "", key))

    def close(self) -> None:
        """Do nothing, since this model has no connection."""

    def _kept_reply(self, key: str, unusable: ReplyCheck) -> Reply | NoReply | None:
        kept = self.store.get([key]).get(key) if self.store else None
        if kept is None:
            return None
        if kept.reply is not None:
            return kept.reply if unusable(kept.reply) is None else None
        return NoReply("unusable", kept.rejected, key) if kept.rejected else None

    @cached_property
    def _in_batches(self) -> frozenset[str]:
        if self.store is None:
            return frozenset()
        values = {"base_url": self.role.base_url, "model": self.role.model, "stage": self.spent.stage}
        with self.store.transaction() as connection:
            rows = connection.execute(query("llm", "batched_keys"), values).fetchall()
        return frozenset(key for (keys,) in rows for key in keys)

    def _count(self, prompt: Prompt) -> None:
        asked = prompt_tokens(prompt)
        self.spent.calls += 1
        self.spent.prompt_tokens += asked
        self.spent.completion_tokens += prompt.most_tokens
        self.spent.cost += cost(self.role.price, asked, prompt.most_tokens)


def _nothing(keys: Collection[str]) -> dict[str, KeptReply]:
    return {}


def _counting(settings: Settings, role: str, store: ReplyStore | None, *, stage: str, **_: Any) -> CountingModel:
    """Return a counting model instead of the one from resources/llm/factory.py, so that no model is called."""
    asked = settings.llm.role(role)
    return CountingModel(asked, store, PromptCost(stage, asked.model))


class _Unloaded:
    """A stand-in for the embedders: a trial run needs only an embedder's identity and dimension."""

    def embedder_of(self, spec: EmbedderSpec, settings: EmbedderSettings) -> SimpleNamespace:
        return SimpleNamespace(identity=spec.identity, dimension=spec.dimension or 1)


def plan(project: Project, sources: Sequence[str] = (), progress: StageProgress = silent) -> dict[str, Any]:
    """Return the JSON of `plan`. Prompt tokens are estimated upwards; completion tokens are the limit of each reply. An
    unusable reply is requested again, up to `llm.attempts` times: `most` is the price if every reply needs all
    attempts."""
    with (
        tempfile.TemporaryDirectory(prefix="pincite-plan-") as own,
        closing(Parts(project)) as kept,
        closing(DocumentPool(project.settings.parsing, Path(own))) as pool,
    ):
        parts = Parts(project, **_standing_in(kept, own), pool=pool, embedders=_Unloaded(), language_model=_counting)
        with closing(State(project, Run(progress=progress), parts)) as state:
            return _plan_in(state, sources)


def known_source(project: Project, named: str) -> SourceSettings:
    """Return a source by its name, or from a `--source` argument. The project need not have a state yet.

    Raise SourceError if no source has that name."""
    with tempfile.TemporaryDirectory(prefix="pincite-plan-") as own, closing(Parts(project)) as kept:
        known = Parts(project, **_standing_in(kept, own)).sources.known_sources()
    if "=" in named:
        return source_from(named, known)
    found = next((source for source in known if source.name == named), None)
    if found is None:
        told = ", ".join(source.name for source in known) or "none"
        raise SourceError(f"no source is named {named!r}; known: {told}", "unknown_source")
    return found


def _standing_in(kept: Parts, own: str) -> dict[str, Any]:
    """Return the parts that a trial run may write to, as an overlay of the state if it exists."""
    project = kept.project
    there = project.settings.database != "embedded" or project.state.is_dir()
    known = there and ((project.state / "parquet").is_dir() or kept.database.holds_catalog())
    catalog = PlannedCatalog(kept.catalog if known else None)
    tables = PlannedTables(kept.tables.files_kept, own)
    place = project.state if known else Path(own)
    stands = {
        "catalog": catalog,
        "tables": tables,
        "sources": PlannedRegistry(project, cast("Catalog", catalog), place),
    }
    return {**stands, **({"database": kept.database} if known else {"replies": None})}


def _plan_in(state: State, sources: Sequence[str]) -> dict[str, Any]:
    for argument in sources:
        state.parts.sources.select(source_from(argument, state.parts.sources.known_sources()))
    served = served_now(state)
    due, notes = find_due(state), []
    state.run.keep_verdict(due.up_to_date)
    if due.up_to_date is None:
        notes = [*_guard_notes(state), *_other_runs(state)]
        list_documents(state, due.buckets, list(state.listing.now().sources), allow_deletions=True)
        notes += _follow(state)
        if state.settings.bought_roles:
            _make(state, due.buckets)
    return _describe_plan(state, outcome.documents(state, served, state.engine.tried_again()), notes)


def _guard_notes(state: State) -> list[str]:
    try:
        guard(state, allow_deletions=False)
    except SourceError as error:
        return [f"`pincite index` will stop: {error}"]
    return []


def _other_runs(state: State) -> list[str]:
    live = state.catalog.live()
    if live is None or generations.find_generation(state.catalog, state.settings) is not None:
        return []
    return [
        f"generation {live.generation} was made with other settings, models or versions: `pincite index` makes a new "
        "one beside it and publishes that when it is whole; vectors are made anew where embedder or text is another"
    ]


def _make(state: State, buckets: Sequence[int]) -> None:
    try:
        for stage in STAGES:
            if stage not in _NOT_PLANNED:
                make(state, stage, buckets)
    except IndexStateError as error:
        if error.code != "no_text":
            raise


def _follow(state: State) -> list[str]:
    """Count the prompts for updating the live generation if it has other settings; return notes about it. A run does
    this before it fills a new generation."""
    live = state.catalog.live()
    target = generations.find_generation(state.catalog, state.settings)
    if live is None or (target is not None and target.generation == live.generation):
        return []
    try:
        beside = state.with_generation(live)
    except SettingsError:
        return []
    if not beside.settings.bought_roles or not generations.reproducible(live, beside.settings):
        return []
    asked = len(state.run.models)
    _make(beside, range(beside.settings.buckets))
    if not any(spent.calls for spent in _count_work(state)[asked:]):
        return []
    return [f"counts also what keeps the live generation {live.generation} up to date with its own prompts and models"]


def _count_work(state: State) -> list[PromptCost]:
    return [model.spent for model in state.run.models if isinstance(model.spent, PromptCost)]


def _kept_texts(state: State) -> Iterator[str]:
    """Yield a note about the texts of former models, for each stage that now uses another model."""
    target = generations.find_generation(state.catalog, state.settings)
    for role in state.settings.bought_roles:
        asked, stage = state.settings.llm.role(role), STAGE_OF_ROLE[role]
        if not asked.former:
            continue
        names = {model for model, _ in asked.former}
        key = stage_key(stage, state.settings, generations.frozen_of(target)) if target else ""
        read = state.table(stage, key).pieces(["model"])
        kept = sum(model in names for piece in read for model in piece["model"].to_pylist())
        told = f"{stage.replace('_', ' ')} of {' and '.join(sorted(names))}"
        if kept:
            yield f"{kept:,} {told} are kept; {asked.model} is asked for new and changed documents only"
        else:
            yield f"no {told} are kept with these settings, so {asked.model} is asked for all of them; see llm.former"


def _describe_plan(state: State, documents: Mapping[str, Any], notes: Sequence[str]) -> dict[str, Any]:
    counted = _count_work(state)
    llm, sums = state.settings.llm, ("calls", "cached", "pending", "prompt_tokens", "completion_tokens", "cost")
    told: dict[str, Any] = {name: sum(getattr(item, name) for item in counted) for name in sums}
    unpriced = sorted({item.model for item in counted if item.calls and item.model not in llm.prices})
    said = [f"there is no price for {name}; set llm.prices" for name in unpriced]
    if llm.max_cost is not None and told["cost"] > llm.max_cost:
        said.append(
            f"this is more than llm.max_cost ({llm.max_cost:g} {llm.currency}): the run may stop buying before the end"
        )
    return {
        "documents": documents,
        **told,
        "currency": llm.currency,
        "most": {"calls": llm.attempts * told["calls"], "cost": llm.attempts * told["cost"]},
        "stages": [asdict(item) for item in counted],
        "notes": [*outcome.left_out(state), *notes, *_kept_texts(state), *said],
    }
