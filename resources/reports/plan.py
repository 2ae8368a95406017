"""What the next run of `index` would do and buy, found by doing it without keeping anything.

The stages that lead to prompts run for the documents that changed; the language model only counts what
it would be asked.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from pipelines.errors import IndexStateError, SettingsError, SourceError
from pipelines.llm.prompts import cost, prompt_key, prompt_tokens
from pipelines.ports import NoReply, Prompt, Reply, ReplyCheck
from pipelines.settings.models import Role
from pipelines.settings.sources import SourceSettings
from pipelines.stages import STAGES
from resources.generations.due import find_due, served_now
from resources.postgres.statements import query
from resources.reports import run_result as outcome
from resources.reports.plan_state import PlannedCatalog, PlannedSources, PlannedTables
from resources.sources.folder import source_from
from resources.stages.make import guard, list_documents, make, mended
from resources.state import generation as generations
from resources.state.committed_listing import adopt_listing
from resources.state.layout import settle
from resources.state.parts import Parts
from resources.state.run import Run, StageProgress, silent
from resources.state.state import State
from resources.workers.pool import DocumentPool

if TYPE_CHECKING:
    from pipelines.settings.base import Settings
    from pipelines.settings.models import EmbedderSettings
    from resources.llm.replies import ReplyStore
    from resources.models.embedders.registry import EmbedderSpec
    from resources.postgres.catalog import Catalog
    from resources.settings_file import Project

_NOT_PLANNED = frozenset({"raw_documents", "chunk_embeddings", "sentence_embeddings", "sentence_links"})
_STAND_IN = "A picture. " * 50


@dataclass
class Counted:
    """What the prompts of one stage would cost: `calls` must be bought, `cached` are, `pending` are in a batch."""

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
    """Implements ports.LanguageModel by counting; it has a reply only where one is kept. What a figure shows
    becomes a chunk, so something stands in for it: else the prompts of its context would not be counted."""

    role: Role
    store: ReplyStore | None
    spent: Counted
    gave_up: str | None = None
    _seen: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        return self.role.model

    def replies(self, prompts: Iterable[Prompt], unusable: ReplyCheck) -> Generator[Reply | NoReply, None, None]:
        for prompt in prompts:
            key = prompt_key(self.role.model, self.role.temperature, prompt)
            found = self._kept(key, unusable)
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
        """Holds nothing."""

    def _kept(self, key: str, unusable: ReplyCheck) -> Reply | NoReply | None:
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


def _counting(settings: Settings, role: str, store: ReplyStore | None, *, stage: str, **_: Any) -> CountingModel:
    """In place of resources/llm/factory.py: nobody is asked."""
    asked = settings.llm.role(role)
    return CountingModel(asked, store, Counted(stage, asked.model))


class _Unloaded:
    """In place of the embedders: of one, a plan need only know that there is one."""

    def of(self, spec: EmbedderSpec, settings: EmbedderSettings) -> SimpleNamespace:
        return SimpleNamespace(identity=spec.identity, dimension=spec.dimension or 1)


def plan(project: Project, sources: Sequence[str] = (), progress: StageProgress = silent) -> dict[str, Any]:
    """The JSON of `plan`. Prompt tokens are estimated upwards, and completion tokens are the bound of each reply.
    A reply that cannot be used is asked for again, `llm.attempts` times at most: `most` is the price if all are."""
    with (
        tempfile.TemporaryDirectory(prefix="pincite-plan-") as own,
        closing(Parts(project)) as kept,
        closing(DocumentPool(project.settings.parsing, Path(own))) as pool,
    ):
        parts = Parts(project, **_standing_in(kept, own), pool=pool, embedders=_Unloaded(), language_model=_counting)
        with closing(State(project, Run(progress=progress), parts)) as state:
            return _planned(state, sources)


def known_source(project: Project, named: str) -> SourceSettings:
    """A source by its name, or as `--source` takes it, of a project whose state need not be there.

    Raises SourceError where there is none."""
    with tempfile.TemporaryDirectory(prefix="pincite-plan-") as own, closing(Parts(project)) as kept:
        known = Parts(project, **_standing_in(kept, own)).sources.known()
    if "=" in named:
        return source_from(named, known)
    found = next((source for source in known if source.name == named), None)
    if found is None:
        told = ", ".join(source.name for source in known) or "none"
        raise SourceError(f"no source is named {named!r}; known: {told}", "unknown_source")
    return found


def _standing_in(kept: Parts, own: str) -> dict[str, Any]:
    """The parts that a plan may write to, over those of the state as far as there is one."""
    project = kept.project
    there = project.settings.database != "embedded" or project.state.is_dir()
    known = there and ((project.state / "parquet").is_dir() or kept.database.holds_catalog())
    catalog = PlannedCatalog(kept.catalog if known else None, project.settings.buckets)
    tables = PlannedTables(kept.tables.files_kept, own)
    place = project.state if known else Path(own)
    stands = {"catalog": catalog, "tables": tables, "sources": PlannedSources(project, cast("Catalog", catalog), place)}
    return {**stands, **({"database": kept.database} if known else {"replies": None})}


def _planned(state: State, sources: Sequence[str]) -> dict[str, Any]:
    for argument in sources:
        state.parts.sources.select(source_from(argument, state.parts.sources.known()))
    mended(state, lambda: settle(state))
    served = served_now(state)
    due, notes = find_due(state), []
    state.run.published(due.standing)
    if due.standing is None:
        notes = [*_guarded(state), *_beside(state)]
        list_documents(state, due.buckets, list(state.listing.now().sources), allow_deletions=True)
        notes += _follow(state)
        if state.settings.bought:
            _make(state, due.buckets)
    return _told(state, outcome.documents(state, served), notes)


def _guarded(state: State) -> list[str]:
    try:
        guard(state, allow_deletions=False)
    except SourceError as error:
        return [f"`pincite index` will stop: {error}"]
    return []


def _beside(state: State) -> list[str]:
    live = state.parts.catalog.live()
    if live is None or generations.find_generation(state.parts.catalog, state.settings) is not None:
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
    """What a live generation of other settings is brought up to date with before a new one is filled."""
    live = state.parts.catalog.live()
    target = generations.find_generation(state.parts.catalog, state.settings)
    if live is None or (target is not None and target.generation == live.generation):
        return []
    try:
        beside = state.beside(live)
    except SettingsError:
        return []
    if not beside.settings.bought or not generations.reproducible(live, beside.settings):
        return []
    adopt_listing(beside.runner, state.listing.committed(), state.runner.failures())
    asked = len(state.run.models)
    _make(beside, range(beside.settings.buckets))
    if not any(spent.calls for spent in _counted(state)[asked:]):
        return []
    return [f"counts also what keeps the live generation {live.generation} up to date with its own prompts and models"]


def _counted(state: State) -> list[Counted]:
    return [model.spent for model in state.run.models if isinstance(model.spent, Counted)]


def _told(state: State, documents: Mapping[str, Any], notes: Sequence[str]) -> dict[str, Any]:
    counted = _counted(state)
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
        "notes": [*outcome.left_out(state), *notes, *said],
    }
