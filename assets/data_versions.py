"""What Dagster compares to tell what is stale: the data version of what an asset holds, bucket by bucket, and the
versions that it was made from."""

from collections.abc import Callable, Mapping
from typing import Any

import dagster as dg

from pipelines.fingerprint import combined
from pipelines.stages import STAGES, WHOLE
from resources.postgres.catalog import ManifestRow
from resources.state.state import State

_LOGGED_HERE = "__source_asset_observation__"
"""Of an output with this in its metadata Dagster logs no materialisations by itself: it would give
all partitions of a step the same data version."""


def log_made(context: dg.AssetExecutionContext, stage: str, metadata: Callable[[int], Mapping[str, Any]]) -> None:
    """Logs what a stage made: every bucket of the step with its own data version and `metadata`, by number; what has
    no buckets as WHOLE."""
    versions = data_versions(context.resources.state, stage)
    if context.assets_def.partitions_def is None:
        context.set_data_version(context.asset_key, dg.DataVersion(versions[WHOLE]))
        context.add_output_metadata(dict(metadata(WHOLE)))
        return
    made_from = _made_from(context)
    for key in context.partition_keys:
        version = {"dagster/data_version": versions[int(key)], "dagster/data_version_is_user_provided": "true"}
        context.log_event(
            dg.AssetMaterialization(
                context.asset_key, metadata=metadata(int(key)), partition=key, tags={**made_from, **version}
            )
        )
    context.add_output_metadata({_LOGGED_HERE: True})


def data_versions(state: State, stage: str) -> dict[int, str]:
    """By bucket, a hash of what a stage holds, from its commits. The key counts: a vector is told by its
    text and the model, and what another key made is another table."""
    tables = manifests(state, stage)
    if WHOLE in tables[0]:
        return {WHOLE: _version(tables, [WHOLE])}
    found = {bucket: parts_of(state, stage, bucket) for bucket in range(state.settings.buckets)}
    return {bucket: _version(tables, parts) for bucket, parts in found.items() if set(parts) <= tables[0].keys()}


def _version(tables: list[dict[int, ManifestRow]], parts: list[int]) -> str:
    return combined(text for part in parts for rows in tables for text in (rows[part].key, rows[part].output))[:16]


def parts_of(state: State, stage: str, bucket: int) -> list[int]:
    """What a bucket is committed in: its shards, or itself where its rows are in Postgres."""
    return state.settings.shards_of([bucket]) if stage in STAGES else [bucket]


def manifests(state: State, stage: str) -> list[dict[int, ManifestRow]]:
    """The commits of a stage's tables by shard, or of the rows in Postgres."""
    if stage in STAGES:
        return [state.runner.manifest(table) for table in STAGES[stage].tables]
    return [state.parts.catalog.manifest_of(stage, state.ensure_generation().schema)]


def _made_from(context: dg.AssetExecutionContext) -> dict[str, str]:
    """The tags by which Dagster knows what a materialisation was made from, as it writes them itself."""
    key = context.asset_key
    tags = {"dagster/code_version": str(context.assets_def.code_versions_by_key[key])}
    for before in context.assets_def.asset_deps[key]:
        for record in context.instance.fetch_materializations(before, limit=1).records:
            assert record.asset_materialization is not None
            name, found = before.to_user_string(), record.asset_materialization.tags or {}
            tags[f"dagster/input_data_version/{name}"] = found.get("dagster/data_version", "")
            tags[f"dagster/input_event_pointer/{name}"] = str(record.storage_id)
    return tags
