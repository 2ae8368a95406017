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
from pipelines.stages import MAKER, STAGES
from resources.dagster_instance.run_errors import coded

# ---------------------------------------------------------------- retries
#
# Steps that wait for a service: tried again where nobody watches, at once an error where somebody does.
#
# Not a RetryPolicy: that also retries what no waiting mends, such as wrong settings, and a run that
# its user interrupts.


PATIENCE = dg.RetryPolicy(max_retries=3, delay=10, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)
_UNATTENDED = ("dagster/schedule_name", "dagster/sensor_name", "dagster/backfill")
"""Tags of runs that Dagster launched by itself."""


def patient(body: Callable[..., Any]) -> Callable[..., Any]:
    """The body of an asset that needs a service. What it committed before the failure stands."""

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
#
# What passes between assets: nothing. Each reads and writes tables by itself.


class NothingPasses(dg.IOManager):
    """Keeps no output and has no input. Dagster's own would let a run name a folder to pickle into, and with the one in
    memory a run that was killed cannot be tried again from where it ended, which is how Dagster tries it."""

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """What an asset gives back is told by its metadata."""

    def load_input(self, context: dg.InputContext) -> None:
        raise dg.DagsterInvariantViolationError("assets read tables, not what another asset gave back")


# ---------------------------------------------------------------- declare
#
# The one way an asset is declared, and buckets as Dagster partitions.
#
# The number of buckets is a setting, so an asset is a factory over the partitions; build_defs calls
# it. Every asset of buckets takes any set of them in one step.


warnings.filterwarnings("ignore", category=dg.BetaWarning)
warnings.filterwarnings("ignore", category=dg.PreviewWarning)
# Of a job: sources are listed in one run, whatever `buckets_per_run` says of what follows.
warnings.filterwarnings("ignore", message=".*varying BackfillPolicies")

AssetFactory = Callable[[dg.PartitionsDefinition, dg.BackfillPolicy], dg.AssetsDefinition]
"""Makes an asset over the partitions, of which a backfill gives each run as many as the policy says."""

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
"""Where more is told of the assets of a group."""
OWNERS = ("team:pincite",)
"""By which the assets are told from others in a Dagster that has several code locations."""


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
    """Declares an asset of buckets, or a `whole` one, or one whose buckets are always made `at_once`. Its name and
    description are the function's own. `group` is one of MANUAL.

    It comes after the makers of the tables that its stage, if it is one, reads; after those of the tables that it
    `reads` besides; and `after` other assets. `pool` limits how many runs that use it are in progress at once."""

    def declare(body: Callable[..., None]) -> AssetFactory:
        name, stage = body.__name__, STAGES.get(body.__name__)
        makers = [MAKER[table].name for table in (*((*stage.inputs, *stage.looks_at) if stage else ()), *reads)]

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
    """One run for so many buckets, for all where nothing is said or there are no more."""
    if buckets_per_run is None or buckets_per_run >= buckets:
        return dg.BackfillPolicy.single_run()
    return dg.BackfillPolicy.multi_run(buckets_per_run)


def buckets_of(context: dg.AssetExecutionContext) -> list[int]:
    """The buckets of a step. Raises SettingsError where the settings have other buckets than when Dagster read them."""
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
    """Tags of one run over all buckets; assets that are not partitioned may be among its assets."""
    keys = partitions.get_partition_keys()
    return {"dagster/asset_partition_range_start": keys[0], "dagster/asset_partition_range_end": keys[-1]}
