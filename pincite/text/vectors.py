"""Texts that were exported, and vectors that were imported, in lines."""

from __future__ import annotations

from typing import Any

from pincite.console import MOST_LINES, block


def exported(result: dict[str, Any]) -> str:
    about, size = result["embedder"], result["bytes"] / 1e6
    if not result["texts"]:
        return block(["every text has its vector; nothing was written"])
    window = f", at most {about['window']} tokens at once" if about["window"] else ""
    lines = [
        f"{result['texts']:,} texts in {result['parts']:,} files under {result['folder']}, {size:.1f} MB",
        f"to be embedded by {about['model']}, {about['dimension']} dimensions{window}, as they are: "
        + (f"{about['prompt']!r} stands before each" if about["prompt"] else "no prompt is needed"),
    ]
    if result["windowed"]:
        lines.append(f"{result['windowed']:,} are longer than that, and have a row for each of their windows")
    for item in result["documents"]["failed"][:MOST_LINES]:
        lines.append(f"failed: {item['source']}/{item['uri']}: {item['stage']}: {item['code']}: {item['message']}")
    lines += [f"not listed, so it is as it was: {told}" for told in result["failing_sources"].values()]
    return block([*lines, "then: pincite import-vectors FOLDER"])


def imported(result: dict[str, Any]) -> str:
    taken = "would be taken" if result["checked_only"] else "taken"
    lines = [
        f"{result['files']:,} files, {result['rows']:,} rows: {result['taken']:,} vectors {taken}, "
        f"{result['known']:,} rows known already, {result['unasked']:,} of texts that are not asked for (embedded "
        "already, changed since, or of other settings)",
    ]
    if result["sampled"]:
        lines.append(f"{result['sampled']:,} texts were embedded again and agree")
    if result["incomplete"]:
        lines.append(f"of {result['incomplete']:,} texts windows are missing: import their files together")
    refused = result["refused"]
    lines += [f"refused: {item['code']}: {item['message']}" for item in refused[:MOST_LINES]]
    if len(refused) > MOST_LINES:
        reasons = ", ".join(f"{code} {count:,}" for code, count in result["reasons"].items())
        lines.append(f"refused: {len(refused) - MOST_LINES:,} more, all in --json; in all {reasons}")
    missing = result["missing"]
    lines.append(
        f"{missing:,} texts have no vector yet, which `pincite index` would embed"
        if missing
        else "every text has its vector: `pincite index` embeds nothing"
    )
    return block(lines)
