"""What is measured of chunks that were found, on the real database, against sums and products worked from its rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import pytest
from psycopg import sql

from pipelines.errors import ModelError
from pipelines.ports import DocumentTerms, Filters
from pipelines.terms import terms_of
from resources.postgres.catalog import GenerationRow
from resources.postgres.database import Database
from resources.postgres.search_index import PostgresSearchIndex
from tests.support.search_data import Document, bm25_weights, clustered, load, opened, search_database

pytestmark = pytest.mark.integration

DOCUMENTS = [
    Document("acme", ["acme sold apples", "apples and pears", "nothing of it"], {"uri": "2023/acme.pdf"}),
    Document("open", ["apples apples", "acme"]),
    Document("secret", ["acme apples pears"], {"groups": ["hr"]}),
]
TEXTS = [text for document in DOCUMENTS for text in document.texts]
OWNER = [document.doc_id for document in DOCUMENTS for _ in document.texts]
IDS = [f"c{number:05d}" for number in range(1, len(TEXTS) + 1)]
VECTORS = clustered(len(TEXTS), 4)
SENTENCES = clustered(5, 4, seed=1)
SAID_IN = ["c00001", "c00001", "c00001", "c00004", "c00006"]
QUESTION = [0.5, 0.5, 0.5, 0.5]
TERMS = terms_of("acme apples unheard")
HR = Filters(groups=("hr",))


@pytest.fixture(scope="module")
def database(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with search_database(server_url, tmp_path_factory.mktemp("measures"), "measures") as made:
        yield made


@pytest.fixture(scope="module")
def generation(database: Database) -> GenerationRow:
    made = load(database, DOCUMENTS, VECTORS)
    insert = f"""INSERT INTO {made.schema}.sentences (sentence_id, doc_id, ordinal, chunk_id, text, source, boxes,
        confidence, start, length, paragraph_id, section_id, section_path, embedding)
        VALUES (%s, %s, %s, %s, 'said', 'paragraph', '[]', 1, 0, 4, 'p', 's', '{{}}', %s::vector)"""
    with database.connect() as connection:
        for number, (chunk_id, vector) in enumerate(zip(SAID_IN, SENTENCES, strict=True)):
            values = (f"s{number}", OWNER[IDS.index(chunk_id)], number, chunk_id, str(vector.tolist()))
            connection.execute(insert, values)  # type: ignore[arg-type]
        connection.commit()
    return made


@pytest.fixture
def index(database: Database, generation: GenerationRow) -> Iterator[PostgresSearchIndex]:
    with opened(database, generation) as found:
        yield found


def test_cosines_of_chunks(index: PostgresSearchIndex) -> None:
    assert index.similarities(IDS, QUESTION, HR) == pytest.approx(
        dict(zip(IDS, VECTORS @ QUESTION, strict=True)), abs=1e-5
    )
    assert index.similarities([], QUESTION, HR) == {}


def test_the_greatest_cosine_of_a_sentence_else_the_chunks_own(index: PostgresSearchIndex) -> None:
    of_sentences, of_chunks = SENTENCES @ QUESTION, VECTORS @ QUESTION
    wanted = {
        chunk_id: max((of_sentences[at] for at, own in enumerate(SAID_IN) if own == chunk_id), default=of_chunks[place])
        for place, chunk_id in enumerate(IDS)
    }
    assert index.sentence_similarities(IDS, QUESTION, HR) == pytest.approx(wanted, abs=1e-5)
    assert len({round(value, 5) for value in wanted.values()}) == len(IDS)


def test_scores_by_terms_are_those_of_the_route(index: PostgresSearchIndex) -> None:
    found = {item.chunk_id: item.score for item in index.lexical(TERMS, 50, HR)}
    assert len(found) == 5
    assert index.lexical_scores([*IDS, "none"], TERMS, HR) == found
    assert index.lexical_scores(IDS, terms_of("pears"), HR).keys() == {"c00002", "c00006"}
    assert index.lexical_scores(IDS, [], HR) == {}


def test_surroundings_are_scored_as_one_text(index: PostgresSearchIndex) -> None:
    """The definition: counts of a chunk and its neighbours in its document, their length, three times the mean."""
    texts = [terms_of(text) for text in TEXTS]
    average = sum(map(len, texts)) / len(texts)
    wanted = {}
    for at, own in enumerate(OWNER):
        around = [text for place, text in enumerate(texts) if abs(place - at) <= 1 and OWNER[place] == own]
        joined = [term for text in around for term in text]
        wanted[IDS[at]] = sum(
            math.log1p((len(texts) - df + 0.5) / (df + 0.5))
            * tf
            * 2.2
            / (tf + 1.2 * (0.25 + 0.75 * len(joined) / (3 * average)))
            for term in TERMS
            for df, tf in [(sum(term in text for text in texts), joined.count(term))]
            if tf
        )
    assert index.surrounding_scores([*IDS, "none"], TERMS, HR) == pytest.approx(wanted, rel=1e-5)
    halved = index.surrounding_scores(IDS, dict.fromkeys(TERMS, 0.5), HR)
    assert halved == pytest.approx({key: score / 2 for key, score in wanted.items()}, rel=1e-5)
    assert (
        index.surrounding_scores(IDS, [], HR) == dict.fromkeys(IDS, 0.0)
        and index.surrounding_scores([], TERMS, HR) == {}
    )


def test_terms_of_documents_are_sums_of_the_weights_of_their_chunks(index: PostgresSearchIndex) -> None:
    weights: dict[str, Counter[str]] = {}
    for (term, _), (numbers, own) in bm25_weights([terms_of(text) for text in TEXTS]).items():
        for number, weight in zip(numbers, own, strict=True):
            weights.setdefault(OWNER[number - 1], Counter())[term] += weight  # type: ignore[assignment]
    found = index.document_terms(["c00003", "c00001", "c00005", "c00006"], TERMS, HR)
    assert [(each.doc_id, each.uri, sorted(each.found), each.chunks) for each in found] == [
        ("acme", "2023/acme.pdf", ["c00001", "c00003"], 3),
        ("open", "open.pdf", ["c00005"], 2),
        ("secret", "secret.pdf", ["c00006"], 1),
    ]
    for each in found:
        asked = {term: weights[each.doc_id][term] for term in TERMS if term in weights[each.doc_id]}
        assert each.weights == pytest.approx(asked, rel=1e-5)
    assert index.document_terms([], TERMS, HR) == []


def test_passages_hidden_by_groups_are_scored_for_nobody_else(index: PostgresSearchIndex) -> None:
    everybody = Filters()
    for found in (
        index.similarities(IDS, QUESTION, everybody),
        index.sentence_similarities(IDS, QUESTION, everybody),
        index.lexical_scores(IDS, TERMS, everybody),
        index.surrounding_scores(IDS, TERMS, everybody),
    ):
        assert "c00006" not in found and "c00001" in found
    seen: list[DocumentTerms] = index.document_terms(IDS, TERMS, everybody)
    assert [each.doc_id for each in seen] == ["acme", "open"]
    assert "c00006" in index.lexical_scores(IDS, TERMS, HR)  # the same terms, for another asker


def test_a_vector_that_does_not_fit_is_refused(index: PostgresSearchIndex) -> None:
    for measured in (index.similarities, index.sentence_similarities):
        with pytest.raises(ModelError, match="dimensions"):
            measured(IDS, [1.0], HR)
        with pytest.raises(ModelError, match="zero or not finite"):
            measured(IDS, [0.0] * 4, HR)


def test_the_numbers_of_a_document_are_read_off_an_index(index: PostgresSearchIndex) -> None:
    index.connection.execute("SET LOCAL enable_seqscan = off")
    statement = sql.SQL("EXPLAIN ") + index._named_statement("documents_of_chunks")
    plan = str(index.connection.execute(statement, {"chunk_ids": IDS}).fetchall())
    assert plan.count("using chunks_doc_id_number_idx") >= 2 and "Sort Key: own" not in plan
