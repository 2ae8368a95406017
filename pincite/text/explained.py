"""An explanation as people read it: the chain of one chunk, a block of aligned lines for each stage."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from pincite.console import SHORT_ID, Block, block, rows
from pincite.text.passages import pin
from pipelines.visible import one_line

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
"""Names and values, one line each."""


def explanation_shown(result: dict[str, Any]) -> str:
    """The chain from document to vector; hashes are cut short, and whole in --json."""
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


def _block(title: str, lines: Lines) -> Block:
    """A heading and its lines, values aligned and wrapped. Only a text, which is a block, goes on below itself."""
    width = max(len(name) for name, _ in lines) + 4
    shown = ["", title]
    for name, value in lines:
        head = f"  {name}".ljust(width)
        for line in value.splitlines() if value and isinstance(value, Block) else [one_line(_short(value))]:
            shown += textwrap.wrap(
                line, WIDTH, initial_indent=head, subsequent_indent=" " * width, break_long_words=False,
                break_on_hyphens=False,
            ) or [head.rstrip()]  # fmt: skip
            head = " " * width
    return block(shown)


def _short(value: Any) -> str:
    """A value as one text: a hash by its beginning, lists by commas, nothing as a dash."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_short(item)}" for name, item in value.items()) or "–"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_short, value)) or "–"
    if value is None or value == "":
        return "–"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text[:SHORT_ID] if _HASH.fullmatch(text) else text


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


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


def _stage(stage: dict[str, Any]) -> Block:
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
        spent = f"{_counted(cost['calls'], 'call')}, {_counted(cost['tokens'], 'token')}"
        return f"{spent}, {cost['cost']:.4f} {cost['currency']} in that run"
    return (
        f"{_counted(cost['items'], 'text')}, {_counted(cost['tokens'], 'token')}, {cost['seconds']:.1f} s in that run "
        f"({_counted(cost['standing'], 'chunk')} of it here now); this one about "
        f"{_counted(cost['share_tokens'], 'token')} ({100 * cost['share']:.1f} %)"
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


def _packed(stage: dict[str, Any]) -> Lines:
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
        shown = f"{_counted(stage['overlap_tokens'], 'token')} of chunk {_short(stage['chunk_before'])}"
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
    return [("method", method), ("note", stage["note"]), ("text", Block(stage["text"] or ""))]


def _vector(stage: dict[str, Any]) -> Lines:
    embedder, prefix = stage["embedder"], stage["embedder"]["passage_prefix"]
    lines: Lines = [
        ("embedder", f"{embedder['kind']} {embedder['name']}, {_short(embedder['identity'])}"),
        ("prefix", repr(prefix) if prefix else None),
        ("embedded text", Block(stage["embedded_text"] or "")),
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
    "header_chain": _packed,
    "overlap_tokens": _overlap,
    "sentences": _sentences,
    "method": _text,
    "embedded_text": _vector,
    "number": _row,
}
"""What stands at a stage, by a name that only it has."""
