"""`pincite verify`: silent about what is right, a code for everything that is not; and what then mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from resources.checks.verify import verify
from resources.engine.tables import ParquetTables, range_of
from resources.postgres.database import Database
from resources.settings_file import locate
from resources.state.state import State
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, content, make_project, new_database
from tests.support.projects import project_copy as copied

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

LOST = "archive/keys.md"
"""Its file is empty by now, so what is served of it can be made of nothing."""
NOTICE = "The {} gate of the old town hall is locked by the porter at nine in the evening.\n"


@pytest.fixture(scope="module")
def indexed(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Two generations, the second live; a restricted document, one that fails, and one in its last good version."""
    with new_database(server_url) as url:
        embedder = {"endpoint": endpoint.url, "model": "first"}
        project = make_project(
            tmp_path_factory.mktemp("indexed") / "project", database=url, buckets=4, embedder=embedder
        )
        project.write(
            "board/minutes.txt", "The council adopted the budget. Members approved the repairs of the roof.\n"
        )
        project.write("board/minutes.txt.meta.yaml", "groups: [board]\n")
        project.write("east.txt", NOTICE.format("east"))
        project.write("west.txt", NOTICE.format("west"))
        project.write("empty.txt", b"")
        project.index(code=3)
        project.configure(embedder={**embedder, "model": "second"})
        project.write(LOST, b"")
        project.index(code=3)
        project.run("generations prune")
        yield project


@pytest.fixture
def reread(indexed: Project, server_url: str, tmp_path: Path) -> Iterator[Project]:
    """The same files, and a database of its own: for what only reads files."""
    database = indexed.settings["database"].split("?")[0].rsplit("/", 1)[1]
    with new_database(server_url, database) as url:
        project = Project(tmp_path, dict(indexed.settings))
        project.configure(database=url, state=str(indexed.state))
        yield project


@pytest.fixture
def project(indexed: Project, server_url: str, tmp_path: Path) -> Iterator[Project]:
    with copied(indexed, server_url, tmp_path / "project") as copy:
        yield copy


def problems(project: Project) -> dict[str, str]:
    """Code to messages, of all generations."""
    ran = project.run("verify")
    assert ran.code == (0 if ran.json["ok"] else 1), ran.out + ran.err
    assert ran.json["ok"] == (not ran.json["problems"])
    found: dict[str, str] = {}
    for problem in ran.json["problems"]:
        found[problem["code"]] = f"{found.get(problem['code'], '')}{problem['message']}\n"
    return found


def test_a_clean_index_is_ok_and_nothing_is_written(reread: Project, indexed: Project) -> None:
    assert reread.rows("SELECT count(*) > 1 FROM g0002.sentence_links") == [(True,)]
    assert reread.rows("SELECT uri FROM g0002.documents WHERE stale") == [(LOST,)]
    reread.rows(
        f"ALTER DATABASE {reread.rows('SELECT current_database()')[0][0]} SET default_transaction_read_only = on"
    )
    files = {path: path.stat().st_mtime_ns for path in indexed.state.rglob("*")}
    assert reread.run("verify").json == {"ok": True, "problems": [], "notes": []}
    assert {path: path.stat().st_mtime_ns for path in indexed.state.rglob("*")} == files


# ---------------------------------------------------------------- tampering with Postgres


@dataclass(frozen=True)
class Tampering:
    """A statement behind the pipeline's back, the codes that tell of it (among others), and a part of the message
    of the first. Tamperings of one table are made together, so each has a message of its own."""

    statement: str
    codes: tuple[str, ...]
    told: str


def of(uri: str, table: str = "") -> str:
    return f"{table}doc_id = (SELECT doc_id FROM g0002.documents WHERE uri = '{uri}')"


def added(schema: str) -> str:
    """A document that no listing has, in bucket 0."""
    return (
        f"INSERT INTO {schema}.documents SELECT repeat('f', 32), 0, source, 'forged.txt', title, family, language, "
        "effective_date, version, groups, metadata, pages, summary, content_hash, stale, row_hash "
        f"FROM {schema}.documents WHERE uri = 'west.txt'"
    )


def other(table: str, uri: str, values: str) -> str:
    """A row more, which is as the first of a document but for some values."""
    made = f"(jsonb_populate_record(r, '{{{values}}}')).*"
    return f"INSERT INTO g0002.{table} SELECT {made} FROM g0002.{table} r WHERE ordinal = 0 AND {of(uri)}"


ZERO = "array_fill(0, ARRAY[16])::vector"

NOTICED = {
    "document deleted": Tampering(
        "DELETE FROM g0002.documents WHERE uri = 'east.txt'", ("missing_document", "missing_chunk"), "docs/east.txt"
    ),
    "document added": Tampering(added("g0002"), ("extra_document", "deleted_document"), "docs/forged.txt"),
    "chunk added": Tampering(
        other("chunks", "suppliers.csv", '"chunk_id": "forged", "number": 999999'),
        ("extra_chunk",),
        "forged of ",
    ),
    "chunk deleted": Tampering(
        f"DELETE FROM g0002.chunks WHERE ordinal = 0 AND {of('handbook.md')}", ("missing_chunk",), "docs/handbook.md"
    ),
    "sentence deleted": Tampering(
        f"DELETE FROM g0002.sentences WHERE ordinal = 0 AND {of('boilers.txt')}",
        ("missing_sentence",),
        "docs/boilers.txt",
    ),
    "sentence twice": Tampering(
        "ALTER TABLE g0002.sentences DROP CONSTRAINT sentences_pkey; "
        f"INSERT INTO g0002.sentences SELECT * FROM g0002.sentences WHERE ordinal = 0 AND {of('visitors.html')}",
        ("duplicate_sentence",),
        "stored twice",
    ),
    "sentence added": Tampering(
        other("sentences", "west.txt", '"sentence_id": "forged"'), ("extra_sentence",), "forged of "
    ),
    "posting deleted": Tampering("DELETE FROM g0002.postings WHERE term = 'permit'", ("postings",), "'permit'"),
    "row-level security off": Tampering(
        "ALTER TABLE g0002.documents DISABLE ROW LEVEL SECURITY; DROP POLICY asker ON g0001.chunks; "
        "CREATE POLICY asker ON g0001.chunks FOR SELECT TO pincite_query USING (true)",
        ("row_security", "policy"),
        "g0002.documents shows every row to everybody",
    ),
    "links deleted": Tampering("DELETE FROM g0002.sentence_links", ("missing_link",), " -> "),
}
"""What the next run mends by itself."""

OVERLOOKED = {
    "text of a chunk": Tampering(
        f"UPDATE g0002.chunks SET text = text || '.' WHERE {of('east.txt')}",
        ("changed_chunk",),
        "docs/east.txt) in text",
    ),
    "boxes and header chain": Tampering(
        """UPDATE g0002.chunks SET boxes = '[{"page": 1}]', header_chain = '{Other}' """
        f"WHERE ordinal = 0 AND {of('handbook.md')}",
        ("changed_chunk",),
        "in header_chain, boxes",
    ),
    "another vector": Tampering(
        f"UPDATE g0002.chunks SET embedding = l2_normalize(((embedding::real[])[2:16] || 0.1::real)::vector) "
        f"WHERE {of('boilers.txt')}",
        ("changed_chunk",),
        "docs/boilers.txt) in embedding",
    ),
    "a vector of zeros": Tampering(
        f"UPDATE g0002.sentences SET embedding = {ZERO} WHERE ordinal = 0 AND {of('visitors.html')}",
        ("changed_sentence", "zero_vector"),
        "in embedding",
    ),
    "groups": Tampering(
        "UPDATE g0002.documents SET groups = '{}' WHERE uri = 'board/minutes.txt'",
        ("groups", "changed_document"),
        "(public, not board)",
    ),
    "a stale version shown as new": Tampering(
        "UPDATE g0002.documents SET stale = false WHERE uri = 'archive/keys.md'",
        ("changed_document",),
        "docs/archive/keys.md) in stale",
    ),
    "a bucket that is none": Tampering(
        "UPDATE g0002.documents SET bucket = 77 WHERE uri = 'west.txt'",
        ("extra_document", "missing_document"),
        "docs/west.txt). Delete",
    ),
    "weight of a term": Tampering(
        "UPDATE g0002.postings SET weights = overlay(weights PLACING float4send(9) FROM 1) WHERE term = 'porter'",
        ("postings",),
        "'porter' of bucket",
    ),
    "blocks of a term": Tampering(
        "UPDATE g0002.postings SET blocks = overlay(blocks PLACING float4send(0.001) FROM 13) WHERE term = 'hall'",
        ("postings",),
        "'hall' of bucket 03, whose blocks are of others",
    ),
    "similarity of a link": Tampering(
        "UPDATE g0002.sentence_links SET similarity = 0.5", ("changed_link",), "similarity 0.5000, not 0.9"
    ),
    "another link": Tampering(
        "UPDATE g0002.sentence_links SET target_id = (SELECT min(sentence_id) FROM g0002.sentences s "
        f"WHERE {of('boilers.txt', 's.')}) WHERE source_id = (SELECT min(source_id) FROM g0002.sentence_links)",
        ("extra_link", "missing_link"),
        " -> ",
    ),
}
"""What a run cannot notice; the messages say what to delete first."""

REMEDIES = (
    "DELETE FROM g0002.documents WHERE uri IN ('east.txt', 'west.txt', 'handbook.md', 'boilers.txt', 'visitors.html', "
    "'board/minutes.txt', 'archive/keys.md')",
    "DELETE FROM g0002.postings WHERE bucket IN (SELECT bucket FROM g0002.postings WHERE term IN ('porter', 'hall'))",
    "DELETE FROM g0002.sentence_links",
)

IN_ROWS = {
    "document twice": Tampering(
        "ALTER TABLE g0002.documents DROP CONSTRAINT documents_pkey CASCADE; "
        "INSERT INTO g0002.documents SELECT * FROM g0002.documents WHERE uri = 'east.txt'",
        ("duplicate_document",),
        "stored twice: ",
    ),
    "chunk twice": Tampering(
        "ALTER TABLE g0002.chunks DROP CONSTRAINT chunks_chunk_id_key CASCADE; "
        + other("chunks", "west.txt", '"number": 999999'),
        ("duplicate_chunk",),
        "stored twice: ",
    ),
    "vector index dropped": Tampering(
        "DROP INDEX g0002.chunks_embedding", ("vector_index",), "g0002.chunks is missing"
    ),
    "document frequencies deleted": Tampering("DELETE FROM g0002.terms", ("terms",), "0 of"),
    "a run that ended early": Tampering(
        "UPDATE pincite.generations SET built_from = 'other'", ("unfinished",), "before it had audited"
    ),
    "failure made up": Tampering(
        "INSERT INTO pincite.failures (doc_id, stage, key, source, uri, code, message) "
        "SELECT repeat('f', 32), stage, key, 'docs', 'forged.txt', code, message FROM pincite.failures "
        "WHERE uri = 'empty.txt' LIMIT 1",
        ("false_failure",),
        "docs/forged.txt) at parsed_elements",
    ),
    "failure forgotten": Tampering(
        f"DELETE FROM pincite.failures WHERE uri = '{LOST}'", ("unrecorded_failure",), f"{LOST}) at parsed_elements"
    ),
    "failure without a reason": Tampering(
        "UPDATE pincite.failures SET message = ''", ("nameless_failure",), "empty.txt"
    ),
    "schema left over": Tampering(
        "CREATE SCHEMA g0009; CREATE TABLE g0009.chunks ()", ("leftover_schema",), "g0009. Drop each"
    ),
    "rows of the kept generation": Tampering(
        f"DELETE FROM g0001.sentences WHERE {of('handbook.md')}", ("changed_rows",), "generation 1: "
    ),
    "groups in the kept generation": Tampering(
        "UPDATE g0001.documents SET groups = '{}' WHERE uri = 'board/minutes.txt'", ("groups",), "generation 1: "
    ),
    "a deleted document in the kept generation": Tampering(added("g0001"), ("deleted_document",), "generation 1: "),
}
IN_FILES = {
    "commit deleted": Tampering(
        "DELETE FROM pincite.manifest WHERE table_name = 'chunks' AND first = '80000000'",
        ("missing_bucket",),
        "02 of chunks",
    ),
    "commit of rows deleted": Tampering(
        "DELETE FROM pincite.manifest WHERE key = 'g0002' AND first = 'c0000000'", ("missing_bucket",), "buckets 03"
    ),
    "commit of other rows": Tampering(
        "UPDATE pincite.manifest SET rows = rows + 1 WHERE table_name = 'chunks' AND first = '40000000'",
        ("miscounted_file",),
        "chunks/",
    ),
    "vectors of another embedder": Tampering(
        "UPDATE pincite.manifest AS new SET file = old.file FROM pincite.manifest AS old "
        "WHERE (new.table_name, new.first, new.rows) = (old.table_name, old.first, old.rows) "
        "AND new.table_name = 'chunk_embeddings' AND new.file <> old.file",
        ("embedder",),
        "has those of",
    ),
}
"""What is wrong with files, after which rows are not compared."""
UNDONE = {
    "an interrupted run": Tampering(
        "UPDATE pincite.manifest SET output = 'other' WHERE table_name = 'parsed_documents' AND first = '40000000'",
        ("unfinished",),
        "figure_descriptions of bucket 01",
    ),
    "document frequency out of range": Tampering("UPDATE g0002.terms SET documents = 99", ("terms",), "99 of"),
}
UNPUBLISHED = {
    "nothing published": Tampering("DELETE FROM pincite.live", ("not_published",), "pincite generations publish")
}


def tamper(project: Project, tamperings: Mapping[str, Tampering]) -> None:
    for tampering in tamperings.values():
        for statement in tampering.statement.split("; "):
            project.rows(statement)


def untold(found: Mapping[str, str], tamperings: Mapping[str, Tampering]) -> dict[str, list[str]]:
    """The tamperings that problems do not tell of, and what is told under their codes."""
    return {
        name: [found.get(code, "nothing") for code in tampering.codes]
        for name, tampering in tamperings.items()
        if not set(tampering.codes) <= found.keys() or tampering.told not in found[tampering.codes[0]]
    }


@pytest.mark.case(10)
@pytest.mark.parametrize(
    "tamperings", [IN_ROWS, IN_FILES, UNDONE, UNPUBLISHED], ids=["in rows", "in files", "undone", "unpublished"]
)
def test_tampering_with_the_database_is_told(
    reread: Project, tamperings: Mapping[str, Tampering], record_property: Callable[[str, object], None]
) -> None:
    record_property("injected", len(tamperings))
    tamper(reread, tamperings)
    found = problems(reread)
    assert untold(found, tamperings) == {}


UNVERIFIED = {
    "kept, never completed": (
        "UPDATE pincite.generations SET built_at = NULL WHERE generation = 1", 1, None, "",
    ),
    "kept, without a table": ("DROP TABLE g0001.terms", 1, "missing_tables", "g0001.terms. Restore the database"),
    "live, without a table": (
        "DROP TABLE g0002.sentence_links", 2, "missing_tables", "g0002.sentence_links. Restore the database",
    ),
    "live, of settings that cannot be read": (
        "UPDATE pincite.generations SET settings = settings || '{\"chunking\": 3}' WHERE generation = 2", 2,
        "settings", "cannot be read",
    ),
    "live, of another dimension": (
        "DROP INDEX g0002.chunks_embedding; ALTER TABLE g0002.chunks ALTER COLUMN embedding "
        "TYPE vector(8) USING subvector(embedding, 1, 8)::vector(8)", 2,
        "dimension", "g0002.chunks has 8, the generation 16",
    ),
    "of commits that cannot be read": ("ALTER TABLE pincite.manifest DROP COLUMN file", 1, "damaged_schema", ""),
}  # fmt: skip
"""Generations of which nothing else is looked at, and what is told of that."""


@pytest.mark.defends("4e")
@pytest.mark.parametrize("name", UNVERIFIED)
def test_security_is_verified_whatever_else_cannot_be(reread: Project, name: str) -> None:
    """A query reads each of them that it is asked for."""
    statements, number, code, told = UNVERIFIED[name]
    opened = f"ALTER TABLE g000{number}.chunks DISABLE ROW LEVEL SECURITY"
    for statement in [*statements.split("; "), opened]:
        reread.rows(statement)
    found = problems(reread)
    assert f"generation {number}: " in found["row_security"] and f"g000{number}.chunks shows" in found["row_security"]
    assert code is None or told in found[code]


# ---------------------------------------------------------------- what mends it


@pytest.mark.case(10, served=True)
def test_the_next_run_restores_rows_deleted_or_added(
    project: Project, record_property: Callable[[str, object], None]
) -> None:
    record_property("injected", len(NOTICED))
    before = content(project)
    tamper(project, NOTICED)
    found = problems(project)
    assert untold(found, NOTICED) == {}
    project.index(code=3)
    assert problems(project) == {}
    assert content(project) == before


@pytest.mark.case(10)
def test_the_remedies_mend_what_a_run_overlooks(
    project: Project, record_property: Callable[[str, object], None]
) -> None:
    record_property("injected", len(OVERLOOKED))
    tamper(project, OVERLOOKED)
    before = problems(project)
    assert untold(before, OVERLOOKED) == {}
    for told in (
        "DELETE FROM g0002.documents WHERE",
        "g0002.postings WHERE bucket",
        "DELETE FROM g0002.sentence_links",
    ):
        assert any(told in message for message in before.values())
    for statement in REMEDIES:
        project.rows(statement)
    project.index(code=3)
    assert problems(project) == {}


def test_the_next_run_mends_lost_files_and_vector_indexes(project: Project) -> None:
    """Each file that is gone or damaged is named."""
    project.rows(IN_ROWS["vector index dropped"].statement)
    project.index(code=3)
    assert problems(project) == {}
    gone = [committed(project, table)[0] for table in ("parsed_documents", "parsed_elements", "sentence_links")]
    damaged = [committed(project, table)[0] for table in ("raw_documents", "chunks", "sentence_embeddings")]
    for file in gone:
        file.unlink()
    for file in damaged:
        held = file.read_bytes()
        file.write_bytes(held[:-9] + b"x" + held[-8:])
    found = problems(project)
    assert all(file.name in found["missing_file"] for file in gone)
    assert all(file.name in found["damaged_file"] for file in damaged)
    for file in damaged:
        file.unlink()
    project.index(code=3)
    assert problems(project) == {}


@pytest.mark.defends("7d")
@pytest.mark.parametrize(
    "lost", ["listing", *(pytest.param(name, marks=pytest.mark.faults) for name in ("buckets", "later stage too"))]
)
def test_an_emptied_source_deletes_nothing_where_nobody_knows_what_it_held(project: Project, lost: str) -> None:
    """The listing that was committed is gone, or is of another number of buckets: what is served tells."""
    before = content(project)
    if lost == "buckets":
        project.configure(buckets=7)
    else:
        for table in ("raw_documents", *(["parsed_elements"] if lost == "later stage too" else [])):
            for file in committed(project, table):
                file.unlink()
    away = project.docs.rename(project.docs.with_name("away"))
    project.docs.mkdir()
    ran = project.run("index")
    assert (ran.code, ran.json["error"]["code"]) == (1, "deletion_guard")
    assert content(project) == before
    project.docs.rmdir()
    away.rename(project.docs)
    project.index(code=3)
    assert problems(project) == {}


def test_a_run_that_looks_at_everything_mends_commits_and_failures(project: Project) -> None:
    for tampering in (IN_FILES["commit deleted"], IN_ROWS["failure made up"], IN_ROWS["failure forgotten"]):
        project.rows(tampering.statement)
    project.index("--retry-failed", code=3)
    assert problems(project) == {}


@pytest.mark.case(10, served=True)
def test_a_lost_database_is_made_again_from_files(project: Project, endpoint: EmbeddingServer) -> None:
    """But for what only the database had: a document whose file can no longer be read. Weights of terms are those of
    the documents that there are."""
    before = content(project)
    ((lost,),) = project.rows("SELECT doc_id FROM g0002.documents WHERE uri = %s", LOST)
    project.rows("DROP SCHEMA pincite, g0001, g0002 CASCADE")
    endpoint.forget()
    result = project.index(code=3)
    assert set(endpoint.texts) <= {"dimension"}
    assert problems(project) == {}
    assert {item["uri"] for item in result["documents"]["failed"]} == {"empty.txt", LOST}
    after = content(project)
    for table in ("documents", "chunks", "sentences", "sentence_links"):
        assert after[table] == [row for row in before[table] if lost not in row], table
    assert len(after["documents"]) == len(before["documents"]) - 1


# ---------------------------------------------------------------- files


def committed(project: Project, table: str) -> list[Path]:
    rows = project.rows(
        "SELECT file FROM pincite.manifest WHERE table_name = %s AND rows > 0 ORDER BY committed_at DESC", table
    )
    return [project.state / "parquet" / file for (file,) in rows]


def test_a_text_that_its_chunks_do_not_hold_is_told_with_the_remedy(project: Project) -> None:
    """What a chunker that loses text would commit: a file as it should be, of chunks that are not."""
    import pyarrow as pa

    (file,) = [path for path in committed(project, "chunks") if "handbook.md" in of_documents(project, path)]
    tables = ParquetTables(str(project.state / "parquet"))
    name = file.relative_to(project.state / "parquet").as_posix()
    rows = tables.read(name)
    place = rows.schema.get_field_index("spans")
    spans = [own[:1] if number else [] for number, own in enumerate(rows["spans"].to_pylist())]
    cut = rows.set_column(place, rows.schema.field(place), pa.array(spans, rows.schema.field(place).type))
    ends = range_of(name)
    assert ends
    made = tables.write("chunks", name.split("/")[1], ends, cut, tables.documents(name))
    project.rows("UPDATE pincite.manifest SET file = %s WHERE file = %s", made, name)
    told = problems(project)["coverage"]
    assert "of the text of" in told and "Run `pincite index --retry-failed`" in told


def of_documents(project: Project, file: Path) -> set[str]:
    """The names of the documents of a file."""
    names = dict(project.rows("SELECT doc_id, uri FROM g0002.documents"))
    tables = ParquetTables(str(project.state / "parquet"))
    known = tables.documents(file.relative_to(project.state / "parquet").as_posix())
    return {str(names[doc_id]) for doc_id in known if doc_id in names}


# ---------------------------------------------------------------- beside others


def test_a_run_in_progress_and_files_of_no_commit_are_notes(project: Project, tmp_path: Path) -> None:
    """The run is not waited for."""
    (project.state / "parquet" / "chunks" / "left.parquet.77.partial").write_bytes(b"half")
    with Database(project.settings["database"], tmp_path) as database, database.exclusive("index"):
        ran = project.run("verify")
    assert (ran.code, ran.json) == (
        0,
        {
            "ok": True,
            "problems": [],
            "notes": [
                "a run is in progress; what it is changing may show here",
                "no commit names 1 file (0.0 MB); `pincite generations prune` collects them",
            ],
        },
    )


def test_it_sees_one_moment(reread: Project) -> None:
    """Documents that go while it reads are there for it, and their postings and links with them."""

    def delete(stage: str, done: int, total: int) -> None:
        reread.rows("DELETE FROM g0002.documents")

    state = State(locate(str(reread.config)))
    assert verify(state, delete)["ok"]
    state.close()
    assert reread.rows("SELECT count(*) FROM g0002.documents") == [(0,)]
