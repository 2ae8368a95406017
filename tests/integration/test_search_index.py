"""Lexical search, filters, groups and the transaction, on the real database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import psycopg
import pytest

from pipelines.errors import IndexStateError, UsageError
from pipelines.ports import Filters
from pipelines.records import Box
from pipelines.terms import terms_of
from resources.postgres import search_index as module
from resources.postgres.catalog import Catalog, GenerationRow
from resources.postgres.database import Database
from resources.postgres.search_index import PostgresSearchIndex, search_index
from resources.postgres.statements import query
from tests.support.places import DATA, require_data
from tests.support.search_data import Document, bm25, clustered, load, opened, search_database

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def database(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with search_database(server_url, tmp_path_factory.mktemp("search"), "search_index") as made:
        yield made


# ---------------------------------------------------------------- lexical


def paragraphs() -> list[str]:
    folder = DATA / "chunking-evaluation"
    require_data(folder)
    text = (folder / "state_of_the_union.md").read_text(encoding="utf-8")
    wiki = re.split(r"\n(?=\s*=)", (folder / "wikitexts.md").read_text(encoding="utf-8"))
    found = [part.strip() for part in text.split("\n\n") + wiki]
    return [part for part in found if len(part) > 40][:400]


def test_lexical_ranking_is_bm25_on_real_paragraphs(database: Database) -> None:
    texts = paragraphs()
    assert len(texts) > 200
    generation = load(
        database, [Document(f"p{n}", texts[n : n + 5]) for n in range(0, len(texts), 5)], clustered(len(texts), 4),
        publish=False,
    )  # fmt: skip
    term_lists = [terms_of(text) for text in texts]
    with opened(database, generation) as index:
        for text in texts[::8]:
            asked = [*terms_of(text)[:12], "nosuchterm"]
            expected = bm25(term_lists, asked)
            found = index.lexical(asked, 20, Filters())
            scores = [item.score for item in found]
            numbers = [int(item.chunk_id[1:]) - 1 for item in found]
            assert scores == pytest.approx([expected[number] for number in numbers], rel=1e-5)
            assert scores == pytest.approx(sorted(expected, reverse=True)[: len(found)], rel=1e-5)
            assert len(found) == min(20, int((expected > 0).sum()))


@pytest.fixture(scope="module")
def small(database: Database) -> GenerationRow:
    """Five documents, the last two for groups; every text once the same, so that scores tie."""
    dated = {"effective_date": "2026-01-01", "version": "2", "title": "It's; DROP TABLE", "metadata": {"team": "ops"}}
    documents = [
        Document("a", ["apple pear"] * 3, dated),
        Document("b", ["apple pear"] * 3, {"effective_date": "2024-01-01", "language": "uk", "source": "other"}),
        Document("c", ["apple pear"] * 3),
        Document("secret", ["apple pear", "apple zebra", "apple pear"], {"groups": ["hr", "board"]}),
        Document("hidden", ["apple pear", "apple zebra", "apple pear"], {"groups": ["legal"]}),
    ]
    return load(database, documents, clustered(15, 4))


def found_by(index: PostgresSearchIndex, filters: Filters) -> set[str]:
    """Documents found by every route, which must agree."""
    routes = [
        index.lexical(["appl"], 50, filters),
        index.dense([1.0, 0.0, 0.0, 0.0], 50, filters),
    ]
    documents = []
    for candidates in routes:
        passages = index.passages([item.chunk_id for item in candidates], filters)
        assert len(passages) == len(candidates)
        documents.append({passage.doc_id for passage in passages.values()})
    assert documents[0] == documents[1]
    return documents[0]


def test_equal_scores_are_ordered_by_id_and_repeated_terms_count_twice(
    database: Database, small: GenerationRow
) -> None:
    with opened(database, small) as index:
        once = index.lexical(["pear"], 4, Filters())
        assert [item.chunk_id for item in once] == ["c00001", "c00002", "c00003", "c00004"]
        assert index.lexical(["pear", "pear"], 1, Filters())[0].score == pytest.approx(2 * once[0].score)
        assert index.lexical([], 5, Filters()) == index.lexical(["nosuchterm"], 5, Filters()) == []


def test_a_word_unseen_when_statistics_were_frozen_counts_as_often_as_it_stands_now(
    database: Database,
) -> None:
    documents = [Document("old", ["red blue"] * 6), Document("new", ["green blue"] * 4)]
    generation = load(database, documents, clustered(10, 4), publish=False)
    with opened(database, generation) as index:
        known = index.lexical(["green"], 1, Filters())[0].score
    with database.connect() as connection:
        connection.execute(f"DELETE FROM {generation.schema}.terms WHERE term = 'green'")
        connection.execute("UPDATE pincite.generations SET statistics = '{\"chunks\": 6}' WHERE generation = %s",
                           [generation.generation])  # fmt: skip
    with opened(database, generation) as index:
        unseen = index.lexical(["green"], 1, Filters())[0].score
    # Four came to the six that there were, which is what those statistics say that know of all ten.
    assert unseen == pytest.approx(known, rel=1e-6)


@pytest.mark.parametrize("filters", [Filters(), Filters({"source": ("s",)})], ids=["all", "matching"])
@pytest.mark.parametrize("few", [True, False], ids=["few", "many"])
def test_equal_scores_summed_in_another_word_order_are_ordered_by_id(
    database: Database, filters: Filters, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of the same numbers in other orders differ in their last digits."""
    monkeypatch.setattr(module, "EXACT_CHUNKS", 1_000 if few else 0)
    words = ("apple", "cherry", "melon", "plum")
    texts = [" ".join(" ".join([word] * count) for word, count in zip(words, counts, strict=True))
             for counts in permutations((1, 2, 3, 5))]  # fmt: skip
    documents = [Document("same", texts), Document("else", ["pear"] * 9, {"source": "other"})]
    generation = load(database, documents, clustered(len(texts) + 9, 4), publish=False)
    with opened(database, generation) as index:
        found = index.lexical(terms_of(" ".join(words)), 50, filters)
    assert [item.chunk_id for item in found] == [f"c{number:05d}" for number in range(1, len(texts) + 1)]
    assert len({item.score for item in found}) == 1


def test_the_best_of_each_bucket_do_unless_others_may_be_as_good(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 200 equal chunks those of the least ids, and of the best by far those that match."""
    monkeypatch.setattr(module, "EXACT_CHUNKS", 0)
    documents = [
        Document("equal", ["apple pear"] * 200),
        Document("long", ["zebra " + "plum " * 30] * 12, {"source": "other"}),
        Document("short", ["zebra"] * 200),
    ]
    generation = load(database, documents, clustered(412, 4), publish=False)
    with opened(database, generation) as index:
        assert [item.chunk_id for item in index.lexical(["pear"], 7, Filters())] == [f"c{n:05d}" for n in range(1, 8)]
        found = index.lexical(["zebra"], 5, Filters({"source": ("other",)}))
        assert [item.chunk_id for item in found] == [f"c{n:05d}" for n in range(201, 206)]


# ---------------------------------------------------------------- filters and groups


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (Filters(), "a b c"),
        (Filters({"source": ("s",)}), "a c"),
        (Filters({"source": ("s", "other")}), "a b c"),
        (Filters({"uri": ("b.pdf",)}), "b"),
        (Filters({"title": ("It's; DROP TABLE",)}), "a"),
        (Filters({"version": ("2",)}), "a"),
        (Filters({"language": ("uk",)}), "b"),
        (Filters({"team": ("ops", "dev")}), "a"),
        (Filters({"team": ("ops",), "language": ("uk",)}), ""),
        (Filters({"block_type": ("table-row",)}), "a b c"),
        (Filters({"block_type": ("formula",)}), ""),
        (Filters({"section": ("section1",)}), "a b c"),
        (Filters({"section": ("Part 2",)}), "a b c"),
        (Filters({"section": ("Part 9",)}), ""),
        (Filters({"kv.form": ("W-4",)}), "a b c"),
        (Filters({"kv.form": ("I-9", "W-2")}), "a b c"),
        (Filters({"kv.form": ("W-4\nI-9",)}), ""),
        (Filters({"kv.form": ("W-2",)}), ""),
        (Filters(dated_from="2025-01-01"), "a"),
        (Filters(dated_to="2025-01-01"), "b"),
        (Filters(dated_from="2024-01-01", dated_to="2026-01-01"), "a b"),
        (Filters({"source": ()}), ""),
    ],
)
def test_filters(database: Database, small: GenerationRow, filters: Filters, expected: str) -> None:
    with opened(database, small, "team") as index:
        assert found_by(index, filters) == set(expected.split())


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ((), "a b c"),
        (("sales",), "a b c"),
        (("hr",), "a b c secret"),
        (("board", "legal"), "a b c secret hidden"),
        (("hr'; --", "HR", "{hr}", "\x00"), "a b c"),
    ],
)
def test_groups(database: Database, small: GenerationRow, groups: tuple[str, ...], expected: str) -> None:
    with opened(database, small) as index:
        assert found_by(index, Filters(groups=groups)) == set(expected.split())


@pytest.mark.case(27)
def test_groups_hold_by_every_route(database: Database, small: GenerationRow, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = ["c00010", "c00011", "c00012"]
    with opened(database, small) as index:
        assert index.lexical(["zebra"], 5, Filters()) == []
        assert len(index.lexical(["zebra"], 5, Filters(groups=("hr",)))) == 1
        assert index.passages(secret, Filters()) == {}
        assert set(index.passages(secret, Filters(groups=("hr",)))) == set(secret)
        for exact_chunks in (0, 100):
            monkeypatch.setattr(module, "EXACT_CHUNKS", exact_chunks)
            everything = index.dense([1.0, 0.0, 0.0, 0.0], 50, Filters({"source": ("s",)}))
            assert not {item.chunk_id for item in everything} & set(secret)


@pytest.mark.case(26)
@pytest.mark.parametrize(
    "key", ["groups", "doc_id", "text", "team; DROP TABLE x", "x' OR '1'='1", "d.groups", "kv.", "kv.\x00", ""]
)
def test_a_key_that_is_not_allowed_is_refused_and_the_allowed_ones_named(
    database: Database, small: GenerationRow, key: str
) -> None:
    with opened(database, small, "team") as index, pytest.raises(UsageError, match=r"kv\.KEY, team"):
        index.lexical(["appl"], 5, Filters({key: ("x",)}))


HOSTILE = (
    "' OR 1=1 --",
    "'); DROP SCHEMA g0001 CASCADE; --",
    "{}",
    "%s",
    "%(groups)s",
    '"',
    "\\",
    "\x00",
    "\ud800",
    "",
)


@pytest.mark.case(26)
@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_values_match_nothing_and_break_nothing(database: Database, small: GenerationRow, value: str) -> None:
    with opened(database, small, "team", value or "x") as index:
        for key in ("source", "title", "section", "kv.form", "team"):
            assert found_by(index, Filters({key: (value,)})) == set()
        assert found_by(index, Filters({value: (value,)} if value in ("' OR 1=1 --", "%s") else {})) <= {"a", "b", "c"}
        assert index.lexical([value], 5, Filters()) == []
        assert index.passages([value], Filters()) == {}
        assert found_by(index, Filters()) == {"a", "b", "c"}


@pytest.mark.parametrize("value", ["yesterday", "2026-13-01", "'; --"])
def test_a_date_that_is_none_is_refused(database: Database, small: GenerationRow, value: str) -> None:
    with opened(database, small) as index, pytest.raises(UsageError, match="date such as"):
        index.lexical(["appl"], 5, Filters(dated_from=value))


# ---------------------------------------------------------------- passages and transaction


def test_a_passage_is_whole(database: Database, small: GenerationRow) -> None:
    with opened(database, small) as index:
        passage = index.passages(["c00003", "missing"], Filters())["c00003"]
        assert index.newest_date() == "2026-01-01"
    assert (passage.doc_id, passage.index, passage.uri, passage.effective_date) == ("a", 2, "a.pdf", "2026-01-01")
    assert (passage.section_id, passage.header_chain, passage.block_types) == (
        "section2",
        ("Top", "Part 2"),
        ("paragraph",),
    )
    assert (passage.text, passage.overlap, passage.context) == ("apple pear", "before", "about")
    assert (passage.page_start, passage.page_end, passage.spans) == (1, 2, ((0, 5), (9, 12)))
    assert passage.boxes == (Box(1, 0, 1, 2, 3),)
    assert (passage.previous_id, passage.next_id, passage.family) == (None, None, "f")


def test_a_reader_sees_one_state_while_another_writes(database: Database, small: GenerationRow) -> None:
    with opened(database, small) as index, database.connect() as writer:
        assert len(index.lexical(["pear"], 50, Filters())) == 9
        writer.execute(f"DELETE FROM {small.schema}.documents WHERE doc_id = 'c'")
        writer.commit()
        assert len(index.lexical(["pear"], 50, Filters())) == 9
        with opened(database, small) as later:
            assert len(later.lexical(["pear"], 50, Filters())) == 6
        writer.execute(f"INSERT INTO {small.schema}.documents SELECT 'c', bucket, source, 'c.pdf', title, family, "
                       f"language, NULL, NULL, groups, '{{}}', pages, '', '', stale, '' FROM {small.schema}.documents "
                       "WHERE doc_id = 'b'")  # fmt: skip


def test_nothing_can_be_written_through_it(database: Database, small: GenerationRow) -> None:
    with opened(database, small) as index, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        index.connection.execute(f"DELETE FROM {small.schema}.documents")


def test_the_live_generation_is_read_unless_one_is_named(database: Database, small: GenerationRow) -> None:
    with database.connect() as connection:
        live = Catalog(database).live()
        assert live is not None
        with search_index(connection) as index:
            assert index.generation.number == live.generation
        with search_index(connection, small.generation) as index:
            assert index.generation.number == small.generation
        with pytest.raises(IndexStateError, match="generation 99 does not exist"), search_index(connection, 99):
            pass


def test_before_anything_is_published_there_is_no_index(tmp_path: Path, database: Database) -> None:
    with database.connect() as connection:
        connection.execute("DELETE FROM pincite.live")
        statement = query("catalog", "generation_of")
        assert connection.execute(statement, {"generation": None}).fetchone() is None
        with pytest.raises(IndexStateError, match="run `pincite index`"):
            module.resolve(connection)
        connection.rollback()


def test_a_vector_is_asked_again_on_another_connection(database: Database, small: GenerationRow) -> None:
    """Each connection learns pgvector's types by itself."""
    vector = [0.5, -0.25, 0.1, 1.0]
    with opened(database, small) as index, database.connect("another") as fresh:
        found = index.dense(vector, 3, Filters())
        with search_index(fresh, small.generation) as other:
            index.rest(lambda: other)
            assert index.dense(vector, 3, Filters()) == found
