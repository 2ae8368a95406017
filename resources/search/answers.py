"""Answers to questions, with the places that support them. An answer is written by the language model of the role
`answer`; if no model is set or it gives no reply, it consists of sentences from the index."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pipelines.errors import UsageError
from pipelines.query.answer import (
    NO_SUMMARY,
    Answer,
    answer_json,
    choose_option,
    extract_answer,
    marked_of,
    named_document,
    pick_option,
    summary_answer,
    write_answer,
)
from pipelines.query.assemble import ContextPassage, QuotableSentence, assemble
from pipelines.query.needs import asks_summary
from pipelines.query.repeats import without_repeats
from pipelines.query.results import Hit, query_json
from pipelines.query.retrieve import Retrieved, require_question
from pipelines.query.support import Weights, weights_of
from pipelines.query.tools import language_of
from pipelines.query.wording import Question, also_said
from pipelines.records import BY_MODEL
from resources.postgres.catalog import schema_name
from resources.postgres.statements import query as statement
from resources.postgres.statements import vector_parameter
from resources.search.passages import Searcher, shared_titles, with_documents

if TYPE_CHECKING:
    from psycopg import Connection

    from resources.postgres.search_index import Generation, PostgresSearchIndex
    from resources.search.search_options import SearchOptions
    from resources.state.state import State


MORE_PASSAGES = 1
"""Passages that are read in addition to `query.context_passages` if no language model answers."""


def choices_from(arguments: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """Return `LETTER=TEXT` arguments as texts by letter, in capitals. Raise UsageError for a wrong form."""
    pairs = arguments.items() if isinstance(arguments, Mapping) else (item.partition("=")[::2] for item in arguments)
    options: dict[str, str] = {}
    for name, words in pairs:
        letter, text = name.strip().upper(), " ".join(words.split())
        if len(letter) != 1 or not letter.isalpha() or not text:
            raise UsageError(f"--option {name}={words}: write LETTER=TEXT, such as --option A='seven years'")
        if letter in options:
            raise UsageError(f"--option {letter} is given twice; give each option another letter")
        options[letter] = text
    if len(options) == 1:
        raise UsageError("one --option leaves nothing to choose; give at least two, or none")
    return options


class Weigher:
    """The weights of terms from the frozen statistics of one generation. Frequencies include only chunks that the asker
    may see. Each is read once."""

    def __init__(self, searcher: Searcher, generation: Generation, groups: Sequence[str]) -> None:
        self._searcher, self._generation, self._groups = searcher, generation, groups
        self._documents: dict[str, int] = {}

    def __call__(self, terms: Collection[str]) -> Weights:
        unknown = [term for term in terms if term not in self._documents]
        if unknown:
            self._documents.update(dict.fromkeys(unknown, 0) | self._read(unknown))
        return weights_of(terms, self._documents, int(self._generation.statistics.get("chunks", 0)))

    def unknown(self, terms: Collection[str]) -> set[str]:
        """Return the terms that no document has among those that the asker may see."""
        self(terms)
        return {term for term in terms if not self._documents.get(term)}

    def _read(self, terms: Sequence[str]) -> dict[str, int]:
        named = statement("search_chunks", "documents_of", schema=schema_name(self._generation.number))
        with self._searcher.reading(self._generation.number) as (connection, index):
            index.ask_for(self._groups)
            return dict(connection.execute(named, {"terms": list(terms)}).fetchall())


def passage_sentences(
    connection: Connection[Any], generation: int, hits: Sequence[Hit], vector: Sequence[float] | None = None
) -> dict[str, list[QuotableSentence]]:
    """Return the sentences, by chunk, of the hits' passages and of the passages whose end they repeat. `vector` is the
    question's vector."""
    wanted = [hit.passage.chunk_id for hit in hits]
    wanted += [hit.passage.previous_id for hit in hits if hit.passage.overlap and hit.passage.previous_id]
    named = statement("search_sentences", "sentences_of", schema=schema_name(generation))
    found: dict[str, list[QuotableSentence]] = {}
    parameters = {"chunk_ids": wanted, "vector": None if vector is None else vector_parameter(connection, vector)}
    for row in connection.execute(named, parameters).fetchall():
        found.setdefault(row[0], []).append(QuotableSentence(*row))
    return found


class Answerer:
    """A tool that answers questions from the live generation, or from a named one."""

    def __init__(self, state: State, searcher: Searcher) -> None:
        self._state, self._searcher = state, searcher

    def ask(
        self,
        text: str,
        choices: Sequence[str] | Mapping[str, str],
        options: SearchOptions,
        tell: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        """Return the JSON of `ask`. Choices are added to the searched words, but not to the vector. `tell` gets the
        JSON of the hits before the answer is made.

        Raise UsageError, SettingsError, IndexStateError, DatabaseError or ModelError.
        """
        given = choices_from(choices)
        words = " ".join([text, *given.values()]) if given else None
        require_question(text, options.k, words)
        settings = self._state.settings.query
        started = time.perf_counter()
        question = Question(text, words)
        with self._searcher.asking(options.generation) as reading:
            index = reading.index
            read = settings.context_passages + (0 if self._state.settings.llm.asks("answer") else MORE_PASSAGES)
            most = max(options.k, read)
            found = self._searcher.retrieve(question, index, replace(options, k=most), reading)
            best = found.hits[:read]
            index.ask_for(options.filters.groups)
            sentences = passage_sentences(index.connection, index.generation.number, best, found.vector)
            shared = shared_titles(index.connection, index.generation.number, found.hits)
            summary = self._summary(text, index, best) if asks_summary(text) and not given else None
        if tell is not None:
            hits = found.hits[: options.k]
            told = query_json(text, index.generation.number, hits, time.perf_counter() - started)
            tell(with_documents(told, shared))
        context, notes = assemble(best, sentences, most=read, tokens=settings.context_tokens, shared=shared)
        weigher = Weigher(self._searcher, index.generation, options.filters.groups)
        if not context:
            answer = Answer(notes=("no passage was found",))
        else:
            answer = summary or self._answer(text, given, context, weigher, found)
        answer = replace(answer, notes=(*found.notes, *notes, *answer.notes), marked=marked_of(text, context))
        return {
            **with_documents(answer_json(text, answer, found.hits[: options.k], bool(given)), shared),
            "generation": index.generation.number,
            "seconds": time.perf_counter() - started,
            **({"without_value": found.without_value} if found.without_value else {}),
        }

    def _summary(self, text: str, index: PostgresSearchIndex, hits: Sequence[Hit]) -> Answer | None:
        """Return the summary of the document that a question names, or a decline if the index has no summary. Return
        None if a language model is set, since it writes the summary itself."""
        if self._state.settings.llm.asks("answer"):
            return None
        passages = [hit.passage for hit in hits]
        passage = named_document(text, passages)
        if passage is None:
            return Answer(notes=(NO_SUMMARY,))
        named = statement("search_documents", "summary_of", schema=schema_name(index.generation.number))
        row = index.connection.execute(named, {"doc_id": passage.doc_id}).fetchone()
        return summary_answer(passage, row[0], row[1] in BY_MODEL) if row and row[0] else Answer(notes=(NO_SUMMARY,))

    def _answer(
        self,
        text: str,
        options: Mapping[str, str],
        context: Sequence[ContextPassage],
        weigh: Weigher,
        retrieved: Retrieved,
    ) -> Answer:
        """Answer with the language model, or with sentences if no model is set or it gives no reply."""
        least = self._state.settings.query.answer_support
        notes: tuple[str, ...] = ()
        if self._state.settings.llm.asks("answer"):
            model = self._searcher.tools.model("answer")
            template = self._searcher.tools.prompt("choice" if options else "answer", language_of(text))
            sent = context if self._state.settings.query.context_repeats else without_repeats(context)
            if options:
                said = pick_option(text, options, sent, model, template, weigh)
            else:
                said = write_answer(text, sent, model, template, weigh)
            if isinstance(said, Answer):
                return said
            notes = (said,)
        asked, in_other_words = retrieved.question.terms, partial(also_said, retrieved.question.expansions)

        def weigh_terms(terms: Collection[str]) -> Weights:
            return {term: weight * asked.get(term, 1.0) for term, weight in weigh(terms).items()}

        unknown = weigh.unknown(asked)
        if options:
            found = choose_option(text, options, context, weigh_terms, least, retrieved.alike, in_other_words, unknown)
        else:
            found = extract_answer(text, context, weigh_terms, least, retrieved.alike, in_other_words, unknown)
        return replace(found, notes=(*notes, *found.notes))
