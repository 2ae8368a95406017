"""Each condition of the search statements, on a real database, by rows that differ in nothing else.

The fakes of the unit tests repeat these conditions: what is found at least so surely, seen by these groups, within so
many steps, at most k, in this order. Each test here fails if one of them is taken out of sql/queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

import numpy as np
import pytest
from psycopg import sql

from pipelines.ports import Filters
from resources.postgres import search_index
from resources.postgres import search_index as sentence_index
from resources.postgres.catalog import GenerationRow
from resources.postgres.database import Database
from resources.postgres.search_index import PostgresSearchIndex
from tests.support.search_data import Document, opened, search_database
from tests.support.sentence_data import load_sentences, sentence_id

pytestmark = pytest.mark.integration

ALIKE: Mapping[str, Any] = {
    "source": "s", "uri": "a.pdf", "title": "T", "version": "1", "language": "en",
    "effective_date": date(2024, 6, 15), "metadata": {"team": "x"}, "groups": [],
}  # fmt: skip
OTHERS: Mapping[str, Mapping[str, Any]] = {
    "source": {"source": "other"},
    "uri": {"uri": "b.pdf"},
    "title": {"title": "U"},
    "version": {"version": "2"},
    "language": {"language": "uk"},
    "date": {"effective_date": date(2024, 6, 16)},
    "metadata": {"metadata": {"team": "y"}},
    "none": {"metadata": {}, "version": None, "effective_date": None},
    "groups": {"groups": ["hr"]},
}
"""Documents by what alone they have otherwise than the first."""
NAMES = ("first", *OTHERS)
TEXTS = [f"Word {at} one. Word {at} two. Word {at} three." for at in range(2)]
"""Two chunks of three sentences, of which the first two are one paragraph."""
A_DOCUMENT = 6
PLACES = len(NAMES) * A_DOCUMENT
UNSURE = 4
"""The place of a sentence of little confidence: of the first document's second chunk."""
LINKS = [(0, A_DOCUMENT, 0.9), (0, UNSURE, 0.9), (0, NAMES.index("groups") * A_DOCUMENT, 0.9), (1, 12, 0.8)]
APART = 2 * A_DOCUMENT + 2
"""The place of the one sentence that is near to another question: of the first chunk of d2."""
SEES = ("hr",)
VECTOR = [1.0, 0.0, 0.0]
COS = 0.6
"""Cosine of all vectors to VECTOR but the odd places' 0."""


@pytest.fixture(scope="module")
def database(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with search_database(server_url, tmp_path_factory.mktemp("search"), "query_conditions") as made:
        yield made


@pytest.fixture(scope="module")
def generation(database: Database) -> GenerationRow:
    made = [Document("d0", TEXTS, dict(ALIKE), "A", "clause")]
    made += [Document(f"d{at}", TEXTS, {**ALIKE, **OTHERS[name]}, "A", "clause") for at, name in enumerate(NAMES) if at]
    vectors = np.tile(np.array([[COS, 0.8, 0.0], [0.0, 1.0, 0.0]], dtype=np.float32), (PLACES // 2, 1))
    vectors[APART] = [COS, 0.0, 0.8]
    generation = load_sentences(database, made, vectors, LINKS, unsure=[UNSURE])
    statements = (
        # The second chunk of the first document is another section, type and form.
        "UPDATE {}.chunks SET section_id = 'B', header_chain = ARRAY['C'], block_types = ARRAY['code', 'figure'], "
        'metadata = \'{{"kv.form": "W-4\\nI-9", "desk": "x"}}\' WHERE number = 2',
        # A paragraph that goes on in the next chunk, as one of equal texts may.
        "UPDATE {}.sentences SET paragraph_id = 'p00001-0' WHERE sentence_id IN ('s00003', 's00004')",
    )
    with database.connect() as connection:
        for statement in statements:
            connection.execute(sql.SQL(statement).format(sql.Identifier(generation.schema)))
    return generation


@pytest.fixture
def index(database: Database, generation: GenerationRow) -> Iterator[PostgresSearchIndex]:
    with opened(database, generation, "team") as found:
        yield found


def chunk_id(name: str, at: int = 0) -> str:
    return f"c{2 * NAMES.index(name) + at + 1:05d}"


EVERY = {chunk_id(name, at) for name in NAMES for at in (0, 1)}
SEEN = EVERY - {chunk_id("groups"), chunk_id("groups", 1)}


def without(*names: str) -> set[str]:
    return SEEN - {chunk_id(name, at) for name in names for at in (0, 1)}


NONE = ("none",)
CASES: Mapping[str, tuple[Filters, set[str]]] = {
    "nothing": (Filters(), SEEN),
    "groups": (Filters(groups=SEES), EVERY),
    "another's groups": (Filters(groups=("it",)), SEEN),
    "source": (Filters({"source": ("s",)}), without("source")),
    "uri": (Filters({"uri": ("a.pdf",)}), without("uri")),
    "title": (Filters({"title": ("T",)}), without("title")),
    "version": (Filters({"version": ("1",)}), without("version", *NONE)),
    "language": (Filters({"language": ("en",)}), without("language")),
    "first date": (Filters(dated_from="2024-06-16"), {chunk_id("date"), chunk_id("date", 1)}),
    "last date": (Filters(dated_to="2024-06-15"), without("date", *NONE)),
    "metadata": (Filters({"team": ("x",)}), without("metadata", *NONE)),
    "one of two values": (Filters({"team": ("x", "y")}), without(*NONE)),
    "block type": (Filters({"block_type": ("code",)}), {chunk_id("first", 1)}),
    "section": (Filters({"section": ("B",)}), {chunk_id("first", 1)}),
    "section above": (Filters({"section": ("C",)}), {chunk_id("first", 1)}),
    "key and value": (Filters({"kv.form": ("I-9",)}), {chunk_id("first", 1)}),
    "a key without its prefix": (Filters({"kv.desk": ("x",)}), {chunk_id("first", 1)}),
    "two at once": (Filters({"source": ("s",), "section": ("B",)}, dated_from="2024-06-16"), set()),
}


def routes(index: PostgresSearchIndex, filters: Filters) -> dict[str, set[str]]:
    """The chunks that each statement finds for a filter."""
    return {
        "compared": {item.chunk_id for item in index.compare_all(VECTOR, 100, filters)},
        "walked": {item.chunk_id for item in index.walk_index(VECTOR, 100, filters)},
        "lexical": {item.chunk_id for item in index.lexical(["word"], 100, filters)},
        "sentences compared": {item.chunk_id for item in index.compared_sentences(VECTOR, 100, filters)},
        "sentences walked": {item.chunk_id for item in index.walked_sentences(VECTOR, 100, filters)},
        "sentences of chunks": {item.chunk_id for item in index.sentences_of(sorted(EVERY), VECTOR, filters, 0)},
        "anchors": {
            item.sentence.chunk_id
            for item in index.expand([sentence_id(at) for at in range(PLACES)], 1, VECTOR, filters, 0)
        },
    }


@pytest.mark.parametrize("name", CASES)
def test_a_filter_holds_in_every_statement(index: PostgresSearchIndex, name: str) -> None:
    filters, chunks = CASES[name]
    assert routes(index, filters) == dict.fromkeys(routes(index, filters), chunks)


@pytest.mark.parametrize("name", CASES)
def test_matches_are_counted_up_to_a_limit(
    index: PostgresSearchIndex, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filters, chunks = CASES[name]
    for number in range(max(0, len(chunks) - 1), len(chunks) + 1):
        monkeypatch.setattr(search_index, "EXACT_CHUNKS", number)
        monkeypatch.setattr(sentence_index, "EXACT_SENTENCES", 3 * number)
        index._counted.clear()
        if filters.equal or filters.dated_from or filters.dated_to:
            assert index.few_chunks(0, filters) is (number >= len(chunks))
        assert index.few_sentences(0, filters) is (number >= len(chunks))


@pytest.mark.parametrize("k", [3, 100])
def test_the_best_are_the_nearest_then_the_first_and_at_most_k(index: PostgresSearchIndex, k: int) -> None:
    chunks, everybody = sorted(EVERY), Filters(groups=SEES)
    near = [chunk for at, chunk in enumerate(chunks) if at % 2 == 0]
    far = [chunk for at, chunk in enumerate(chunks) if at % 2]
    for found in (index.compare_all(VECTOR, k, everybody), index.walk_index(VECTOR, k, everybody)):
        assert [item.chunk_id for item in found] == (near + far)[:k]
    assert [item.chunk_id for item in index.lexical(["word"], k, everybody)] == chunks[:k]
    places = [*range(0, PLACES, 2), *range(1, PLACES, 2)]
    best = [sentence_id(at) for at in places if at != UNSURE][:k]
    for sentences in (
        index.compared_sentences(VECTOR, k, everybody, 0.5),
        index.walked_sentences(VECTOR, k, everybody, 0.5),
    ):
        assert [item.sentence_id for item in sentences] == best
        assert [item.score for item in sentences[:2]] == pytest.approx([COS, COS])


def test_little_confidence_hides_a_sentence_from_every_statement(
    index: PostgresSearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0.3 is at least 0.3, and less than any more."""
    unsure, chunk = sentence_id(UNSURE), chunk_id("first", 1)
    for least, there in ((0.29, True), (0.31, False)):
        monkeypatch.setattr(sentence_index, "EXACT_SENTENCES", PLACES - A_DOCUMENT - 1)
        index._counted.clear()
        found = {
            "compared": [each.sentence_id for each in index.compared_sentences(VECTOR, PLACES, Filters(), least)],
            "walked": [each.sentence_id for each in index.walked_sentences(VECTOR, PLACES, Filters(), least)],
            "of chunks": [each.sentence_id for each in index.sentences_of([chunk], VECTOR, Filters(), least)],
            "linked": [found[0] for found in reached(index, 0, 0, Filters(), least)],
            "beside": [found[0] for found in reached(index, 5, 1, Filters(), least)],
        }  # fmt: skip
        assert {name: unsure in ids for name, ids in found.items()} == dict.fromkeys(found, there), least
        assert index.few_sentences(0, Filters(), least) is not there, "it is not counted"


def reached(
    index: PostgresSearchIndex, anchor: int, steps: int, filters: Filters, least: float = 0
) -> set[tuple[str, str, int]]:
    found = index.expand([sentence_id(anchor)], steps, VECTOR, filters, least)
    assert {item.via for item in found} == {sentence_id(anchor)}
    return {(item.sentence.sentence_id, item.edge, item.steps) for item in found}


def test_edges_lead_from_an_anchor_and_from_no_other(index: PostgresSearchIndex) -> None:
    """To its own paragraph in its own chunk, so many steps in its own document, and along its own links."""
    own = {(sentence_id(0), "anchor", 0), (sentence_id(1), "anchor", 0)}
    linked = {(sentence_id(A_DOCUMENT), "related", 0), (sentence_id(UNSURE), "related", 0)}
    hidden = {(sentence_id(LINKS[2][1]), "related", 0)}
    assert reached(index, 0, 0, Filters()) == own | linked
    assert reached(index, 0, 0, Filters(groups=SEES)) == own | linked | hidden
    steps = {(sentence_id(1), "next", 1), (sentence_id(2), "next", 2)}
    assert reached(index, 0, 2, Filters()) == own | linked | steps
    assert reached(index, 3, 1, Filters()) == {
        (sentence_id(3), "anchor", 0), (sentence_id(4), "anchor", 0),
        (sentence_id(2), "previous", 1), (sentence_id(4), "next", 1),
    }  # fmt: skip
    assert [item.similarity for item in index.expand([sentence_id(1)], 0, VECTOR, Filters(), 0)] == [
        None, None, pytest.approx(0.8),
    ]  # fmt: skip


def test_an_id_opens_its_own_rows_and_no_others(index: PostgresSearchIndex) -> None:
    first, second, hidden = chunk_id("first"), chunk_id("first", 1), chunk_id("groups")
    ids = [first, hidden]
    (passage,) = index.passages(ids, Filters()).values()
    assert (passage.chunk_id, passage.spans) == (first, ((0, 5), (9, 12)))
    assert set(index.passages(ids, Filters(groups=SEES))) == set(ids)
    for measure in (index.similarities, index.sentence_similarities):
        assert measure(ids, VECTOR, Filters()) == {first: pytest.approx(COS)}
        assert measure([second], VECTOR, Filters()).keys() == {second}
    apart = index.sentence_similarities([first, chunk_id("uri")], [0.0, 0.0, 1.0], Filters())
    assert apart == {first: pytest.approx(0), chunk_id("uri"): pytest.approx(0.8)}, "of its own sentences"
    assert index.lexical_scores(ids, ["word"], Filters()).keys() == {first}
    assert index.lexical_scores([first], ["zebra"], Filters()) == {}
    found = index.document_terms([chunk_id("uri"), *ids], ["word", "zebra"], Filters())
    assert [(each.doc_id, each.found, each.chunks) for each in found] == [
        ("d0", (first,), 2), ("d2", (chunk_id("uri"),), 2),
    ]  # fmt: skip
    assert {tuple(each.weights) for each in found} == {("word",)}
    assert [item.sentence_id for item in index.sentences_of([second], VECTOR, Filters(), 0)] == [
        sentence_id(at) for at in (3, 4, 5)
    ]
    assert index.frequencies(["word", "zebra"]) == ({"word": len(EVERY)}, len(EVERY))
    assert index.newest_date() == "2024-06-16"


def test_a_paragraph_has_its_own_sentences_in_their_order(index: PostgresSearchIndex) -> None:
    first, second = chunk_id("first"), chunk_id("first", 1)
    keys = [(first, "p00001-0"), (second, "p00001-0"), (second, ""), (chunk_id("groups"), "")]
    found = index.paragraphs(keys, Filters())
    assert {key: list(item.boxes) for key, item in found.items()} == {
        keys[0]: [sentence_id(0), sentence_id(1)],
        keys[1]: [sentence_id(3), sentence_id(4)],
        keys[2]: [sentence_id(3), sentence_id(4), sentence_id(5)],
    }
