"""Buckets as Dagster partitions, and the one way an asset of buckets is declared.

The number of buckets is a setting, so an asset is a factory over the partitions; build_defs calls
it. Every partitioned asset takes any set of buckets in one step.
"""

import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import dagster as dg

from assets.retries import patient
from pipelines.errors import SettingsError
from pipelines.stages import STAGES

warnings.filterwarnings("ignore", category=dg.BetaWarning)
warnings.filterwarnings("ignore", category=dg.PreviewWarning)

AssetFactory = Callable[[dg.PartitionsDefinition], dg.AssetsDefinition]

POOLS = {"enrichment": "llm", "embeddings": "embedding"}
"""Groups whose steps call a model, and the pool that limits how many do at once."""
PATIENT = {"chunks", "embeddings"}
"""Groups whose steps ask the embedder (`chunks` makes the generation), tried again when it does not answer."""
NIGHTLY = dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=48), warn_window=timedelta(hours=26))
"""Late after a missed night, failed after two."""


def bucket_partitions(count: int) -> dg.StaticPartitionsDefinition:
    return dg.StaticPartitionsDefinition([f"{number:02d}" for number in range(count)])


def buckets_of(context: dg.AssetExecutionContext) -> list[int]:
    """The buckets of a step. Raises SettingsError where the settings have other buckets than when Dagster read them."""
    assert context.assets_def.partitions_def is not None
    loaded = len(context.assets_def.partitions_def.get_partition_keys())
    now = context.resources.workspace.settings.buckets
    if loaded != now:
        raise SettingsError(
            f"the settings have {now} buckets, but Dagster loaded {loaded}: start `pincite ui`, or the code "
            "location, again"
        )
    return [int(key) for key in context.partition_keys]


def range_tags(partitions: dg.PartitionsDefinition) -> dict[str, str]:
    """Tags of one run over all buckets; assets that are not partitioned may be among its assets."""
    keys = partitions.get_partition_keys()
    return {"dagster/asset_partition_range_start": keys[0], "dagster/asset_partition_range_end": keys[-1]}


def bucketed(group: str, deps: Sequence[str], kinds: set[str]) -> Callable[[Callable[..., Any]], AssetFactory]:
    """Declares an asset of buckets; its name, description and code version are the function's own."""

    def declare(body: Callable[..., Any]) -> AssetFactory:
        def build(partitions: dg.PartitionsDefinition) -> dg.AssetsDefinition:
            return dg.asset(
                name=body.__name__,
                description=body.__doc__,
                partitions_def=partitions,
                backfill_policy=dg.BackfillPolicy.single_run(),
                group_name=group,
                deps=list(deps),
                kinds=kinds,
                code_version=code_version(body.__name__),
                pool=POOLS.get(group),
            )(patient(body) if group in PATIENT else body)

        build.__name__ = body.__name__
        return build

    return declare


def whole(
    group: str, deps: Sequence[str], kinds: set[str], freshness: dg.FreshnessPolicy | None = None
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Declares an asset that is not partitioned."""

    def declare(body: Callable[..., Any]) -> dg.AssetsDefinition:
        return dg.asset(
            name=body.__name__,
            description=body.__doc__,
            backfill_policy=dg.BackfillPolicy.single_run(),
            group_name=group,
            deps=list(deps),
            kinds=kinds,
            code_version=code_version(body.__name__),
            freshness_policy=freshness,
        )(body)

    return declare


def code_version(name: str) -> str:
    return str(STAGES[name].version) if name in STAGES else "1"
