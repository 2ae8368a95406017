"""`pincite plan`: what the next run would do and buy."""

from __future__ import annotations

from typing import Any

import click

from pincite.console import Progress, emit, rows, tell
from pincite.placed import Place, placed


@click.command()
@click.option("--source", "sources", multiple=True, metavar="[NAME=]PATH", help="Folder to index; may be repeated.")
@placed
def plan(place: Place, sources: tuple[str, ...]) -> int:
    """Say what `pincite index` would add, change and remove, and what its language model would cost.

    Writes nothing and asks no model. Documents are parsed only where prompts depend on them. Prompt tokens are
    estimated upwards; completion tokens are the most that a reply may have. A reply that cannot be used is asked
    for again, llm.attempts times at most."""
    from resources.planning import plan as planned

    progress = Progress()
    try:
        result = planned(place.located(), sources, progress)
    finally:
        progress.close()
    emit(result) if place.as_json else tell(plan_shown(result))
    return 0


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
    return "\n".join([*lines, *(f"note: {note}" for note in result["notes"])])
