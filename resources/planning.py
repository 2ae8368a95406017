"""What the next run of `index` would do and buy, found by doing it without keeping anything.

The stages that lead to prompts run for the documents that changed; the language model only counts what
it would be asked.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from pipelines.enrichment_settings import Role
from pipelines.errors import IndexStateError, SettingsError, SourceError
from pipelines.ports import NoReply, Prompt, Reply, ReplyCheck
from pipelines.pricing import cost, prompt_tokens
from pipelines.prompts import prompt_key
from pipelines.stages import STAGES
from resources import generations, outcome
from resources.document_listing import adopt_listing
from resources.document_pool import DocumentPool
from resources.planned_state import PlannedCatalog, PlannedTables
from resources.sources import source_from
from resources.sql_files import query
from resources.workspace import Workspace

if TYPE_CHECKING:
    from resources.llm.replies import ReplyStore
    from resources.settings_file import Located

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

    def replies(self, prompts: Iterable[Prompt], unusable: ReplyCheck) -> Iterator[Reply | NoReply]:
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


class PlannedWorkspace(Workspace):
    """Makes the stages up to the prompts, and asks no model."""

    def language_model(self, role: str, stage: str) -> Any:
        asked = self.settings.llm.role(role)
        model = CountingModel(asked, self.replies, Counted(stage, asked.model))
        self.models.append(cast(Any, model))
        return model

    def embedder(self, spec: Any) -> Any:
        """No model is loaded: of an embedder, a plan need only know that there is one."""
        return SimpleNamespace(identity=spec.identity, dimension=spec.dimension or 1)


def plan(
    located: Located, sources: Sequence[str] = (), progress: Callable[[str, int, int], None] | None = None
) -> dict[str, Any]:
    """The JSON of `plan`. Prompt tokens are estimated upwards, and completion tokens are the bound of each reply.
    A reply that cannot be used is asked for again, `llm.attempts` times at most: `most` is the price if all are."""
    with tempfile.TemporaryDirectory(prefix="pincite-plan-") as own:
        workspace = PlannedWorkspace(located, **({"progress": progress} if progress else {}))
        try:
            return _planned(workspace, own, sources)
        finally:
            workspace.close()


def _planned(workspace: PlannedWorkspace, own: str, sources: Sequence[str]) -> dict[str, Any]:
    there = workspace.settings.database != "embedded" or workspace.located.state.is_dir()
    known = there and ((workspace.located.state / "parquet").is_dir() or workspace.database.holds_catalog())
    catalog = workspace.catalog if known else None
    if not known:
        workspace.__dict__["replies"] = None
    workspace.__dict__["catalog"] = PlannedCatalog(catalog, workspace.settings.buckets)
    workspace.__dict__["pool"] = DocumentPool(workspace.settings.parsing, Path(own))
    workspace.__dict__["tables"] = PlannedTables(str(workspace.located.state / "parquet"), own)
    for argument in sources:
        workspace.sources.select(source_from(argument, workspace.sources.known()))
    served = outcome.served(workspace)
    due, notes = outcome.due(workspace), []
    workspace.built = due.standing
    if due.standing is None:
        notes = _guarded(workspace)
        workspace.list_documents(due.buckets, list(workspace.listed().sources), allow_deletions=True)
        notes += _follow(workspace)
        if workspace.settings.bought:
            _make(workspace, due.buckets)
    return _told(workspace, outcome.documents(workspace, served), notes)


def _guarded(workspace: Workspace) -> list[str]:
    try:
        workspace.guard(allow_deletions=False)
    except SourceError as error:
        return [f"`pincite index` will stop: {error}"]
    return []


def _make(workspace: Workspace, buckets: Sequence[int]) -> None:
    try:
        for stage in STAGES:
            if stage not in _NOT_PLANNED:
                workspace.make(stage, buckets)
    except IndexStateError as error:
        if error.code != "no_text":
            raise


def _follow(workspace: PlannedWorkspace) -> list[str]:
    """What a live generation of other settings is brought up to date with before a new one is filled."""
    live = workspace.catalog.live()
    target = generations.find_generation(workspace.catalog, workspace.settings)
    if live is None or (target is not None and target.generation == live.generation):
        return []
    try:
        beside = workspace.beside(live)
    except SettingsError:
        return []
    if not beside.settings.bought or not generations.reproducible(live, beside.settings):
        return []
    adopt_listing(beside.runner, workspace.raw_documents(), workspace.runner.failures())
    asked = len(workspace.models)
    _make(beside, range(beside.settings.buckets))
    if not any(cast(Counted, model.spent).calls for model in workspace.models[asked:]):
        return []
    return [f"counts also what keeps the live generation {live.generation} up to date with its own prompts and models"]


def _told(workspace: PlannedWorkspace, documents: Mapping[str, Any], notes: Sequence[str]) -> dict[str, Any]:
    counted = [cast(Counted, model.spent) for model in workspace.models]
    llm, sums = workspace.settings.llm, ("calls", "cached", "pending", "prompt_tokens", "completion_tokens", "cost")
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
        "notes": [*notes, *said],
    }
