"""A run of `pincite index`, in lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pincite.console import block, first_of


def index_summary(result: dict[str, Any]) -> str:
    documents, chunks, embedded = result["documents"], result["chunks"], result["embedded"]
    lines = [
        f"{documents['listed']} documents: {documents['added']} added, {documents['changed']} changed, "
        f"{documents['unchanged']} unchanged, {documents['removed']} removed, {len(documents['failed'])} failed",
        f"{chunks['total']} chunks: {chunks['written']} written, {chunks['deleted']} deleted; "
        f"embedded {embedded['chunks']} chunk and {embedded['sentences']} sentence texts",
        f"{_standing(result)}; {result['seconds']['total']:.1f} s",
    ]
    llm = result["llm"]
    if llm["calls"] or llm["cached"] or llm["pending"]:
        lines.append(
            f"language model: {llm['calls']} calls, {llm['cached']} cached, {llm['pending']} in batches, "
            f"{llm['prompt_tokens']} prompt and {llm['completion_tokens']} completion tokens, {llm['cost']:.4f}"
            f" {llm['currency']}"
        )
    lines += [f"not listed, so it is as it was: {told}" for told in result["failing_sources"].values()]
    for item in documents["failed"]:
        lines.append(f"failed: {item['source']}/{item['uri']}: {item['stage']}: {item['code']}: {item['message']}")
    skipped = [{**item, "message": f"{item['code']}: {item['message']}"} for item in documents["skipped"]]
    lines += first_of("skipped", skipped)
    lines += first_of("warning", documents["warnings"])
    lines.extend(f"note: {note}" for note in result["notes"])
    return block(lines)


def _standing(result: dict[str, Any]) -> str:
    if result["generation"] is None:
        return "no generation yet"
    named = f"generation {result['generation']} ({result['embedder']})"
    if result["published"]:
        return f"{named} is live"
    return (
        f"{named} is as it was; the new one waits"
        if result["llm"]["pending"]
        else f"{named} is built but not published"
    )


def seconds_shown(seconds: Mapping[str, float], least: float = 0.05) -> str:
    """Where the time of a run went, the most first. The rest is imports, the starts of Postgres and Dagster, and golden
    questions."""
    stages = {name: took for name, took in seconds.items() if name != "total" and took >= least}
    stages["the rest"] = max(0.0, seconds["total"] - sum(stages.values()))
    told = sorted(stages.items(), key=lambda item: -item[1])
    return "seconds: " + ", ".join(f"{name} {took:.1f}" for name, took in told)
