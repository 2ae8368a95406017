"""Passages as text: ranked hits, one whole passage, an answer with its citations, and the history of a passage.

Each function takes the JSON of a command. `pincite query` imports this module at its start, so keep its imports light.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from pincite.console import BY_MODEL, SHORT_ID, PrintableLines, block, rows, wrap
from pipelines.escaped_text import one_line
from pipelines.plural import plural

# ---------------------------------------------------------------- paragraph


OPENING, CLOSING = ">>", "<<"
_STEPS = {"next": "after the anchor", "previous": "before the anchor", "related": "related to the anchor"}


def mark_anchors(text: str, anchors: list[dict[str, Any]], characters: int) -> str:
    """Return the paragraph with each anchor between >> and <<; if it is long, only the part from the first anchor
    on."""
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


def anchor_lines(paragraph: dict[str, Any]) -> list[str]:
    """Return a line for each anchor with its page, or one line with the edge from an anchor elsewhere."""
    if paragraph["anchors"]:
        return [_anchor(anchor) for anchor in paragraph["anchors"]]
    alike = "" if paragraph["similarity"] is None else f", {paragraph['similarity']:.2f} alike"
    return [f"{_STEPS[paragraph['edge']]} {paragraph['via'][:SHORT_ID]}{alike}"]


def _anchor(anchor: dict[str, Any]) -> str:
    page = "" if anchor["page"] is None else f", p. {anchor['page']}"
    return f"anchor {anchor['sentence_id'][:SHORT_ID]}{page}, {anchor['source']}, {anchor['score']:.2f}"


# ---------------------------------------------------------------- passages


MOST_CHARACTERS = 420
"""Most characters shown of a paragraph with its anchors."""
MOST_LINES, LINE = 5, 93
"""Lines shown of a hit's text, and characters of a line: more than on the web page, since a terminal has no reader."""


def pin(hit: dict[str, Any]) -> str:
    """Return a hit's document and page in the form of a citation."""
    first, last = hit["page_start"], hit["page_end"]
    if first is None:
        return str(hit["uri"])
    return f"{hit['uri']}, p. {first}" if first == last else f"{hit['uri']}, pp. {first}–{last}"


def shown_text(hit: dict[str, Any], question: str, lines: int = MOST_LINES) -> str:
    """Return the lines of a hit's text with most of the question's words, without the headings shown above it."""
    from pipelines.query.excerpts import asked_terms, excerpt

    return excerpt(hit["text"], asked_terms(question), hit["header_chain"], lines=lines, width=LINE)


def hits_shown(result: dict[str, Any], explain: bool) -> str:
    lines = [*_way(result), ""] if explain else []
    for hit in result["hits"]:
        lines.append(f"{hit['rank']}. {pin(hit)}  [{hit['source']}]  chunk {hit['chunk_id'][:SHORT_ID]}")
        if hit["header_chain"]:
            lines.append("   " + " › ".join(hit["header_chain"]))
        if "text" in hit.get("generated", ()):
            lines.append(f"   {BY_MODEL}:")
        paragraph = hit.get("paragraph")
        if paragraph:
            lines += wrap(hit["overlap"]) if paragraph["id"] != hit["chunk_id"] else []
            lines += wrap(mark_anchors(hit["text"], paragraph["anchors"], MOST_CHARACTERS))
            lines += [f"   {line}" for line in anchor_lines(paragraph)]
        else:
            lines += wrap(shown_text(hit, result["query"]))
        if explain:
            lines += [f"   {line}" for line in stages_shown(hit)]
            lines += [f"   box: {box_shown(box)}" for box in hit["boxes"]]
        lines.append("")
    if not explain:
        lines += [f"note: {note}" for note in result.get("notes", ())]
    return block([*lines, f"{_counts(result['hits'])}, {result['seconds']:.3f} s"])


def _counts(hits: list[dict[str, Any]]) -> str:
    """Return the number of found passages and of their documents."""
    if not hits:
        return "no passage found"
    documents = len({hit["doc_id"] for hit in hits})
    return f"{plural(len(hits), 'passage')} in {plural(documents, 'document')}"


def _way(result: dict[str, Any]) -> list[str]:
    """Return how a query was answered: strategy, rerankers, and the texts that were searched instead of the
    question."""
    rerank = ", ".join(result["rerank"]) or "none"
    lines = [f"strategy {result['strategy']}, rerank {rerank}, generation {result['generation']}"]
    for name, text in result["searched"].items():
        lines.append(f"{name} searched for, {BY_MODEL.lower()}: {' '.join(text.split())}")
    lines += [f"also searched for {each['text']!r}, for {each['asked']!r}: {each['why']}" for each in result["added"]]
    return [*lines, *(f"note: {note}" for note in result["notes"])]


def stages_shown(hit: dict[str, Any]) -> list[str]:
    """Return a table of every stage that scored a hit, in order, with the hit's rank in that stage, and the factors
    below it."""
    ranks = hit.get("ranks", {})
    table = [(name, _number(value), ranks.get(name, "")) for name, value in hit["scores"].items() if value is not None]
    return rows(table, ("stage", "score", "place")).splitlines()


def box_shown(box: dict[str, Any]) -> str:
    return f"page {box['page']}, {box['x0']:.0f} {box['y0']:.0f} {box['x1']:.0f} {box['y1']:.0f}"


def passage_shown(result: dict[str, Any]) -> str:
    """Return one whole passage: its place, its own text, and the generated text around it. A requested sentence is
    marked in its paragraph."""
    types, sentence = ", ".join(result["block_types"]), result.get("sentence")
    lines = [
        f"{pin(result)}  [{result['source']}]  {result['title']}",
        f"chunk {result['chunk_id']}, {types}, generation {result['generation']}",
    ]
    if sentence:
        page = f", page {sentence['page']}" if sentence["page"] else ""
        lines.append(f"sentence {sentence['sentence_id']}, {sentence['source']}{page}")
        result = {**result, "text": _mark_sentence(result["text"], sentence), "boxes": sentence["boxes"]}
    if result["header_chain"]:
        lines.append(" › ".join(result["header_chain"]))
    above = "above it" if sentence else "overlap, from the passage before"
    for name, title in (("overlap", above), ("text", "text"), ("context", "context")):
        if result[name]:
            written = f", {BY_MODEL.lower()}" if name in result.get("generated", ()) else ""
            lines += [f"{title}{written}:", *wrap(result[name])]
    lines.extend(f"box: {box_shown(box)}" for box in result["boxes"])
    lines.extend(f"image: {image}" for image in result["images"])
    return block(lines)


def _mark_sentence(text: str, sentence: dict[str, Any]) -> str:
    """Return the paragraph with the sentence between >> and <<."""
    start, end = sentence["start"], sentence["start"] + len(sentence["text"])
    return f"{text[:start]}>>{text[start:end]}<<{text[end:]}"


def _number(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


# ---------------------------------------------------------------- answer


ORDERS = "Gives orders to a language model, so it is quoted and no evidence"


def answer_shown(result: dict[str, Any]) -> str:
    """Return the answer, its author, and the quoted places."""
    if result["declined"]:
        lines = ["The documents do not answer this."]
    else:
        written = [f"{BY_MODEL} ({result['model']}), checked against the passages:"] if result["generated"] else []
        lines = [*written, *wrap(result["answer"], "")]
    for number, item in enumerate(result["citations"], start=1):
        place = pin({"uri": item["uri"], "page_start": item["page"], "page_end": item["page"]})
        lines += ["", f"{number}. {place}  [{item['source']}]  chunk {item['chunk_id'][:SHORT_ID]}"]
        lines += [f"   {BY_MODEL}:"] if item["generated"] else []
        lines += wrap(item["quote"])
    for item in result.get("marked", ()):
        place = pin({"uri": item["uri"], "page_start": item["page"], "page_end": item["page"]})
        lines += ["", f"{ORDERS}: {place}  [{item['source']}]", *wrap(f"“{item['quote']}”")]
    if result["declined"] and result["hits"]:
        lines += ["", "Nearest passages:", *(f"   {pin(hit)}  [{hit['source']}]" for hit in result["hits"][:3])]
    lines += ["", *(f"note: {note}" for note in result["notes"])]
    return block([*lines, f"{result['seconds']:.3f} s"])


# ---------------------------------------------------------------- explanation


WIDTH = 96
UNKNOWN = "not recorded"
_HASH = re.compile(r"[0-9a-f]{16,}")
_FILE = {
    "current": "as it was last listed",
    "changed": "changed since it was last listed",
    "missing": "missing",
    "unreadable": "cannot be read now",
}

Lines = list[tuple[str, Any]]
"""Names and values, one pair for each line."""


def explanation_shown(result: dict[str, Any]) -> str:
    """Return the chain from document to vector. Hashes are shortened here; --json has them in full."""
    generation = result["generation"]
    document = result["document"]
    parts = [
        f"{pin({**result, 'uri': document['uri']})}  [{document['source']}]  {document['title']}",
        f"chunk {result['chunk_id']}, generation {generation['generation']}{' (live)' if generation['live'] else ''}",
        _block("document", _document(document)),
        _block("generation", _generation(generation)),
        *(_stage(stage) for stage in result["stages"]),
        *(f"problem: {item['code']}: {item['message']}" for item in result["problems"]),
    ]
    return block([*parts, *([] if result["problems"] else ["", "all agree, from the document to the vector"])])


def _block(title: str, lines: Lines) -> PrintableLines:
    """Return a heading and its lines, values aligned and wrapped. Only PrintableLines may have several."""
    width = max(len(name) for name, _ in lines) + 4
    shown = ["", title]
    for name, value in lines:
        head = f"  {name}".ljust(width)
        for line in value.splitlines() if value and isinstance(value, PrintableLines) else [one_line(_short(value))]:
            shown += textwrap.wrap(
                line, WIDTH, initial_indent=head, subsequent_indent=" " * width, break_long_words=False,
                break_on_hyphens=False,
            ) or [head.rstrip()]  # fmt: skip
            head = " " * width
    return block(shown)


def _short(value: Any) -> str:
    """Return a value as one text: a hash by its first characters, lists with commas, an empty value as a dash."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_short(item)}" for name, item in value.items()) or "–"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_short, value)) or "–"
    if value is None or value == "":
        return "–"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text[:SHORT_ID] if _HASH.fullmatch(text) else text


def _document(document: dict[str, Any]) -> Lines:
    size = "" if document["size"] is None else f", {document['size']:,} bytes"
    lines: Lines = [
        ("file", f"{document['path'] or document['uri']} ({_FILE[document['file']]})"),
        ("content", f"{_short(document['content_hash'])}{size}, {_short(document['media_type'])}"),
        *((name, document[name]) for name in ("pages", "language")),
        ("effective date", document["effective_date"]),
        ("version", document["version"]),
        ("groups", "everyone" if document["groups"] == document["principals"] == [] else document["groups"]),
        ("document id", f"{_short(document['doc_id'])}, bucket {document['bucket']:02d}"),
    ]
    if document["principals"]:
        lines.insert(-1, ("principals", document["principals"]))
    if document["stale"]:
        lines.append(("stale", "served in its last good version"))
    lines += [("failed", f"{item['stage']}: {item['code']}: {item['message']}") for item in document["failures"]]
    return lines


def _generation(generation: dict[str, Any]) -> Lines:
    statistics = generation["statistics"]
    return [
        ("key", generation["key"]),
        ("embedder", f"{generation['embedder']}, {generation['dimension']} dimensions"),
        ("made", generation["created_at"]),
        ("published", generation["published_at"] or "never"),
        ("frozen from", f"{_short(statistics['chunks'])} chunks, {_short(statistics['average_terms'])} terms each"),
        ("languages", statistics["languages"]),
    ]


# ---------------------------------------------------------------- stages


def _stage(stage: dict[str, Any]) -> PrintableLines:
    lines: Lines = [("key", stage["key"]), ("  version", stage["version"])]
    lines += [(f"  {name}", value) for name, value in stage["settings"].items()]
    lines += [(f"  after {name}", key) for name, key in stage["keys_before"].items()]
    lines += [(f"from {item['table']}", _input(item)) for item in stage["inputs"]]
    if not any(item["used"] for item in stage["inputs"]):
        lines.append(("fingerprint", stage["fingerprint"]))
    if stage["failed_fingerprint"]:
        tables = [item["table"] for item in stage["inputs"]]
        failed = _short(dict(zip(tables, stage["failed_fingerprint"].split("."), strict=False)))
        lines.append(("failed with", f"{failed}; what follows is of the last good version"))
    if stage["stands_in"]:
        lines.append(("failed", "what follows stands in for what could not be had"))
    for table in stage["tables"]:
        lines.append((f"to {table['table']}", table["output"]))
        lines += [("  file", table["file"])] if table["file"] else []
    lines += [
        ("made", stage["at"] or UNKNOWN),
        ("by run", stage["run"] or UNKNOWN),
        ("why", stage["reason"] or UNKNOWN),
        ("bucket committed", stage["committed_at"] or UNKNOWN),
        ("cost", _cost(stage)),
    ]
    for mark, about in _ABOUT.items():
        lines += about(stage) if mark in stage else []
    return block([_block(stage["stage"], lines), *(_elements(stage["elements"]) if stage.get("elements") else ())])


def _input(item: dict[str, Any]) -> str:
    used, now = item["used"], item["now"] or ""
    if used is None or (used and now.startswith(used)):
        return _short(now)
    return f"{_short(used)} then, {_short(now)} now"


def _cost(stage: dict[str, Any]) -> str:
    cost = stage["cost"]
    if cost is None:
        known = ": the vectors were there before" if "embedded_text" in stage else ""
        return f"no model call in that run{known}" if stage["run"] else UNKNOWN
    if "calls" in cost:
        spent = f"{plural(cost['calls'], 'call')}, {plural(cost['tokens'], 'token')}"
        return f"{spent}, {cost['cost']:.4f} {cost['currency']} in that run"
    return (
        f"{plural(cost['items'], 'text')}, {plural(cost['tokens'], 'token')}, {cost['seconds']:.1f} s in "
        f"that run ({plural(cost['standing'], 'chunk')} of it here now); this one about "
        f"{plural(cost['share_tokens'], 'token')} ({100 * cost['share']:.1f} %)"
    )


def _elements(elements: list[dict[str, Any]]) -> list[str]:
    table = [
        (item["kind"], _pages(item["page_start"], item["page_end"]), len(item["boxes"]), item["words"])
        for item in elements
    ]
    return [f"  {line}" for line in rows(table, ("element", "page", "boxes", "begins")).split("\n")]


def _pages(first: int | None, last: int | None) -> str:
    return "–" if first is None else str(first) if first == last else f"{first}–{last}"


def _units(stage: dict[str, Any]) -> Lines:
    return [("units", f"{stage['units']}: {_short(stage['block_types'])}")]


def _packed_lines(stage: dict[str, Any]) -> Lines:
    return [
        ("tokens", stage["tokens"]),
        ("headings", " › ".join(stage["header_chain"])),
        ("section", stage["section_id"]),
        ("body", ", ".join(f"{start}–{end}" for start, end in stage["spans"])),
    ]


def _overlap(stage: dict[str, Any]) -> Lines:
    if not stage["overlap_tokens"]:
        shown = "none" if stage["chunk_before"] else "none, the first of its document"
    else:
        shown = f"{plural(stage['overlap_tokens'], 'token')} of chunk {_short(stage['chunk_before'])}"
    floor = "no cosine decides" if stage["floor"] is None else f"{stage['floor']:.3f} for {stage['language']}"
    return [("overlap", shown), ("cosine floor", floor)]


def _sentences(stage: dict[str, Any]) -> Lines:
    links = [
        f"{_short(link['source_id'])} to {_short(link['target_id'])} of chunk {_short(link['chunk_id'])}, "
        f"cosine {link['similarity']:.3f}"
        for link in stage["links"]
    ]
    return [("sentences", stage["sentences"]), ("related to", block(links))]


def _figures(stage: dict[str, Any]) -> Lines:
    return [line for figure in stage["figures"] for line in (("figure", figure["element"]), *_text(figure))]


def _text(stage: dict[str, Any]) -> Lines:
    method = " of ".join(filter(None, (stage["method"], stage["model"])))
    return [("method", method), ("note", stage["note"]), ("text", PrintableLines(stage["text"] or ""))]


def _vector(stage: dict[str, Any]) -> Lines:
    embedder, prefix = stage["embedder"], stage["embedder"]["passage_prefix"]
    lines: Lines = [
        ("embedder", f"{embedder['kind']} {embedder['name']}, {_short(embedder['identity'])}"),
        ("prefix", repr(prefix) if prefix else None),
        ("embedded text", PrintableLines(stage["embedded_text"] or "")),
        ("hash of it", stage["text_hash"]),
        ("recorded", stage["recorded_text_hash"]),
    ]
    if "dimension" in stage:
        lines += [
            ("vector", f"{stage['dimension']} dimensions, length {stage['norm']:.4f}"),
            ("begins", " ".join(f"{value:.4f}" for value in stage["first_values"])),
            ("in Postgres", "the same" if stage["same_in_postgres"] else "ANOTHER"),
        ]
    return lines


def _row(stage: dict[str, Any]) -> Lines:
    return [("chunk number", stage["number"]), ("terms", stage["terms"])]


_ABOUT: Mapping[str, Callable[[dict[str, Any]], Lines]] = {
    "figures": _figures,
    "units": _units,
    "header_chain": _packed_lines,
    "overlap_tokens": _overlap,
    "sentences": _sentences,
    "method": _text,
    "embedded_text": _vector,
    "number": _row,
}
"""Functions for lines that only some stages have, by the key of the stage's JSON that they read."""
