"""Reports as text: runs, plans, scores, links, outlines of documents, and the state with its generations.

Each function takes the JSON of a command; `pincite.text.passages` has the functions for passages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pincite.console import MOST_LINES, block, first_of, rows
from pipelines.plural import plural

if TYPE_CHECKING:
    from pipelines.plots import Panel
    from pipelines.records import Element, ParsedDocument, ParsedFile

# ---------------------------------------------------------------- index run


def index_summary(result: dict[str, Any]) -> str:
    documents, chunks, embedded = result["documents"], result["chunks"], result["embedded"]
    lines = [
        f"{plural(documents['listed'], 'document')}: {documents['added']} added, {documents['changed']} changed, "
        f"{documents['unchanged']} unchanged, {documents['removed']} removed, {len(documents['failed'])} failed",
        f"{plural(chunks['total'], 'chunk')}: {chunks['written']} written, {chunks['deleted']} deleted; "
        f"texts embedded: {embedded['chunks']} of chunks, {embedded['sentences']} of sentences",
        f"{_standing(result)}; {result['seconds']['total']:.1f} s",
    ]
    llm = result["llm"]
    if llm["calls"] or llm["cached"] or llm["pending"]:
        lines.append(
            f"language model: {plural(llm['calls'], 'call')}, {llm['cached']} cached, {llm['pending']} in batches, "
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
        return f"{named} is live" if result["chunks"]["total"] else f"{named} is empty: no passage can be found"
    return (
        f"{named} is as it was; the new one waits"
        if result["llm"]["pending"]
        else f"{named} is built but not published"
    )


def seconds_shown(seconds: Mapping[str, float], least: float = 0.05) -> str:
    """Return the time of each stage of a run, the longest first.

    The remaining time is imports, the starts of Postgres and Dagster, and golden questions.
    """
    stages = {name: took for name, took in seconds.items() if name != "total" and took >= least}
    stages["the rest"] = max(0.0, seconds["total"] - sum(stages.values()))
    told = sorted(stages.items(), key=lambda item: -item[1])
    return "seconds: " + ", ".join(f"{name} {took:.1f}" for name, took in told)


# ---------------------------------------------------------------- plan


def plan_shown(result: dict[str, Any]) -> str:
    documents = result["documents"]
    lines = [
        f"{plural(documents['listed'], 'document')}: {documents['added']} to add, {documents['changed']} changed, "
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


# ---------------------------------------------------------------- exported texts and imported vectors


def export_text(result: dict[str, Any]) -> str:
    about, size = result["embedder"], result["bytes"] / 1e6
    if not result["texts"]:
        return block(["every text has its vector; nothing was written"])
    window = f", at most {plural(about['window'], 'token')} at once" if about["window"] else ""
    lines = [
        f"{plural(result['texts'], 'text')} in {plural(result['parts'], 'file')} under {result['folder']}, "
        f"{size:.1f} MB",
        f"to be embedded by {about['model']}, {about['dimension']} dimensions{window}, as they are: "
        + (f"{about['prompt']!r} stands before each" if about["prompt"] else "no prompt is needed"),
    ]
    if result["windowed"]:
        lines.append(f"{result['windowed']:,} are longer than that, and have a row for each of their windows")
    for item in result["documents"]["failed"][:MOST_LINES]:
        lines.append(f"failed: {item['source']}/{item['uri']}: {item['stage']}: {item['code']}: {item['message']}")
    lines += [f"not listed, so it is as it was: {told}" for told in result["failing_sources"].values()]
    return block([*lines, "then: pincite import-vectors FOLDER"])


def import_text(result: dict[str, Any]) -> str:
    taken = "would be taken" if result["checked_only"] else "taken"
    lines = [
        f"{plural(result['files'], 'file')}, {plural(result['rows'], 'row')}: "
        f"{plural(result['taken'], 'vector')} {taken}, {plural(result['known'], 'row')} known already, "
        f"{result['unasked']:,} of "
        "texts that are not asked for (embedded already, changed since, or of other settings)",
    ]
    if result["sampled"]:
        were = plural(result["sampled"], "text was", "texts were")
        lines.append(f"{were} embedded again, as a check")
    if result["incomplete"]:
        lines.append(f"windows of {plural(result['incomplete'], 'text')} are missing: import their files together")
    refused = result["refused"]
    lines += [f"refused: {item['code']}: {item['message']}" for item in refused[:MOST_LINES]]
    if len(refused) > MOST_LINES:
        reasons = ", ".join(f"{code} {count:,}" for code, count in result["reasons"].items())
        lines.append(f"refused: {len(refused) - MOST_LINES:,} more, all in --json; in all {reasons}")
    missing = result["missing"]
    lines.append(
        f"{plural(missing, 'text has', 'texts have')} no vector yet, which `pincite index` would embed"
        if missing
        else "every text has its vector: `pincite index` embeds nothing"
    )
    return block(lines)


# ---------------------------------------------------------------- scores


def scores_shown(result: dict[str, Any]) -> str:
    parts = []
    for run in result["runs"]:
        table = []
        for name, value in run["metrics"].items():
            bounds = run["ci95"].get(name)
            shown = "–" if value is None else f"{100 * value:.1f} %"
            table.append((name, shown, f"{100 * bounds[0]:.1f}–{100 * bounds[1]:.1f}" if bounds else ""))
        rerank = ", ".join(run["rerank"]) or "none"
        parts.append(f"{run['name']}: {plural(run['n'], 'question')}, {run['strategy']}, rerank {rerank}")
        parts.append(rows(table, ("metric", "score", "95 %")))
        for gold in run["unmapped_gold"]:
            parts.append(f"gold not mapped: {gold['id']}: {gold['uri']}: {gold['problem']}")
        why = ", ".join(f"{kind} {count}" for kind, count in run["diagnosis"].items())
        parts.append(f"diagnosis: {why}; {run['seconds_per_query']:.3f} s a question")
    return block(parts)


def matrix_shown(result: dict[str, Any]) -> str:
    lines: list[str] = []
    for table in result["results"]:
        marked = {(row, column) for row, column in table["marked"]}
        cells = [
            [f"{cell} *" if (number, column) in marked else cell for column, cell in enumerate(row)]
            for number, row in enumerate(table["rows"])
        ]
        caption = f"{table['caption']} *: {table['meaning']}." if marked else table["caption"]
        lines += [table["name"], caption, "", rows(cells, table["columns"]), ""]
    lines += [f"failed: {item['name']}: {item['code']}: {item['message']}" for item in result["failed"]]
    unmapped = max((run["unmapped"] for run in result["runs"]), default=0)
    lines += [f"gold that could not be mapped: {unmapped}, all in --json"] if unmapped else []
    if result["resumed"]:
        lines.append(f"finished before: {result['resumed']} of {plural(len(result['runs']), 'run')}")
    return block([*lines, *(f"written: {file}" for file in result["files"])])


# ---------------------------------------------------------------- links between related sentences


LONGEST_TEXT = 100


def links_shown(result: dict[str, Any]) -> str:
    lines = [
        _heading(result),
        f"{plural(result['links'], 'link')} from {result['sentences_linked']} of "
        f"{plural(result['sentences'], 'sentence')} "
        f"({100 * result['share']:.1f} %); {result['across_documents']} across documents, "
        f"{result['equal_texts']} between equal texts",
    ]
    if result["strongest"]:
        lines.append("the strongest across documents, of texts that differ:")
    for link in result["strongest"]:
        lines += [f"{link['similarity']:.4f}  {_end(link['from'])}", f"        {_end(link['to'])}"]
    return block(lines)


def sweep_shown(result: dict[str, Any]) -> str:
    names = list(result["rows"][0]["scores"] or ())
    table = [
        (
            "none" if row["threshold"] is None else f"{row['threshold']:g}",
            row["links"],
            row["sentences_linked"],
            f"{100 * row['share']:.1f} %",
            row["across_documents"],
            *("–" if (value := row["scores"][name]) is None else f"{100 * value:.1f}" for name in names),
            "in use" if row["threshold"] is not None and row["threshold"] == result["floor"] else "",
        )
        for row in result["rows"]
    ]
    head = ("floor", "links", "sentences linked", "share", "across documents", *names, "")
    lines = [f"{_heading(result)}; {plural(result['sentences'], 'sentence')}", rows(table, head)]
    if golden := result["golden"]:
        lines.append(f"scores of the sentence route: {plural(golden['questions'], 'question')} of {golden['file']}, "
                     f"{plural(golden['unmapped'], 'gold place')} not mapped")  # fmt: skip
    return block([*lines, *(f"note: {note}" for note in result["notes"]), f"{result['seconds']:.1f} s"])


def sweep_panels(result: dict[str, Any]) -> list[Panel]:
    """Return panels by minimum cosine: the links, the share of sentences with links, and the scores if there are
    any."""
    from pipelines.plots import Curves

    swept = [row for row in result["rows"] if row["threshold"] is not None]
    marks = {"in use": result["floor"]} if result["floor"] else {}

    def line(values: Sequence[Any]) -> list[tuple[float, float]]:
        return [(row["threshold"], value) for row, value in zip(swept, values, strict=True) if value is not None]

    lines = {"all": line([row["links"] for row in swept]),
             "across documents": line([row["across_documents"] for row in swept])}  # fmt: skip
    panels: list[Panel] = [
        Curves("links", lines, "floor", marks=marks),
        Curves("share of sentences linked", {"linked": line([row["share"] for row in swept])}, "floor", marks=marks),
    ]
    if result["golden"]:
        names = result["rows"][0]["scores"]
        scores = {name: line([row["scores"][name] for row in swept]) for name in names}
        scores = {name: points for name, points in scores.items() if points}
        panels.append(Curves("scores of the sentence route", scores, "floor", marks=marks, y_within=()))
    return panels


def _heading(result: dict[str, Any]) -> str:
    live = ", live" if result["live"] else ""
    floor, wanted = result["floor"], result["floor_set"]
    over = f"no links of this version yet ({wanted:g} is set)" if floor is None else f"links over {floor:g}"
    if floor is not None and floor < wanted:
        over += f", since no pair of sentences reaches {wanted:g}"
    return f"generation {result['generation']}{live}, {result['embedder']}: {over}, at most {result['most']} a sentence"


def _end(end: dict[str, Any]) -> str:
    page = f", p. {end['page']}" if end["page"] is not None else ""
    text = " ".join(end["text"].split())
    text = text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"
    return f"{text}  [{end['source']}/{end['uri']}{page}; chunk {end['chunk_id'][:12]}]"


# ---------------------------------------------------------------- outline of a parsed file


WIDTH = 90


def _first(text: str, width: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def _pages(element: Element) -> str:
    first, last = element.page_start, element.page_end
    return "" if first is None else str(first) if first == last else f"{first}–{last}"


def _summary(element: Element) -> str:
    """Return an element's text; for a table its size and first row, and for a break a line."""
    if element.kind == "break":
        return "———"
    if element.kind != "table" or not element.cells:
        return element.text
    height = 1 + max(cell.row for cell in element.cells)
    width = max(cell.column + cell.column_span for cell in element.cells)
    headers = len({cell.row for cell in element.cells if cell.header})
    first = " | ".join(cell.text for cell in element.cells if cell.row == element.cells[0].row)
    return f"{height} × {width}, {plural(headers, 'header row')}: {first}"


def _indent(elements: Iterable[Element]) -> Iterable[tuple[Element, str]]:
    """Yield each element with its indentation: below its heading, and list items below their parent items."""
    depth = 0
    for element in elements:
        if element.kind == "heading":
            depth = element.level or 1
            yield element, "  " * (depth - 1)
        elif element.kind in ("page_header", "page_footer"):
            yield element, ""
        else:
            nested = (element.level or 1) - 1 if element.kind == "list_item" else 0
            yield element, "  " * (depth + nested)


def outline_shown(document: ParsedDocument, parsed: ParsedFile, elements: Sequence[Element]) -> str:
    """Return one line for each element: number, page, kind and first words; then counts and warnings."""
    from pipelines.parsing.page_marks import label_of

    pages = f"{plural(document.pages, 'page')}, " if document.pages else ""
    title = document.title + (" (its file name)" if document.title_is_file_name else "")
    lines = [
        f"{title}: {pages}{plural(len(document.body), 'character')}, read by {parsed.origin or 'its parser'}",
        "",
    ]
    table = [
        (element.index, _pages(element), label_of(element), indent + _first(_summary(element), WIDTH - len(indent)))
        for element, indent in _indent(elements)
    ]
    lines.append(rows(table, ("#", "page", "kind", "")))
    counts = Counter(element.kind for element in elements)
    lines += ["", ", ".join(f"{kind.replace('_', ' ')} {count}" for kind, count in counts.most_common())]
    lines += [f"warning: {warning}" for warning in document.warnings]
    return block(lines)


# ---------------------------------------------------------------- state and generations


def status_shown(result: dict[str, Any]) -> str:
    from resources.workers.sandbox import layers_text as sandbox_shown

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
    """Return the frozen overlap floors of generations as one table."""
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
        f"sentences: {counts['kept']} kept{_counts_text(counts['sources'])}, {counts['repeats']} of them repeat "
        f"another's text; {sum(counts['filtered'].values())} left out{_counts_text(counts['filtered'])}"
    ]


def _counts_text(counts: dict[str, int]) -> str:
    return f" ({', '.join(f'{count} {name}' for name, count in counts.items())})" if counts else ""


def _cost_shown(cost: dict[str, Any]) -> str:
    made = f"{cost['stage']} of generation {cost['generation']}" if cost["generation"] else str(cost["stage"])
    if "calls" not in cost:
        return f"{made}: {plural(cost['items'], 'text')}, {plural(cost['tokens'], 'token')}, {cost['seconds']:.1f} s"
    return (
        f"{made}: {plural(cost['calls'], 'call')} of {cost['model']}, {cost['prompt_tokens']} prompt and "
        f"{cost['completion_tokens']} completion tokens, {cost['cost']:.4f} {cost['currency']}"
    )


def _worker_shown(worker: dict[str, Any]) -> str:
    from resources.state.launched import ranges

    buckets = ranges(worker["buckets"])
    far = f"{worker['stage']}, {worker['done']} of {worker['total']}" if worker["total"] else worker["stage"]
    made = [far or "beginning", *([f"buckets {buckets}"] if buckets else [])]
    where = f"on {worker['host']}, process {worker['process']}, since {worker['since']}"
    return f"run {worker['run'][:8]} {where}: {'; '.join(made)}"


def generations_shown(found: list[dict[str, Any]]) -> str:
    """Return a table of generations, and below it the reasons why generations are not live."""
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
    return block([*lines, "all is as it should be" if result["ok"] else plural(len(result["problems"]), "problem")])
