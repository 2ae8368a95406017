"""Documents of the live generation, or of a named one, as one asker may read them: their fields, their parsed text, and
the place of each sentence in it.

Rows come from Postgres, read as the query role. Text comes from Parquet, where a run may be ahead of the served
generation: text is returned only if the served rows were made from it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError, SettingsError
from pipelines.indexing.indexed_documents import document_facts, row_hash
from pipelines.records import Element, ParsedDocument, RawDocument
from resources.postgres.catalog import schema_name
from resources.postgres.search_index import storable
from resources.postgres.statements import query as statement
from resources.search.search_options import asked_groups
from resources.stages.part_rows import INPUTS

if TYPE_CHECKING:
    from psycopg import Connection

    from resources.search.passages import Searcher
    from resources.state.state import State

MOST_LISTED = 1_000
KEPT_CHARACTERS = 5_000_000
"""Characters of parsed text kept in memory for the next question, the least recently read dropped first."""


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A document as a generation serves it. `content_hash` is the hash of its file as indexed, `row_hash` the hash of
    all its rows. `stale` means that its file has failed since."""

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


@dataclass(frozen=True, slots=True)
class DocumentText:
    """A document's parsed body, and the elements whose spans lie in it, in reading order."""

    body: str
    elements: tuple[Element, ...]


class ServedDocuments:
    """A reader of served documents, safe to use from several threads."""

    def __init__(self, state: State, searcher: Searcher) -> None:
        self._state, self._searcher = state, searcher
        self._texts: OrderedDict[tuple[int, str, str], DocumentText] = OrderedDict()
        self._lock = Lock()

    def one(self, doc_id: str, groups: Sequence[str] = (), generation: int | None = None) -> FoundDocument:
        """Return one document. Raise IndexStateError `unknown_document` both for a document that the asker's groups
        hide and for one that does not exist."""
        found = self._read("document", groups, generation, doc_id=doc_id)
        if not found:
            raise IndexStateError(
                f"there is no document {doc_id[:100]!a} that you may see; take the id from a passage, or from the list "
                "of documents",
                "unknown_document",
            )
        return found[0]

    def listed(self, groups: Sequence[str] = (), after: str = "", most: int = 100) -> list[FoundDocument]:
        """Return at most `most` documents whose ids come after `after`, in order of their ids."""
        return self._read("documents_after", groups, None, after=after, most=max(1, min(most, MOST_LISTED)))

    def _read(self, name: str, groups: Sequence[str], generation: int | None, **asked: Any) -> list[FoundDocument]:
        if any(isinstance(value, str) and not storable([value]) for value in asked.values()):
            return []
        with self._searcher.reading(generation) as (connection, index):
            index.ask_for(asked_groups(groups))
            number = index.generation.number
            rows = connection.execute(_named(name, number), asked).fetchall()
        return [FoundDocument(number, *row) for row in rows]

    # ------------------------------------------------------------ text

    def text(self, document: FoundDocument) -> DocumentText | None:
        """Return the parsed text of a document, or None if Parquet holds no version of it, or another one than is
        served."""
        key = document.generation, document.doc_id, document.row_hash
        with self._lock:
            if key in self._texts:
                self._texts.move_to_end(key)
                return self._texts[key]
        found = self._parsed(document)
        if found is not None:
            with self._lock:
                self._texts[key] = found
                while sum(len(text.body) for text in self._texts.values()) > KEPT_CHARACTERS:
                    self._texts.popitem(last=False)
        return found

    def _parsed(self, document: FoundDocument) -> DocumentText | None:
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


@dataclass(frozen=True, slots=True)
class SentenceInPlace:
    """A sentence of a chunk; it begins at character `start` of the chunk's own text."""

    chunk_id: str
    sentence_id: str
    text: str
    start: int
    page: int | None
    boxes: list[dict[str, Any]]


def sentences_in_place(
    connection: Connection[Any], generation: int, chunk_ids: Sequence[str]
) -> dict[str, list[SentenceInPlace]]:
    """Return sentences by chunk, in order. Set the asker's groups on the connection first."""
    rows = connection.execute(_named("sentences_in_place", generation), {"chunk_ids": list(chunk_ids)}).fetchall()
    found: dict[str, list[SentenceInPlace]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(SentenceInPlace(*row))
    return found


def _named(name: str, generation: int) -> Any:
    return statement("search_documents", name, schema=schema_name(generation))
