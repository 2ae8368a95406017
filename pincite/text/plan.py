"""What the next run would do and buy."""

from __future__ import annotations

from typing import Any

from pincite.console import block, rows


def plan_shown(result: dict[str, Any]) -> str:
    documents = result["documents"]
    lines = [
        f"{documents['listed']} documents: {documents['added']} to add, {documents['changed']} changed, "
        f"{documents['unchanged']} unchanged, {documents['removed']} to remove, {len(documents['failed'])} failed"
    ]
    table = [
        (item["stage"], item["model"], item["calls"], item["cached"], item["pending"], item["prompt_tokens"],
         item["completion_tokens"], f"{item['cost']:.4f}")
        for item in result["stages"]
    ]  # fmt: skip
    if table:
        head = ("stage", "model", "calls", "cached", "pending", "prompt tokens", "completion tokens",
                result["currency"])  # fmt: skip
        cost, most = f"{result['cost']:.4f} {result['currency']}", result["most"]
        lines += [
            rows(table, head),
            f"calls: {result['calls']}, {cost} at most where every reply can be used; {most['calls']}, "
            f"{most['cost']:.4f} {result['currency']} if every reply had to be asked for again as often as may be",
        ]
    else:
        lines.append("no call of a language model")
    lines += [f"failed: {item['source']}/{item['uri']}: {item['code']}: {item['message']}"
              for item in documents["failed"]]  # fmt: skip
    return block([*lines, *(f"note: {note}" for note in result["notes"])])
