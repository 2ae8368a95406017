"""Results as people read them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from pincite.console import rows
from pincite.paragraph import marked, reached
from pipelines.terms import terms_of
from resources.sandbox import shown as sandbox_shown

MOST_LINES = 10
MOST_CHARACTERS = 420
"""Of a hit's text that are shown."""
BY_MODEL = "Written by a language model"
ORDERS = "Gives orders to a language model, so it is quoted and no evidence"
SHORT_ID = 10
"""Characters of a chunk id that `pincite show` will hardly find twice."""


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
    for item in documents["failed"]:
        lines.append(f"failed: {item['source']}/{item['uri']}: {item['stage']}: {item['code']}: {item['message']}")
    skipped = [{**item, "message": f"{item['code']}: {item['message']}"} for item in documents["skipped"]]
    lines += _some("skipped", skipped)
    lines += _some("warning", documents["warnings"])
    lines.extend(f"note: {note}" for note in result["notes"])
    return "\n".join(lines)


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


def _some(word: str, items: list[dict[str, Any]]) -> list[str]:
    """The first of what is said of documents, and how many more there are."""
    lines = [f"{word}: {item['source']}/{item['uri']}: {item['message']}" for item in items[:MOST_LINES]]
    return [*lines, f"{word}: {len(items) - MOST_LINES} more, all in --json"] if len(items) > MOST_LINES else lines


def pin(hit: dict[str, Any]) -> str:
    """A hit's document and page, as one would cite it."""
    first, last = hit["page_start"], hit["page_end"]
    if first is None:
        return str(hit["uri"])
    return f"{hit['uri']}, p. {first}" if first == last else f"{hit['uri']}, pp. {first}–{last}"


def excerpt(text: str, question: str, characters: int = MOST_CHARACTERS) -> str:
    """The text, or the stretch of whole lines from the one that says most of what was asked."""
    if len(text) <= characters:
        return text
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
            lines += _wrapped(marked(hit["text"], paragraph["anchors"], MOST_CHARACTERS))
            lines += [f"   {line}" for line in reached(paragraph)]
        else:
            lines += _wrapped(excerpt(hit["text"], result["query"]))
        if explain:
            lines += [f"   {line}" for line in stages_shown(hit)]
            lines += [f"   box: {box_shown(box)}" for box in hit["boxes"]]
        lines.append("")
    if not result["hits"]:
        lines.append("no passage found")
    if not explain:
        lines += [f"note: {note}" for note in result.get("notes", ())]
    return "\n".join([*lines, f"generation {result['generation']}, {result['seconds']:.3f} s"])


def _way(result: dict[str, Any]) -> list[str]:
    """How a query was answered: strategy, rerankers, what was searched for in place of the question."""
    lines = [f"strategy {result['strategy']}, rerank {', '.join(result['rerank']) or 'none'}"]
    lines += [f"{name} searched for, {BY_MODEL.lower()}: {text}" for name, text in result["searched"].items()]
    return [*lines, *(f"note: {note}" for note in result["notes"])]


def stages_shown(hit: dict[str, Any]) -> list[str]:
    """A table of every stage that scored a hit, in order, with its place in that stage; factors below theirs."""
    ranks = hit.get("ranks", {})
    table = [(name, _number(value), ranks.get(name, "")) for name, value in hit["scores"].items() if value is not None]
    return rows(table, ("stage", "score", "place")).splitlines()


def answer_shown(result: dict[str, Any]) -> str:
    """The answer, who wrote it, and below it the quoted places."""
    if result["declined"]:
        lines = ["The documents do not answer this."]
    else:
        written = [f"{BY_MODEL} ({result['model']}), checked against the passages:"] if result["generated"] else []
        lines = [*written, *_wrapped(result["answer"], "")]
    for number, item in enumerate(result["citations"], start=1):
        place = pin({"uri": item["uri"], "page_start": item["page"], "page_end": item["page"]})
        lines += ["", f"{number}. {place}  [{item['source']}]  chunk {item['chunk_id'][:SHORT_ID]}"]
        lines += [f"   {BY_MODEL}:"] if item["generated"] else []
        lines += _wrapped(item["quote"])
    for item in result.get("marked", ()):
        place = pin({"uri": item["uri"], "page_start": item["page"], "page_end": item["page"]})
        lines += ["", f"{ORDERS}: {place}  [{item['source']}]", *_wrapped(f"“{item['quote']}”")]
    if result["declined"] and result["hits"]:
        lines += ["", "Nearest passages:", *(f"   {pin(hit)}  [{hit['source']}]" for hit in result["hits"][:3])]
    lines += ["", *(f"note: {note}" for note in result["notes"])]
    return "\n".join([*lines, f"generation {result['generation']}, {result['seconds']:.3f} s"])


def box_shown(box: dict[str, Any]) -> str:
    return f"page {box['page']}, {box['x0']:.0f} {box['y0']:.0f} {box['x1']:.0f} {box['y1']:.0f}"


def _wrapped(text: str, indent: str = "   ") -> list[str]:
    return [
        part
        for line in text.splitlines()
        for part in textwrap.wrap(line, 96, initial_indent=indent, subsequent_indent=indent) or [""]
    ]


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
    for name, title in (("overlap", "overlap, from the passage before"), ("text", "text"), ("context", "context")):
        if result[name]:
            written = f", {BY_MODEL.lower()}" if name in result.get("generated", ()) else ""
            lines += [f"{title}{written}:", *_wrapped(result[name])]
    lines.extend(f"box: {box_shown(box)}" for box in result["boxes"])
    lines.extend(f"image: {image}" for image in result["images"])
    return "\n".join(lines)


def _marked(text: str, sentence: dict[str, Any]) -> str:
    """The paragraph with the sentence between >> and <<."""
    start, end = sentence["start"], sentence["start"] + len(sentence["text"])
    return f"{text[:start]}>>{text[start:end]}<<{text[end:]}"


def _number(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


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
    return "\n".join(parts)


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


def status_shown(result: dict[str, Any]) -> str:
    parts = [f"state {result['state']}", ""]
    parts.append(
        rows(
            [(item["name"], item["root"], item["documents"]) for item in result["sources"]],
            ("source", "folder", "documents"),
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
    for item in result["failures"]:
        parts.append(f"failed: {item['source']}/{item['uri']}: {item['stage']}: {item['code']}: {item['message']}")
    return "\n".join([*parts, sandbox_shown(result["sandbox"]), *_some("warning", result["warnings"])])


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
    return "\n".join([rows(table, head), *told]) if table else "there is no generation yet; run `pincite index`"


def _state(item: dict[str, Any]) -> str:
    if item["live"]:
        return "live, held" if item["held"] else "live"
    if not item["complete"]:
        return "being made"
    return "was live" if item["published_at"] else "not published"


def verified_shown(result: dict[str, Any]) -> str:
    lines = [f"{item['code']}: {item['message']}" for item in result["problems"]]
    lines += [f"note: {note}" for note in result.get("notes", ())]
    return "\n".join([*lines, "all is as it should be" if result["ok"] else f"{len(result['problems'])} problems"])
