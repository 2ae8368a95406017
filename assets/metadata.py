"""What a person finds beside an asset in the UI: counts, failures, histograms, samples."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from resources.stage_runner import StageReport

_SHOWN_FAILURES = 50


def attach(context: dg.AssetExecutionContext, report: StageReport, **more: Any) -> None:
    """Attaches a stage's report: to every partition its own counts, to the step the whole."""
    for bucket, counts in report.buckets.items():
        if bucket >= 0:
            context.add_asset_metadata(dict(counts), partition_key=f"{bucket:02d}")
    context.add_output_metadata(
        {
            "documents computed": report.computed,
            "documents kept": report.kept,
            "documents gone": report.gone,
            "rows written": report.written,
            "dagster/row_count": report.total,
            "seconds": round(report.seconds, 3),
            "failures": len(report.failures),
            **({"failed documents": failures_table(report)} if report.failures else {}),
            **report.notes,
            **more,
        }
    )
    context.log.info("%s: %d computed, %d kept, %d rows", report.stage, report.computed, report.kept, report.total)
    for failure in report.failures:
        context.log.warning("%s/%s: %s: %s", failure.source, failure.uri, failure.code, failure.message)


def failures_table(report: StageReport) -> dg.MarkdownMetadataValue:
    rows = [
        f"| {failure.source} | {failure.uri} | {failure.code} | {failure.message} |"
        for failure in report.failures[:_SHOWN_FAILURES]
    ]
    return dg.MetadataValue.md("\n".join(["| source | document | code | message |", "|---|---|---|---|", *rows]))


def histogram(values: Sequence[int], width: int) -> dg.MarkdownMetadataValue:
    """A histogram in text, `width` units a bar."""
    bars = Counter(value // width for value in values)
    most = max(bars.values(), default=1)
    lines = []
    for number in sorted(bars):
        bar = "█" * max(1, round(30 * bars[number] / most))
        lines.append(f"{number * width:>6}–{(number + 1) * width - 1:<6} {bar} {bars[number]}")
    return dg.MetadataValue.md("```\n" + "\n".join(lines) + "\n```")


def table(rows: Sequence[Mapping[str, Any]]) -> dg.MarkdownMetadataValue:
    if not rows:
        return dg.MetadataValue.md("none")
    names = list(rows[0])
    lines = ["| " + " | ".join(str(row[name]) for name in names) + " |" for row in rows]
    return dg.MetadataValue.md("\n".join(["| " + " | ".join(names) + " |", "|---" * len(names) + "|", *lines]))
