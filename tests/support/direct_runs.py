"""Runs of `pincite index` in this process without Dagster's records, which are most of the time of a small run."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import dagster as dg

from assets.definitions import build_defs
from assets.stages import ListingConfig
from pincite.run import direct_run, failed_check
from pipelines.settings.base import Settings
from resources.checks.stages import CHECKS, check
from resources.state.state import State
from tests.support.projects import kept_workers


@contextmanager
def direct_runs() -> Iterator[None]:
    """Let runs of this test process call the assets one after another, as the job orders them.

    The assets, their checks and the errors of a run are the product's own. What is left out is Dagster: its records in
    the state folder, its retries and its handling of signals, which tests/dagster hold. Installed packages are asked
    for their versions once, since none changes meanwhile."""
    with mock.patch("pincite.run.dagster_job", direct_job), mock.patch("importlib.metadata.version", _version):
        yield


_version = cache(importlib.metadata.version)


@contextmanager
def quick_runs() -> Iterator[None]:
    """Leave Dagster out, and keep worker processes from one run to the next."""
    with direct_runs(), kept_workers():
        yield


@contextmanager
def runs_without_dagster() -> Iterator[None]:
    """Make runs of this test process as the product makes small ones: they note what Dagster is to record of them."""
    with mock.patch("pincite.run.dagster_job", direct_run):
        yield


@contextmanager
def direct_job(
    state: State, due: range, allow_deletions: bool, only: Sequence[str] = ()
) -> Iterator[Callable[[], None]]:
    """Give what `pincite.run.dagster_job` gives."""

    def execute() -> None:
        config = ListingConfig(sources=list(state.listing.now().sources), allow_deletions=allow_deletions)
        assets = _assets(state.settings)
        made = [key for key in assets if key.path[-1] in only or not only]
        for key in made:
            _materialise(assets[key], key, state, due, config, made)
            _check(state, key.path[-1])

    yield execute


_made: dict[tuple[int, str], dict[dg.AssetKey, dg.AssetsDefinition]] = {}


def _assets(settings: Settings) -> dict[dg.AssetKey, dg.AssetsDefinition]:
    """Return the assets in the order of the job, which depends on their partitions and names alone."""
    by = settings.buckets, repr(settings.dagster)
    if by not in _made:
        definitions = build_defs(settings=settings)
        graph = definitions.resolve_asset_graph().toposorted_asset_keys
        _made[by] = {key: definitions.resolve_assets_def(key) for key in graph}
    return _made[by]


def _materialise(
    asset: dg.AssetsDefinition,
    key: dg.AssetKey,
    state: State,
    due: range,
    config: ListingConfig,
    made: Sequence[dg.AssetKey],
) -> None:
    body: Callable[..., Iterator[Any]] = asset.op.compute_fn.decorated_fn  # type: ignore[union-attr]
    partitions = asset.partitions_def.get_partition_keys() if asset.partitions_def else []
    job = SimpleNamespace(asset_layer=SimpleNamespace(selected_asset_keys=set(made)))
    context = _Context(key, asset, partitions[due.start : due.stop], _Resources(state), job, {key})
    more = {"config": config} if key.path[-1] == "raw_documents" else {}
    for _ in body(context, **more):
        pass  # the results that a step yields are for Dagster alone


def _check(state: State, asset: str) -> None:
    """Run the blocking checks of an asset; raise what one found, so that nothing that follows is made."""
    for name, (of, _) in CHECKS.items():
        if of == asset and (problems := check(state, name)):
            raise failed_check({name: problems}) or AssertionError(name)


class _Log:
    """A log that nobody reads."""

    def info(self, *_: object) -> None: ...
    def warning(self, *_: object) -> None: ...


class _Records:
    """An instance without any materialisation."""

    def fetch_materializations(self, key: dg.AssetKey, limit: int) -> SimpleNamespace:
        return SimpleNamespace(records=[])

    def has_run(self, run_id: str) -> bool:
        return True  # so that no run without Dagster is written into it

    def add_run_tags(self, run_id: str, tags: dict[str, str]) -> None: ...


class _Resources(NamedTuple):
    state: State


@dataclass
class _Context:
    """The parts of Dagster's context that the assets use."""

    asset_key: dg.AssetKey
    assets_def: dg.AssetsDefinition
    partition_keys: Sequence[str]
    resources: _Resources
    job_def: SimpleNamespace
    selected_asset_keys: set[dg.AssetKey]
    selected_asset_check_keys: tuple[dg.AssetCheckKey, ...] = ()
    run_id: str = ""
    instance: _Records = field(default_factory=_Records)
    log: _Log = field(default_factory=_Log)
    run: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(tags={}))
    retry_number: int = 0

    def set_data_version(self, key: dg.AssetKey, version: dg.DataVersion) -> None: ...
    def add_output_metadata(self, metadata: dict[str, Any], output: str | None = None) -> None: ...
    def log_event(self, event: dg.AssetMaterialization) -> None: ...
