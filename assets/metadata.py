"""The reports of assets to Dagster: data versions by bucket, counts, failures, tables and pictures.

Dagster compares data versions to find stale assets. The UI shows the rest beside the asset.
"""

import base64
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from pipelines.defused_text import defuse
from pipelines.escaped_text import one_line
from pipelines.plots import Curves, Panel, figure
from pipelines.records import column_description
from pipelines.schemas import schema_of
from pipelines.settings.base import DagsterSettings
from pipelines.stages import STAGES, UNPARTITIONED, Stage
from resources.dagster_instance.run_history import Evaluation, RunRecord, report_run, taken_runs
from resources.engine import StageReport
from resources.generations.direct_run import (
    CODE_VERSION,
    FAILED,
    PRESENT,
    carried_check,
    carried_checks,
    counts_of,
    counts_of_bucket,
    counts_of_step,
    data_versions,
    failure_rows,
    failures_of,
    generation_tags,
    rows_in_postgres,
)
from resources.state.generation import find_generation
from resources.state.state import State


def key_of(asset: str, names: DagsterSettings) -> dg.AssetKey:
    """Return the key of an asset under these settings."""
    return dg.AssetKey.from_user_string(names.key(asset))


STATE, IO_MANAGER = "state", "io_manager"
"""Names of resources without a prefix."""


def range_tags(partitions: dg.PartitionsDefinition) -> dict[str, str]:
    """Return the tags of one run over all buckets. Its assets may include some without partitions."""
    keys = partitions.get_partition_keys()
    return {"dagster/asset_partition_range_start": keys[0], "dagster/asset_partition_range_end": keys[-1]}


def state_of(context: dg.AssetExecutionContext) -> State:
    """Return the state that a step uses, whatever the name of its resource."""
    return next(resource for resource in context.resources if isinstance(resource, State))


# ---------------------------------------------------------------- materialisations
#
# Dagster finds stale assets by the data version of each bucket, the versions that it was made from, and the code
# version. It would log the code version that it has loaded. The settings may have changed since, so each
# materialisation is logged here, with the version of the state that did the work.


_LOGGED_HERE = "__source_asset_observation__"
"""The metadata key that stops Dagster from logging materialisations of an output automatically. Dagster would give all
partitions of a step the same data version."""
BEFORE: dict[str, list[str]] = {}
"""Names of the assets that each asset comes after, by its name; filled where assets are declared."""


def log_made(
    context: dg.AssetExecutionContext, stage: str, metadata: Callable[[int], Mapping[str, Any]], own: bool = True
) -> None:
    """Log a materialisation of a stage for every bucket of the step, with its own data version and its `metadata` by
    number. An asset without buckets is logged once, as UNPARTITIONED. If the stage is not the step's `own` asset, all
    its buckets are logged."""
    state = state_of(context)
    versions = data_versions(state, stage)
    if own and context.assets_def.partitions_def is not None:
        versions = {int(key): versions[int(key)] for key in context.partition_keys}
    _log(context, stage, versions, metadata)
    if own:
        _leave_to_us(context)


def log_whole(
    context: dg.AssetExecutionContext, version: str, metadata: Mapping[str, Any], name: str = "", code: str = ""
) -> None:
    """Log the materialisation of an asset that is not a stage and has no buckets, with its data version. The asset
    is the step's own, or the one called `name`. `code` replaces its code version if the data was made under another
    one."""
    _log(context, name or context.asset_key.path[-1], {UNPARTITIONED: version}, lambda _: metadata, code)
    if not name:
        _leave_to_us(context)


def _leave_to_us(context: dg.AssetExecutionContext) -> None:
    output = context.assets_def.get_output_name_for_asset_key(context.asset_key)
    context.add_output_metadata({_LOGGED_HERE: True}, output)


def _log(
    context: dg.AssetExecutionContext,
    name: str,
    versions: Mapping[int, str],
    metadata: Callable[[int], Mapping[str, Any]],
    code: str = "",
) -> None:
    state, key = state_of(context), _sibling(context, name)
    record_direct_runs(context.instance, state.project.state)
    code = code or state.code_versions.get(name, CODE_VERSION)
    for made in _materializations(context.instance, key, code, versions, metadata):
        context.log_event(made)
    _tag(context, state)


def _materializations(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    code: str,
    versions: Mapping[int, str],
    metadata: Callable[[int], Mapping[str, Any] | None],
) -> Iterator[dg.AssetMaterialization]:
    """Yield a materialisation for each bucket. One without a version gets Dagster's own."""
    made_from = {"dagster/code_version": code, **_made_from(instance, key)}
    for bucket, version in versions.items():
        own = {"dagster/data_version": version, "dagster/data_version_is_user_provided": "true"} if version else {}
        partition = None if bucket == UNPARTITIONED else f"{bucket:02d}"
        yield dg.AssetMaterialization(key, metadata=metadata(bucket), partition=partition, tags={**made_from, **own})


def record_direct_runs(instance: dg.DagsterInstance, state: Path) -> None:
    """Write the runs into Dagster's storage that were made without Dagster since it was last opened for a state."""
    with taken_runs(state / "dagster") as records:
        for record in records:
            report_run(instance, record, _materializations_of(instance, record), map(_evaluation, record.checks))


def _materializations_of(instance: dg.DagsterInstance, record: RunRecord) -> Iterator[dg.AssetMaterialization]:
    for made in record.made:
        key = dg.AssetKey.from_user_string(made.key)
        yield from _materializations(instance, key, made.code_version, made.versions, made.metadata.get)


def _tag(context: dg.AssetExecutionContext, state: State) -> None:
    """Tag the run with its generation, once it is known."""
    tags = generation_tags(state)
    if state.run.tags != tags:
        context.instance.add_run_tags(context.run_id, tags)
        state.run.tags = tags


def _made_from(instance: dg.DagsterInstance, key: dg.AssetKey) -> dict[str, str]:
    """Return the tags that tell Dagster from which versions a materialisation was made, in the form that it writes."""
    tags = {}
    for name in BEFORE[key.path[-1]]:
        before = dg.AssetKey([*key.path[:-1], name])
        for record in instance.fetch_materializations(before, limit=1).records:
            assert record.asset_materialization is not None
            shown, found = before.to_user_string(), record.asset_materialization.tags or {}
            tags[f"dagster/input_data_version/{shown}"] = found.get("dagster/data_version", "")
            tags[f"dagster/input_event_pointer/{shown}"] = str(record.storage_id)
    return tags


# ---------------------------------------------------------------- checks that every asset carries
#
# A run of the job evaluates them in the asset's own step, also where a later one fails. They cost no step of their own,
# warn, and block nothing. A run without Dagster evaluates them at its end.


_SAID = {
    FAILED: "No document fails at this stage.",
    PRESENT: "Everything is made with the present settings and models.",
}


def check_specs(key: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    """Return the checks that an asset carries."""
    return [dg.AssetCheckSpec(name, asset=key, description=_SAID[name]) for name in carried_checks(key.path[-1])]


def check_results(context: dg.AssetExecutionContext, key: dg.AssetKey) -> list[dg.AssetCheckResult]:
    """Return the results of the selected checks of an asset. A run may select checks without the asset."""
    state = state_of(context)
    if not context.selected_asset_keys and (known := find_generation(state.catalog, state.settings)):
        state = state.of_generation(known)  # beside it: a later step may find that the corpus has drifted from this one
    names = {check.name for check in context.selected_asset_check_keys if check.asset_key == key}
    return [
        dg.AssetCheckResult(
            check_name=name, passed=passed, severity=dg.AssetCheckSeverity.WARN, metadata=told_by_check(told)
        )
        for name in carried_checks(key.path[-1])
        if name in names
        for passed, told in [carried_check(state, key.path[-1], name)]
    ]


def log_checks(context: dg.AssetExecutionContext, name: str) -> None:
    """Log the results of the checks of an asset that the step made in addition to its own asset."""
    state, key = state_of(context), _sibling(context, name)
    for check in carried_checks(name):
        passed, told = carried_check(state, name, check)
        context.log_event(_evaluation(Evaluation(key.to_user_string(), check, passed, told)))


def _evaluation(result: Evaluation) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey.from_user_string(result.asset),
        check_name=result.check,
        passed=result.passed,
        metadata=told_by_check(result.told),
        severity=dg.AssetCheckSeverity.ERROR if result.blocking else dg.AssetCheckSeverity.WARN,
        blocking=result.blocking,
    )


def told_by_check(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a check tells as metadata; a list of rows is a table."""
    return {name: table(value) if isinstance(value, list) else value for name, value in values.items()}


def _sibling(context: dg.AssetExecutionContext, name: str) -> dg.AssetKey:
    """Return the key of another asset of the same index."""
    return dg.AssetKey([*context.asset_key.path[:-1], name])


# ---------------------------------------------------------------- metadata that people read in the UI


Table = dg.TableMetadataValue | dg.TextMetadataValue

_CHARTED = ("recall@5", "accuracy_page", "mrr", "ndcg@10")


def describe_tables(stage: Stage) -> dict[str, Any]:
    """Return the names and columns of a stage's tables as metadata. Dagster counts the rows of the main one."""
    main = main_table(stage)
    return {
        "dagster/table_name": main,
        "dagster/storage_kind": "parquet",
        "dagster/column_schema": _columns(stage.tables[main]),
        **{
            f"columns of {name}": dg.MetadataValue.table_schema(_columns(record))
            for name, record in stage.tables.items()
            if name != main
        },
    }


def main_table(stage: Stage) -> str:
    """Return the name of the table that an asset shows: the one with the asset's name."""
    return stage.name if stage.name in stage.tables else next(iter(stage.tables))


def _columns(record: type) -> dg.TableSchema:
    fields = [(field.name, str(field.type)) for field in schema_of(record)]
    return dg.TableSchema([dg.TableColumn(name, kind, column_description(record, name)) for name, kind in fields])


def attach(context: dg.AssetExecutionContext, report: StageReport, own: bool = True, **more: Any) -> None:
    """Log the report of a stage. Every partition gets its own counts and data version, the counts of the whole step
    under `run: `, and its current failures, including those of earlier runs. A stage that is not the step's `own` asset
    is logged for all its buckets."""
    state = state_of(context)
    failed = failures_of(state, report.stage)
    counted = counts_of(report)
    standing = {
        "dagster/row_count": total_rows(state, report),
        "failures": len(failed),
        **({"failed documents": table(failure_rows(failed, state.settings.buckets))} if failed else {}),
        **more,
    }
    in_step = counts_of_step(report)
    rows = _rows_by_bucket(state, report.stage)

    def metadata(bucket: int) -> Mapping[str, Any]:
        if bucket == UNPARTITIONED:
            return {**counted, **standing}
        return {**counts_of_bucket(report, bucket), **rows.get(bucket, {}), **standing, **in_step}

    log_made(context, report.stage, metadata, own)
    context.log.info("%s: %d computed, %d kept, %d rows", report.stage, report.computed, report.kept, report.total)
    for failure in report.failures:
        context.log.warning(one_line(f"{failure.source}/{failure.uri}: {failure.code}: {failure.message}"))


def _rows_by_bucket(state: State, stage: str) -> dict[int, dict[str, int]]:
    """Return the rows by bucket of a stage's main table, if the report counts the rows of another table."""
    if stage not in STAGES or (main := main_table(STAGES[stage])) == next(iter(STAGES[stage].tables)):
        return {}
    rows = Counter[int]()
    for part in state.engine.parts([main]):
        rows[part.bucket] += part.rows(main)
    return {bucket: {"dagster/partition_row_count": count} for bucket, count in rows.items()}


def total_rows(state: State, report: StageReport) -> int:
    """Return the number of rows in the whole table that readers use, or will use after this run: the table of the
    current settings if all its buckets are made, or else the table of the live generation."""
    live, name = state.catalog.live(), report.stage
    if name not in STAGES:
        rows = list(rows_in_postgres(state, name).values())
        if live and len(rows) < state.settings.buckets:
            rows = list(state.catalog.index_commits(name, live.schema).values())
        return sum(row.rows for row in rows) or report.total
    table = main_table(STAGES[name])
    if live and name in live.keys and state.engine.unmade(table):
        return state.table(table, live.keys[name]).rows
    return state.engine.table(table).rows or report.total


def histogram(values: Sequence[int], width: int) -> dg.MarkdownMetadataValue:
    """Return a histogram as a picture and as text, with `width` units a bar."""
    counts = Counter(value // width for value in values)
    most = max(counts.values(), default=1)
    rows = []
    for number in sorted(counts):
        bar = "█" * max(1, round(30 * counts[number] / most))
        rows.append(f"{number * width:>6}–{(number + 1) * width - 1:<6} {bar} {counts[number]}")
    numbers = range(min(counts), max(counts) + 1) if counts else range(0)
    outline = [(end * width, counts[number]) for number in numbers for end in (number, number + 1)]
    picture = _picture(Curves("histogram", {"chunks": outline}))
    return dg.MetadataValue.md("\n".join([picture, "", "```", *rows, "```"]))


def score_chart(scores: Sequence[Mapping[str, Any]]) -> dg.MarkdownMetadataValue:
    """Return a chart of the golden questions' main scores over time. `scores` are rows of Catalog.scores (generation,
    at, name, metrics), the oldest first."""
    lines = {
        name: [(at, value) for at, row in enumerate(scores) if (value := row["metrics"].get(name)) is not None]
        for name in _CHARTED
    }
    names = [_schema_name(row) for row in scores]
    return dg.MetadataValue.md(_picture(Curves("scores", lines, y_within=(0, 1), x_names=names)))


def _picture(panel: Panel) -> str:
    """Return a plot as a Markdown image with its data in the address, since the UI accepts no other pictures."""
    return f"![{panel.title}](data:image/svg+xml;base64,{base64.b64encode(figure([panel]).encode()).decode()})"


def score_rows(scores: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the golden questions' scores as numbers, with one row for each run. A metric that was not measured is
    None."""
    return [
        {
            "generation": _schema_name(row),
            "at": row["at"][:16].replace("T", " "),
            "questions asked by": row["name"],
            **{name: None if (value := row["metrics"].get(name)) is None else round(value, 4) for name in _CHARTED},
        }
        for row in scores
    ]


def _schema_name(row: Mapping[str, Any]) -> str:
    return f"g{row['generation']:04d}"


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return rows as a table of the UI, or the text `none` if there are no rows. All rows must have the same names in
    the same order."""
    if not rows:
        return dg.MetadataValue.text("none")
    return dg.MetadataValue.table([dg.TableRecord({name: _cell(value) for name, value in row.items()}) for row in rows])


def _cell(value: Any) -> str | int | float | bool | None:
    """Return a value in the form shown by the UI. Names and messages come from documents, so they are reduced to one
    line without active content."""
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return one_line(" ".join(defuse(str(value)).split()))
