"""RELATED_TO in Parquet over the real catalog: what an update compares, keeps and commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.errors import IndexStateError
from pipelines.fingerprint import bucket_of, document_id, fingerprint
from pipelines.increments import DocumentState, bucket_output, output_hash
from pipelines.indexing.sentence_links import sentence_links
from pipelines.records import Embedding, Sentence, SentenceLink, Span
from pipelines.schemas import from_table, to_table
from pipelines.settings import settings_from
from pipelines.stages import WHOLE
from resources.catalog import ManifestRow
from resources.link_build import link_sentences
from resources.settings_file import Located
from resources.stage_runner import StageReport
from resources.workspace import Workspace

pytestmark = pytest.mark.integration

BUCKETS = 4
VECTORS = np.random.default_rng(4).normal(size=(6, 1, 32)) + 0.15 * np.random.default_rng(5).normal(size=(6, 5, 32))
VECTORS = (VECTORS / np.linalg.norm(VECTORS, axis=2, keepdims=True)).reshape(30, 32).astype(np.float32)
"""Six kinds of five that are alike."""

Library = Mapping[str, list[tuple[str, int]]]
"""Document to its sentences: the chunk of each, and its text, a row of VECTORS."""
LIBRARY = {
    f"{number}.txt": [(str(place // 2), (number * 7 + place * 5) % 30) for place in range(4)] for number in range(12)
}
LIBRARY["alone.txt"] = [("0", 0)]


@pytest.fixture
def workspace(fresh_url: str, tmp_path: Path) -> Iterator[Workspace]:
    settings = settings_from({"database": fresh_url, "buckets": BUCKETS})
    made = Workspace(Located(settings, None, tmp_path, tmp_path / "state"), "a run")
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


def commit(workspace: Workspace, table: str, record: type, documents: Mapping[str, list[Any]]) -> None:
    """A table as its stage leaves it: every bucket's rows, states and commit."""
    key = workspace.runner.key(table)
    for bucket in range(BUCKETS):
        inside = {doc_id: found for doc_id, found in documents.items() if bucket_of(doc_id, BUCKETS) == bucket}
        states = {doc_id: DocumentState("", output_hash(found)) for doc_id, found in inside.items()}
        arrow = to_table(record, [row for doc_id in sorted(inside) for row in inside[doc_id]])
        file = workspace.tables.write(table, key, bucket, arrow, states)
        row = ManifestRow(table, key, bucket, file, "", bucket_output(states), arrow.num_rows, len(inside))
        workspace.catalog.commit([row], table, key, bucket)


def put(workspace: Workspace, library: Library) -> None:
    made = {document_id("docs", uri): rows(uri, sentences) for uri, sentences in library.items()}
    commit(workspace, "sentences", Sentence, {doc_id: found for doc_id, (found, _) in made.items()})
    commit(workspace, "sentence_embeddings", Embedding, {doc_id: vectors for doc_id, (_, vectors) in made.items()})


def update(workspace: Workspace, library: Library) -> StageReport:
    put(workspace, library)
    return link_sentences(workspace)


def committed(workspace: Workspace) -> list[SentenceLink]:
    return from_table(SentenceLink, workspace.tables.read(workspace.manifest_file("sentence_links", WHOLE)))


def rebuilt(library: Library) -> list[SentenceLink]:
    found = [sentence for uri, sentences in library.items() for sentence in rows(uri, sentences)[0]]
    vectors = VECTORS[[int(sentence.text) for sentence in found]]
    return sentence_links([one.sentence_id for one in found], [one.chunk_id for one in found], vectors).links


def compared(report: StageReport) -> int:
    return int(report.notes["sentences compared"])


def test_an_update_compares_what_changed_and_ends_where_a_rebuild_ends(workspace: Workspace) -> None:
    first = update(workspace, LIBRARY)
    assert committed(workspace) == rebuilt(LIBRARY) and len(rebuilt(LIBRARY)) > 40
    assert (first.computed, first.kept, first.gone, compared(first)) == (13, 0, 0, 49)
    assert first.written == first.total == len(rebuilt(LIBRARY))

    edited = {**LIBRARY, "3.txt": [("0", 2), ("0", 17), ("1", 28)], "new.txt": [("0", 5)]}
    del edited["4.txt"]
    second = update(workspace, edited)
    assert committed(workspace) == rebuilt(edited) != rebuilt(LIBRARY)
    assert (second.computed, second.kept, second.gone) == (2, 11, 1)
    assert 4 < compared(second) < 30, "four are new, some have lost a target"
    assert second.written == second.total == len(rebuilt(edited))

    moved = {**edited, "5.txt": [("0", text) for _, text in edited["5.txt"]]}
    third = update(workspace, moved)
    assert committed(workspace) == rebuilt(moved)
    assert (third.computed, third.kept) == (1, 12)


def test_nothing_is_read_where_nothing_changed(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    links = update(workspace, LIBRARY).total
    monkeypatch.setattr(workspace.tables, "_open", lambda name: pytest.fail(f"read {name}"))
    again = link_sentences(workspace)
    assert (again.computed, again.kept, again.total, again.written, compared(again)) == (0, 13, links, 0, 0)


def test_the_same_links_are_the_same_output_whatever_documents_they_were_made_from(workspace: Workspace) -> None:
    update(workspace, LIBRARY)
    before = workspace.manifest_row("sentence_links", WHOLE)
    update(workspace, {**LIBRARY, "empty.txt": []})
    after = workspace.manifest_row("sentence_links", WHOLE)
    assert before.file != after.file and (before.documents, after.documents) == (13, 14)
    assert before.output == after.output
    update(workspace, {**LIBRARY, "twin.txt": [("0", 0)]})
    assert workspace.manifest_row("sentence_links", WHOLE).output != before.output


def test_links_whose_file_is_lost_are_made_anew(workspace: Workspace) -> None:
    update(workspace, LIBRARY)
    workspace.tables.delete([workspace.manifest_file("sentence_links", WHOLE)])
    assert compared(link_sentences(workspace)) == 49
    assert committed(workspace) == rebuilt(LIBRARY)


def test_no_sentence_at_all(workspace: Workspace) -> None:
    assert update(workspace, {"empty.txt": []}).total == 0
    update(workspace, LIBRARY)
    assert committed(workspace) == rebuilt(LIBRARY)
    assert update(workspace, {}).gone == 13
    assert committed(workspace) == []


def test_sentences_without_vectors_are_named(workspace: Workspace) -> None:
    commit(workspace, "sentences", Sentence, {})
    with pytest.raises(IndexStateError, match="bucket 00 of sentence_embeddings has not been made"):
        link_sentences(workspace)
