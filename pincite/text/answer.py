"""An answer with the places that bear it out."""

from __future__ import annotations

from typing import Any

from pincite.console import BY_MODEL, SHORT_ID, block, wrapped
from pincite.text.passages import pin

ORDERS = "Gives orders to a language model, so it is quoted and no evidence"


def answer_shown(result: dict[str, Any]) -> str:
    """The answer, who wrote it, and below it the quoted places."""
    if result["declined"]:
        lines = ["The documents do not answer this."]
    else:
        written = [f"{BY_MODEL} ({result['model']}), checked against the passages:"] if result["generated"] else []
        lines = [*written, *wrapped(result["answer"], "")]
    for number, item in enumerate(result["citations"], start=1):
        place = pin({"uri": item["uri"], "page_start": item["page"], "page_end": item["page"]})
        lines += ["", f"{number}. {place}  [{item['source']}]  chunk {item['chunk_id'][:SHORT_ID]}"]
        lines += [f"   {BY_MODEL}:"] if item["generated"] else []
        lines += wrapped(item["quote"])
    for item in result.get("marked", ()):
        place = pin({"uri": item["uri"], "page_start": item["page"], "page_end": item["page"]})
        lines += ["", f"{ORDERS}: {place}  [{item['source']}]", *wrapped(f"“{item['quote']}”")]
    if result["declined"] and result["hits"]:
        lines += ["", "Nearest passages:", *(f"   {pin(hit)}  [{hit['source']}]" for hit in result["hits"][:3])]
    lines += ["", *(f"note: {note}" for note in result["notes"])]
    return block([*lines, f"generation {result['generation']}, {result['seconds']:.3f} s"])
