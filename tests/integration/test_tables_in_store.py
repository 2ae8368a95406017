"""Tables and raw files in an object store: the same index as on a disk, for every machine that has the store."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pytest
from PIL import Image
from starlette.responses import Response, StreamingResponse

from pincite.index import open_index
from pipelines.errors import DocumentError
from resources.postgres.catalog import Written, WrittenFiles
from resources.postgres.database import Database
from resources.settings_file import locate
from resources.stages.make import make
from resources.state.state import State
from tests.support.documents import pdf_of
from tests.support.embedding_server import EmbeddingServer
from tests.support.object_stores import S3Store, s3_store
from tests.support.projects import DOCUMENTS, Project, content, make_project, new_database, project_copy
from tests.support.s3_server import BUCKET, error_body

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

MINUTES = "The council adopted the budget of the observatory."
CHANGES = ("PUT", "POST", "DELETE")
BELOW = "/team/handbook/"
BUCKETS = 2


@dataclass(frozen=True)
class Made:
    project: Project
    store: S3Store
    asked: list[str]
    """What the first run asked of the store."""


@pytest.fixture(scope="module")
def made(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    folder = tmp_path_factory.mktemp("stored")
    with pytest.MonkeyPatch.context() as patch, s3_store(patch) as store, new_database(server_url) as url:
        project = make_project(
            folder / "project",
            database=url,
            buckets=BUCKETS,
            tables=store.address,
            embedder={"endpoint": endpoint.url, "model": "fake"},
        )
        project.write("board/minutes.pdf", pdf_of(folder / "m.pdf", [[(72, 700, MINUTES)]]).read_bytes())
        project.write("board/minutes.pdf.meta.yaml", "groups: [board]\n")
        project.index()
        yield Made(project, store, store.taken())


@pytest.fixture(scope="module")
def kept(made: Made) -> dict[str, tuple[str, bytes]]:
    """Tag and content of what the first run put into the store, by key."""
    server = made.store.server
    tags = server.tags().items()
    return {key: (tag, server.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()) for key, tag in tags}


@pytest.fixture
def store(made: Made, kept: dict[str, tuple[str, bytes]]) -> Iterator[S3Store]:
    """As it was after the first run, at the end too."""
    made.store.taken()
    yield made.store
    made.store.front.faults.clear()
    server, tags = made.store.server, made.store.server.tags()
    server.delete(*(tags.keys() - kept.keys()))
    for key, (tag, body) in kept.items():
        if tags.get(key) != tag:
            server.put(key, body)


@pytest.fixture
def project(made: Made, store: S3Store, server_url: str, tmp_path: Path) -> Iterator[Project]:
    with project_copy(made.project, server_url, tmp_path / "project") as copy:
        yield copy


@pytest.fixture
def other(project: Project, tmp_path: Path) -> Project:
    """Another machine: the same database and store, a state that is empty, and no source."""
    machine = Project(tmp_path / "other", dict(project.settings))
    machine.state.mkdir(parents=True)
    machine.configure(sources=[])
    shutil.rmtree(tmp_path / "project" / "docs")
    return machine


def outputs(project: Project) -> list[tuple[object, ...]]:
    return project.rows(
        "SELECT table_name, key, first, input, output, rows, documents FROM pincite.manifest ORDER BY 1, 2, 3"
    )


def all_keys(store: S3Store) -> list[str]:
    return store.server.keys()


def of_method(asked: list[str], *methods: str) -> list[str]:
    return [each for each in asked if each.split()[0] in methods]


# ---------------------------------------------------------------- one machine


def test_an_index_over_a_store_is_the_same_as_one_on_a_disk(
    made: Made, server_url: str, endpoint: EmbeddingServer, tmp_path: Path
) -> None:
    with new_database(server_url) as url:
        local = make_project(
            tmp_path / "local", database=url, buckets=BUCKETS, embedder=made.project.settings["embedder"]
        )
        shutil.copytree(made.project.docs, local.docs, dirs_exist_ok=True)
        local.index()
        assert content(local) == content(made.project)
        assert [row[0:1] + row[2:] for row in outputs(local)] == [row[0:1] + row[2:] for row in outputs(made.project)]
        assert {row[1] for row in outputs(local)} == {row[1] for row in outputs(made.project)}, "no key is another"
        with open_index(local.config) as one, open_index(made.project.config) as two:
            for table in ("raw_documents", "chunks", "chunk_embeddings", "sentence_links"):
                assert one.table(table).collect().equals(two.table(table).collect())
            few = two.table("chunks").select("text").filter(two.table("chunks").collect_schema().names() != []).head(2)
            assert few.collect().height == 2
    assert not (made.project.state / "parquet").exists() and not (made.project.state / "raw").exists()
    ((kept,),) = made.project.rows("SELECT settings FROM pincite.generations")
    assert "tables" not in kept and "tables_cache_mb" not in kept


def test_all_that_is_asked_is_below_the_prefix_and_leaves_no_marks(
    made: Made, project: Project, store: S3Store
) -> None:
    """Rights to list, read, write and delete below a prefix are enough."""
    project.write("boilers.txt", "Boiler inspection\n\nThe boiler is new.\n")
    project.index()
    assert project.run("verify").json["ok"] and project.run("generations prune").code == 0
    for asked in (*made.asked, *store.taken()):
        method, _, rest = asked.partition(" ")
        path, _, query = rest.partition("?")
        assert method != "HEAD", asked
        if path.rstrip("/") == f"/{BUCKET}":
            listing = method == "GET" and f"prefix={BELOW[1:]}" in unquote(query)
            assert listing or (method == "POST" and query.startswith("delete")), asked
        else:
            assert path.startswith(f"/{BUCKET}{BELOW}") and not path.endswith("/"), asked
    assert not [key for key in all_keys(store) if key.endswith("/")]


def test_a_run_with_nothing_to_do_writes_nothing_and_asks_little(project: Project, store: S3Store) -> None:
    project.index()
    store.taken()
    result = project.index()
    asked = store.taken()
    assert result["documents"]["unchanged"] == len(DOCUMENTS) + 1
    assert of_method(asked, *CHANGES) == [] and len(asked) <= 2, asked


def test_a_first_run_asks_for_no_file_twice(made: Made) -> None:
    got = [each for each in of_method(made.asked, "GET") if f"/{BUCKET}/team" in each]
    assert got == [], "who wrote a file has it"
    put = of_method(made.asked, "PUT")
    assert len(put) == len(set(put)) == len(made.store.held())
    assert len([key for key in made.store.held() if key.startswith("raw/")]) == len(DOCUMENTS) + 1
    listings = len(made.asked) - len(put)
    assert listings <= 60, listings


def test_an_edit_copies_one_file_and_rewrites_what_is_made_of_it(project: Project, store: S3Store) -> None:
    project.write("boilers.txt", "Boiler inspection\n\nThe boiler is new.\n")
    assert project.index()["documents"]["changed"] == 1
    raw = [each for each in of_method(store.taken(), "PUT") if "/raw/" in each]
    assert len(raw) == 1
    project.write("copy.txt", "Boiler inspection\n\nThe boiler is new.\n")
    assert project.index()["documents"]["added"] == 1
    assert not [each for each in of_method(store.taken(), "PUT") if "/raw/" in each], "the same bytes are there"


@pytest.mark.faults
def test_an_index_moves_to_a_store_with_its_vectors(
    store: S3Store, server_url: str, endpoint: EmbeddingServer, tmp_path: Path
) -> None:
    with new_database(server_url) as url:
        project = make_project(
            tmp_path / "moved", {"lock.md": "# The lock\n\nIt opens at six.\n"}, database=url,
            embedder={"endpoint": endpoint.url, "model": "fake"},
        )  # fmt: skip
        project.index()
        before = content(project)
        for file in (project.state / "parquet").rglob("*.parquet"):
            store.server.put(f"moved/parquet/{file.relative_to(project.state / 'parquet')}", file.read_bytes())
        shutil.rmtree(project.state / "parquet")
        project.configure(tables=f"s3://{BUCKET}/moved")
        endpoint.forget()
        assert project.index()["documents"]["unchanged"] == 1
        assert [each["code"] for each in project.run("verify").json["problems"]] == ["missing_raw_file"]
        project.index("--retry-failed")
        assert content(project) == before and project.run("verify").json["ok"] and endpoint.texts == []


@pytest.mark.faults
def test_vectors_that_somebody_puts_into_the_store_are_not_taken(
    project: Project, store: S3Store, server_url: str, endpoint: EmbeddingServer, tmp_path: Path
) -> None:
    """A sound file, named after its content, with vectors for texts that will be indexed."""
    document = "# The lock\n\nThe lock opens at six.\n"
    with new_database(server_url) as url:
        theirs = make_project(tmp_path / "theirs", {"lock.md": document}, database=url,
                              embedder={"endpoint": endpoint.url, "model": "fake"})  # fmt: skip
        theirs.index()
    for file in (theirs.state / "parquet").glob("*_embeddings/*/*.parquet"):
        name = file.relative_to(theirs.state / "parquet")
        store.server.put(f"team/handbook/parquet/{name}", file.read_bytes())
    project.write("lock.md", document)
    endpoint.forget()
    assert project.index()["documents"]["added"] == 1
    assert any("opens at six" in text for text in endpoint.texts)


def test_the_book_of_written_files_keeps_hashes_and_forgets_what_is_deleted(fresh_url: str, tmp_path: Path) -> None:
    with Database(fresh_url, tmp_path) as database:
        database.migrate()
        book = WrittenFiles(lambda: database)
        assert not book.any_known() and book.file("a/k/00-1") is None
        book.note({"a/k/00-1": Written(9, b"hash"), "b/k/00-2": Written(5)})
        book.note({"a/k/00-1": Written(9), "b/k/00-2": Written(5, b"read")})
        assert book.any_known() and book.files_below("a/") == {"a/k/00-1": Written(9, b"hash")}
        assert book.file("b/k/00-2") == Written(5, b"read") and len(book.files_below("")) == 2
        book.forget(["a/k/00-1", "gone"])
        assert book.files_below("") == {"b/k/00-2": Written(5, b"read")}


# ---------------------------------------------------------------- another machine


def test_another_machine_asks_shows_and_explains_without_the_source(
    project: Project, other: Project, store: S3Store, tmp_path: Path
) -> None:
    (hit,) = [hit for hit in other.hits("observatory budget", "--group", "board") if hit["uri"].endswith(".pdf")]
    shown = other.run("show", hit["chunk_id"], "--group", "board", "--image", tmp_path / "page.png")
    assert shown.code == 0, shown.err
    with Image.open(tmp_path / "page.png") as picture:
        assert picture.width > 300
    store.taken()
    assert other.run("show", hit["chunk_id"], "--group", "board", "--image", tmp_path / "page.png").code == 0
    assert not [each for each in of_method(store.taken(), "GET") if "/raw/" in each.split("?")[0]], "it has a copy"
    explained = other.run("explain", hit["chunk_id"], "--group", "board").json
    assert explained["document"]["file"] == "current" and explained["parquet"] == f"{store.address}/parquet"
    with open_index(other.config) as index:
        documents = {each.uri: each for each in index.documents.list_documents(["board"])}
        body = b"".join(index.files.content(documents["handbook.md"]))
        assert body.decode() == DOCUMENTS["handbook.md"]
        assert index.documents.text(documents["handbook.md"]) is not None
    assert other.run("verify").json["ok"] and other.run("status").json["live"] == 1
    assert other.run("show", hit["chunk_id"]).json["error"]["code"] == "unknown_chunk", "groups hold"


@pytest.mark.faults
def test_a_document_with_a_map_and_a_map_beside_a_pdf_have_their_pages(project: Project, tmp_path: Path) -> None:
    def mapped(words: str) -> str:
        box = {"page": 1, "x0": 70, "y0": 80, "x1": 300, "y1": 100}
        return json.dumps({"version": 1, "elements": [{"kind": "paragraph", "runs": [{"text": words, "box": box}]}]})

    page = pdf_of(tmp_path / "p.pdf", [[(72, 700, "Drawn, not read.")]]).read_bytes()
    for name in ("maps/lease.pdf", "maps/deed.pdf"):
        project.write(name, page)
    project.write("maps/lease.pdf.elements.json", mapped("The tenant of the mill is Oksana."))
    project.write("maps/deed.elements.json", mapped("The owner of the mill is Petro."))
    project.write("maps/alone.elements.json", mapped("The miller has no page."))
    assert project.index()["documents"]["failed"] == []
    other = Project(tmp_path / "other", dict(project.settings))
    other.state.mkdir(parents=True)
    other.configure(sources=[])
    shutil.rmtree(project.docs)
    for words, uri in (("tenant of the mill", "maps/lease.pdf"), ("owner of the mill", "maps/deed.elements.json")):
        hit = other.hits(words, "--strategy", "lexical")[0]
        assert hit["uri"] == uri
        ran = other.run("show", hit["chunk_id"], "--image", tmp_path / "page.png")
        assert ran.code == 0, ran.err
    hit = other.hits("miller has no page", "--strategy", "lexical")[0]
    assert other.run("show", hit["chunk_id"], "--image", tmp_path / "page.png").json["error"]["code"] == "no_pages"
    with open_index(other.config) as index:
        documents = {each.uri: each for each in index.documents.list_documents([])}
        with pytest.raises(DocumentError, match="read from the map beside it"):
            index.files.content(documents["maps/lease.pdf"])
    assert other.run("verify").json["ok"]


def test_a_plan_reads_the_store_and_writes_nothing(project: Project, store: S3Store) -> None:
    project.write("boilers.txt", "Boiler inspection\n\nThe boiler is new.\n")
    project.write("key.md", "# Keys\n\nThe porter has the key.\n")
    planned = project.run("plan").json["documents"]
    assert (planned["added"], planned["changed"], planned["unchanged"]) == (1, 1, len(DOCUMENTS))
    assert of_method(store.taken(), *CHANGES) == []


def test_experiments_take_vectors_out_of_the_store_and_write_none_into_it(
    project: Project, store: S3Store, endpoint: EmbeddingServer, server_url: str
) -> None:
    questions = project.write("questions.jsonl", json.dumps(
        {"id": "q", "question": "vault key", "gold": [{"uri": "archive/keys.md", "quote": "The vault key"}]}
    ), project.folder)  # fmt: skip
    axes = {"strategy": {"hybrid": {}, "lexical": {"query.strategy": "lexical"}}}
    tables = {"Strategies": {"rows": [{"strategy": "*"}]}}
    endpoint.forget()
    with new_database(server_url) as url:
        told = json.dumps({"axes": axes, "tables": tables, "database": url})
        ran = project.run("eval", questions, "--matrix", project.write("few.yaml", told, project.folder))
    assert ran.code == 0, ran.out + ran.err
    assert {run["metrics"]["recall@5"] for run in ran.json["runs"]} == {1.0}
    assert set(endpoint.texts) <= {"vault key", "dimension"}, "no text of a document"
    assert of_method(store.taken(), *CHANGES) == []


def test_another_machine_parses_documents_that_it_cannot_reach(other: Project, store: S3Store) -> None:
    other.configure(parsing={"workers": 1, "hidden": "read"})
    state = State(locate(str(other.config)))
    try:
        report = make(state, "parsed_elements", range(BUCKETS))
    finally:
        state.close()
    assert (report.computed, report.failures) == (len(DOCUMENTS) + 1, [])
    got = [each for each in of_method(store.taken(), "GET") if "/raw/" in each.split("?")[0]]
    assert len(got) == len(DOCUMENTS) + 1


@pytest.mark.faults
def test_another_machine_comes_to_the_same_listing_of_a_bucket(
    server_url: str, endpoint: EmbeddingServer, store: S3Store, tmp_path: Path
) -> None:
    store.server.put("papers/ferry.md", "# The ferry\n\nThe ferry crosses twice an hour.\n")
    source = {"name": "papers", "path": f"s3://{BUCKET}/papers", "options": {"endpoint": store.front.url}}
    with new_database(server_url) as url:
        settings = {"database": url, "embedder": {"endpoint": endpoint.url, "model": "fake"}, "sources": [source],
                    "tables": f"s3://{BUCKET}/shared"}  # fmt: skip
        first = make_project(tmp_path / "first", {}, **settings)
        second = make_project(tmp_path / "second", {}, **settings)
        assert first.index()["documents"]["added"] == 1
        store.taken()
        said = second.index()
        assert (said["documents"]["unchanged"], said["documents"]["changed"]) == (1, 0)
        assert of_method(store.taken(), *CHANGES) == []
        store.server.put("papers/ferry.md", "# The ferry\n\nThe ferry sank.\n")
        assert second.index()["documents"]["changed"] == 1
        assert first.index()["documents"]["unchanged"] == 1
        assert first.hits("The ferry sank")[0]["uri"] == "ferry.md"


# ---------------------------------------------------------------- what goes, and what is lost


@pytest.mark.faults
def test_pruning_takes_raw_files_that_nothing_is_made_of(project: Project, store: S3Store) -> None:
    twin = DOCUMENTS["archive/keys.md"]
    project.write("twin.md", twin)
    project.index()
    before = set(store.held())
    (project.docs / "archive/keys.md").unlink()
    (project.docs / "suppliers.csv").unlink()
    project.index("--allow-deletions")
    raw = {key for key in store.held() if key.startswith("raw/")}
    assert raw == {key for key in before if key.startswith("raw/")}, "until it is pruned"
    planned = project.run("generations prune", "--dry-run").json
    assert set(store.held()) >= raw
    assert project.run("generations prune").json == planned and planned["files"] > 1
    left = {key for key in store.held() if key.startswith("raw/")}
    assert len(raw - left) == 1, "that of suppliers.csv; keys.md has a twin"
    assert project.run("verify").json == {"ok": True, "problems": [], "notes": []}
    assert project.run("sources remove", "docs").code == 0
    project.configure(sources=[])
    project.run("index", "--allow-deletions")
    project.run("generations prune")
    assert not [key for key in store.held() if key.startswith("raw/")]


def test_a_served_document_keeps_its_raw_file_after_a_run_listed_a_new_version(
    project: Project, store: S3Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run ended after its listing: rows are of the file before, which the source no longer has."""
    hit = project.hits("observatory budget", "--group", "board")[0]
    project.write("board/minutes.pdf", pdf_of(tmp_path / "n.pdf", [[(72, 700, "It was rejected.")]]).read_bytes())
    image = "show", hit["chunk_id"], "--group", "board", "--image", tmp_path / "page.png"
    assert project.run(*image).code == 0, "the file as it was indexed"

    def ends(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("resources.stages.make.parse", ends)
        assert project.run("index").json["error"]["code"] == "interrupted"
    assert project.run("generations prune").code == 0
    shown = project.run(*image)
    assert shown.code == 0, shown.err
    assert project.index()["documents"]["changed"] == 1


@pytest.mark.faults
def test_verify_finds_what_the_store_has_lost_and_a_run_brings_it_back(project: Project, store: S3Store) -> None:
    raw = next(key for key in store.held() if key.startswith("raw/"))
    chunks = next(key for key in store.held() if key.startswith("parquet/chunks/"))
    store.server.delete(f"team/handbook/{raw}", f"team/handbook/{chunks}")
    said = project.run("verify").json
    assert {each["code"] for each in said["problems"]} >= {"missing_file"}
    project.index()
    said = project.run("verify").json
    assert [each["code"] for each in said["problems"]] == ["missing_raw_file"], said
    assert "--retry-failed" in said["problems"][0]["message"]
    project.index("--retry-failed")
    assert raw in store.held() and project.run("verify").json["ok"]


# ---------------------------------------------------------------- what stores do that nobody wishes for


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.clouds.bucket.FIRST_PAUSE", 0.001)
    monkeypatch.setattr("resources.object_store.objects.PATIENCE", 0.05)


def for_a_while(store: S3Store, part: str, *answers: Callable[[], Response]) -> None:
    """The next requests are answered so, and those that follow by the store."""
    left = list(answers)

    def fault() -> Response:
        answer = left.pop() if left else slow_down  # several may ask at once
        if not left:
            store.front.faults.pop(part, None)
        return answer()

    store.front.faults[part] = fault


def slow_down() -> Response:
    return Response(error_body("SlowDown"), 503, media_type="application/xml")


def broken_off() -> Response:
    async def half() -> AsyncIterator[bytes]:
        yield b"PAR1 half"
        raise ConnectionResetError

    return StreamingResponse(half(), headers={"content-length": "100000"})


@pytest.mark.faults
def test_a_store_that_ails_for_a_while_costs_a_run_time_alone(
    other: Project, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kind of request meets both kinds of fault."""
    monkeypatch.setattr("resources.clouds.bucket.FIRST_PAUSE", 0.001)
    other.configure(parsing={"workers": 1, "hidden": "read"})
    for part in ("PUT ", "GET /papers?", "GET /papers/team"):
        for_a_while(store, part, slow_down, slow_down, broken_off, slow_down, broken_off)
    state = State(locate(str(other.config)))
    try:
        report = make(state, "parsed_elements", range(BUCKETS))
    finally:
        state.close()
    assert store.front.faults == {}, "each was met"
    assert (report.computed, report.failures) == (len(DOCUMENTS) + 1, [])


@pytest.mark.faults
def test_a_store_that_goes_on_ailing_ends_a_run_which_keeps_what_it_committed(
    project: Project, store: S3Store, endpoint: EmbeddingServer, hurried: None
) -> None:
    project.write("boilers.txt", "Boiler inspection\n\nThe boiler is new.\n")
    store.front.faults["/parquet/chunks/"] = (503, error_body("SlowDown"))
    ran = project.run("index")
    error = ran.json["error"]
    assert (ran.code, error["code"]) == (1, "store") and store.address in error["message"]
    assert "what is committed is kept" in error["message"] and "SlowDown" in error["message"]
    assert project.hits("Pressure must stay below two bar")[0]["uri"] == "boilers.txt", "what was served is"
    store.front.faults.clear()
    store.taken()
    assert project.index()["documents"]["changed"] == 1
    assert not [each for each in of_method(store.taken(), "PUT") if "/packed_chunks/" in each], "it was committed"
    assert project.run("verify").json["ok"]


DENIED = {
    "nothing": {"/": (403, error_body("AccessDenied"))},
    "writing": {"PUT ": (403, error_body("AccessDenied"))},
    "no bucket": {"/": (404, error_body("NoSuchBucket"))},
    "expired": {"/": (400, error_body("ExpiredToken"))},
}


def test_a_denial_by_the_store_is_reported_in_one_line(project: Project, store: S3Store) -> None:
    project.write("boilers.txt", "Boiler inspection\n\nThe boiler is new.\n")
    for what, faults in DENIED.items():
        store.front.faults = dict(faults)
        ran = project.run("index")
        error = ran.json["error"]
        assert (ran.code, error["code"]) == (1, "store" if what == "no bucket" else "credentials"), error
        assert store.address in error["message"] and "setting tables" in error["message"]
        assert "\n" not in error["message"]
        examined = project.run("doctor")
        (found,) = [each for each in examined.json["checks"] if each["name"] == "store"]
        assert found["severity"] == "failure" and found["remedy"], found


def test_doctor_tries_the_store_and_leaves_nothing(project: Project, store: S3Store) -> None:
    before = store.held()
    (found,) = [each for each in project.run("doctor").json["checks"] if each["name"] == "store"]
    assert found["severity"] == "ok" and store.address in found["found"]
    assert store.held() == before


def test_missing_credentials_stop_a_run_before_it_starts(
    project: Project, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(project.folder))
    error = project.run("index").json["error"]
    assert error["code"] == "credentials" and re.search("AWS_ACCESS_KEY_ID", error["message"])
    assert store.taken() == []


def test_an_address_that_cannot_be_meant_is_a_setting_to_mend(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", {}, tables="s3://key:s3cret@papers/x")
    ran = project.run("index")
    assert (ran.code, ran.json["error"]["code"]) == (2, "settings") and "s3cret" not in ran.err + ran.out
    assert "setting 'tables'" in ran.json["error"]["message"]
