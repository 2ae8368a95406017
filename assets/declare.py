"""The declaration of assets, with their partitions and retries.

The number of buckets is a setting, so an asset is declared as a factory over the partitions, which build_defs calls.
Every asset with buckets accepts any set of them in one step. Assets read and write tables themselves; the I/O manager
passes no values between them. If a service is not available, a step is retried in runs that Dagster launched, and fails
at once in runs that a person watches. Dagster's RetryPolicy would also retry errors that waiting cannot solve, such as
wrong settings.
"""

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import dagster as dg

from assets.metadata import (
    BEFORE,
    IO_MANAGER,
    STATE,
    attach,
    check_results,
    check_specs,
    describe_tables,
    key_of,
    log_checks,
    log_whole,
    state_of,
)
from pipelines.errors import DatabaseError, IndexStateError, ModelError, SettingsError
from pipelines.plural import plural
from pipelines.settings.base import DagsterSettings
from pipelines.stages import STAGE_OF_TABLE, STAGES
from resources.checks.stages import require_sound
from resources.child_process import ROOT
from resources.dagster_instance.run_errors import add_codes
from resources.generations.direct_run import CODE_VERSION
from resources.generations.upkeep import bring_up_to_date
from resources.state.generation import swap_of
from resources.state.launched import BACKFILL, buckets_in
from resources.state.state import State

# ---------------------------------------------------------------- retries
#
# A RetryPolicy on the asset would also retry a run that its user interrupts.


PATIENCE = dg.RetryPolicy(max_retries=3, delay=10, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)
_UNATTENDED = ("dagster/schedule_name", "dagster/sensor_name", "dagster/backfill")
"""Tags of runs that Dagster launched automatically."""


def patient(body: Callable[..., Any]) -> Callable[..., Any]:
    """Return an asset's body that retries when a service fails, if Dagster launched the run automatically.

    Rows committed before the failure are kept.
    """

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
    """An I/O manager that stores no output and loads no input.

    Dagster's default would let a run choose a folder for pickle files. With the in-memory one Dagster could not retry a
    killed run from the failed step.
    """

    def handle_output(self, context: dg.OutputContext, obj: Any) -> None:
        """Store nothing: an asset reports its result as metadata."""

    def load_input(self, context: dg.InputContext) -> None:
        raise dg.DagsterInvariantViolationError("assets read tables, not what another asset gave back")


# ---------------------------------------------------------------- assets and their buckets


warnings.filterwarnings("ignore", category=dg.BetaWarning)
warnings.filterwarnings("ignore", category=dg.PreviewWarning)
# Assets of one job have different policies: sources are listed in one run, whatever `buckets_per_run` says.
warnings.filterwarnings("ignore", message=".*varying BackfillPolicies")

AssetFactory = Callable[
    [dg.PartitionsDefinition, dg.BackfillPolicy, Mapping[str, str], DagsterSettings], dg.AssetsDefinition
]
"""A function that makes an asset over the partitions, with the names from the settings. The policy sets the number of
partitions in each run of a backfill, and the mapping has the code version of each asset."""

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


def _manual_link(group: str) -> dict[str, dg.CodeReferencesMetadataValue]:
    """Return the metadata with a link to the manual page of a group, if the page is on this machine."""
    page = Path(ROOT, MANUAL[group])
    if not page.is_file():
        return {}
    link = dg.LocalFileCodeReference(file_path=str(page), line_number=1, label=MANUAL[group])
    return {"dagster/code_references": dg.CodeReferencesMetadataValue(code_references=[link])}


NIGHTLY = dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=48), warn_window=timedelta(hours=26))
"""Most time since the last listing and the last index: a warning after 26 hours (one missed night), a failure after 48
(two)."""
OWNERS = ("team:pincite",)
"""The owner of all assets, which marks them in a Dagster with several code locations."""


def asset(
    *kinds: str,
    group: str,
    reads: Iterable[str] = (),
    after: Iterable[str] = (),
    whole: bool = False,
    completes: bool = False,
    at_once: bool = False,
    pool: str | None = None,
    freshness: dg.FreshnessPolicy | None = None,
) -> Callable[[Callable[..., None]], AssetFactory]:
    """Declare an asset: with buckets, without buckets (`whole`), or with buckets that one run always makes together
    (`at_once`). Its name and description come from the function. `group` is a key of MANUAL.

    If the asset is a stage, it depends on the assets that make the tables that the stage reads. It also depends on the
    assets that make the tables in `reads`, and on the assets in `after`. `pool` limits how many runs that use it are in
    progress at once. With `completes`, the asset itself updates the assets before it in a run that omits them, for
    example in "Materialize unsynced".
    """

    def declare(body: Callable[..., None]) -> AssetFactory:
        name, stage = body.__name__, STAGES.get(body.__name__)
        makers = [
            STAGE_OF_TABLE[table].name for table in (*((*stage.inputs, *stage.looks_at) if stage else ()), *reads)
        ]
        BEFORE[name] = list(dict.fromkeys([*makers, *after]))

        def build(
            partitions: dg.PartitionsDefinition,
            policy: dg.BackfillPolicy,
            versions: Mapping[str, str],
            names: DagsterSettings,
        ) -> dg.AssetsDefinition:
            spec = dg.AssetSpec(
                key := key_of(name, names),
                description=f"{inspect.cleandoc(body.__doc__ or '')}\n\nMore: `{MANUAL[group]}`",
                group_name=names.group or names.name(group),
                deps=[key_of(before, names) for before in BEFORE[name]],
                kinds=set(kinds),
                owners=OWNERS,
                code_version=versions.get(name, CODE_VERSION),
                metadata={**(describe_tables(stage) if stage else {}), **_manual_link(group)},
                freshness_policy=freshness,
                partitions_def=None if whole else partitions,
            )
            # A step of several results, so that checks can be selected without the asset.
            return dg.multi_asset(
                name=key.to_python_identifier(),
                specs=[spec.with_io_manager_key(names.name(IO_MANAGER))],
                check_specs=check_specs(key),
                can_subset=True,
                backfill_policy=dg.BackfillPolicy.single_run() if whole or at_once else policy,
                pool=pool,
                required_resource_keys={names.name(STATE)},
            )(_given_state(_with_checks(patient(_with_completion(body)) if completes else body, key), names))

        return build

    return declare


def _with_checks(body: Callable[..., None], key: dg.AssetKey) -> Callable[..., Iterator[Any]]:
    """Return a step that makes the asset if the run selects it, and evaluates the selected checks of the asset."""

    @wraps(body)
    def run(context: dg.AssetExecutionContext, **resources: Any) -> Iterator[Any]:
        with add_codes():
            if context.selected_asset_keys:
                body(context, **resources)
                yield dg.MaterializeResult(key)
            yield from check_results(context, key)

    return run


def _with_completion(body: Callable[..., None]) -> Callable[..., None]:
    """Return the body of an asset that first updates the assets before it. It does not do so in a backfill or in a run
    of some buckets, where other runs make them; an error then reports their progress."""

    @wraps(body)
    def run(context: dg.AssetExecutionContext, **resources: Any) -> None:
        state = state_of(context)
        buckets, every = buckets_in(context.run.tags), range(state.settings.buckets)
        if BACKFILL not in context.run.tags and buckets in (None, every):
            _complete(context, state)
        try:
            body(context, **resources)
        except IndexStateError as error:
            if error.code != "missing_input":
                raise
            raise IndexStateError(f"{error} ({_so_far(context)})", error.code) from error

    return run


def _complete(context: dg.AssetExecutionContext, state: State) -> None:
    """Make each earlier asset that the run omits, once for each run, with its checks. Raise IndexStateError
    (`check_failed`) if a blocking check finds a problem."""
    key = context.asset_key
    selected = context.job_def.asset_layer.selected_asset_keys
    here = {other.path[-1] for other in selected if other.path[:-1] == key.path[:-1]}
    for name in _all_before(key.path[-1]):
        if name in here or name in state.run.completed:
            continue
        if report := bring_up_to_date(state, name):
            attach(context, report, own=False)
        else:
            generation = state.ensure_generation()
            log_whole(context, generation.schema, {"generation": generation.generation}, name)
        log_checks(context, name)
        require_sound(state, name)
        state.run.completed.add(name)


def _all_before(name: str) -> Iterator[str]:
    """Yield the assets before an asset in order, without the listing, which is not repeated."""
    found: dict[str, None] = {}

    def visit(each: str) -> None:
        for before in BEFORE[each]:
            if before not in found:
                visit(before)
                found[before] = None

    visit(name)
    return (before for before in found if before != "raw_documents")


def _so_far(context: dg.AssetExecutionContext) -> str:
    state = state_of(context)
    swap = swap_of(state.catalog, state.settings, state.engine, state.generation, "search_index")
    served = f"generation {swap.live}" if swap.live else "nothing yet"
    return f"{plural(swap.present, 'document')} in the index by the present settings; readers are served {served}"


def renamed_check(check: dg.AssetChecksDefinition, names: DagsterSettings) -> dg.AssetChecksDefinition:
    """Return the same check for the asset with its name under these settings."""
    (spec,) = check.check_specs
    body = check.op.compute_fn.decorated_fn  # type: ignore[union-attr]
    return dg.asset_check(
        asset=key_of(spec.asset_key.to_user_string(), names),
        name=spec.name,
        description=spec.description,
        blocking=spec.blocking,
        metadata=spec.metadata,
        required_resource_keys={names.name(STATE)},
    )(_given_state(body, names))


def _given_state(body: Callable[..., Any], names: DagsterSettings) -> Callable[..., Any]:
    """Return a body whose parameter `state` is the resource named by these settings, instead of one named `state`."""
    signature, resource = inspect.signature(body), names.name(STATE)
    given = {name: each for name, each in signature.parameters.items() if name not in ("context", STATE)}

    def run(context: Any, **values: Any) -> Any:
        own = {"context": context} if "context" in signature.parameters else {}
        return body(**own, **values, **{STATE: getattr(context.resources, resource)})

    wraps(body)(run)
    # Dagster reads the signature alone. It expects a tuple of a return type; a body that yields has none.
    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    shown = inspect.Signature([context, *given.values()])
    run.__signature__ = shown  # type: ignore[attr-defined]
    return run


def bucket_partitions(count: int) -> dg.StaticPartitionsDefinition:
    return dg.StaticPartitionsDefinition([f"{number:02d}" for number in range(count)])


def backfill_policy(buckets_per_run: int | None, buckets: int) -> dg.BackfillPolicy:
    """Return the policy of one run for each `buckets_per_run` buckets, or of a single run if that is None or at least
    `buckets`."""
    if buckets_per_run is None or buckets_per_run >= buckets:
        return dg.BackfillPolicy.single_run()
    return dg.BackfillPolicy.multi_run(buckets_per_run)


def buckets_of(context: dg.AssetExecutionContext) -> list[int]:
    """Return the buckets of a step. Raise SettingsError if their number in the settings has changed since Dagster read
    them."""
    assert context.assets_def.partitions_def is not None
    loaded = len(context.assets_def.partitions_def.get_partition_keys())
    now = state_of(context).settings.buckets
    if loaded != now:
        raise SettingsError(
            f"the settings have {now} buckets, but Dagster loaded {loaded}: reload the code location and launch again"
        )
    return [int(key) for key in context.partition_keys]
