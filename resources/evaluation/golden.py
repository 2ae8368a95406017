"""The scores of a generation on golden questions: how a run asks them, and what the history of earlier runs shows."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.counted import counted
from pipelines.errors import IndexStateError, UsageError
from pipelines.evaluation.document_map import DocumentMap
from pipelines.evaluation.golden import GoldenQuestion, MappedQuestion, golden_questions, map_questions
from pipelines.evaluation.imports import IMPORTS, Line, Row
from pipelines.evaluation.judging import Corpus, OptionsUse, Outcome, ask_all, run_json
from pipelines.records import Element, ParsedDocument, RawDocument
from pipelines.schemas import from_table
from pipelines.settings.query import MEASURED_HITS
from resources.search.answers import Answerer
from resources.search.passages import Searcher
from resources.search.search_options import SearchOptions, filters_from
from resources.state.generation import spec_of

if TYPE_CHECKING:
    from resources.engine import Part
    from resources.postgres.catalog import Catalog, GenerationRow
    from resources.state.state import State


# ---------------------------------------------------------------- score history


HEADLINE = ("recall@5", "accuracy_page")
_SHAPING = ("buckets", "parsing", "chunking", "sentences", "enrichment", "embedder")


def headline(run: Mapping[str, Any]) -> str:
    """Return the main scores of a run in a sentence, with their 95 % intervals if it has any."""
    parts = []
    for name in HEADLINE:
        value, interval = run["metrics"].get(name), (run.get("ci95") or {}).get(name)
        if value is not None:
            within = f" ({100 * interval[0]:.1f} to {100 * interval[1]:.1f})" if interval else ""
            parts.append(f"{name} {100 * value:.1f} %{within}")
    count = f" on {counted(run['n'], 'question')}" if "n" in run else ""
    return (", ".join(parts) or "no question has gold in this index") + count


def last_scores(catalog: Catalog, most: int) -> list[dict[str, Any]]:
    """Return the last rows of scores, the newest first: generation, at, questions, the headline's metrics, and the
    settings and models that differ from the generation scored before."""
    generations = {row.generation: row for row in catalog.generations()}
    rows = catalog.scores()
    shown = []
    for before, row in zip([None, *rows], rows, strict=False):
        now, then = generations.get(row["generation"]), generations.get(before["generation"]) if before else None
        changes = _changes(_shape(then), _shape(now)) if now and then else ()
        shown.append(
            {
                "generation": row["generation"],
                "at": row["at"][:16].replace("T", " "),
                "questions": row["name"],
                **{name: _percent(row["metrics"].get(name)) for name in HEADLINE},
                "changed": "; ".join(changes),
            }
        )
    return shown[::-1][:most]


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def _shape(row: Any) -> dict[str, Any]:
    """Return the settings and the model that shaped a generation, by dotted keys."""
    shaping = {name: row.settings[name] for name in _SHAPING if name in row.settings}
    return {**dict(_flat(shaping)), "model": row.embedder["name"]}


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys([*before, *now]):
        if before.get(name) != now.get(name):
            yield f"{name} {before.get(name)} → {now.get(name)}"


# ---------------------------------------------------------------- golden questions


def read_questions(file: Path) -> list[GoldenQuestion]:
    """Return the golden questions of a JSON-lines file. Raise UsageError that names the line and the key."""
    return golden_questions(_lines(file), str(file), filters_from)


def import_questions(kind: str, file: Path) -> list[Line]:
    """Return the questions of a file of other people's (one of IMPORTS) as lines that `read_questions` reads.

    Raise UsageError that names the place in the file, also if `read_questions` would refuse a line."""
    text = _text_of(file).removeprefix("\ufeff")
    if kind == "squad":
        try:
            content: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{file}: not valid JSON: {error}", "golden") from None
    else:
        content = _table_rows(text, file)
    lines = IMPORTS[kind](content, str(file))
    golden_questions(enumerate(lines, start=1), f"{file}, as imported", filters_from)
    return lines


def _table_rows(text: str, file: Path) -> Iterator[tuple[int, Row]]:
    """Yield (line of the file, cells by column), of cells that are not empty. The separator is the comma, semicolon or
    tab that the first line has most of."""
    head = text.partition("\n")[0]
    reader = csv.reader(text.splitlines(keepends=True), delimiter=max(",;\t", key=head.count), strict=True)
    columns: list[str] = []
    try:
        for cells in reader:
            if not columns:
                columns = [name.strip() for name in cells]
                if twice := next((name for name in columns if name and columns.count(name) > 1), None):
                    raise UsageError(f"{file} line 1: column {twice!r} stands there twice", "golden")
            elif len(cells) > len(columns):
                told = f"{file} line {reader.line_num}: {len(cells)} cells in a table of {len(columns)} columns"
                raise UsageError(told, "golden")
            elif any(cells):
                yield reader.line_num, {name: cell for name, cell in zip(columns, cells, strict=False) if cell.strip()}
    except csv.Error as error:
        raise UsageError(f"{file} line {reader.line_num}: not a table with separators: {error}", "golden") from None


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"golden questions {file} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None


def _lines(file: Path) -> Iterator[tuple[int, Any]]:
    """Yield (line number, value) of a JSON-lines file. Raise UsageError that names the line."""
    lines = _text_of(file).split("\n")  # strings may hold other ends of lines, such as U+2028
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            json.dumps(value, ensure_ascii=False).encode()  # fails for half a surrogate pair, which is not valid text
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{file}, line {number}: not valid JSON: {error}") from None
        yield number, value


def corpus_of(state: State) -> tuple[list[DocumentMap], Corpus]:
    """Return maps of all documents, and the spans of all chunks, under the state's settings."""
    raws = {raw.doc_id: raw for raw in state.listing.raw_documents()}
    parts = state.engine.parts(("parsed_documents", "parsed_elements"), require=True)
    maps = [made for part in parts for made in _maps(part, raws)]
    spans: dict[str, list[list[tuple[int, int]]]] = {}
    for read in state.engine.table("chunks").pieces(["doc_id", "spans"]):
        for doc_id, chunk in zip(read["doc_id"].to_pylist(), read["spans"].to_pylist(), strict=True):
            spans.setdefault(doc_id, []).append([(span["start"], span["end"]) for span in chunk])
    return maps, Corpus({made.doc_id: made for made in maps}, spans)


def _maps(part: Part, raws: dict[str, RawDocument]) -> Iterator[DocumentMap]:
    elements: dict[str, list[Element]] = {}
    for element in from_table(Element, part.read("parsed_elements")):
        elements.setdefault(element.doc_id, []).append(element)
    for document in from_table(ParsedDocument, part.read("parsed_documents")):
        raw = raws[document.doc_id]
        yield DocumentMap.of(raw.source, raw.uri, document, elements.get(document.doc_id, []))


@dataclass(frozen=True, slots=True)
class Examination:
    """Golden questions with their gold in one generation, ready to be asked with any settings of `query`."""

    generation: GenerationRow
    questions: list[MappedQuestion]
    unmapped: list[dict[str, Any]]
    corpus: Corpus


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A run of golden questions. `run` is an element of `runs` in the JSON of `eval`; `outcomes` and `hits` (ids of the
    ranked chunks) are by question, in the order of the file."""

    run: dict[str, Any]
    outcomes: list[Outcome]
    hits: list[list[str]]


def examination(state: State, file: Path, generation: GenerationRow) -> Examination:
    """Read the questions of a file and map them to a generation. Raise UsageError for an entry that is not a golden
    question."""
    questions = read_questions(file)
    maps, corpus = corpus_of(state.of_generation(generation))
    mapped, unmapped = map_questions(questions, maps)
    return Examination(generation, mapped, unmapped, corpus)


def examine(
    state: State,
    examination: Examination,
    name: str,
    *,
    k: int = MEASURED_HITS,
    strategy: str | None = None,
    rerank: str | Sequence[str] | None = None,
    groups: Sequence[str] = (),
    with_options: OptionsUse | None = None,
    answers: bool = False,
    exact: bool = False,
) -> Evaluated:
    """Ask all questions under the state's settings of `query`, one after the other. With `answers`, each is also
    answered as `pincite ask` answers it, a choice with its options. With `exact`, no vector index is used, since no two
    are built alike."""
    if k < 1:
        raise UsageError(f"k must be a whole number from 1, not {k}")
    searcher, settings = Searcher(state, exact), state.settings.query
    asked = SearchOptions.of(k, strategy, rerank, groups=groups, generation=examination.generation.generation)
    chosen = settings.rerank if asked.rerank is None else asked.rerank
    found: list[list[str]] = []

    def within(filters: Sequence[str]) -> SearchOptions:
        return replace(asked, filters=filters_from(filters, groups)) if filters else asked

    def search(question: Any, most: int, filters: Sequence[str]) -> Sequence[Any]:
        _, hits = searcher.hits(question, replace(within(filters), k=most))
        found.append([hit.passage.chunk_id for hit in hits])
        state.run.progress("questions", len(found), len(examination.questions))
        return hits

    def answering(text: str, choices: Mapping[str, str], filters: Sequence[str]) -> dict[str, Any]:
        return answerer.ask(text, choices, within(filters))

    answerer = Answerer(state, searcher)
    outcomes = ask_all(
        examination.questions,
        search,
        examination.corpus,
        time.perf_counter,
        k=k,
        options=with_options or "none",
        answering=answering if answers else None,
    )
    run = run_json(
        outcomes,
        examination.unmapped,
        name=name,
        strategy=strategy or settings.strategy,
        rerank=[each for each in chosen if each != "none"],
    )
    return Evaluated(run, outcomes, found)


def evaluate(state: State, file: Path, *, generation: GenerationRow | None = None, **options: Any) -> dict[str, Any]:
    """Run the golden questions on the live generation or another, and return an element of `runs` in the JSON of
    `eval`. `options` are those of `examine`.

    Raise IndexStateError if nothing is published yet."""
    asked = generation or state.catalog.live()
    if asked is None:
        read_questions(file)
        raise IndexStateError("nothing is published yet; run `pincite index`", "no_index")
    exam = examination(state, file, asked)
    if (options.get("strategy") or state.settings.query.strategy) != "lexical":
        spec = spec_of(asked)
        (state.parts.embedders.light(spec) or state.embedder(spec)).load()  # otherwise the first question seems slow
    return examine(state, exam, file.stem, **options).run
