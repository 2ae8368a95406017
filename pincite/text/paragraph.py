"""A paragraph that the sentence route found, as people read it: its anchors set off, and how it was reached."""

from __future__ import annotations

from typing import Any

from pincite.console import SHORT_ID

OPENING, CLOSING = ">>", "<<"
_STEPS = {"next": "after the anchor", "previous": "before the anchor", "related": "related to the anchor"}


def marked(text: str, anchors: list[dict[str, Any]], characters: int) -> str:
    """The paragraph with each anchor between >> and <<; of a long one the stretch from the first anchor on."""
    found = sorted((text.find(anchor["text"]), len(anchor["text"])) for anchor in anchors)
    shown, at = "", 0
    first = found[0][0] if found and len(text) > characters else 0
    if first > 0:
        shown, at = "… ", first
    for start, length in found:
        if start >= at:
            shown += f"{text[at:start]}{OPENING}{text[start : start + length]}{CLOSING}"
            at = start + length
    shown += text[at:]
    return shown if len(shown) <= characters else shown[: max(characters - 1, shown.rfind(CLOSING) + 2)] + " …"


def reached(paragraph: dict[str, Any]) -> list[str]:
    """A line for each anchor with its page, or one that says by which edge an anchor elsewhere led here."""
    if paragraph["anchors"]:
        return [_anchor(anchor) for anchor in paragraph["anchors"]]
    alike = "" if paragraph["similarity"] is None else f", {paragraph['similarity']:.2f} alike"
    return [f"{_STEPS[paragraph['edge']]} {paragraph['via'][:SHORT_ID]}{alike}"]


def _anchor(anchor: dict[str, Any]) -> str:
    page = "" if anchor["page"] is None else f", p. {anchor['page']}"
    return f"anchor {anchor['sentence_id'][:SHORT_ID]}{page}, {anchor['source']}, {anchor['score']:.2f}"
