"""The documents of the live generation, or of a named one, limited to one asker: their fields, their parsed text, and
the place of each sentence in it.

Rows come from Postgres, read as the query role. Text comes from Parquet, where a run may be ahead of the served
generation, so text is returned only if the served rows were made from it.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError, SettingsError
from pipelines.indexing.indexed_documents import document_facts, row_hash
from pipelines.parsing.formats import KIND_OF_ENDING
from pipelines.records import Element, ParsedDocument, RawDocument
from resources.postgres.catalog import schema_name
from resources.postgres.search_index import storable
from resources.postgres.statements import fill, statements
from resources.postgres.statements import query as statement
from resources.search.search_options import asked_groups
from resources.stages.part_rows import INPUTS

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composed

    from resources.search.passages import Searcher
    from resources.state.state import State

MOST_LISTED = 1_000
KEPT_CHARACTERS = 5_000_000
"""Most characters of parsed text cached in memory for the next question; the least recently read are dropped first."""


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A document in a generation. `content_hash` is the hash of its indexed file, `row_hash` the hash of all its rows.
    `stale` means that its file has failed since then."""

    generation: int
    doc_id: str
    source: str
    uri: str
    title: str
    language: str
    date: str | None
    version: str | None
    pages: int | None
    summary: str
    metadata: dict[str, str]
    content_hash: str
    stale: bool
    row_hash: str


FACETS = ("source", "kind", "language", "year")
"""Properties for counting and filtering documents. The kind is one of `KINDS`, or `other`; the year is `none` for a
document without a date."""
LISTED_ON_PAGE = 25


@dataclass(frozen=True, slots=True)
class Choice:
    """A selection of documents: those whose title or path has all the words, and whose facets have the chosen values.
    An empty value does not restrict."""

    words: tuple[str, ...] = ()
    source: str = ""
    kind: str = ""
    language: str = ""
    year: str = ""


@dataclass(frozen=True, slots=True)
class DocumentCounts:
    """Numbers of documents that one asker may see. `facets` has, for each facet, its values with the number of
    documents that match the choice in all other facets, in falling order."""

    generation: int
    total: int
    facets: Mapping[str, tuple[tuple[str, int], ...]]


@dataclass(frozen=True, slots=True)
class Browsed:
    """One page of the chosen documents, ordered by name."""

    counted: DocumentCounts
    documents: tuple[FoundDocument, ...]
    page: int
    pages: int


@dataclass(frozen=True, slots=True)
class FirstSentence:
    """One of a document's first sentences; `source` is the kind of block from which it comes."""

    doc_id: str
    section_path: tuple[str, ...]
    text: str
    page: int | None
    confidence: float
    source: str


@dataclass(frozen=True, slots=True)
class DocumentText:
    """A document's parsed body, and its elements in reading order."""

    body: str
    elements: tuple[Element, ...]


class ServedDocuments:
    """A reader of served documents, safe to use from several threads."""

    def __init__(self, state: State, searcher: Searcher) -> None:
        self._state, self._searcher = state, searcher
        self._texts: OrderedDict[tuple[int, str, str], DocumentText] = OrderedDict()
        self._lock = Lock()

    def one(self, doc_id: str, groups: Sequence[str] = (), generation: int | None = None) -> FoundDocument:
        """Return one document. Raise IndexStateError `unknown_document` for a document that does not exist, and for one
        that is hidden from the asker."""
        found = self._read("document", groups, generation, doc_id=doc_id)
        if not found:
            raise IndexStateError(
                f"document {doc_id[:100]!a} does not exist, or you may not see it; take the id from a passage, or from "
                "the list of documents",
                "unknown_document",
            )
        return found[0]

    def list_documents(self, groups: Sequence[str] = (), after: str = "", most: int = 100) -> list[FoundDocument]:
        """Return at most `most` documents whose ids come after `after`, in order of their ids."""
        return self._read("documents_after", groups, None, after=after, most=max(1, min(most, MOST_LISTED)))

    def browse(self, groups: Sequence[str], choice: Choice, page: int) -> Browsed:
        """Return a page of the documents of a choice; return the last page if there are fewer pages."""
        with self._searcher.reading() as (connection, index):
            index.ask_for(asked_groups(groups))
            number = index.generation.number
            counted = _count(connection, number, choice)
            pages = max(1, -(-counted.total // LISTED_ON_PAGE))
            page = max(1, min(page, pages))
            asked = {**_parameters(choice), "most": LISTED_ON_PAGE, "skipped": LISTED_ON_PAGE * (page - 1)}
            rows = connection.execute(_statement("browsed_documents", "named_documents", number), asked).fetchall()
        return Browsed(counted, tuple(FoundDocument(number, *row) for row in rows), page, pages)

    def overview(self, groups: Sequence[str], doc_ids: Collection[str] = ()) -> tuple[DocumentCounts, set[str]]:
        """Return the numbers of all documents that these groups may see, and the visible ones of `doc_ids`."""
        with self._searcher.reading() as (connection, index):
            index.ask_for(asked_groups(groups))
            number = index.generation.number
            asked = {"doc_ids": list(doc_ids)}
            rows = connection.execute(_named_statement("seen_documents", number), asked).fetchall() if doc_ids else ()
            return _count(connection, number, Choice()), {doc_id for (doc_id,) in rows}

    def first_sentences(self, doc_ids: Sequence[str], most: int) -> list[FirstSentence]:
        """Return the first sentences of the public ones among these documents, at most `most` of each."""
        with self._searcher.reading() as (connection, index):
            index.ask_for(())
            asked = {"doc_ids": list(doc_ids), "most": most}
            rows = connection.execute(_named_statement("first_sentences", index.generation.number), asked).fetchall()
        return [FirstSentence(doc_id, tuple(path), *rest) for doc_id, path, *rest in rows]

    def _read(self, name: str, groups: Sequence[str], generation: int | None, **asked: Any) -> list[FoundDocument]:
        if any(isinstance(value, str) and not storable([value]) for value in asked.values()):
            return []
        with self._searcher.reading(generation) as (connection, index):
            index.ask_for(asked_groups(groups))
            number = index.generation.number
            rows = connection.execute(_named_statement(name, number), asked).fetchall()
        return [FoundDocument(number, *row) for row in rows]

    # ------------------------------------------------------------ text

    def text(self, document: FoundDocument) -> DocumentText | None:
        """Return the parsed text of a document, or None if Parquet has no text, or another version than the served
        one."""
        key = document.generation, document.doc_id, document.row_hash
        with self._lock:
            if key in self._texts:
                self._texts.move_to_end(key)
                return self._texts[key]
        found = self._read_parsed(document)
        if found is not None:
            with self._lock:
                self._texts[key] = found
                while sum(len(text.body) for text in self._texts.values()) > KEPT_CHARACTERS:
                    self._texts.popitem(last=False)
        return found

    def _read_parsed(self, document: FoundDocument) -> DocumentText | None:
        generation = self._state.catalog.generation(document.generation)
        if generation is None:
            return None
        try:
            state = self._state.of_generation(generation)
        except SettingsError:
            return None  # settings that this version does not know
        wanted = (*INPUTS, "parsed_elements")
        part, again = (state.engine.part_of(document.doc_id, tables) for tables in (wanted, ["parsed_documents"]))
        if not all(map(part.has, wanted)) or not again.same(part, "parsed_documents"):
            return None  # a run commits between the looks
        states = {table: part.states(table).get(document.doc_id) for table in INPUTS[1:]}
        raw, parsed = (
            next(iter(part.records(table, {document.doc_id}).get(document.doc_id, ())), None) for table in INPUTS[:2]
        )
        if not isinstance(raw, RawDocument) or not isinstance(parsed, ParsedDocument):
            return None
        outputs = [state.output for state in states.values() if state]
        made = row_hash(document_facts(raw, parsed), raw.uri, raw.content_hash, document.stale, outputs)
        if made != document.row_hash:
            return None
        elements = part.records("parsed_elements", {document.doc_id})
        return DocumentText(parsed.body, tuple(elements.get(document.doc_id, ())))


def _count(connection: Connection[Any], generation: int, choice: Choice) -> DocumentCounts:
    found: dict[str, list[tuple[str, int]]] = {name: [] for name in ("", *FACETS)}
    for name, value, count in connection.execute(
        _statement("facets", "counted_documents", generation), _parameters(choice)
    ):
        if count:
            found[name].append((value, count))
    total = sum(count for _, count in found.pop(""))
    return DocumentCounts(generation, total, {name: tuple(values) for name, values in found.items()})


def _parameters(choice: Choice) -> dict[str, Any]:
    chosen = {name: getattr(choice, name) for name in FACETS}
    return {**chosen, "words": list(choice.words), "kinds": json.dumps(KIND_OF_ENDING)}


def _statement(name: str, documents: str, generation: int) -> Composed:
    """Return a statement with its fragments filled in; `documents` is the fragment that reads the documents."""
    known = statements("search_documents")
    text = known[name].replace("{chosen}", known["chosen"]).replace("{documents}", known[documents])
    for fragment in ("facet_values", "named"):
        text = text.replace(f"{{{fragment}}}", known[fragment])
    return fill(text, {"schema": schema_name(generation)}, f"search_documents.{name}")


@dataclass(frozen=True, slots=True)
class SentenceInPlace:
    """A sentence of a chunk; its text begins at character `start` of the chunk's own text."""

    chunk_id: str
    sentence_id: str
    text: str
    start: int
    page: int | None
    boxes: list[dict[str, Any]]


def sentences_in_place(
    connection: Connection[Any], generation: int, chunk_ids: Sequence[str]
) -> dict[str, list[SentenceInPlace]]:
    """Return sentences by chunk, in order. The caller must first set the asker's groups on the connection."""
    rows = connection.execute(
        _named_statement("sentences_in_place", generation), {"chunk_ids": list(chunk_ids)}
    ).fetchall()
    found: dict[str, list[SentenceInPlace]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(SentenceInPlace(*row))
    return found


def _named_statement(name: str, generation: int) -> Any:
    return statement("search_documents", name, schema=schema_name(generation))
