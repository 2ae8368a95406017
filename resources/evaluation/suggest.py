"""Suggested golden questions from the live generation, for a person to correct, and a few example questions from its
first documents."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError, UsageError
from pipelines.evaluation.golden import golden_questions, map_questions
from pipelines.evaluation.suggest import (
    SEED,
    AskableDocument,
    AskableParagraph,
    AskableRow,
    CandidateMaker,
    ParagraphSentence,
    Suggestion,
    as_candidate,
    as_examples,
    ask_for_questions,
    column_names,
    golden_line,
    paragraphs,
    spread,
)
from pipelines.indexing.indexed_documents import document_groups
from pipelines.plural import plural
from pipelines.records import Cell, Element, ParsedDocument, Sentence, StructuralChunk
from pipelines.schemas import from_table
from resources.evaluation.golden import corpus_of
from resources.postgres.statements import query
from resources.private_files import for_the_user
from resources.search.passages import QueryModels, Searcher
from resources.search.search_options import asked_groups

if TYPE_CHECKING:
    from pipelines.evaluation.document_map import DocumentMap
    from resources.postgres.catalog import GenerationRow
    from resources.search.documents import FoundDocument, ServedDocuments
    from resources.state.state import State

ASKED_FOR_EACH = 3
"""Most paragraphs that a language model is shown for each wanted question, since not each gives a usable one."""
_ASKED_OF = frozenset({"paragraph", "list_item"})


def suggest(state: State, count: int, groups: Sequence[str] = (), seed: int = SEED) -> dict[str, Any]:
    """Suggest golden questions, and return {"questions" in the form of the file, "model" that wrote them or null,
    "notes"}.

    Restricted documents are asked about only if `groups` may find them. The language model of the role `suggest` writes
    the questions if one is set, and the rest is made without one. Raise UsageError for a count of 0, IndexStateError,
    SettingsError, DatabaseError or ModelError.
    """
    if count < 1:
        raise UsageError(f"--suggest must be at least 1, not {count}")
    live = state.catalog.live()
    if live is None:
        raise IndexStateError("no generation is published yet; run `pincite index`", "no_index")
    material = _Material(state.of_generation(live), _visible_documents(state, live, groups))
    tools, rejected = QueryModels(state), Counter[str]()
    model = tools.model("suggest").name if state.settings.llm.asks("suggest") else None
    chosen: list[dict[str, Any]] = []
    written: Counter[str] = Counter()
    for by, each in _candidates(material, tools, model, count, seed, rejected):
        line = golden_line(each, material.documents[each.doc_id], by)
        if not material.takes(line):
            continue
        chosen.append(line)
        written[by] += 1
        state.run.progress("questions", len(chosen), count)
        if len(chosen) == count:
            break
    return {"questions": chosen, "model": model, "notes": _notes(count, written, rejected, material.restricted)}


def require_new(file: Path) -> None:
    """Raise UsageError if the file exists already: a person may have corrected it."""
    if file.exists():
        raise UsageError(f"--output {file}: the file already exists; name a new one")


def write_new(file: Path, questions: Sequence[dict[str, Any]]) -> None:
    """Write one question on each line, in the form that `evaluate` reads. Raise UsageError."""
    require_new(file)
    try:
        with for_the_user():
            file.write_text(
                "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in questions), encoding="utf-8"
            )
    except OSError as error:
        raise UsageError(f"--output {file}: cannot be written ({error.strerror}); name another place") from None


def _candidates(
    material: _Material, tools: QueryModels, model: str | None, count: int, seed: int, rejected: Counter[str]
) -> Iterator[tuple[str, Suggestion]]:
    """Yield (maker, candidate), first those of the language model."""
    if model is not None:
        for each in _by_model(material, tools, count, seed, rejected):
            yield model, each
    asker = CandidateMaker(material.documents.values(), material.statements)
    for each in spread([*asker.of_statements(), *asker.of_rows(material.rows)], seed):
        yield "cloze", each


def _notes(count: int, written: Counter[str], rejected: Counter[str], restricted: int) -> list[str]:
    made = written.total()
    notes = [f"{number} by {by}" for by, number in written.items()]
    if made < count:
        notes.append(f"only {made} of {count}: the index holds no more amounts, dates and table cells to ask for")
    notes += [f"not kept of the model's, {number}: {reason}" for reason, number in rejected.most_common()]
    if restricted:
        documents = plural(restricted, "restricted document was", "restricted documents were")
        notes.append(f"{documents} left out; name your groups with --group")
    return notes


def _visible_documents(state: State, live: GenerationRow, groups: Sequence[str]) -> set[str]:
    """Return the documents that these groups may find now."""
    with Searcher(state).reading(live.generation) as (connection, index):
        index.ask_for(asked_groups(groups))
        named = query("search_documents", "all_seen", schema=live.schema)
        return {doc_id for (doc_id,) in connection.execute(named).fetchall()}


class _Material:
    """The documents, sentences and table rows for questions, and the questions chosen so far."""

    def __init__(self, state: State, seen: Collection[str]) -> None:
        maps, _ = corpus_of(state)
        self.restricted = 0
        self.documents = {document.doc_id: document for document in self._visible(state, seen)}
        self.maps = [made for made in maps if made.doc_id in self.documents]
        self.statements = [
            ParagraphSentence(row.doc_id, row.section_path, row.text, row.page, row.paragraph, row.confidence)
            for row in _rows(state, Sentence, "sentences")
            if row.doc_id in self.documents and row.source in _ASKED_OF
        ]
        self.rows = list(self._rows_of_tables(state))
        self._quotes: set[tuple[str, str]] = set()
        self._ids: set[str] = set()

    def _visible(self, state: State, seen: Collection[str]) -> Iterator[AskableDocument]:
        raws = {raw.doc_id: raw for raw in state.listing.raw_documents()}
        for parsed in _rows(state, ParsedDocument, "parsed_documents"):
            raw = raws[parsed.doc_id]
            if document_groups(raw, parsed.groups) and parsed.doc_id not in seen:
                self.restricted += 1
                continue
            title = raw.title or ("" if parsed.title_is_file_name else parsed.title)
            yield AskableDocument(parsed.doc_id, raw.source, raw.uri, title)

    def _rows_of_tables(self, state: State) -> Iterator[AskableRow]:
        sections: defaultdict[str, dict[int, tuple[str, ...]]] = defaultdict(dict)
        for unit in _rows(state, StructuralChunk, "structural_chunks"):
            if unit.block_type == "table-row":
                sections[unit.doc_id][unit.element] = unit.header_chain
        maps = {made.doc_id: made for made in self.maps}
        for element in _rows(state, Element, "parsed_elements"):
            if element.doc_id not in maps:
                continue
            for columns, own in _table_rows(element):
                section = sections[element.doc_id].get(element.index, ())
                yield _row(maps[element.doc_id], section, own, columns)

    def takes(self, line: dict[str, Any]) -> bool:
        """Say whether a question is new and its gold occurs exactly once, at its stated place. If so, record the
        question."""
        (gold,) = line["gold"]
        key = gold["uri"], gold["quote"]
        if line["id"] in self._ids or key in self._quotes:
            return False
        (mapped,), unmapped = map_questions(golden_questions([(1, line)]), self.maps)
        if unmapped or mapped.places[0].elsewhere:
            return False
        self._ids.add(line["id"])
        self._quotes.add(key)
        return True


def _row(document: DocumentMap, section: tuple[str, ...], cells: Sequence[Any], columns: dict[int, str]) -> AskableRow:
    start, end = min(cell.start for cell in cells), max(cell.end for cell in cells)
    pages = document.characters_by_page([(start, end)])
    quote = " ".join(document.body[start:end].split())
    return AskableRow(document.doc_id, section, tuple(cells), columns, quote, min(pages, default=None))


def _rows(state: State, record: type[Any], table: str) -> Iterator[Any]:
    for part in state.engine.parts([table], require=True):
        yield from from_table(record, part.read(table))


def _by_model(
    material: _Material, tools: QueryModels, count: int, seed: int, rejected: Counter[str]
) -> Iterator[Suggestion]:
    """Ask a model for as many questions at a time as are wanted; count the reasons of rejected replies in
    `rejected`."""
    found: dict[tuple[str, str], AskableParagraph] = {
        (each.document.doc_id, each.text): each for each in paragraphs(material.documents.values(), material.statements)
    }
    order = [found[each.doc_id, each.quote] for each in spread(map(as_candidate, found.values()), seed)]
    template = partial(tools.prompt, "suggest")
    for start in range(0, min(len(order), ASKED_FOR_EACH * count), count):
        for made in ask_for_questions(order[start : start + count], tools.model("suggest"), template):
            if isinstance(made, Suggestion):
                yield made
            else:
                rejected[made] += 1


# ---------------------------------------------------------------- examples to begin with

MOST_ASKABLE, WITH_TABLES, SENTENCES = 40, 8, 300
"""Most documents from which examples are made, most of these whose tables are read too, and most sentences read of
each. The limits keep the work independent of the size of the index."""
TRIES = 16
"""Most questions that the index is asked until enough are answered."""


@dataclass(frozen=True, slots=True)
class Example:
    """A question that the index answers from this document, which is public."""

    question: str
    doc_id: str


def examples(
    documents: ServedDocuments, answered_from: Callable[[str], Collection[tuple[str, str]]], count: int
) -> Iterator[Example]:
    """Yield up to `count` questions from as many documents as possible; each is answered from the document that it was
    made from. `answered_from` returns source and uri of the documents that answer a question."""
    public = documents.list_documents((), "", MOST_ASKABLE)
    found = {each.doc_id: (each.source, each.uri) for each in public}
    statements = [
        ParagraphSentence(row.doc_id, row.section_path, row.text, row.page, row.text, row.confidence)
        for row in documents.first_sentences(list(found), SENTENCES)
        if row.source in _ASKED_OF
    ]
    rows = [row for each in public[:WITH_TABLES] for row in _served_rows(documents, each)]
    askable = [AskableDocument(each.doc_id, each.source, each.uri, each.title) for each in public]
    maker = CandidateMaker(askable, statements)
    candidates = as_examples(maker.of_statements(), maker.of_rows(rows))
    most_of_one = -(-count // max(1, len({each.doc_id for each in candidates})))
    taken: Counter[str] = Counter()
    tried = 0
    for each in candidates:
        if taken.total() == count or tried == TRIES:
            return
        if taken[each.doc_id] < most_of_one:
            tried += 1
            if found[each.doc_id] in answered_from(each.question):
                taken[each.doc_id] += 1
                yield Example(each.question, each.doc_id)


def _served_rows(documents: ServedDocuments, document: FoundDocument) -> Iterator[AskableRow]:
    text = documents.text(document)
    for element in text.elements if text else ():
        for columns, own in _table_rows(element):
            start, end = min(cell.start for cell in own), max(cell.end for cell in own)
            quote = " ".join(text.body[start:end].split()) if text else ""
            yield AskableRow(document.doc_id, (), own, columns, quote, None)


def _table_rows(element: Element) -> Iterator[tuple[dict[int, str], tuple[Cell, ...]]]:
    """Yield the names of the columns and the cells with text of each row of data, if the element is a table."""
    if element.kind == "table":
        columns, data = column_names(element.cells)
        for row in data:
            own = tuple(cell for cell in element.cells if cell.row == row and cell.text.strip())
            if own:
                yield columns, own
