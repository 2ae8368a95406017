"""`verify` of buckets of several parts: one part is held at a time, and what is wrong with each row is told once."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from typing import Any
from unittest import mock

import psycopg
import pytest

from pipelines.ranges import bucket_of
from pipelines.records import ParsedDocument
from resources.checks.findings import Finding
from resources.checks.row_diff import _TableDiff, bucket_findings
from resources.documents.protocol import Attempt
from resources.postgres.index_rows import IndexedDocument
from resources.settings_file import locate
from resources.stages.indexed_documents import IndexBuild
from resources.stages.part_rows import PartRows, read_part
from resources.state.state import State
from resources.workers.pool import WorkerProcess
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, make_project, new_database

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

BUCKETS, MOST = 2, 3
LEAVE = "Staff receive leave of {0} days. A request of number {0} is answered within a week by the head."
HELD = "held.md"


give = WorkerProcess.give


def killed(process: WorkerProcess[Attempt], work: Attempt, *arguments: Any) -> None:
    if any((task.uri, task.kind) == (HELD, "chunks") for task in work.batch.tasks):
        os.kill(process.process.pid, signal.SIGKILL)
    give(process, work, *arguments)


@pytest.fixture(scope="module")
def indexed(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Two buckets of several parts; some documents are for the board, and of one a stage cannot make the newest
    version, so that what is served of it is in Postgres alone."""
    texts = {
        f"rule-{n:02d}.md": f"# Rule {n}\n\n{LEAVE.format(n)}\n\n## Keys\n\nKey {n} is held by rule." for n in range(24)
    }
    folder = tmp_path_factory.mktemp("parted") / "project"
    with new_database(server_url) as url:
        settings: dict[str, Any] = {"buckets": BUCKETS, "database": url}
        settings["embedder"] = {"endpoint": endpoint.url, "model": "fake"}
        project = make_project(folder, {**texts, HELD: "# Held\n\nIt is held and answered within a week."}, **settings)
        for n in range(0, 24, 5):
            project.write(f"rule-{n:02d}.md.meta.yaml", "groups: [board]\n")
        with mock.patch("pipelines.ranges.MOST_IN_FILE", MOST), mock.patch("pipelines.ranges.FEWEST_IN_FILES", 0):
            project.index()
        project.write(HELD, "# Held\n\nIt is held and answered within a day.")
        with mock.patch.object(WorkerProcess, "give", killed):
            project.index(code=3)
        assert project.run("verify").json["problems"] == []
        yield project


@dataclass(frozen=True)
class Served:
    """The live generation in Postgres, and what it should be: the documents of each part of each bucket."""

    connection: psycopg.Connection[Any]
    schema: str
    average_terms: float
    parts: Sequence[Sequence[list[IndexedDocument]]]
    held: Collection[str]


@pytest.fixture(scope="module")
def served(indexed: Project) -> Iterator[Served]:
    with closing(State(locate(str(indexed.config)))) as state:
        live = state.parts.catalog.live()
        assert live is not None
        seen = state.of_generation(live)
        made = [list(IndexBuild(seen).documents(bucket)) for bucket in range(BUCKETS)]
        with seen.parts.database.connect() as connection:
            average = live.statistics["average_terms"]
            yield Served(connection, live.schema, average, made, seen.engine.held_documents())


# ---------------------------------------------------------------- what is held


def documents_held() -> int:
    return sum(type(item) in (IndexedDocument, ParsedDocument) for item in gc.get_objects())


def test_a_part_is_read_when_nothing_of_another_is_held(indexed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    before, there, made, asked = documents_held(), list[int](), list[int](), list[int]()
    rows = _TableDiff.rows

    class Watched(PartRows):
        def documents(self, doc_ids: Sequence[str]) -> list[IndexedDocument]:
            made.append(len(doc_ids))
            return super().documents(doc_ids)

    def read(*given: Any) -> PartRows:
        there.append(documents_held() - before)
        found = read_part(*given)
        return Watched(**{field.name: getattr(found, field.name) for field in fields(found)})

    def watched(diff: _TableDiff, key: str, names: Collection[str], columns: Collection[str]) -> Iterator[Any]:
        if names and len(columns) > 2:
            asked.append(len(names))
        return rows(diff, key, names, columns)

    monkeypatch.setattr("resources.stages.part_rows.read_part", read)
    monkeypatch.setattr(_TableDiff, "rows", watched)
    assert indexed.run("verify").json["problems"] == []
    assert there == [0] * len(parts(indexed)) and len(there) > 3 * BUCKETS
    assert sum(made) == 24
    assert sorted(asked) == sorted(made * 5), "of Postgres only the rows of a part's documents are read whole"


# ---------------------------------------------------------------- what is told


def findings(served: Served, *statements: str, held: Collection[str] | None = None) -> list[Finding]:
    """What is told, after these statements, of the rows of all buckets, one by one and in order. The statements are
    undone."""
    told = list[Finding]()
    with served.connection.transaction(force_rollback=True):
        for statement in statements:
            served.connection.execute(statement.encode())
        for bucket in range(BUCKETS + 1):
            own = served.parts[bucket] if bucket < BUCKETS else ()
            known = served.held if held is None else held
            told += bucket_findings(served.connection, served.schema, bucket, iter(own), served.average_terms, known)
    return sorted(told)


def parts(project: Project) -> list[str]:
    """The first id of each part."""
    rows = project.rows("SELECT first FROM pincite.manifest WHERE table_name = 'raw_documents' ORDER BY first")
    return [first for (first,) in rows]


@pytest.fixture(scope="module")
def names(indexed: Project) -> Mapping[str, str]:
    """Documents a and b of one bucket in two parts, and c of the other bucket, with their first chunk and sentence."""
    found: dict[str, str] = {}
    rows = indexed.rows("SELECT doc_id, uri FROM g0001.documents WHERE NOT stale ORDER BY doc_id")
    uris, first = dict(rows), [doc_id for doc_id, _ in rows if bucket_of(doc_id, BUCKETS) == 0]
    second = [doc_id for doc_id, _ in rows if bucket_of(doc_id, BUCKETS) == 1]
    ranges = parts(indexed)
    assert next(at for at in ranges if at > first[0]) < first[-1], "they are in two parts"
    for name, doc_id in (("a", first[0]), ("b", first[-1]), ("c", second[0])):
        found[name] = doc_id
        found[f"{name}_place"] = f"docs/{uris[found[name]]}"
        for table, key in (("chunks", "chunk_id"), ("sentences", "sentence_id")):
            ((first,),) = indexed.rows(
                f"SELECT {key} FROM g0001.{table} WHERE doc_id = %s AND ordinal = 0", found[name]
            )
            found[f"{name}_{table}"] = first
    return found


def ids(project: Project, table: str, doc_id: str) -> list[str]:
    key = {"chunks": "chunk_id", "sentences": "sentence_id"}[table]
    return [name for (name,) in project.rows(f"SELECT {key} FROM g0001.{table} WHERE doc_id = %s", doc_id)]


def copied(table: str, name: str, **values: str) -> str:
    """A row more, which is as another one but for some values."""
    key, given = (
        {"chunks": "chunk_id", "sentences": "sentence_id"}[table],
        ", ".join(f'"{column}": "{value}"' for column, value in values.items()),
    )
    made = f"(jsonb_populate_record(r, '{{{given}}}')).*"
    return f"INSERT INTO g0001.{table} SELECT {made} FROM g0001.{table} r WHERE {key} = '{name}'"


UNIQUE = {
    "chunks": "ALTER TABLE g0001.chunks DROP CONSTRAINT chunks_chunk_id_key CASCADE",
    "sentences": "ALTER TABLE g0001.sentences DROP CONSTRAINT sentences_pkey CASCADE",
}


def test_nothing_is_told_of_what_is_right(served: Served) -> None:
    assert findings(served) == []


@pytest.mark.parametrize("table", ["chunks", "sentences"])
def test_differences_across_several_parts_are_each_reported_once(
    served: Served, indexed: Project, names: Mapping[str, str], table: str
) -> None:
    noun, key = table[:-1], f"{table[:-1]}_id"
    number = {"number": "999999"} if table == "chunks" else {}
    second = ids(indexed, table, names["b"])[-1]
    assert second != names[f"b_{table}"]
    found = findings(
        served,
        copied(table, names[f"a_{table}"], **{key: "forged"}, **number),
        f"DELETE FROM g0001.{table} WHERE {key} IN ('{names[f'a_{table}']}', '{names[f'b_{table}']}')",
        f"UPDATE g0001.{table} SET text = 'Other.' WHERE {key} IN ('{second}', '{names[f'c_{table}']}')",
    )
    of = {name: f"of {names[name]} ({names[f'{name}_place']})" for name in "abc"}
    assert found == sorted([
        (f"missing_{noun}", f"{names[f'a_{table}']} {of['a']}"),
        (f"missing_{noun}", f"{names[f'b_{table}']} {of['b']}"),
        (f"changed_{noun}", f"{second} {of['b']} in text"),
        (f"changed_{noun}", f"{names[f'c_{table}']} {of['c']} in text"),
        (f"extra_{noun}", f"forged {of['a']}"),
    ])  # fmt: skip


@pytest.mark.parametrize(("taker", "giver"), [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("table", ["chunks", "sentences"])
def test_a_row_under_a_document_of_another_part_is_one_changed_row(
    served: Served, names: Mapping[str, str], table: str, taker: str, giver: str
) -> None:
    moved = names[f"{giver}_{table}"]
    statement = f"UPDATE g0001.{table} SET doc_id = '{names[taker]}' WHERE {table[:-1]}_id = '{moved}'"
    told = f"{moved} of {names[giver]} ({names[f'{giver}_place']}) in doc_id"
    assert findings(served, statement) == [(f"changed_{table[:-1]}", told)]


@pytest.mark.parametrize("table", ["chunks", "sentences"])
def test_a_row_under_a_document_of_another_bucket_is_missing_in_one_and_extra_in_the_other(
    served: Served, names: Mapping[str, str], table: str
) -> None:
    moved, noun = names[f"a_{table}"], table[:-1]
    found = findings(served, f"UPDATE g0001.{table} SET doc_id = '{names['c']}' WHERE {noun}_id = '{moved}'")
    assert found == [
        (f"extra_{noun}", f"{moved} of {names['c']} ({names['c_place']})"),
        (f"missing_{noun}", f"{moved} of {names['a']} ({names['a_place']})"),
    ]


@pytest.mark.parametrize("where", ["a", "b"])
@pytest.mark.parametrize("table", ["chunks", "sentences"])
def test_a_row_that_is_there_twice_is_told_once_wherever_the_other_stands(
    served: Served, names: Mapping[str, str], table: str, where: str
) -> None:
    number = {"number": "999999"} if table == "chunks" else {}
    twice = names[f"a_{table}"]
    found = findings(served, UNIQUE[table], copied(table, twice, doc_id=names[where], **number))
    assert [told for told in found if told[0] != "postings"] == [(f"duplicate_{table[:-1]}", twice)]


def test_a_row_that_nobody_makes_is_extra_once_though_it_is_there_twice(
    served: Served, names: Mapping[str, str]
) -> None:
    forged = [
        copied("sentences", names[f"{name}_sentences"], sentence_id="forged", doc_id=names[name]) for name in "ab"
    ]
    found = findings(served, UNIQUE["sentences"], *forged)
    assert [code for code, _ in found] == ["duplicate_sentence", "extra_sentence"]
    assert found[0] == ("duplicate_sentence", "forged")


def everything(indexed: Project, kind: str, names: Mapping[str, str], name: str) -> list[Finding]:
    """That a document is missing, or extra, with all that is of it."""
    of = f"{names[name]} ({names[f'{name}_place']})"
    rows = [(table[:-1], each) for table in ("chunks", "sentences") for each in ids(indexed, table, names[name])]
    return [(f"{kind}_document", of), *((f"{kind}_{noun}", f"{each} of {of}") for noun, each in rows)]


@pytest.mark.parametrize("bucket", [1, BUCKETS])
def test_a_document_under_another_bucket_is_missing_in_one_and_extra_in_the_other(
    served: Served, indexed: Project, names: Mapping[str, str], bucket: int
) -> None:
    wanted = [*everything(indexed, "missing", names, "a"), *everything(indexed, "extra", names, "a")]
    assert len(wanted) > 6
    found = findings(served, f"UPDATE g0001.documents SET bucket = {bucket} WHERE doc_id = '{names['a']}'")
    assert found == sorted(wanted)


def test_rows_whose_document_is_gone_are_missing_with_it(
    served: Served, indexed: Project, names: Mapping[str, str]
) -> None:
    wanted = [*everything(indexed, "missing", names, "a"), *everything(indexed, "missing", names, "c")]
    found = findings(
        served,
        "ALTER TABLE g0001.chunks DROP CONSTRAINT chunks_doc_id_fkey",
        "ALTER TABLE g0001.sentences DROP CONSTRAINT sentences_doc_id_fkey",
        f"DELETE FROM g0001.documents WHERE doc_id IN ('{names['a']}', '{names['c']}')",
    )
    assert found == sorted(wanted)


@pytest.mark.parametrize("doc_id", ["0" * 32, "f" * 32], ids=["of the bucket", "of another"])
def test_a_document_that_no_part_has_is_extra_with_its_rows(
    served: Served, names: Mapping[str, str], doc_id: str
) -> None:
    found = findings(
        served,
        "INSERT INTO g0001.documents SELECT (jsonb_populate_record(d, "
        f"""'{{"doc_id": "{doc_id}", "uri": "forged.md"}}')).* FROM g0001.documents d WHERE doc_id = '{names["a"]}'""",
        copied("chunks", names["a_chunks"], chunk_id="forged", doc_id=doc_id, number="999999"),
        copied("sentences", names["a_sentences"], sentence_id="forged too", doc_id=doc_id),
    )
    of = f"{doc_id} (docs/forged.md)"
    assert found == [
        ("extra_chunk", f"forged of {of}"),
        ("extra_document", of),
        ("extra_sentence", f"forged too of {of}"),
    ]


def test_a_document_that_is_there_twice_is_told_with_its_rows(
    served: Served, indexed: Project, names: Mapping[str, str]
) -> None:
    """Its rows are those of each of the two."""
    found = findings(
        served,
        "ALTER TABLE g0001.documents DROP CONSTRAINT documents_pkey CASCADE",
        f"INSERT INTO g0001.documents SELECT * FROM g0001.documents WHERE doc_id = '{names['b']}'",
    )
    rows = [(table[:-1], each) for table in ("chunks", "sentences") for each in ids(indexed, table, names["b"])]
    assert found == sorted([("duplicate_document", names["b"]), *((f"duplicate_{noun}", each) for noun, each in rows)])


# ---------------------------------------------------------------- postings


def test_terms_whose_postings_are_others_are_told_once_each(
    served: Served, indexed: Project, names: Mapping[str, str]
) -> None:
    """Rows of postings for terms that all parts have, and two kinds of groups."""
    weight = "overlay(weights PLACING float4send(9) FROM greatest(1, octet_length(weights) - 3))"
    ((several,),) = indexed.rows("SELECT count(*) FROM g0001.postings WHERE (term, bucket) = ('week', 0)")
    assert several == 2
    found = findings(
        served,
        f"UPDATE g0001.postings SET weights = {weight} WHERE (term, bucket) = ('week', 0)",
        "DELETE FROM g0001.postings WHERE (term, bucket, groups) = ('answer', 1, '{board}')",
        "UPDATE g0001.postings SET groups = '{staff}' WHERE (term, bucket, groups) = ('request', 0, '{board}')",
        "UPDATE g0001.postings SET chunks = chunks || '\\x01' WHERE (term, bucket, groups) = ('head', 1, '{}')",
        "UPDATE g0001.postings SET blocks = '' WHERE (term, bucket, groups) = ('staff', 1, '{board}')",
    )
    assert found == sorted([
        ("postings", "term 'week' of bucket 00"),
        ("postings", "term 'week' of bucket 00"),
        ("postings", "term 'answer' of bucket 01, which has none"),
        ("postings", "term 'request' of bucket 00"),
        ("postings", "term 'request' of bucket 00, which has none"),
        ("postings", "term 'head' of bucket 01"),
        ("postings", "term 'staff' of bucket 01, whose blocks are of others"),
    ])  # fmt: skip


def test_postings_are_not_compared_where_a_chunk_of_one_part_is_missing(
    served: Served, names: Mapping[str, str]
) -> None:
    chunk = names["b_chunks"]
    found = findings(served, "DELETE FROM g0001.postings", f"DELETE FROM g0001.chunks WHERE chunk_id = '{chunk}'")
    assert {message.split(" of bucket ")[1] for code, message in found if code == "postings"} == {"01, which has none"}
    assert [message for code, message in found if code != "postings"] == [
        f"{chunk} of {names['b']} ({names['b_place']})"
    ]


def test_a_document_that_is_held_is_left_alone_and_so_are_its_postings(served: Served, indexed: Project) -> None:
    ((doc_id, bucket),) = indexed.rows("SELECT doc_id, bucket FROM g0001.documents WHERE uri = %s", HELD)
    of = f"{doc_id} (docs/{HELD})"
    rows = [(table[:-1], each) for table in ("chunks", "sentences") for each in ids(indexed, table, doc_id)]
    assert findings(served) == [] and len(rows) > 1
    wanted = [("extra_document", of), *((f"extra_{noun}", f"{each} of {of}") for noun, each in rows)]
    assert findings(served, held=()) == sorted(wanted)
    found = findings(
        served,
        "UPDATE g0001.postings SET weights = overlay(weights PLACING float4send(9) FROM 1) "
        f"WHERE (term, bucket, groups) = ('week', {bucket}, '{{}}')",
    )
    assert found == [("postings", f"term 'week' of bucket {bucket:02d}")]
