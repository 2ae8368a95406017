"""What a person finds beside an asset in the UI: columns, counts, failures, histograms, samples."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from assets.data_versions import log_made, manifests, parts_of
from assets.pictures import bars, lines
from pipelines.inert import inert
from pipelines.schemas import schema_of
from pipelines.stages import WHOLE, Stage
from pipelines.visible import one_line
from resources.state.stage_work import StageReport
from resources.state.state import State

Table = dg.TableMetadataValue | dg.TextMetadataValue

_SHOWN_FAILURES = 50
_CHARTED = ("recall@5", "accuracy_page", "mrr", "ndcg@10")


def described(stage: Stage) -> dict[str, Any]:
    """Names and columns of a stage's tables. The first is the one whose rows Dagster counts."""
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
    """Logs what a stage did: to every partition its own counts and data version, to all the whole."""
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
        context, report.stage, lambda bucket: whole if bucket == WHOLE else {**whole, **_own(state, report, bucket)}
    )
    context.log.info("%s: %d computed, %d kept, %d rows", report.stage, report.computed, report.kept, report.total)
    for failure in report.failures:
        context.log.warning(one_line(f"{failure.source}/{failure.uri}: {failure.code}: {failure.message}"))


def _own(state: State, report: StageReport, bucket: int) -> dict[str, int]:
    own = Counter[str]()
    for part in parts_of(state, report.stage, bucket):
        own.update({f"bucket: {name}": count for name, count in report.shards.get(part, {}).items()})
    if "bucket: rows" in own:
        own["dagster/partition_row_count"] = own.pop("bucket: rows")
    return dict(own)


def total_rows(state: State, report: StageReport) -> int:
    """Rows of the whole table, also those of buckets that the step did not run."""
    return sum(row.rows for row in manifests(state, report.stage)[0].values()) or report.total


def changes(report: StageReport) -> dict[str, Any]:
    """What happened to generations that are kept up to date."""
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
    """The golden questions' main scores over time; `scores` as Catalog.scores gives them: generation, at, name,
    metrics, the oldest first."""
    names = [_schema_name(row) for row in scores]
    return dg.MetadataValue.md(lines("scores", names, {name: _series(scores, name) for name in _CHARTED}))


def score_rows(scores: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same as numbers, a row a run; None where a metric was not measured."""
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


def _series(scores: Sequence[Mapping[str, Any]], name: str) -> list[float | None]:
    return [row["metrics"].get(name) for row in scores]


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Rows that have the same names in the same order, as a table of the UI; the word none where there are no rows."""
    if not rows:
        return dg.MetadataValue.text("none")
    return dg.MetadataValue.table([dg.TableRecord({name: _cell(value) for name, value in row.items()}) for row in rows])


def _cell(value: Any) -> str | int | float | bool | None:
    """A value as the UI shows it. Names and messages come from documents: of those the words, on one line."""
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return one_line(" ".join(inert(str(value)).split()))
