"""Passages as people read them: ranked, and one whole."""

from __future__ import annotations

from typing import Any

from pincite.console import BY_MODEL, SHORT_ID, block, rows, wrapped
from pincite.text.paragraph import marked, reached
from pipelines.terms import terms_of

MOST_CHARACTERS = 420
"""Of a hit's text that are shown."""


def pin(hit: dict[str, Any]) -> str:
    """A hit's document and page, as one would cite it."""
    first, last = hit["page_start"], hit["page_end"]
    if first is None:
        return str(hit["uri"])
    return f"{hit['uri']}, p. {first}" if first == last else f"{hit['uri']}, pp. {first}–{last}"


def excerpt(text: str, question: str, characters: int = MOST_CHARACTERS) -> str:
    """The text, or the stretch of whole lines from the one that says most of what was asked."""
    if len(text) <= characters or not text.strip():
        return text[:characters]
    wanted = set(terms_of(question))
    lines = [line for line in text.splitlines() if line.strip()]
    best = max(range(len(lines)), key=lambda at: (len(wanted & set(terms_of(lines[at]))), -at))
    kept = "\n".join(lines[best:])
    shown = kept if len(kept) <= characters else kept[: characters - 1].rsplit(" ", 1)[0] + " …"
    return f"… {shown}" if best else shown


def hits_shown(result: dict[str, Any], explain: bool) -> str:
    lines = [*_way(result), ""] if explain else []
    for hit in result["hits"]:
        lines.append(
            f"{hit['rank']}. {pin(hit)}  [{hit['source']}]  {hit['score']:.4f}  chunk {hit['chunk_id'][:SHORT_ID]}"
        )
        if hit["header_chain"]:
            lines.append("   " + " › ".join(hit["header_chain"]))
        if "text" in hit.get("generated", ()):
            lines.append(f"   {BY_MODEL}:")
        paragraph = hit.get("paragraph")
        if paragraph:
            lines += wrapped(hit["overlap"]) if paragraph["id"] != hit["chunk_id"] else []
            lines += wrapped(marked(hit["text"], paragraph["anchors"], MOST_CHARACTERS))
            lines += [f"   {line}" for line in reached(paragraph)]
        else:
            lines += wrapped(excerpt(hit["text"], result["query"]))
        if explain:
            lines += [f"   {line}" for line in stages_shown(hit)]
            lines += [f"   box: {box_shown(box)}" for box in hit["boxes"]]
        lines.append("")
    if not result["hits"]:
        lines.append("no passage found")
    if not explain:
        lines += [f"note: {note}" for note in result.get("notes", ())]
    return block([*lines, f"generation {result['generation']}, {result['seconds']:.3f} s"])


def _way(result: dict[str, Any]) -> list[str]:
    """How a query was answered: strategy, rerankers, what was searched for in place of the question."""
    lines = [f"strategy {result['strategy']}, rerank {', '.join(result['rerank']) or 'none'}"]
    for name, text in result["searched"].items():
        lines.append(f"{name} searched for, {BY_MODEL.lower()}: {' '.join(text.split())}")
    return [*lines, *(f"note: {note}" for note in result["notes"])]


def stages_shown(hit: dict[str, Any]) -> list[str]:
    """A table of every stage that scored a hit, in order, with its place in that stage; factors below theirs."""
    ranks = hit.get("ranks", {})
    table = [(name, _number(value), ranks.get(name, "")) for name, value in hit["scores"].items() if value is not None]
    return rows(table, ("stage", "score", "place")).splitlines()


def box_shown(box: dict[str, Any]) -> str:
    return f"page {box['page']}, {box['x0']:.0f} {box['y0']:.0f} {box['x1']:.0f} {box['y1']:.0f}"


def passage_shown(result: dict[str, Any]) -> str:
    """One passage whole: where it stands, its own text, and what was laid around it; a sentence that was asked for
    is marked in its paragraph."""
    types, sentence = ", ".join(result["block_types"]), result.get("sentence")
    lines = [
        f"{pin(result)}  [{result['source']}]  {result['title']}",
        f"chunk {result['chunk_id']}, {types}, generation {result['generation']}",
    ]
    if sentence:
        page = f", page {sentence['page']}" if sentence["page"] else ""
        lines.append(f"sentence {sentence['sentence_id']}, {sentence['source']}{page}")
        result = {**result, "text": _marked(result["text"], sentence), "boxes": sentence["boxes"]}
    if result["header_chain"]:
        lines.append(" › ".join(result["header_chain"]))
    above = "above it" if sentence else "overlap, from the passage before"
    for name, title in (("overlap", above), ("text", "text"), ("context", "context")):
        if result[name]:
            written = f", {BY_MODEL.lower()}" if name in result.get("generated", ()) else ""
            lines += [f"{title}{written}:", *wrapped(result[name])]
    lines.extend(f"box: {box_shown(box)}" for box in result["boxes"])
    lines.extend(f"image: {image}" for image in result["images"])
    return block(lines)


def _marked(text: str, sentence: dict[str, Any]) -> str:
    """The paragraph with the sentence between >> and <<."""
    start, end = sentence["start"], sentence["start"] + len(sentence["text"])
    return f"{text[:start]}>>{text[start:end]}<<{text[end:]}"


def _number(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
