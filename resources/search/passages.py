"""Searches in one generation: with its own embedder, models loaded once, and one transaction per question."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, Protocol

from pipelines.errors import IndexStateError, SettingsError, UsageError
from pipelines.llm.prompts import PromptTemplate, in_language, templates_of
from pipelines.parsing.formats import OF_ENDING
from pipelines.ports import CrossEncoder, Filters, Passage, Vectors
from pipelines.query.results import Hit, query_json
from pipelines.query.retrieve import Retrieved, require_question, retrieve
from pipelines.query.synonyms import MOST_CHARACTERS, Synonyms, read_synonyms
from pipelines.query.tools import ModelFunctions
from pipelines.query.wording import Question, Wordings
from pipelines.records import Box
from resources.models.embedders.specs import EmbedderSpec, require_weights
from resources.postgres.catalog import schema_name
from resources.postgres.search_index import MOST_LOOKED_AT, PostgresSearchIndex, search_index
from resources.postgres.statements import query as statement
from resources.search.reading import IndexReading, seconds_left
from resources.search.search_options import SearchOptions, asked_groups

if TYPE_CHECKING:
    from psycopg import Connection

    from pipelines.ports import CountingEmbedder
    from resources.llm.model import BoughtModel
    from resources.state.state import State


# ---------------------------------------------------------------- models for strategies, rerankers and answers
#
# Each is made on first use and then kept.


class KnownQuestions(Protocol):
    """The vectors of questions that were embedded before."""

    def vectors_of(
        self, embedder: EmbedderSpec, texts: Sequence[str], embed: Callable[[Sequence[str]], Vectors]
    ) -> Vectors: ...


class QueryModels:
    """The tools for one state's settings; the embedder is the one that the searched generation records. The `vectors`
    of questions, if given, are looked up before a question is embedded."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._models: dict[str, BoughtModel] = {}
        self.vectors: KnownQuestions | None = None

    def tools_for(self, embedder: Mapping[str, Any]) -> ModelFunctions:
        """Return the tools for a generation with this recorded embedder."""
        spec = EmbedderSpec(**embedder)

        def queries(texts: Sequence[str]) -> Vectors:
            require_weights(spec)
            return self.vectors.vectors_of(spec, texts, embed) if self.vectors else embed(texts)

        def embed(texts: Sequence[str]) -> Vectors:
            return self._state.embedder(spec).queries(texts)

        def passages(texts: Sequence[str]) -> Vectors:
            return self._embedder(spec).passages(texts)

        return ModelFunctions(queries, passages, self.model, self.prompt, self.cross_encoder)

    def prepare(self, embedder: Mapping[str, Any], questions: Sequence[str]) -> None:
        """Embed the questions whose vectors are looked up, all at once; if none are, load the embedder, so that the
        first question takes no longer than others."""
        spec = EmbedderSpec(**embedder)
        if self.vectors and questions:
            self.tools_for(embedder).embed_queries(questions)
        elif not self.vectors:
            self._state.embedder(spec).load()

    def _embedder(self, spec: EmbedderSpec) -> CountingEmbedder:
        require_weights(spec)
        return self._state.embedder(spec)

    def model(self, role: str) -> BoughtModel:
        """Return the language model of a role. Raise SettingsError if none is set."""
        if role not in self._models:
            self._models[role] = self._state.language_model(role, role)
        return self._models[role]

    @cached_property
    def _prompts(self) -> dict[str, dict[str, PromptTemplate]]:
        from resources.prompts import read_prompts

        own = self._state.settings.enrichment.prompts
        texts = read_prompts(Path(own) if own else None)
        return {name: templates_of(name, by_language) for name, by_language in texts.items()}

    def prompt(self, name: str, language: str) -> PromptTemplate:
        """Return a prompt by name and language, in English if it was not translated."""
        return in_language(self._prompts[name], language)

    @cached_property
    def _cross_encoder(self) -> CrossEncoder:
        from resources.models.rerankers import make_cross_encoder

        return make_cross_encoder(self._state.settings.query.cross_encoder)

    def cross_encoder(self) -> CrossEncoder:
        return self._cross_encoder


# ---------------------------------------------------------------- questions


LEAST_PREFIX = 6
MOST_BYTES = 4 * MOST_CHARACTERS
"""Most bytes of a file of synonyms that are read: a file of MOST_CHARACTERS characters has no more."""
SHOWN_ALTERNATIVES = 5


@dataclass(frozen=True, slots=True)
class NamedSentence:
    """A sentence found by its id. `start` is its offset in the text of the passage."""

    sentence_id: str
    text: str
    source: str
    page: int | None
    confidence: float
    start: int
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """A passage, and the content hash of its indexed file; `stale` means that the file has failed since then. If a
    `sentence` was requested, the passage is its paragraph."""

    generation: int
    passage: Passage
    content_hash: str
    stale: bool
    sentence: NamedSentence | None = None

    @property
    def doc_id(self) -> str:
        return self.passage.doc_id

    @property
    def source(self) -> str:
        return self.passage.source

    @property
    def uri(self) -> str:
        return self.passage.uri


def _only(rows: Sequence[tuple[Any, ...]], named: str, generation: int) -> tuple[Any, ...]:
    """Return the row with the requested id. Raise IndexStateError if no row matches, or several match."""
    if not rows:
        raise IndexStateError(
            f"generation {generation} has no visible chunk or sentence {named}; `pincite query --json` "
            "gives ids, which change with the text and its headings, and --group names your groups",
            "unknown_chunk",
        )
    whole = [row for row in rows if row[0] == named]
    if len(rows) > 1 and not whole:
        found = ", ".join(row[0] for row in rows[:SHOWN_ALTERNATIVES])
        more = " and more" if len(rows) > SHOWN_ALTERNATIVES else ""
        raise IndexStateError(f"several ids begin with {named}: {found}{more}; give more characters", "ambiguous_chunk")
    return (whole or rows)[0]


def _left_out(filters: Filters, without: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    """Yield a note for each key because of which documents without a value are left out."""
    kinds: dict[str, dict[str, None]] = {}
    for bound in filters.compared:
        kinds.setdefault(bound.key, {}).update(
            {kind: None for kind, given in (("number", bound.numbers), ("date", bound.days)) if given}
        )
    for key, (number, of) in without.items():
        if number:
            among = f"the first {of:,}" if of >= MOST_LOOKED_AT else f"{of:,}"
            has = "no date" if key == "date" else f"no {' or '.join(kinds[key])} as {key!r}"
            documents = f"document{'' if of == 1 else 's'} {'has' if number == 1 else 'have'}"
            yield f"{number:,} of {among} {documents} {has}, so the filter leaves {'it' if number == 1 else 'them'} out"


class Searcher:
    """A search of the live generation, or of a named one. The embedder is always the generation's own, and is kept
    loaded. `exact` skips the vector index. Each statement may take `seconds`."""

    def __init__(self, state: State, exact: bool = False, seconds: float | None = None) -> None:
        self._state, self._exact, self._seconds, self._known = state, exact, seconds, False
        self.tools = QueryModels(state)
        self._synonyms: tuple[tuple[Path, int, int], Synonyms] | None = None

    @contextmanager
    def reading(self, generation: int | None = None) -> Iterator[tuple[Connection[Any], PostgresSearchIndex]]:
        """Open a generation in one transaction, after migrating the catalog to this version. Raise IndexStateError or
        DatabaseError."""
        settings, database = self._state.settings, self._state.database
        keys, hours = settings.query.metadata_keys, settings.access.memberships_max_age_hours
        if not self._known and database.holds_catalog():
            database.migrate()
        self._known = True
        with (
            database.connect() as connection,
            search_index(connection, generation, keys, self._exact, seconds_left(self._seconds), hours) as index,
        ):
            yield connection, index

    def asking(self, generation: int | None = None) -> IndexReading:
        """Return a `reading` that returns its connection to the pool while it waits for a model."""
        return IndexReading(self.reading, generation)

    def retrieve(
        self,
        question: Question | str,
        index: PostgresSearchIndex,
        options: SearchOptions,
        reading: IndexReading | None = None,
    ) -> Retrieved:
        """Return hits, and notes about fallbacks. `index` may be of any generation. If `index` belongs to `reading`,
        the connection returns to the pool while a model works. Raise UsageError, DatabaseError or ModelError."""
        index.ask_for(options.filters.groups)
        embedder = index.generation.embedder
        tools = self.tools.tools_for(embedder)
        without = index.without_value(options.filters)
        found = retrieve(
            question,
            index,
            reading.resting(tools, embedder["kind"] == "endpoint") if reading else tools,
            self._state.settings.query,
            k=options.k,
            strategy=options.strategy,
            rerank=options.rerank,
            filters=options.filters,
            wordings=self.wordings(),
        )
        unmet = [] if found.hits else index.unmet(options.filters)
        return replace(
            found,
            notes=(*found.notes, *_left_out(options.filters, without), *unmet),
            without_value={key: {"documents": number, "of": of} for key, (number, of) in without.items()},
        )

    def wordings(self) -> Wordings:
        """Return the rules for interpreting questions.

        The file of synonyms is read again when it has changed. Raise SettingsError that names the file, and the line,
        if it cannot be read or is invalid.
        """
        settings = self._state.settings.query
        if settings.synonyms is None:
            return Wordings(settings)
        place = Path(settings.synonyms)
        try:
            found = place.stat()
            if not S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
                what = f"has over {MOST_BYTES:,} bytes" if S_ISREG(found.st_mode) else "is no file"
                raise SettingsError(f"query.synonyms: {place} {what}; name a file of synonyms")
            seen = (place, found.st_mtime_ns, found.st_size)
            if self._synonyms is None or self._synonyms[0] != seen:
                self._synonyms = seen, read_synonyms(place.read_text(encoding="utf-8"), place.name)
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8"
            raise SettingsError(
                f"query.synonyms: {place} cannot be read: {why}; correct the path or the file"
            ) from None
        return Wordings(settings, self._synonyms[1], place.name)

    def hits(self, question: Question | str, options: SearchOptions) -> tuple[int, list[Hit]]:
        """Return (generation, hits). Raise UsageError, IndexStateError, DatabaseError or ModelError."""
        with self.asking(options.generation) as reading:
            found = self.retrieve(question, reading.index, options, reading)
            return reading.index.generation.number, found.hits

    def chunk(self, named: str, groups: Sequence[str] = (), generation: int | None = None) -> FoundChunk:
        """Return a chunk or a sentence by its id, or by the unique first characters of its id. A hidden id is reported
        as if it did not exist.

        Raise UsageError, IndexStateError `unknown_chunk` or `ambiguous_chunk`, or DatabaseError.
        """
        if len(named) < LEAST_PREFIX or not named.isalnum() or not named.isascii():
            raise UsageError(
                f"{named!r} is not an id of a chunk or sentence; give the whole id, or at least its first "
                f"{LEAST_PREFIX} characters"
            )
        groups = asked_groups(groups)
        filters = Filters(groups=groups)
        with self.reading(generation) as (connection, index):
            number = index.generation.number
            schema = schema_name(number)
            index.ask_for(groups)
            asked = {"prefix": named, "most": SHOWN_ALTERNATIVES + 1}
            chunks, sentences = (
                connection.execute(named, asked).fetchall()
                for named in (
                    statement("search_chunks", "chunks_starting", schema=schema),
                    statement("search_sentences", "sentences_starting", schema=schema),
                )
            )
            row = _only([*chunks, *sentences], named, number)
            if row in chunks:
                chunk_id, content_hash, stale = row
                return FoundChunk(number, index.passages([chunk_id], filters)[chunk_id], content_hash, stale)
            sentence_id, chunk_id, paragraph_id, text, source, page, confidence, start, content_hash, stale = row
            key = (chunk_id, paragraph_id)
            found = index.paragraphs([key], filters)[key]
            boxes = found.boxes[sentence_id]
            sentence = NamedSentence(sentence_id, text, source, page, confidence, start, boxes)
            return FoundChunk(number, found.passage, content_hash, stale, sentence)

    def query(self, text: str, options: SearchOptions) -> dict[str, Any]:
        """Return the JSON of `query`. `without_value` is present only if a filter compares values: for each key, the
        number of documents without a value, and the number of documents that the asker may see."""
        require_question(text, options.k)
        started = time.perf_counter()
        with self.asking(options.generation) as reading:
            found = self.retrieve(text, reading.index, options, reading)
            number = reading.index.generation.number
            reading.index.ask_for(options.filters.groups)
            shared = shared_titles(reading.index.connection, number, found.hits)
        rerank = self._state.settings.query.rerank if options.rerank is None else options.rerank
        return {
            **with_documents(query_json(text, number, found.hits, time.perf_counter() - started), shared),
            "strategy": found.strategy,
            "rerank": [name for name in rerank if name != "none"],
            "searched": dict(found.searched),
            "added": [asdict(each) for each in found.question.added],
            "notes": list(found.notes),
            **({"without_value": found.without_value} if found.without_value else {}),
        }


# ---------------------------------------------------------------- hits by document
#
# Alike for the command, HTTP, agents and the page.


def shared_titles(connection: Connection[Any], generation: int, hits: Sequence[Hit]) -> set[str]:
    """Return the hits' titles that several documents have, among the documents that the asker may see."""
    named = statement("search_chunks", "shared_titles", schema=schema_name(generation))
    titles = list({hit.passage.title for hit in hits})
    return {title for (title,) in connection.execute(named, {"titles": titles}).fetchall()}


def with_documents(result: Mapping[str, Any], shared: Collection[str] = ()) -> dict[str, Any]:
    """Return the JSON of `query` or `ask` with its hits grouped in `documents`.

    Each hit, and each citation of the same documents, gets a `name` that identifies its document. `shared` has the
    titles of several documents that the asker may see.
    """
    hits = result["hits"]
    names = document_names(hits, shared)
    groups: dict[str, dict[str, Any]] = {}
    for hit in hits:
        group = groups.setdefault(hit["doc_id"], {
            "doc_id": hit["doc_id"], "source": hit["source"], "uri": hit["uri"], "title": hit["title"],
            "name": names[hit["doc_id"]], "format": document_format(hit["uri"]), "date": hit.get("date"), "hits": [],
        })  # fmt: skip
        group["hits"].append(hit["rank"])
    by_place = {(group["source"], group["uri"]): group["name"] for group in groups.values()}
    made = {**result, "hits": [{**hit, "name": names[hit["doc_id"]]} for hit in hits]}
    for quoted in ("citations", "marked"):
        if quoted in made:
            made[quoted] = [
                {**item, "name": by_place.get((item["source"], item["uri"])) or file_name(item["uri"])}
                for item in made[quoted]
            ]
    return {**made, "documents": list(groups.values())}


def document_names(hits: Iterable[Mapping[str, Any]], shared: Collection[str] = ()) -> dict[str, str]:
    """Return a unique name for each document of the hits, by id.

    It is the title; a title of several documents is followed by the file name; without a title it is the file name.
    Files with equal names are named by their paths.
    """
    documents = {hit["doc_id"]: hit for hit in hits}
    files = Counter(file_name(hit["uri"]) for hit in documents.values())
    paths = Counter(hit["uri"] for hit in documents.values())
    titles = Counter(" ".join(hit["title"].split()) for hit in documents.values())
    names = {}
    for doc_id, hit in documents.items():
        file, title = file_name(hit["uri"]), " ".join(hit["title"].split())
        if files[file] > 1:
            file = hit["uri"] if paths[hit["uri"]] == 1 else f"{hit['source']}/{hit['uri']}"
        alone = title and titles[title] == 1 and hit["title"] not in shared
        names[doc_id] = title if alone else f"{title} ({file})" if title else file
    return names


def file_name(uri: str) -> str:
    """Return the last part of a document's path or address."""
    return uri.rstrip("/").rpartition("/")[2] or uri


def document_format(uri: str) -> str:
    """Return the format of a document's file, as the usual ending of such files (`pdf`, `html` for .htm too); return ""
    for an unknown ending."""
    _, dot, ending = file_name(uri).rpartition(".")
    found = OF_ENDING.get(f"{dot}{ending.lower()}")
    return found.endings[0].removeprefix(".") if found else ""
