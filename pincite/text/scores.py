"""Scores of golden questions: of one run, and of a matrix."""

from __future__ import annotations

from typing import Any

from pincite.console import Block, block, rows


def scores_shown(result: dict[str, Any]) -> str:
    parts = []
    for run in result["runs"]:
        table = []
        for name, value in run["metrics"].items():
            bounds = run["ci95"].get(name)
            shown = "–" if value is None else f"{100 * value:.1f} %"
            table.append((name, shown, f"{100 * bounds[0]:.1f}–{100 * bounds[1]:.1f}" if bounds else ""))
        rerank = ", ".join(run["rerank"]) or "none"
        parts.append(f"{run['name']}: {run['n']} questions, {run['strategy']}, rerank {rerank}")
        parts.append(rows(table, ("metric", "score", "95 %")))
        for gold in run["unmapped_gold"]:
            parts.append(f"gold not mapped: {gold['id']}: {gold['uri']}: {gold['problem']}")
        why = ", ".join(f"{kind} {count}" for kind, count in run["diagnosis"].items())
        parts.append(f"diagnosis: {why}; {run['seconds_per_query']:.3f} s a question")
    return block(parts)


def matrix_shown(result: dict[str, Any]) -> str:
    lines = [Block(result["tables"]), ""]
    lines += [f"failed: {item['name']}: {item['code']}: {item['message']}" for item in result["failed"]]
    unmapped = max((run["unmapped"] for run in result["runs"]), default=0)
    lines += [f"gold that could not be mapped: {unmapped}, all in --json"] if unmapped else []
    lines += [f"{result['resumed']} of {len(result['runs'])} runs were finished before"] if result["resumed"] else []
    return block([*lines, *(f"written: {file}" for file in result["files"])])
