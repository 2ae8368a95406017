"""Lexical search, which leaves out blocks of common words, beside the sum of every posting: the same chunks with the
same scores, after any documents were added, edited, removed and given other groups, for whoever asks and with filters.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from pipelines.ports import Candidate, Filters
from resources.postgres.database import Database
from resources.postgres.generation_tables import GenerationTables
from resources.postgres.index_rows import IndexedDocument
from resources.postgres.postings import are_bounded, join_rows, unpack_row
from resources.postgres.search_index import LEAST_IDF, PostgresSearchIndex, search_index
from tests.support.index_tables import document, rows, tables

pytestmark = pytest.mark.integration

BUCKETS, GROUPS = 3, ((), ("hr",), ("law", "hr"))
WORDS = ("the", "of", "and", "law", "tax", "ship", "crane", "zinc")
SHARES = (0.95, 0.8, 0.6, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Of the chunks that have them."""


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    """Blocks of few postings, none of which comes at once, and each looked up by itself."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("resources.postgres.postings.POSTING_BLOCK", 8)
        patched.setattr("resources.postgres.postings.LOOKED_UP", 3)
        patched.setattr("resources.postgres.postings.WEIGHED", 10_000)
        patched.setattr("resources.postgres.search_index.SHORT", 2)
        patched.setattr("resources.postgres.search_index.PLAIN", 0)
        patched.setattr("resources.postgres.postings.PLAIN", 0)
        yield


def made(chance: random.Random, number: int, groups: Sequence[str]) -> IndexedDocument:
    texts = [
        " ".join(word for word, share in zip(WORDS, SHARES, strict=True) for _ in range(chance.choice((1, 1, 1, 2, 5)))
                 if chance.random() < share) or "nothing"
        for _ in range(chance.randint(1, 25))
    ]  # fmt: skip
    one = document(f"{number}.txt", *texts)
    return replace(one, facts=replace(one.facts, groups=tuple(groups), metadata={"third": str(number % 3)}))


@pytest.fixture(scope="module")
def index(module_database: Database, small: None) -> GenerationTables:
    """120 documents, some of which were edited, removed, and given other groups since."""
    chance, own = random.Random(4), tables(module_database)
    groups = {number: chance.choice(GROUPS) for number in range(120)}
    for bucket in range(BUCKETS):
        numbers = range(bucket, 120, BUCKETS)
        own.replace(bucket, [made(chance, number, groups[number]) for number in numbers], whole=True)
    for turn in range(30):
        number = chance.randrange(120)
        bucket, one = number % BUCKETS, made(chance, number, groups[number])
        if turn % 3 == 0:
            own.replace(bucket, [], [one.raw.doc_id])
        elif turn % 3 == 1:
            own.replace(bucket, [one])
        elif one.raw.doc_id in own.document_groups():
            groups[number] = chance.choice(GROUPS)
            own.replace(bucket, [], regrouped={one.raw.doc_id: groups[number]})
    return own


def summed(own: GenerationTables, search: PostgresSearchIndex, terms: Sequence[str], groups: Sequence[str],
           allowed: Mapping[int, str]) -> list[Candidate]:  # fmt: skip
    """Every posting that these groups may read, term by term, the rarest first, and the best of those allowed."""
    known, chunks = search.frequencies(terms)
    posted: dict[str, list[tuple[bytes, bytes]]] = {}
    for term, own_groups, *packed in rows(own, "SELECT term, groups, chunks, weights FROM postings ORDER BY term"):
        if term in terms and (not own_groups or set(own_groups) & set(groups)):
            posted.setdefault(term, []).append((packed[0], packed[1]))
    terms_of = {term: unpack_row(*join_rows(packed)) for term, packed in posted.items()}
    sums: dict[int, float] = {}
    for term, (numbers, weights) in sorted(terms_of.items(), key=lambda item: len(item[1][0])):
        found, total = (known[term], chunks) if known.get(term) else (len(numbers), chunks + len(numbers))
        idf = Counter(terms)[term] * max(LEAST_IDF, float(np.log1p((total - found + 0.5) / (found + 0.5))))
        for number, weight in zip(numbers.tolist(), weights.astype(np.float64).tolist(), strict=True):
            sums[number] = sums.get(number, 0.0) + idf * weight
    best = sorted((-float(np.float32(value)), allowed[number]) for number, value in sums.items() if number in allowed)
    return [Candidate(chunk_id, -score) for score, chunk_id in best]


def asked() -> Iterator[list[str]]:
    yield from (["zinc"], ["the"], ["zinc", "the"], ["the", "of", "and"], list(WORDS), ["law", "law", "of", "none"])
    chance = random.Random(2)
    yield from (chance.choices(WORDS, k=chance.randint(2, 6)) for _ in range(12))


@pytest.mark.parametrize("groups", [(), ("hr",), ("law",), ("hr", "law"), ("nobody",)])
@pytest.mark.parametrize("filtered", [False, True])
def test_the_first_are_those_of_the_sum_of_every_posting(
    index: GenerationTables, groups: tuple[str, ...], filtered: bool
) -> None:
    assert all(are_bounded(*row) for row in rows(index, "SELECT chunks, weights, blocks FROM postings"))
    visible = {
        number: chunk_id
        for number, chunk_id, own, metadata in rows(
            index, f"SELECT number, chunk_id, groups, metadata FROM chunks JOIN {index.schema}.documents USING (doc_id)"
            .replace("metadata FROM", "documents.metadata FROM")
        )
        if (not own or set(own) & set(groups)) and (not filtered or metadata["third"] == "1")
    }  # fmt: skip
    filters = Filters({"third": ("1",)} if filtered else {}, groups=groups)
    with (
        index.database.connect() as connection,
        search_index(connection, index.generation.generation, ["third"]) as search,
    ):
        for terms in asked():
            wanted = summed(index, search, terms, groups, visible)
            for k in (1, 7, 60, 5_000):
                assert search.lexical(terms, k, filters) == wanted[:k], (terms, k)
            scores = {item.chunk_id: item.score for item in wanted}
            assert search.lexical_scores([*visible.values(), "none"], terms, filters) == pytest.approx(scores, rel=0)


def test_postings_are_looked_up_by_row_location(index: GenerationTables) -> None:
    """Not by a scan of the table: the policy on its rows lets the place be compared first."""
    with index.database.connect() as connection, search_index(connection, index.generation.generation) as search:
        statement = search._named_statement("posting_slices")
        values = {"rows": ["(0,1)", "(0,2)"], "starts": [0, 0], "sizes": [1, 1]}
        search.ask_for(("hr",))
        plan = "\n".join(line for (line,) in connection.execute(b"EXPLAIN " + statement.as_bytes(), values))  # type: ignore[arg-type]
    assert "Tid Scan on postings" in plan and "Seq Scan" not in plan, plan
