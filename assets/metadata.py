"""What a person finds beside an asset in the UI: counts, failures, histograms, samples; and the data
versions by which Dagster tells what is stale."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from assets.pictures import bars, lines
from pipelines.fingerprint import combined
from pipelines.inert import inert
from pipelines.stages import STAGES, WHOLE
from pipelines.visible import visible
from resources.catalog import ManifestRow
from resources.stage_work import StageReport
from resources.workspace import Workspace

_SHOWN_FAILURES = 50
_PLAIN = re.compile(r"(?:[^\W_]|[ ,;()%+\u2013/-]|\.(?!\w)|(?<=\d)\.(?=\d)|:(?!/)|(?<=\w)@(?=\d+$))*+")
"""Text that Markdown shows as it is, and makes no link of."""
_CHARTED = ("recall@5", "accuracy_page", "mrr", "ndcg@10")
_LOGGED_HERE = "__source_asset_observation__"
"""Of an output with this in its metadata Dagster logs no materialisations by itself: it would give
all partitions of a step the same data version."""


def attach(context: dg.AssetExecutionContext, report: StageReport, **more: Any) -> None:
    """Logs what a stage did: to every partition its own counts and data version, to all the whole."""
    whole = {
        "documents computed": report.computed,
        "documents kept": report.kept,
        "documents gone": report.gone,
        "rows written": report.written,
        "dagster/row_count": total_rows(context.resources.workspace, report),
        "seconds": round(report.seconds, 3),
        "failures": len(report.failures),
        **({"failed documents": failures_table(report)} if report.failures else {}),
        **report.notes,
        **more,
    }
    versions = data_versions(context.resources.workspace, report.stage)
    if context.assets_def.partitions_def is None:
        context.set_data_version(context.asset_key, dg.DataVersion(versions[WHOLE]))
        context.add_output_metadata(whole)
    else:
        tags = _provenance(context)
        for key in context.partition_keys:
            own = {f"bucket: {name}": count for name, count in report.buckets.get(int(key), {}).items()}
            if "bucket: rows" in own:
                own["dagster/partition_row_count"] = own.pop("bucket: rows")
            metadata = {**whole, **own}
            version = {"dagster/data_version": versions[int(key)], "dagster/data_version_is_user_provided": "true"}
            context.log_event(
                dg.AssetMaterialization(context.asset_key, metadata=metadata, partition=key, tags={**tags, **version})
            )
        context.add_output_metadata({_LOGGED_HERE: True})
    context.log.info("%s: %d computed, %d kept, %d rows", report.stage, report.computed, report.kept, report.total)
    for failure in report.failures:
        context.log.warning(visible(f"{failure.source}/{failure.uri}: {failure.code}: {failure.message}"))


def total_rows(workspace: Workspace, report: StageReport) -> int:
    """Rows of the whole table, also those of buckets that the step did not run."""
    return sum(row.rows for row in _tables(workspace, report.stage)[0].values()) or report.total


def data_versions(workspace: Workspace, stage: str) -> dict[int, str]:
    """By bucket, a hash of what a stage holds, from its commits. The key counts: a vector is told by its
    text and the model, and what another key made is another table."""
    tables = _tables(workspace, stage)
    return {
        bucket: combined(part for rows in tables for part in (rows[bucket].key, rows[bucket].output))[:16]
        for bucket in tables[0]
    }


def _tables(workspace: Workspace, stage: str) -> list[dict[int, ManifestRow]]:
    if stage in STAGES:
        return [workspace.runner.manifest(table) for table in STAGES[stage].tables]
    return [workspace.catalog.manifest_of(stage, workspace.ensure_generation().schema)]


def _provenance(context: dg.AssetExecutionContext) -> dict[str, str]:
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


def failures_table(report: StageReport) -> dg.MarkdownMetadataValue:
    shown = report.failures[:_SHOWN_FAILURES]
    return table([{"source": it.source, "document": it.uri, "code": it.code, "message": it.message} for it in shown])


def histogram(values: Sequence[int], width: int) -> dg.MarkdownMetadataValue:
    """A histogram, `width` units a bar, as a picture and in text."""
    counts = Counter(value // width for value in values)
    most = max(counts.values(), default=1)
    rows = []
    for number in sorted(counts):
        bar = "█" * max(1, round(30 * counts[number] / most))
        rows.append(f"{number * width:>6}–{(number + 1) * width - 1:<6} {bar} {counts[number]}")
    heights = {str(number * width): counts[number] for number in range(min(counts), max(counts) + 1)} if counts else {}
    return dg.MetadataValue.md("\n".join([bars("histogram", heights), "", "```", *rows, "```"]))


def score_chart(scores: Sequence[Mapping[str, Any]]) -> dg.MarkdownMetadataValue:
    """The golden questions' main scores over time, as a picture and a table; `scores` as
    Catalog.scores gives them: generation, at, name, metrics, the oldest first."""
    names = [f"g{row['generation']:04d}" for row in scores]
    series = {name: [row["metrics"].get(name) for row in scores] for name in _CHARTED}
    rows = [
        {
            "generation": name,
            "at": f"{row['at'][:16].replace('T', ' ')}",
            "questions asked by": row["name"],
            **{metric: "" if (value := series[metric][at]) is None else round(value, 4) for metric in _CHARTED},
        }
        for at, (name, row) in enumerate(zip(names, scores, strict=True))
    ]
    return dg.MetadataValue.md("\n\n".join([lines("scores", names, series), table(rows).value or ""]))


def table(rows: Sequence[Mapping[str, Any]]) -> dg.MarkdownMetadataValue:
    if not rows:
        return dg.MetadataValue.md("none")
    names = list(rows[0])
    shown = ["| " + " | ".join(_cell(row[name]) for name in names) + " |" for row in rows]
    return dg.MetadataValue.md("\n".join(["| " + " | ".join(names) + " |", "|---" * len(names) + "|", *shown]))


def _cell(value: Any) -> str:
    """A value as words of a table. What may mean something to Markdown is shown as code, in which nothing does: names
    and messages come from documents, and the UI makes links of addresses too."""
    text = visible(" ".join(inert(str(value)).split()))
    if _PLAIN.fullmatch(text):
        return text
    return "`" + text.replace("`", "ˋ").replace("\\", "⧵").replace("|", "¦") + "`"
