"""A state and its generations: counts, costs, failures, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pincite.console import block, first_of, rows
from resources.state.launched import ranges
from resources.workers.sandbox import shown as sandbox_shown


def status_shown(result: dict[str, Any]) -> str:
    parts = [f"state {result['state']}", ""]
    parts.append(
        rows(
            [(item["name"], item["root"], item["documents"]) for item in result["sources"]],
            ("source", "folder or address", "documents"),
        )
    )
    parts.append("")
    parts.append(
        rows(
            [
                (item["generation"], "live" if item["live"] else "", item["embedder"], item["documents"],
                 item["chunks"], item["sentences"], _links(item))
                for item in result["generations"]
            ],
            ("generation", "", "embedder", "documents", "chunks", "sentences", "links"),
        )
    )  # fmt: skip
    parts += overlap_shown(result["generations"])
    parts += _sentences_shown(result["sentences"])
    for stage, counts in result["enrichment"].items():
        parts.append(f"{stage}: " + ", ".join(f"{count} {method}" for method, count in counts.items()))
    parts += [_cost_shown(cost) for cost in result["costs"]]
    parts += [_worker_shown(worker) for worker in result["workers"]]
    for item in result["failures"]:
        parts.append(f"failed: {item['source']}/{item['uri']}: {item['stage']}: {item['code']}: {item['message']}")
    return block([*parts, sandbox_shown(result["sandbox"]), *first_of("warning", result["warnings"])])


def overlap_shown(generations: Sequence[dict[str, Any]]) -> list[str]:
    """The frozen overlap floors of generations, as one table."""
    table = [
        (generation["generation"], row["language"], f"{row['floor']:.3f}", row["calibrated"], row["pairs"],
         f"{100 * row['share']:.0f} %", row["random_pairs"], f"{100 * row['random_share']:.0f} %")
        for generation in generations
        for row in generation["overlap"]
    ]  # fmt: skip
    head = ("generation", "language", "overlap floor", "by", "neighbours", "reach it", "random pairs", "reach it")
    return ["", rows(table, head), ""] if table else []


def _links(generation: dict[str, Any]) -> str:
    floor = generation["related_floor"]
    return f"{generation['sentence_links']}" + (f" over {floor:.2f}" if floor is not None else "")


def _sentences_shown(counts: dict[str, Any]) -> list[str]:
    if not counts:
        return []
    return [
        f"sentences: {counts['kept']} kept{_listed(counts['sources'])}, {counts['repeats']} of them repeat another's "
        f"text; {sum(counts['filtered'].values())} left out{_listed(counts['filtered'])}"
    ]


def _listed(counts: dict[str, int]) -> str:
    return f" ({', '.join(f'{count} {name}' for name, count in counts.items())})" if counts else ""


def _cost_shown(cost: dict[str, Any]) -> str:
    made = f"{cost['stage']} of generation {cost['generation']}" if cost["generation"] else str(cost["stage"])
    if "calls" not in cost:
        return f"{made}: {cost['items']} texts, {cost['tokens']} tokens, {cost['seconds']:.1f} s"
    return (
        f"{made}: {cost['calls']} calls of {cost['model']}, {cost['prompt_tokens']} prompt and "
        f"{cost['completion_tokens']} completion tokens, {cost['cost']:.4f} {cost['currency']}"
    )


def _worker_shown(worker: dict[str, Any]) -> str:
    buckets = ranges(worker["buckets"])
    far = f"{worker['stage']}, {worker['done']} of {worker['total']}" if worker["total"] else worker["stage"]
    made = [far or "beginning", *([f"buckets {buckets}"] if buckets else [])]
    where = f"on {worker['host']}, process {worker['process']}, since {worker['since']}"
    return f"run {worker['run'][:8]} {where}: {'; '.join(made)}"


def generations_shown(found: list[dict[str, Any]]) -> str:
    """A table, and below it why those that are not live are not."""
    table = [
        (item["generation"], _state(item), item["embedder"], item["dimension"], item["documents"], item["chunks"],
         f"{item['megabytes']:.1f}", (item["published_at"] or item["created_at"])[:16],
         ", ".join(f"{name} {value:.3f}" for name, value in item["scores"].items()) or "–")
        for item in found
    ]  # fmt: skip
    head = ("generation", "", "embedder", "dimensions", "documents", "chunks", "MB", "since", "golden questions")
    told = [note for item in found for note in item["notes"]]
    return block([rows(table, head), *told]) if table else "there is no generation yet; run `pincite index`"


def _state(item: dict[str, Any]) -> str:
    if item["live"]:
        return "live, held" if item["held"] else "live"
    if not item["complete"]:
        return "being made"
    return "was live" if item["published_at"] else "not published"


def verified_shown(result: dict[str, Any]) -> str:
    lines = [f"{item['code']}: {item['message']}" for item in result["problems"]]
    lines += [f"note: {note}" for note in result.get("notes", ())]
    return block([*lines, "all is as it should be" if result["ok"] else f"{len(result['problems'])} problems"])
