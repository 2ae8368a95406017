"""The one way an asset is declared: its partitions, its retries, and no value passed to the next asset.

The number of buckets is a setting, so an asset is a factory over the partitions; build_defs calls it. Every asset of
buckets takes any set of them in one step. Assets read and write tables by themselves; the I/O manager passes nothing.

Steps that wait for a service are tried again in runs that Dagster launched, and fail at once in runs that a person
watches. Dagster's RetryPolicy would also retry what no waiting mends, such as wrong settings.
"""

import inspect
import warnings
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import dagster as dg

from assets.metadata import described
from pipelines.errors import DatabaseError, ModelError, SettingsError
from pipelines.stages import STAGE_OF_TABLE, STAGES
from resources.dagster_instance.run_errors import coded

# ---------------------------------------------------------------- retries
#
# A RetryPolicy on the asset would also retry a run that its user interrupts.


PATIENCE = dg.RetryPolicy(max_retries=3, delay=10, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)
_UNATTENDED = ("dagster/schedule_name", "dagster/sensor_name", "dagster/backfill")
"""Tags of runs that Dagster launched by itself."""


def patient(body: Callable[..., Any]) -> Callable[..., Any]:
    """Return an asset's body that retries when a service fails, if Dagster launched the run by itself.

    Rows that it committed before the failure are kept."""

    @wraps(body)
    def run(context: dg.AssetExecutionContext, **resources: Any) -> Any:
        try:
            return body(context, **resources)
        except (ModelError, DatabaseError) as error:
            if not any(tag in context.run.tags for tag in _UNATTENDED):
                raise
            wait = PATIENCE.calculate_delay(context.retry_number + 1)
            raise dg.RetryRequested(PATIENCE.max_retries, wait) from error

    return run


# ---------------------------------------------------------------- io


class NothingPasses(dg.IOManager):
    """An I/O manager that keeps no output and has no input.

    Dagster's default would let a run name a folder to pickle into. With the one in memory Dagster could not retry a
    killed run, since it retries from where the run ended."""

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Keep nothing: an asset reports its result as metadata."""

    def load_input(self, context: dg.InputContext) -> None:
        raise dg.DagsterInvariantViolationError("assets read tables, not what another asset gave back")


# ---------------------------------------------------------------- assets and their buckets


warnings.filterwarnings("ignore", category=dg.BetaWarning)
warnings.filterwarnings("ignore", category=dg.PreviewWarning)
# Assets of one job have different policies: sources are listed in one run, whatever `buckets_per_run` says.
warnings.filterwarnings("ignore", message=".*varying BackfillPolicies")

AssetFactory = Callable[[dg.PartitionsDefinition, dg.BackfillPolicy], dg.AssetsDefinition]
"""A function that makes an asset over the partitions. The policy says how many of them a backfill gives each run."""

MANUAL = {
    "documents": "docs/guide/sources.md",
    "structure": "docs/guide/looking.md",
    "chunks": "docs/reference/chunking.md",
    "sentences": "docs/reference/sentences.md",
    "enrichment": "docs/guide/enrichment.md",
    "embeddings": "docs/guide/endpoints.md",
    "index": "docs/guide/generations.md",
    "quality": "docs/guide/evaluation.md",
}
"""The page of the manual for each group of assets, named in their descriptions."""
OWNERS = ("team:pincite",)
"""The owner of all assets, which tells them from others in a Dagster with several code locations."""


def asset(
    *kinds: str,
    group: str,
    reads: Iterable[str] = (),
    after: Iterable[str] = (),
    whole: bool = False,
    at_once: bool = False,
    pool: str | None = None,
    freshness: dg.FreshnessPolicy | None = None,
) -> Callable[[Callable[..., None]], AssetFactory]:
    """Declare an asset: of buckets, or a `whole` one without buckets, or one whose buckets one run always makes
    `at_once`. Its name and description are the function's own. `group` is a key of MANUAL.

    If the asset is a stage, it depends on the makers of the tables that the stage reads. It also depends on the makers
    of the tables in `reads` and on the assets in `after`. `pool` limits how many runs that use it are in progress at
    once."""

    def declare(body: Callable[..., None]) -> AssetFactory:
        name, stage = body.__name__, STAGES.get(body.__name__)
        makers = [
            STAGE_OF_TABLE[table].name for table in (*((*stage.inputs, *stage.looks_at) if stage else ()), *reads)
        ]

        def build(partitions: dg.PartitionsDefinition, policy: dg.BackfillPolicy) -> dg.AssetsDefinition:
            return dg.asset(
                name=name,
                description=f"{inspect.cleandoc(body.__doc__ or '')}\n\nMore: `{MANUAL[group]}`",
                group_name=group,
                deps=list(dict.fromkeys([*makers, *after])),
                partitions_def=None if whole else partitions,
                backfill_policy=dg.BackfillPolicy.single_run() if whole or at_once else policy,
                kinds=set(kinds),
                owners=OWNERS,
                code_version=str(stage.version) if stage else "1",
                metadata=described(stage) if stage else {},
                pool=pool,
                freshness_policy=freshness,
            )(coded()(body))

        return build

    return declare


def bucket_partitions(count: int) -> dg.StaticPartitionsDefinition:
    return dg.StaticPartitionsDefinition([f"{number:02d}" for number in range(count)])


def backfill_policy(buckets_per_run: int | None, buckets: int) -> dg.BackfillPolicy:
    """Return the policy of one run for each `buckets_per_run` buckets, or of a single run for all if that is None or
    not less than `buckets`."""
    if buckets_per_run is None or buckets_per_run >= buckets:
        return dg.BackfillPolicy.single_run()
    return dg.BackfillPolicy.multi_run(buckets_per_run)


def buckets_of(context: dg.AssetExecutionContext) -> list[int]:
    """Return the buckets of a step. Raise SettingsError if their number in the settings has changed since Dagster read
    them."""
    assert context.assets_def.partitions_def is not None
    loaded = len(context.assets_def.partitions_def.get_partition_keys())
    now = context.resources.state.settings.buckets
    if loaded != now:
        raise SettingsError(
            f"the settings have {now} buckets, but Dagster loaded {loaded}: start `pincite ui`, or the code "
            "location, again"
        )
    return [int(key) for key in context.partition_keys]


def range_tags(partitions: dg.PartitionsDefinition) -> dict[str, str]:
    """Return the tags of one run over all buckets. Its assets may include some that are not partitioned."""
    keys = partitions.get_partition_keys()
    return {"dagster/asset_partition_range_start": keys[0], "dagster/asset_partition_range_end": keys[-1]}
