"""The RELATED_TO links of a generation: the strongest ones, and their number at other floors.

A sweep asks golden questions with the links of each floor.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError, UsageError
from pipelines.evaluation.golden import GoldenQuestion, map_questions
from pipelines.evaluation.judging import OptionsUse, ask_all, summary
from pipelines.indexing.sentence_links import floor_for, links_over
from pipelines.ports import Filters, ReachedSentence
from resources.evaluation.golden import corpus_of, read_questions
from resources.postgres.search_index import COMPARED, LEAST_EF_SEARCH, Generation, PostgresSearchIndex, ef_search
from resources.postgres.statements import query
from resources.search.passages import Searcher
from resources.search.search_options import SearchOptions, filters_from
from resources.stages.sentence_links import LinkedSentences, floor_used, made_from

if TYPE_CHECKING:
    from psycopg import Connection

    from pipelines.query.results import Hit
    from pipelines.query.wording import Question
    from pipelines.records import SentenceLink
    from resources.postgres.catalog import GenerationRow
    from resources.settings_file import Project
    from resources.state.state import State


# ---------------------------------------------------------------- links


_PLACE = ("sentence_id", "chunk_id", "text", "page", "source", "uri")


def generation_of(state: State, number: int | None) -> GenerationRow:
    """Return the live generation, or the one of this number. Raise IndexStateError if it does not exist."""
    found = state.catalog.live() if number is None else state.catalog.generation(number)
    if found is None and number is None:
        raise IndexStateError("no generation is published yet; run `pincite index`", "no_index")
    if found is None:
        raise IndexStateError(f"generation {number} does not exist; see `pincite generations list`", "no_generation")
    return found


def heading(state: State, generation: GenerationRow) -> dict[str, Any]:
    """Describe the generation of the links: `floor` is their minimum cosine (None if they were never made), `floor_set`
    the one in the generation's settings for its embedder."""
    embedder, live = generation.embedder["name"], state.catalog.live()
    settings = state.of_generation(generation).settings.sentences
    return {
        "generation": generation.generation,
        "live": live is not None and live.generation == generation.generation,
        "embedder": embedder,
        "floor": floor_used(state, generation),
        "floor_set": floor_for(settings, embedder),
        "most": settings.related_most,
    }


def links(
    state: State, generation: int | None = None, groups: Sequence[str] = (), strongest: int = 5
) -> dict[str, Any]:
    """Return the JSON of `links`. The counts cover all links; the strongest are those with different texts between
    documents that the asker's groups may see.

    Raise IndexStateError, SettingsError if this version does not know the generation's settings, or DatabaseError."""
    row = generation_of(state, generation)
    with state.database.connect() as connection:
        counts = connection.execute(query("links", "counts", schema=row.schema)).fetchone()
    with Searcher(state).reading(row.generation) as (connection, index):
        index.ask_for(groups)
        statement = query("links", "strongest", schema=row.schema)
        found = connection.execute(statement, {"most": strongest}).fetchall()
    assert counts is not None
    sentences, edges, linked, across, equal = counts
    return {
        **heading(state, row),
        "sentences": sentences,
        "links": edges,
        "sentences_linked": linked,
        "share": linked / sentences if sentences else 0.0,
        "across_documents": across,
        "equal_texts": equal,
        "strongest": [_link(values) for values in found],
    }


def _link(row: Sequence[Any]) -> dict[str, Any]:
    ends = row[1 : 1 + len(_PLACE)], row[1 + len(_PLACE) :]
    from_, to = (dict(zip(_PLACE, end, strict=True)) for end in ends)
    return {"similarity": row[0], "from": from_, "to": to}


# ---------------------------------------------------------------- link sweep
#
# The number of links that each floor leaves, and how the sentence route scores with them. Links over the least floor
# are made once; links over a higher floor are a subset of them. Nothing is written.


THRESHOLDS = (0.80, 0.85, 0.90, 0.92, 0.95)
SCORES = ("recall@1", "recall@5", "mrr", "accuracy_page")
ROUTE, RELATED = "sentence", "related"

Targets = Mapping[str, Sequence["SentenceLink"]]
"""Links by the sentence from which they start, strongest first."""


class SweptIndex(PostgresSearchIndex):
    """A generation whose RELATED_TO links are `targets` in place of the rows in its table. `chunk_of` has every
    sentence's chunk; `consulted` collects the sentences whose links were requested, with the returned links."""

    def __init__(
        self,
        connection: Connection[Any],
        generation: Generation,
        metadata_keys: Sequence[str],
        targets: Targets,
        chunk_of: Mapping[str, str],
    ) -> None:
        width = ef_search(generation.statistics)
        super().__init__(connection, generation, metadata_keys, exact=width == COMPARED)
        self._targets, self._chunk_of = targets, chunk_of
        self.consulted: dict[str, Sequence[SentenceLink]] = {}
        self.tune(width or LEAST_EF_SEARCH)

    def expand(
        self, sentence_ids: Sequence[str], steps: int, vector: Sequence[float], filters: Filters, least: float
    ) -> list[ReachedSentence]:
        reached = super().expand(sentence_ids, steps, vector, filters, least)
        answers = {name: self._targets.get(name, ()) for name in sentence_ids}
        self.consulted.update(answers)
        wanted = [link for links in answers.values() for link in links]
        chunks = list(dict.fromkeys(self._chunk_of[link.target_id] for link in wanted))
        found = {item.sentence_id: item for item in self.sentences_of(chunks, vector, filters, least)}
        related = [
            ReachedSentence(found[link.target_id], RELATED, link.source_id, 0, link.similarity)
            for link in wanted
            if link.target_id in found
        ]
        others = [item for item in reached if item.edge != RELATED]
        return sorted([*others, *related], key=lambda item: (item.sentence.sentence_id, item.via, item.edge))


def sweep(
    state: State,
    thresholds: Sequence[float] = (),
    golden: Path | None = None,
    generation: int | None = None,
    groups: Sequence[str] = (),
    with_options: OptionsUse = "none",
) -> dict[str, Any]:
    """Return the JSON of `links --sweep`: a row for each threshold, the least first, after one without links.

    `thresholds` default to five values and the floor of the generation's links; `golden` defaults to publish.golden. If
    there are no golden questions, the scores are None, and `notes` say why. Raise UsageError, SettingsError,
    IndexStateError, DatabaseError or ModelError.
    """
    started = time.perf_counter()
    row = generation_of(state, generation)
    about = heading(state, row)
    in_use = about["floor"] or about["floor_set"]
    floors = _floors(thresholds or (*THRESHOLDS, in_use))
    seen = state.of_generation(row)
    sentences = LinkedSentences(made_from(seen))
    links = links_over(
        floors[0], sentences.ids, sentences.chunk_ids, sentences.vectors, about["most"],
        lambda done, total: state.run.progress("links", done, total),
    ).links  # fmt: skip
    rows = [_count_links(floor, _links_over(links, floor), sentences) for floor in (None, *floors)]
    file, notes = _golden(state.project, golden)
    asked = None
    if file is not None:
        scorer = _Scorer(state, row, file, groups, with_options)
        asked = {"file": str(file), "questions": len(scorer.mapped), "unmapped": len(scorer.unmapped)}
        scorer.total = len(rows) * len(scorer.mapped)
        chunk_of = dict(zip(sentences.ids, sentences.chunk_ids, strict=True))
        for each in rows:
            each.update(scorer.scores(_links_over(links, each["threshold"]), chunk_of))
    return {
        **about, "sentences": len(sentences.ids), "golden": asked, "rows": rows, "notes": notes,
        "seconds": time.perf_counter() - started,
    }  # fmt: skip


def _floors(thresholds: Sequence[float]) -> list[float]:
    wrong = [value for value in thresholds if not 0 < value <= 1]
    if wrong:
        raise UsageError(f"a threshold must be a cosine over 0 and up to 1, not {wrong[0]}")
    return sorted(set(thresholds))


def _golden(project: Project, named: Path | None) -> tuple[Path | None, list[str]]:
    """Return the file of golden questions to ask, or None and the reason. A named file is returned without a check:
    reading it fails if it is missing."""
    if named is not None:
        return named, []
    if project.settings.publish.golden is None:
        return None, ["no scores: give golden questions with --golden FILE, or by the setting publish.golden"]
    file = project.resolve(project.settings.publish.golden)
    return (file, []) if file.is_file() else (None, [f"no scores: there is no file {file} (setting publish.golden)"])


def _links_over(links: Sequence[SentenceLink], floor: float | None) -> list[SentenceLink]:
    return [] if floor is None else [link for link in links if link.similarity >= floor]


def _count_links(floor: float | None, links: Sequence[SentenceLink], sentences: LinkedSentences) -> dict[str, Any]:
    document_of = dict(zip(sentences.ids, sentences.doc_ids, strict=True))
    linked = len({link.source_id for link in links})
    return {
        "threshold": floor,
        "links": len(links),
        "sentences_linked": linked,
        "share": linked / len(document_of) if document_of else 0.0,
        "across_documents": sum(document_of[link.source_id] != document_of[link.target_id] for link in links),
        "scores": None,
        "ci95": None,
    }


class _Scorer:
    """The golden questions, asked over the sentence route with each set of links in turn. A question is searched again
    only if the links that it used have changed."""

    def __init__(
        self, state: State, row: GenerationRow, file: Path, groups: Sequence[str], options: OptionsUse
    ) -> None:
        questions = read_questions(file)
        maps, self._corpus = corpus_of(state.of_generation(row))
        self.mapped, self.unmapped = map_questions(questions, maps)
        self._state, self._row, self._options = state, row, options
        self._searcher, self._asker = Searcher(state), tuple(groups)
        self._last: dict[tuple[Question, str], tuple[Targets, Sequence[Hit]]] = {}
        self.total, self._done = len(self.mapped), 0

    def scores(self, links: Sequence[SentenceLink], chunk_of: Mapping[str, str]) -> dict[str, Any]:
        """Return means and intervals with these links in place of the generation's."""
        targets: dict[str, tuple[SentenceLink, ...]] = {}
        for link in links:
            targets[link.source_id] = (*targets.get(link.source_id, ()), link)
        keys = self._state.settings.query.metadata_keys
        with self._searcher.reading(self._row.generation) as (connection, index):
            swept = SweptIndex(connection, index.generation, keys, targets, chunk_of)

            def search(question: Question, k: int, golden: GoldenQuestion) -> Sequence[Hit]:
                self._done += 1
                self._state.run.progress("questions", self._done, self.total)
                asked = question, golden.id
                consulted, hits = self._last.get(asked, ({}, ()))
                if not hits or any(targets.get(name, ()) != links for name, links in consulted.items()):
                    swept.consulted = {}
                    asker = tuple(dict.fromkeys((*self._asker, *golden.groups)))
                    options = SearchOptions(k, ROUTE, filters=filters_from(golden.filters, asker))
                    hits = self._searcher.retrieve(question, swept, options).hits
                    self._last[asked] = swept.consulted, hits
                return hits

            outcomes = ask_all(self.mapped, search, self._corpus, time.perf_counter, options=self._options)
        means, intervals = summary(outcomes)
        return {"scores": {name: means[name] for name in SCORES}, "ci95": {name: intervals[name] for name in SCORES}}
