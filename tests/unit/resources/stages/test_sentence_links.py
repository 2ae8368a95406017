"""RELATED_TO over an engine in memory: what an update compares, keeps and commits."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.errors import IndexStateError
from pipelines.fingerprint import document_id, fingerprint
from pipelines.increments import DocumentState, bucket_output, output_hash
from pipelines.indexing.sentence_links import sentence_links
from pipelines.ranges import bucket_of, bucket_range
from pipelines.records import Embedding, Sentence, SentenceLink, Span
from pipelines.schemas import to_table
from pipelines.settings.base import settings_from
from pipelines.stages import stage_keys
from resources.engine import StageReport
from resources.engine.memory import MemoryFiles, MemoryManifest
from resources.engine.tables import ParquetTables
from resources.postgres.catalog import GenerationRow, ManifestRow
from resources.settings_file import Project
from resources.stages.sentence_links import floor_used, link_sentences
from resources.state.generation import frozen_from, installed_models
from resources.state.parts import Parts
from resources.state.run import Run
from resources.state.state import State

BUCKETS = 4


def _vectors() -> np.ndarray:
    """Six kinds of five that are alike, then for each kind one at a cosine of 0.87 with its first."""
    kinds = np.random.default_rng(4).normal(size=(6, 1, 32)) + 0.15 * np.random.default_rng(5).normal(size=(6, 5, 32))
    kinds /= np.linalg.norm(kinds, axis=2, keepdims=True)
    first = kinds[:, 0]
    aside = np.random.default_rng(6).normal(size=first.shape)
    aside -= (aside * first).sum(axis=1, keepdims=True) * first
    aside /= np.linalg.norm(aside, axis=1, keepdims=True)
    return np.concatenate([kinds.reshape(30, 32), 0.87 * first + np.sqrt(1 - 0.87**2) * aside]).astype(np.float32)


VECTORS = _vectors()
NEAR = range(30, 36)
APART = [0, 5, 10, 30, 31, 32]
"""Three of different kinds, and those near to them."""

Library = Mapping[str, list[tuple[str, int]]]
"""Document to its sentences: the chunk of each, and its text, a row of VECTORS."""
LIBRARY = {
    f"{number}.txt": [(str(place // 2), (number * 7 + place * 5) % 30) for place in range(4)] for number in range(12)
}
LIBRARY["alone.txt"] = [("0", 0)]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    floors = {"related_floor": 0.5, "related_floors": {"english-small": 0.9}}
    settings = settings_from({"buckets": BUCKETS, "sentences": floors})
    unfrozen, spec = installed_models(settings), {"name": "english-small", "identity": "weights"}
    statistics = {"overlap": {}, "models": {"static": unfrozen.static, "sentence_models": unfrozen.sentence_models}}
    keys = stage_keys(settings, frozen_from(statistics, "weights"))
    now = datetime.now(UTC)
    generation = GenerationRow(1, "key", {}, spec, 32, statistics, None, now, None, None, keys, None)
    project = Project(settings, None, tmp_path, tmp_path / "state")
    parts = Parts(project, catalog=MemoryManifest(), tables=ParquetTables(MemoryFiles()))
    made = State(project, Run("a run"), parts, generation)
    yield made
    made.close()


def rows(uri: str, sentences: list[tuple[str, int]]) -> tuple[list[Sentence], list[Embedding]]:
    doc_id = document_id("docs", uri)
    found, vectors = [], []
    for index, (chunk, text) in enumerate(sentences):
        name = fingerprint(doc_id, text, index)
        place = (f"{uri} {chunk}", 0, 1, "p", "", 0, 1, Span(0, 1), "s", (), None, None)
        found.append(Sentence(doc_id, index, name, str(text), "prose", None, (), 1.0, *place))
        vectors.append(Embedding(doc_id, index, name, str(text), tuple(VECTORS[text].tolist())))
    return found, vectors


def commit(state: State, table: str, record: type, documents: Mapping[str, list[Any]]) -> None:
    """A table as its stage leaves it: every bucket's rows, states and commit."""
    key = state.engine.key(table)
    for bucket in range(BUCKETS):
        inside = {doc_id: found for doc_id, found in documents.items() if bucket_of(doc_id, BUCKETS) == bucket}
        states = {doc_id: DocumentState("", output_hash(found)) for doc_id, found in inside.items()}
        arrow = to_table(record, [row for doc_id in sorted(inside) for row in inside[doc_id]])
        ends, output = bucket_range(bucket, BUCKETS), bucket_output(states)
        file = state.parts.tables.write(table, key, ends, arrow, states)
        row = ManifestRow(table, key, *ends, file, True, "", output, arrow.num_rows, len(inside))
        state.parts.catalog.commit([row], table, key, [ends])


def put(state: State, library: Library) -> None:
    made = {document_id("docs", uri): rows(uri, sentences) for uri, sentences in library.items()}
    commit(state, "sentences", Sentence, {doc_id: found for doc_id, (found, _) in made.items()})
    commit(state, "sentence_embeddings", Embedding, {doc_id: vectors for doc_id, (_, vectors) in made.items()})


def update(state: State, library: Library) -> StageReport:
    put(state, library)
    return link_sentences(state)


def committed(state: State) -> list[SentenceLink]:
    return list(state.engine.table("sentence_links").records())


def arrays(library: Library) -> tuple[list[str], list[str], Any]:
    """Ids, chunks and vectors of all sentences."""
    found = [sentence for uri, sentences in library.items() for sentence in rows(uri, sentences)[0]]
    vectors = VECTORS[[int(sentence.text) for sentence in found]]
    return [one.sentence_id for one in found], [one.chunk_id for one in found], vectors


def rebuilt(library: Library) -> list[SentenceLink]:
    return sentence_links(*arrays(library), 0.9, 2).links


def compared(report: StageReport) -> int:
    return int(report.notes["sentences compared"])


def test_an_update_compares_what_changed_and_ends_where_a_rebuild_ends(state: State) -> None:
    first = update(state, LIBRARY)
    assert committed(state) == rebuilt(LIBRARY) and len(rebuilt(LIBRARY)) > 40
    assert (first.computed, first.kept, first.gone, compared(first)) == (13, 0, 0, 49)
    assert first.written == first.total == len(rebuilt(LIBRARY))

    edited = {**LIBRARY, "3.txt": [("0", 2), ("0", 17), ("1", 28)], "new.txt": [("0", 5)]}
    del edited["4.txt"]
    second = update(state, edited)
    assert committed(state) == rebuilt(edited) != rebuilt(LIBRARY)
    assert (second.computed, second.kept, second.gone) == (2, 11, 1)
    assert 4 < compared(second) < 30, "four are new, some have lost a target"
    assert second.written == second.total == len(rebuilt(edited))

    moved = {**edited, "5.txt": [("0", text) for _, text in edited["5.txt"]]}
    third = update(state, moved)
    assert committed(state) == rebuilt(moved)
    assert (third.computed, third.kept) == (1, 12)


def test_no_row_is_read_where_nothing_changed(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    links = update(state, LIBRARY).total
    monkeypatch.setattr(state.parts.tables, "read", lambda *asked: pytest.fail(f"read {asked}"))
    again = link_sentences(state)
    assert (again.computed, again.kept, again.total, again.written, compared(again)) == (0, 13, links, 0, 0)


def test_the_same_links_are_the_same_output_whatever_documents_they_were_made_from(state: State) -> None:
    update(state, LIBRARY)
    before = state.engine.whole("sentence_links")
    update(state, {**LIBRARY, "empty.txt": []})
    after = state.engine.whole("sentence_links")
    names = [part.origin("sentence_links", document_id("docs", "alone.txt"))[0] for part in (before, after)]
    assert names[0] != names[1]
    assert (before.documents("sentence_links"), after.documents("sentence_links")) == (13, 14)
    assert before.output("sentence_links") == after.output("sentence_links")
    update(state, {**LIBRARY, "twin.txt": [("0", 0)]})
    assert state.engine.table("sentence_links").output != before.output("sentence_links")


def floors(state: State, report: StageReport) -> tuple[float, float | None]:
    """As the run reports it, and as it stands beside the links."""
    return report.notes["floor"], floor_used(state, state.ensure_generation())


def test_the_floor_is_the_embedder_s_or_lower_where_no_pair_reaches_it_and_is_recorded(state: State) -> None:
    assert floor_used(state, state.ensure_generation()) is None
    apart = {f"{number}.txt": [("0", number * 5)] for number in range(6)}
    low = update(state, {**apart, "near.txt": [("0", NEAR[0])]})
    assert floors(state, low) == (0.85, 0.85) and low.total == 2
    high = update(state, {**apart, "near.txt": [("0", NEAR[0])], "twin.txt": [("0", NEAR[0])]})
    assert floors(state, high) == (0.9, 0.9) and (high.total, compared(high)) == (2, 1)
    again = link_sentences(state)
    assert floors(state, again) == (0.9, 0.9) and again.computed == 0
    back = update(state, {**apart, "near.txt": [("0", NEAR[0])]})
    assert floors(state, back) == (0.85, 0.85) and (back.total, compared(back)) == (2, 7)


def test_any_sequence_of_updates_ends_where_a_rebuild_ends(state: State) -> None:
    """Documents are added, changed, taken away and divided anew into chunks; few of them, so that now one floor
    holds and now the other."""
    chance, library, found = random.Random(8), dict[str, list[tuple[str, int]]](), []
    for _ in range(24):
        for uri in chance.sample([f"{number}.txt" for number in range(7)], 2):
            what = chance.choice(["gone", "chunks", "text", "text"])
            if what == "gone":
                library.pop(uri, None)
            elif what == "chunks":
                library[uri] = [(str(chance.randrange(2)), text) for _, text in library.get(uri, [])]
            else:
                library[uri] = [(str(chance.randrange(2)), chance.choice(APART)) for _ in range(chance.randrange(3))]
        report = update(state, library)
        links = sentence_links(*arrays(library), 0.9, 2)
        assert (committed(state), report.notes["floor"]) == (links.links, links.floor)
        found.append((links.floor, len(links.links) > 0))
    assert {(0.9, True), (0.85, True), (0.85, False)} == set(found)


def test_links_whose_file_is_lost_are_made_anew(state: State) -> None:
    update(state, LIBRARY)
    state.parts.tables.delete(state.engine.table("sentence_links").files)
    assert compared(link_sentences(state)) == 49
    assert committed(state) == rebuilt(LIBRARY)


def test_no_sentence_at_all(state: State) -> None:
    assert update(state, {"empty.txt": []}).total == 0
    update(state, LIBRARY)
    assert committed(state) == rebuilt(LIBRARY)
    assert update(state, {}).gone == 13
    assert committed(state) == []


@pytest.fixture
def very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the sentences of the tests were too many to compare all pairs, or to hold all vectors; but every cell is
    probed."""
    monkeypatch.setattr("resources.stages.sentence_links.EXACT_PAIRS", 0)
    monkeypatch.setattr("pipelines.indexing.sentence_links.HELD", 10 * 4 * 32)
    monkeypatch.setattr("pipelines.indexing.sentence_links.ASKED", 7)
    monkeypatch.setattr("pipelines.indexing.sentence_links.CELL", 4)
    monkeypatch.setattr(
        "resources.stages.sentence_links.LinkedSentences", lambda *made: pytest.fail("all vectors are held")
    )


@pytest.mark.usefixtures("very_many")
def test_very_many_sentences_are_linked_without_holding_all_vectors(state: State) -> None:
    assert compared(update(state, LIBRARY)) == 49
    assert committed(state) == rebuilt(LIBRARY)
    fewer = {uri: sentences for uri, sentences in LIBRARY.items() if uri != "3.txt"}
    update(state, fewer)
    assert committed(state) == rebuilt(fewer)


@pytest.mark.usefixtures("very_many")
def test_very_many_sentences_of_which_none_is_near_enough_are_linked_over_a_lower_floor(state: State) -> None:
    library = {f"{place}.txt": [("0", place)] for place in APART}
    report = update(state, library)
    assert report.notes["floor"] == 0.85
    assert committed(state) == rebuilt(library) != []


@pytest.mark.parametrize("many", [False, True])
def test_a_sentence_whose_vector_is_missing_is_no_link_to_nowhere(
    state: State, many: bool, request: pytest.FixtureRequest
) -> None:
    if many:
        request.getfixturevalue("very_many")
    put(state, LIBRARY)
    found = {document_id("docs", uri): rows(uri, sentences)[1][1:] for uri, sentences in LIBRARY.items()}
    commit(state, "sentence_embeddings", Embedding, found)
    with pytest.raises(IndexStateError, match="13 sentences have no vector yet") as caught:
        link_sentences(state)
    assert caught.value.code == "missing_input"


def test_sentences_without_vectors_are_named(state: State) -> None:
    commit(state, "sentences", Sentence, {})
    with pytest.raises(
        IndexStateError, match="sentence_embeddings has not been made with these settings for bucket 00"
    ):
        link_sentences(state)
