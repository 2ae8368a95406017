"""The report that an asset gives Dagster: data versions by bucket, counts, failures, tables and pictures.

Dagster compares data versions to find stale assets. People read the rest beside the asset in the UI.
"""

import base64
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dagster as dg

from pipelines.defused_text import defused
from pipelines.escaped_text import one_line
from pipelines.fingerprint import combined
from pipelines.plots import Curves, Panel, figure
from pipelines.schemas import schema_of
from pipelines.stages import STAGES, UNPARTITIONED, Stage
from resources.engine import StageReport
from resources.postgres.catalog import IndexCommit
from resources.state.state import State

# ---------------------------------------------------------------- data versions
#
# Dagster finds stale assets by the data version of each bucket and the versions that it was made from.


_LOGGED_HERE = "__source_asset_observation__"
"""The metadata key that stops Dagster from logging materialisations of an output by itself. It would give all
partitions of a step the same data version."""


def log_made(context: dg.AssetExecutionContext, stage: str, metadata: Callable[[int], Mapping[str, Any]]) -> None:
    """Log a materialisation for every bucket of the step, with its own data version and its `metadata` by number. An
    asset without buckets is logged once, as UNPARTITIONED."""
    versions = data_versions(context.resources.state, stage)
    if context.assets_def.partitions_def is None:
        context.set_data_version(context.asset_key, dg.DataVersion(versions[UNPARTITIONED]))
        context.add_output_metadata(dict(metadata(UNPARTITIONED)))
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
    """Return a hash of a stage's data for each bucket, computed from its commits.

    The hash includes the key of each commit: vectors are identified by their text and model, and data made under
    another key is another table."""
    if stage not in STAGES:
        return {bucket: combined([row.key, row.output])[:16] for bucket, row in _in_postgres(state, stage).items()}
    versions = state.engine.versions(stage)
    return {bucket: combined(version)[:16] for bucket, version in versions.items()}


def _in_postgres(state: State, stage: str) -> dict[int, IndexCommit]:
    """Return the commits of a stage's rows in Postgres by bucket."""
    return state.catalog.index_commits(stage, state.ensure_generation().schema)


def _made_from(context: dg.AssetExecutionContext) -> dict[str, str]:
    """Return the tags that tell Dagster from which versions a materialisation was made, in the form that it writes."""
    key = context.asset_key
    tags = {"dagster/code_version": str(context.assets_def.code_versions_by_key[key])}
    for before in context.assets_def.asset_deps[key]:
        for record in context.instance.fetch_materializations(before, limit=1).records:
            assert record.asset_materialization is not None
            name, found = before.to_user_string(), record.asset_materialization.tags or {}
            tags[f"dagster/input_data_version/{name}"] = found.get("dagster/data_version", "")
            tags[f"dagster/input_event_pointer/{name}"] = str(record.storage_id)
    return tags


# ---------------------------------------------------------------- metadata that people read in the UI


Table = dg.TableMetadataValue | dg.TextMetadataValue

_SHOWN_FAILURES = 50
_CHARTED = ("recall@5", "accuracy_page", "mrr", "ndcg@10")


def described(stage: Stage) -> dict[str, Any]:
    """Return the names and columns of a stage's tables as metadata. Dagster counts the rows of the first."""
    first, *others = stage.tables
    return {
        "dagster/table_name": first,
        "dagster/storage_kind": "parquet",
        "dagster/column_schema": _columns(stage.tables[first]),
        **{f"columns of {name}": dg.MetadataValue.table_schema(_columns(stage.tables[name])) for name in others},
    }


def _columns(record: type) -> dg.TableSchema:
    return dg.TableSchema([dg.TableColumn(field.name, str(field.type)) for field in schema_of(record)])


def attach(context: dg.AssetExecutionContext, report: StageReport, **more: Any) -> None:
    """Log the report of a stage: to every partition the counts of the whole step, its own counts and its data
    version."""
    whole = {
        "documents computed": report.computed,
        "documents kept": report.kept,
        "documents gone": report.gone,
        "rows written": report.written,
        "dagster/row_count": total_rows(context.resources.state, report),
        "seconds": round(report.seconds, 3),
        "failures": len(report.failures),
        **({"failed documents": failures_table(report)} if report.failures else {}),
        **report.notes,
        **more,
    }
    state = context.resources.state
    log_made(
        context,
        report.stage,
        lambda bucket: whole if bucket == UNPARTITIONED else {**whole, **_own(state, report, bucket)},
    )
    context.log.info("%s: %d computed, %d kept, %d rows", report.stage, report.computed, report.kept, report.total)
    for failure in report.failures:
        context.log.warning(one_line(f"{failure.source}/{failure.uri}: {failure.code}: {failure.message}"))


def _own(state: State, report: StageReport, bucket: int) -> dict[str, int]:
    own = Counter[str]()
    for part in state.settings.shards_of([bucket]) if report.stage in STAGES else [bucket]:
        own.update({f"bucket: {name}": count for name, count in report.shards.get(part, {}).items()})
    if "bucket: rows" in own:
        own["dagster/partition_row_count"] = own.pop("bucket: rows")
    return dict(own)


def total_rows(state: State, report: StageReport) -> int:
    """Return the rows of the whole table, including buckets that the step did not run."""
    if report.stage not in STAGES:
        return sum(row.rows for row in _in_postgres(state, report.stage).values()) or report.total
    return state.engine.table(next(iter(STAGES[report.stage].tables))).rows or report.total


def changes(report: StageReport) -> dict[str, Any]:
    """Return the changes to generations that are kept up to date, as metadata."""
    return {
        "documents changed": report.computed,
        "documents removed": report.gone,
        "rows written": report.written,
        "seconds": round(report.seconds, 3),
        **report.notes,
    }


def failures_table(report: StageReport) -> Table:
    shown = report.failures[:_SHOWN_FAILURES]
    return table([{"source": it.source, "document": it.uri, "code": it.code, "message": it.message} for it in shown])


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
    """Return a plot as a Markdown image that carries its data in its address, since the UI takes no other pictures."""
    return f"![{panel.title}](data:image/svg+xml;base64,{base64.b64encode(figure([panel]).encode()).decode()})"


def score_rows(scores: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the same scores as numbers, a row for each run. A metric that was not measured is None."""
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
    """Return rows that have the same names in the same order as a table of the UI, or the text `none` if there are no
    rows."""
    if not rows:
        return dg.MetadataValue.text("none")
    return dg.MetadataValue.table([dg.TableRecord({name: _cell(value) for name, value in row.items()}) for row in rows])


def _cell(value: Any) -> str | int | float | bool | None:
    """Return a value as the UI shows it. Names and messages come from documents, so only their words are kept, made
    inert and on one line."""
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return one_line(" ".join(defused(str(value)).split()))
